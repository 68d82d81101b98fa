"""Warnings about new pods that are valid, but probably different from the author's intent.

The warnings are about scheduling, or common: deprecated node labels and annotations, selectors that
match nothing, variables and ports that hide each other.

Source: pkg/api/pod/warnings.go and pkg/api/node/util.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.objects import Json, mapping, mappings, text, texts
from fakeapi.types.quantity import NANO, parse_nano

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLD_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
}
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_MATCHES_NOTHING: Final = "a null labelSelector results in matching no pod"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def warnings_of_pod(pod: Json) -> list[str]:
    """Return the warnings for the author of a new pod."""
    spec = mapping(pod.get("spec"))
    annotations = mapping(mapping(pod.get("metadata")).get("annotations"))
    warnings = [*_node_warnings(spec), *_spread_warnings(spec)]
    warnings += [
        f"metadata.annotations[{name}]: {why}"
        for name, why in _OLD_ANNOTATIONS.items()
        if name in annotations
    ]
    for name in ("initContainers", "containers"):
        for index, container in enumerate(mappings(spec.get(name))):
            warnings += _container_warnings(container, f"spec.{name}[{index}]")
    return [*warnings, *_affinity_warnings(mapping(spec.get("affinity")))]


def _node_warnings(spec: Json) -> Iterator[str]:
    """Yield warnings about deprecated labels of nodes."""
    for key in mapping(spec.get("nodeSelector")):
        if key in _OLD_NODE_LABELS:
            yield f"spec.nodeSelector[{key}]: {_OLD_NODE_LABELS[key]}"
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    for index, term in enumerate(
        mappings(mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms"))
    ):
        yield from _term_warnings(term, f"{path}[{index}]", weighted=False)
    for index, preferred in enumerate(mappings(affinity.get(_PREFERRED))):
        path = f"spec.affinity.nodeAffinity.{_PREFERRED}[{index}].preference"
        yield from _term_warnings(mapping(preferred.get("preference")), path, weighted=True)


def _term_warnings(term: Json, path: str, *, weighted: bool) -> Iterator[str]:
    for index, expression in enumerate(mappings(term.get("matchExpressions"))):
        key = text(expression.get("key"))
        if key in _OLD_NODE_LABELS:
            field = f"{path}.matchExpressions[{index}].key"
            yield f"{field}: {key} is {_OLD_NODE_LABELS[key]}"
        for position, value in enumerate(texts(expression.get("values")) if weighted else ()):
            field = f"{path}.matchExpressions[{index}].values[{position}]"
            yield from (f"{field}: {value} is invalid, {why}" for why in names.label_value(value))


def _spread_warnings(spec: Json) -> Iterator[str]:
    for index, constraint in enumerate(mappings(spec.get("topologySpreadConstraints"))):
        path = f"spec.topologySpreadConstraints[{index}]"
        key = text(constraint.get("topologyKey"))
        if key in _OLD_NODE_LABELS:
            yield f"{path}.topologyKey: {key} is {_OLD_NODE_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{path}.labelSelector: {_MATCHES_NOTHING}"


def _container_warnings(container: Json, path: str) -> Iterator[str]:
    """Yield warnings about fractions of bytes, and variables that hide earlier ones."""
    resources = mapping(container.get("resources"))
    for resource in ("memory", "ephemeral-storage"):
        for part in ("limits", "requests"):
            value = mapping(resources.get(part)).get(resource)
            if isinstance(value, str) and parse_nano(value) % NANO:
                field = f"{path}.resources.{part}[{resource}]"
                yield f'{field}: fractional byte value "{value}" is invalid, must be an integer'
    seen: set[str] = set()
    for index, variable in enumerate(mappings(container.get("env"))):
        name, value = text(variable.get("name")), text(variable.get("value"))
        reference = f"$({name})"
        extends = "valueFrom" not in variable and reference in value and value != reference
        if name in seen and not extends:
            why = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{path}.env[{index}]: {why}"
        seen.add(name)


def _affinity_warnings(affinity: Json) -> Iterator[str]:
    for name in ("podAffinity", "podAntiAffinity"):
        path, part = f"spec.affinity.{name}", mapping(affinity.get(name))
        for index, term in enumerate(mappings(part.get(_REQUIRED))):
            if "labelSelector" not in term:
                yield f"{path}.{_REQUIRED}[{index}].labelSelector: {_MATCHES_NOTHING}"
        for index, weighted in enumerate(mappings(part.get(_PREFERRED))):
            if "labelSelector" not in mapping(weighted.get("podAffinityTerm")):
                field = f"{path}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector"
                yield f"{field}: {_MATCHES_NOTHING}"
