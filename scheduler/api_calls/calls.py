"""The scheduler's writes as values: what each wants, and what becomes of two for one object.

    type                 relevance  of the same pod
    pod_status_patch         1      the newest condition and nomination win; gives way to the others
    pod_binding              2
    pod_deletion             3      ours: for a pod that goes, neither node nor condition matters

The first two are upstream's; it deletes pods, and patches conditions other than PodScheduled, past
its queue. Such a condition says nothing of where a pod goes: it gives way to nothing, so it has a
queue of its own, as have volumes and claims.
Source: `pkg/scheduler/framework/api_calls`, v1.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

from scheduler.api_calls.pod_status import (
    needs_status_patch,
    overrides_nomination,
    with_pod_status,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import ObjectMeta, Pod
    from scheduler.api_calls.call_queue import ApiCall
    from scheduler.framework.types import Condition, NominatingInfo

#: Which call wins where two for one object meet.
RELEVANCES: Final[Mapping[str, int]] = {
    "pod_status_patch": 1,
    "pod_condition_patch": 1,
    "object_patch": 1,
    "pod_binding": 2,
    "pod_deletion": 3,
}


@dataclass(frozen=True)
class PodStatusPatchCall:
    """Set a pod's PodScheduled condition, its nominated node, or both."""

    pod: Pod
    condition: Condition | None
    nominating_info: NominatingInfo | None
    call_type: ClassVar = "pod_status_patch"

    @property
    def object_uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def is_no_op(self) -> bool:
        """Whether the status is already as wanted."""
        return not needs_status_patch(
            self.pod, condition=self.condition, nominating_info=self.nominating_info
        )

    def merged(self, older: Self) -> Self:
        """The newest condition, and the newest nomination that is one."""
        condition, info = self.condition, self.nominating_info
        if overrides_nomination(older.nominating_info) and not overrides_nomination(info):
            info = older.nominating_info
        return replace(self, condition=condition or older.condition, nominating_info=info)

    def after(self, made: ApiCall) -> Self:
        """Starts from the status that the other patch has left."""
        return (
            replace(self, pod=made.applied_to(self.pod)) if isinstance(made, type(self)) else self
        )

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        """Starts from this version of the pod."""
        return replace(self, pod=pod), self.applied_to(pod)

    def applied_to(self, pod: Pod) -> Pod:
        """A pod with what this call wants in its status."""
        return with_pod_status(pod, condition=self.condition, nominating_info=self.nominating_info)


@dataclass(frozen=True)
class PodConditionPatchCall(PodStatusPatchCall):
    """Set a condition that says nothing of where the pod goes, DisruptionTarget say."""

    call_type: ClassVar = "pod_condition_patch"

    @property
    def object_uid(self) -> str:
        """A queue for each condition of a pod."""
        assert self.condition is not None, "a patch of a condition has one"
        return f"{self.pod.metadata.uid}/{self.condition.type}"


class _Whole:
    """Calls that say all there is to say: the newest one counts, nothing is carried over."""

    @property
    def is_no_op(self) -> bool:
        """Never."""
        return False

    def merged(self, older: Self) -> Self:
        """This call alone."""
        return self

    def after(self, made: ApiCall) -> Self:
        """As it was."""
        return self

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        """As it was, and so is the pod."""
        return self, pod


@dataclass(frozen=True)
class PodBindingCall(_Whole):
    """Put a pod on a node."""

    pod: Pod
    node_name: str
    call_type: ClassVar = "pod_binding"

    @property
    def object_uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid


@dataclass(frozen=True)
class PodDeletionCall(_Whole):
    """Delete a pod."""

    pod: Pod
    call_type: ClassVar = "pod_deletion"

    @property
    def object_uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid


@dataclass(frozen=True)
class ObjectPatchCall(_Whole):
    """Change a volume or a claim that has not changed since it was read.

    Of two that wait for one object only one could succeed, and the newer one knows more.
    """

    metadata: ObjectMeta
    call_type: ClassVar = "object_patch"

    @property
    def object_uid(self) -> str:
        """The object's uid."""
        return self.metadata.uid
