"""Priority: numbers of pods and pod groups, and preemption policies, come from PriorityClasses.

Source: plugin/pkg/admission/priority/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import POD_GROUPS, PODS
from fakeapi.types.objects import Json, integer, mapping, name_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.kind import ResourceKey

_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")


class Priority(Plugin):
    """Sets priority and preemption policy of pods from their PriorityClass, or the default one.

    Pod groups get a priority alone.
    """

    name = "Priority"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        if resource == POD_GROUPS:
            return not subresource and operation is Operation.CREATE
        return (
            resource in (PODS, _PRIORITY_CLASSES)
            and not subresource
            and operation is not Operation.DELETE
        )

    def checks(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource == _PRIORITY_CLASSES

    def mutate(self, review: Review) -> None:
        """Resolve the class of a new pod; an update without a priority keeps the old one."""
        if review.resource == POD_GROUPS:
            _resolve_group(review)
            return
        if review.resource != PODS:
            return
        if review.operation is Operation.CREATE:
            _resolve(review)
            return
        spec, old_spec = review.object.get("spec"), mapping((review.old or {}).get("spec"))
        left_out: Json = {
            field: old_spec[field]
            for field in ("priority", "preemptionPolicy")
            if field not in mapping(spec) and field in old_spec
        }
        if left_out:
            review.object["spec"] = {**mapping(spec), **left_out}

    def check(self, review: Review) -> None:
        """Raise Forbidden if there is a default class already."""
        if not review.object.get("globalDefault"):
            return
        present = review.registry.store.collection(_PRIORITY_CLASSES).derived(_default_class)
        creates = review.operation is Operation.CREATE
        if present is not None and (creates or name_of(present) != name_of(review.object)):
            raise review.forbid(
                f"PriorityClass {name_of(present)} is already marked as default. "
                "Only one default can exist"
            )


def _resolve(review: Review) -> None:
    spec = mapping(review.object.get("spec"))
    name, value, policy = _priority_of(review, text(spec.get("priorityClassName")))
    resolved: Json = {"priorityClassName": name} if name else {}
    sent = spec.get("priority")
    if sent is not None and sent != value:
        raise review.forbid(
            f"the integer value of priority ({sent}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
    resolved["priority"] = value
    sent = spec.get("preemptionPolicy")
    if policy and sent is not None and sent != policy:
        raise review.forbid(
            f"the string value of PreemptionPolicy ({sent}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    if policy:
        resolved["preemptionPolicy"] = policy
    review.object["spec"] = {**spec, **resolved}


def _resolve_group(review: Review) -> None:
    """Set priority and class of a PodGroup, as with the gate WorkloadAwarePreemption."""
    spec = mapping(review.object.get("spec"))
    name, value, _ = _priority_of(review, text(spec.get("priorityClassName")))
    sent = spec.get("priority")
    if sent is not None and sent != value:
        raise review.forbid(
            f"priority set in the pod group ({sent}) must match the priority computed ({value}) "
            "based on the priority class set in the spec"
        )
    resolved: Json = {"priorityClassName": name} if name else {}
    review.object["spec"] = {**spec, **resolved, "priority": value}


def _priority_of(review: Review, name: str) -> tuple[str, int, str]:
    if name:
        stored = review.registry.store.get(_PRIORITY_CLASSES, "", name)
        if stored is None:
            raise review.forbid(f"no PriorityClass with name {name} was found")
        chosen: Json | None = stored.object
    else:
        chosen = review.registry.store.collection(_PRIORITY_CLASSES).derived(_default_class)
    if chosen is None:
        return "", 0, "PreemptLowerPriority"
    return name_of(chosen), integer(chosen.get("value")), text(chosen.get("preemptionPolicy"))


def _default_class(classes: Iterable[Json]) -> Json | None:
    """Return the default class, the lowest if there are several (the plugin may have been off)."""
    marked = [obj for obj in classes if obj.get("globalDefault")]
    return min(marked, key=lambda obj: integer(obj.get("value")), default=None)
