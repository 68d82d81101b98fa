"""RuntimeClass: overhead, node selector and tolerations of a pod come from its class.

Source: plugin/pkg/admission/runtimeclass/admission.go and pkg/util/tolerations/tolerations.go of
Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, mapping, mappings, string_map, text
from fakeapi.types.pod_resources import amounts

if TYPE_CHECKING:
    from fakeapi.store.registry import Review
    from fakeapi.types.objects import Json


_RUNTIME_CLASSES: Final = ("node.k8s.io", "runtimeclasses")
_OTHER_OVERHEAD: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)


class RuntimeClass(Plugin):
    """Adds the overhead and the scheduling constraints of its RuntimeClass to a pod."""

    name = "RuntimeClass"
    resources = (PODS,)

    def mutate(self, review: Review) -> None:
        """Merge the class into the pod. Raises Forbidden if they contradict each other."""
        spec = mapping(review.object.get("spec"))
        runtime_class = _class_of(review, spec)
        if isinstance(runtime_class.get("overhead"), dict):
            fixed = _fixed(runtime_class)
            if spec.get("overhead") and amounts(spec["overhead"]) != amounts(fixed):
                raise review.forbid(_OTHER_OVERHEAD)
            spec = {**spec, "overhead": fixed}
        scheduling = runtime_class.get("scheduling")
        if isinstance(scheduling, dict):
            spec = {**spec, **_placement(review, spec, scheduling)}
        review.object["spec"] = spec

    def check(self, review: Review) -> None:
        """Raise Forbidden if the pod has another overhead than its class."""
        spec = mapping(review.object.get("spec"))
        runtime_class = _class_of(review, spec)
        if isinstance(runtime_class.get("overhead"), dict):
            if amounts(spec.get("overhead")) != amounts(_fixed(runtime_class)):
                raise review.forbid(_OTHER_OVERHEAD)
        elif spec.get("overhead") is not None:
            raise review.forbid(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )


def _fixed(runtime_class: Json) -> Json:
    return mapping(mapping(runtime_class.get("overhead")).get("podFixed"))


def _class_of(review: Review, spec: Json) -> Json:
    name = spec.get("runtimeClassName")
    if name is None:
        return {}
    stored = review.registry.store.get(_RUNTIME_CLASSES, "", text(name))
    if stored is None:
        raise review.forbid(f'pod rejected: RuntimeClass "{text(name)}" not found')
    return stored.object


def _placement(review: Review, spec: Json, scheduling: Json) -> Json:
    """Return node selector and tolerations of pod and class together. Raises Forbidden."""
    selector = string_map(spec.get("nodeSelector"))
    for key, value in string_map(scheduling.get("nodeSelector")).items():
        if selector.get(key, value) != value:
            raise review.forbid(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    placement: Json = {"nodeSelector": selector} if selector else {}
    merged = merged_tolerations(
        [*mappings(spec.get("tolerations")), *mappings(scheduling.get("tolerations"))]
    )
    if merged:
        placement["tolerations"] = merged
    return placement


def merged_tolerations(tolerations: list[Json]) -> list[Json]:
    """Drop tolerations that another one includes; the first of equal tolerations stays."""
    merged: list[Json] = []
    for index, toleration in enumerate(tolerations):
        later = tolerations[index + 1 :]
        if not any(includes(other, toleration) for other in merged) and not any(
            other != toleration and includes(other, toleration) for other in later
        ):
            merged.append(toleration)
    return merged


def includes(wide: Json, narrow: Json) -> bool:
    """Return True if `wide` tolerates every taint that `narrow` tolerates."""
    if wide == narrow:
        return True
    key, operator = wide.get("key", ""), wide.get("operator", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if narrow.get("effect", "") != wide.get("effect", "") and wide.get("effect"):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if not isinstance(seconds, int) or seconds > int(str(wide["tolerationSeconds"])):
            return False
    if operator == "Exists":
        return True
    return (
        operator in ("", "Equal")
        and narrow.get("operator") == "Equal"
        and narrow.get("value", "") == wide.get("value", "")
    )
