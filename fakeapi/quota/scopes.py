"""The objects that a quota counts: its scopes and its scope selector.

Source: podMatchesScopeFunc and pvcMatchesScopeFunc in pkg/quota/v1/evaluator/core of v1.36.3. Of
other kinds no object matches any scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types.kind import CLAIMS, PODS
from fakeapi.types.objects import Json, mapping, mappings, text, texts
from fakeapi.types.pod_resources import qos_class

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey


def selectors_of(quota: Json) -> list[Json]:
    """Return the scopes of a quota, all as requirements."""
    spec = mapping(quota.get("spec"))
    plain: list[Json] = [
        {"scopeName": name, "operator": "Exists"} for name in texts(spec.get("scopes"))
    ]
    return plain + mappings(mapping(spec.get("scopeSelector")).get("matchExpressions"))


def matches(quota: Json, resource: ResourceKey, obj: Json) -> bool:
    """Return True if an object meets all scopes of a quota."""
    return all(_meets(selector, resource, obj) for selector in selectors_of(quota))


def is_terminating(pod: Json) -> bool:
    """Return True if a pod has a deadline: the scope Terminating."""
    deadline = mapping(pod.get("spec")).get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


def _meets(selector: Json, resource: ResourceKey, obj: Json) -> bool:
    scope = selector.get("scopeName")
    if resource == CLAIMS:
        return scope == "VolumeAttributesClass" and _has(selector, attributes_classes_of(obj))
    if resource != PODS:
        return False
    spec = mapping(obj.get("spec"))
    if scope in ("Terminating", "NotTerminating"):
        return is_terminating(obj) == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") == (scope == "BestEffort")
    if scope == "PriorityClass":
        name = text(spec.get("priorityClassName"))
        return _has(selector, [name] if name else [])
    return scope == "CrossNamespacePodAffinity" and _crosses_namespaces(spec)


def _has(selector: Json, names: list[str]) -> bool:
    operator, values = selector.get("operator"), texts(selector.get("values"))
    if operator == "Exists":
        return bool(names)
    if operator == "DoesNotExist":
        return not names
    if operator == "In":
        return any(name in values for name in names)
    return operator == "NotIn" and (not names or any(name not in values for name in names))


def attributes_classes_of(claim: Json) -> list[str]:
    """Return the names of the VolumeAttributesClasses that a claim wants, has, or changes to."""
    status = mapping(claim.get("status"))
    named = (
        mapping(claim.get("spec")).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        mapping(status.get("modifyVolumeStatus")).get("targetVolumeAttributesClassName"),
    )
    return sorted({text(name) for name in named if name})


def _crosses_namespaces(spec: Json) -> bool:
    """Return True if a term of pod affinity or anti-affinity selects other namespaces."""
    affinity = mapping(spec.get("affinity"))
    for field in ("podAffinity", "podAntiAffinity"):
        terms = mapping(affinity.get(field))
        required = mappings(terms.get("requiredDuringSchedulingIgnoredDuringExecution"))
        required += [
            mapping(weighted.get("podAffinityTerm"))
            for weighted in mappings(terms.get("preferredDuringSchedulingIgnoredDuringExecution"))
        ]
        if any(term.get("namespaces") or "namespaceSelector" in term for term in required):
            return True
    return False
