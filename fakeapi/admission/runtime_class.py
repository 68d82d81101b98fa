"""RuntimeClass: overhead, node selector and tolerations of a pod come from its class.

Source: plugin/pkg/admission/runtimeclass/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.admission.tolerations import merged_tolerations
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS
from fakeapi.types.objects import Json, mapping, mappings, string_map, text
from fakeapi.types.pod_resources import amounts

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_RUNTIME_CLASSES: Final = ("node.k8s.io", "runtimeclasses")
_OTHER_OVERHEAD: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)


class RuntimeClass(Plugin):
    """What a pod needs for its runtime, and where that runtime is."""

    name = "RuntimeClass"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New pods."""
        return resource == PODS and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Merge the class into the pod. Raises Forbidden where they contradict each other."""
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
        """Only a class may set the overhead. Raises Forbidden."""
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
    found = review.registry.store.get(_RUNTIME_CLASSES, "", text(name))
    if found is None:
        raise review.forbid(f'pod rejected: RuntimeClass "{text(name)}" not found')
    return found.object


def _placement(review: Review, spec: Json, scheduling: Json) -> Json:
    """The fields of the spec by which the class says where its runtime is. Raises Forbidden."""
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
