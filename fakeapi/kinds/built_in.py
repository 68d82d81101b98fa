"""The built-in kinds: the rows of the modules of this package, and the kinds that are on."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

from fakeapi.kinds import (
    autoscalers,
    config_maps,
    custom_resource_definitions,
    daemon_sets,
    deployments,
    device_taint_rules,
    devices,
    disruption_budgets,
    events,
    jobs,
    leases,
    limits,
    namespaces,
    networking,
    nodes,
    permissions,
    persistent_volumes,
    pod_groups,
    pod_templates,
    pods,
    priority_classes,
    replica_sets,
    reviews,
    runtime_classes,
    services,
    stateful_sets,
    storage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeapi.types.kind import Kind

#: The paths to the specs of pods, by plural name.
_POD_SPECS: Final = {
    "cronjobs": ("spec", "jobTemplate", "spec", "template", "spec"),
    "daemonsets": ("spec", "template", "spec"),
    "deployments": ("spec", "template", "spec"),
    "jobs": ("spec", "template", "spec"),
    "pods": ("spec",),
    "podtemplates": ("template", "spec"),
    "replicasets": ("spec", "template", "spec"),
    "replicationcontrollers": ("spec", "template", "spec"),
    "statefulsets": ("spec", "template", "spec"),
}
#: Fields that exist only with another API version, whose gate guards them too: GenericWorkload and
#: CoordinatedLeaderElection. The paths by that version and by plural name.
_GUARDED_FIELDS: Final[Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]]] = {
    "scheduling.k8s.io/v1alpha2": {
        plural: ((*path, "schedulingGroup"),) for plural, path in _POD_SPECS.items()
    },
    "scheduling.k8s.io/v1alpha1": {
        plural: ((*path, "workloadRef"),) for plural, path in _POD_SPECS.items()
    },
    "coordination.k8s.io/v1beta1": {"leases": (("spec", "strategy"), ("spec", "preferredHolder"))},
}
_LEVELS: Final = {"api/all", "api/ga", "api/beta", "api/alpha"}
#: The built-in kinds of all API versions.
BUILT_IN: Final = (
    *autoscalers.KINDS,
    *config_maps.KINDS,
    *custom_resource_definitions.KINDS,
    *daemon_sets.KINDS,
    *deployments.KINDS,
    *device_taint_rules.KINDS,
    *devices.KINDS,
    *disruption_budgets.KINDS,
    *events.KINDS,
    *jobs.KINDS,
    *leases.KINDS,
    *limits.KINDS,
    *namespaces.KINDS,
    *networking.KINDS,
    *nodes.KINDS,
    *permissions.KINDS,
    *persistent_volumes.KINDS,
    *pod_groups.KINDS,
    *pod_templates.KINDS,
    *pods.KINDS,
    *priority_classes.KINDS,
    *replica_sets.KINDS,
    *reviews.KINDS,
    *runtime_classes.KINDS,
    *services.KINDS,
    *stateful_sets.KINDS,
    *storage.KINDS,
)
#: Kinds that schedulers of other versions read, by the name that turns each on; v1.36 has none.
_OF_OTHER_VERSIONS: Final = {
    f"{kind.api_version}/{kind.plural}": kind
    for kind in (*pod_groups.KINDS_OF_1_35, *device_taint_rules.KINDS_OF_OTHER_VERSIONS)
}


class RuntimeConfigError(ValueError):
    """A runtime configuration has an unknown version or value, or turns a stable version off."""


def served_kinds(runtime_config: Iterable[str] = ()) -> tuple[Kind, ...]:
    """Return the built-in kinds of the API versions that are on.

    `runtime_config` is kube-apiserver's --runtime-config: `api/alpha=true` turns all alpha versions
    on, `GROUP/VERSION=true` one version; a text may have several with commas between them. Stable
    versions are always on, kinds of other versions only by `GROUP/VERSION/PLURAL=true`. Without pod
    groups no pod can name a group, and without candidates for leases no lease can name a strategy.
    Raises RuntimeConfigError.

    Source: apiserver pkg/server/resourceconfig/helpers.go of v0.36.3; `dropDisabledSchedulingGroup`
    in pkg/api/pod/util.go, `PrepareForCreate` in pkg/registry/coordination/lease/strategy.go.
    """
    texts = [runtime_config] if isinstance(runtime_config, str) else runtime_config
    return _served_kinds(tuple(texts))


@functools.lru_cache(maxsize=64)  # a process that tests starts thousands of servers
def _served_kinds(texts: tuple[str, ...]) -> tuple[Kind, ...]:
    parts = (part.strip() for text in texts for part in text.split(","))
    values = dict(_parsed(part) for part in parts if part)
    others = {name: values.pop(name) for name in _OF_OTHER_VERSIONS if name in values}
    unknown = values.keys() - _LEVELS - {kind.api_version for kind in BUILT_IN}
    if unknown:
        raise RuntimeConfigError(f"runtime-config: unknown API version {min(unknown)!r}")
    served = [kind for kind in BUILT_IN if _is_served(kind, values)]
    served += [_OF_OTHER_VERSIONS[name] for name, is_on in others.items() if is_on]
    for version in _GUARDED_FIELDS.keys() - {kind.api_version for kind in served}:
        served = [_without_fields(kind, _GUARDED_FIELDS[version]) for kind in served]
    return tuple(served)


def _without_fields(kind: Kind, fields: Mapping[str, tuple[tuple[str, ...], ...]]) -> Kind:
    if kind.plural not in fields:
        return kind
    disabled = (*kind.rules.disabled_fields, *fields[kind.plural])
    rules = dataclasses.replace(kind.rules, disabled_fields=disabled)
    return dataclasses.replace(kind, rules=rules)


def _parsed(part: str) -> tuple[str, bool]:
    name, equals, value = part.partition("=")
    if equals and value not in ("true", "false"):
        raise RuntimeConfigError(f"runtime-config: {name}={value} is neither true nor false")
    return name, value != "false"


def _is_served(kind: Kind, values: Mapping[str, bool]) -> bool:
    stability = next((name for name in ("alpha", "beta") if name in kind.version), "ga")
    is_stable = stability == "ga"
    names = (kind.api_version, f"api/{stability}", "api/all")
    is_on = next((values[name] for name in names if name in values), is_stable)
    if is_stable and not is_on:
        raise RuntimeConfigError(f"runtime-config: {kind.api_version} cannot be turned off")
    return is_on
