"""The built-in kinds: the rows of the modules of this package, and the kinds that are on."""

from __future__ import annotations

import dataclasses
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

#: The API version whose gate (GenericWorkload) also guards `schedulingGroup` of pods.
_POD_GROUPS_VERSION: Final = "scheduling.k8s.io/v1alpha2"
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


class RuntimeConfigError(ValueError):
    """A runtime configuration has an unknown version or value, or turns a stable version off."""


def served_kinds(runtime_config: Iterable[str] = ()) -> tuple[Kind, ...]:
    """Return the built-in kinds of the API versions that are on.

    `runtime_config` is kube-apiserver's --runtime-config: `api/alpha=true` turns all alpha versions
    on, `GROUP/VERSION=true` one version; a text may have several with commas between them. Stable
    versions are always on. Without pod groups no pod can name a group. Raises
    RuntimeConfigError.

    Source: apiserver pkg/server/resourceconfig/helpers.go of v0.36.3; `dropDisabledSchedulingGroup`
    in pkg/api/pod/util.go.
    """
    texts = [runtime_config] if isinstance(runtime_config, str) else runtime_config
    parts = (part.strip() for text in texts for part in text.split(","))
    values = dict(_parsed(part) for part in parts if part)
    unknown = values.keys() - _LEVELS - {kind.api_version for kind in BUILT_IN}
    if unknown:
        raise RuntimeConfigError(f"runtime-config: unknown API version {min(unknown)!r}")
    served = [kind for kind in BUILT_IN if _is_served(kind, values)]
    if not any(kind.api_version == _POD_GROUPS_VERSION for kind in served):
        served = [_without_scheduling_group(kind) for kind in served]
    return tuple(served)


def _without_scheduling_group(kind: Kind) -> Kind:
    path = _POD_SPECS.get(kind.plural)
    if path is None:
        return kind
    rules = dataclasses.replace(kind.rules, disabled_fields=((*path, "schedulingGroup"),))
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
