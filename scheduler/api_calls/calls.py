"""The scheduler's writes as values, and how two for one object merge.

    type                 relevance  two for one object
    pod_status_patch         1      merge: the newest condition and the newest nomination win
    pod_condition_patch      1      the newest wins; keyed by pod and condition
    object_patch             1      the newest wins; a volume or a claim
    pod_binding              2      replaces a status patch
    pod_deletion             3      replaces a binding or a status patch

Status patches and bindings are upstream's. Upstream deletes pods, and patches conditions other than
PodScheduled, without its queue. Such a condition does not depend on the pod's node, so no other
call replaces it.
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

#: By call type: of two calls for one object the one of higher relevance wins.
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
        return self.pod.metadata.uid

    @property
    def is_no_op(self) -> bool:
        return not needs_status_patch(
            self.pod, condition=self.condition, nominating_info=self.nominating_info
        )

    def merged(self, older: Self) -> Self:
        """Keep the newest condition and the newest nomination of the two."""
        info = self.nominating_info
        if overrides_nomination(older.nominating_info) and not overrides_nomination(info):
            info = older.nominating_info
        return replace(self, condition=self.condition or older.condition, nominating_info=info)

    def after(self, made: ApiCall) -> Self:
        """Base this patch on the status that the other patch has set."""
        return (
            replace(self, pod=made.applied_to(self.pod)) if isinstance(made, type(self)) else self
        )

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        return replace(self, pod=pod), self.applied_to(pod)

    def applied_to(self, pod: Pod) -> Pod:
        """Return the pod with its status as this call sets it."""
        return with_pod_status(pod, condition=self.condition, nominating_info=self.nominating_info)


@dataclass(frozen=True)
class PodConditionPatchCall(PodStatusPatchCall):
    """Set a condition other than PodScheduled, for example DisruptionTarget."""

    call_type: ClassVar = "pod_condition_patch"

    @property
    def object_uid(self) -> str:
        """The pod's uid and the condition's type."""
        assert self.condition is not None, "a patch of a condition has one"
        return f"{self.pod.metadata.uid}/{self.condition.type}"


class _LastWins:
    """A call that is complete in itself: the newest one counts, and nothing is merged."""

    @property
    def is_no_op(self) -> bool:
        return False

    def merged(self, older: Self) -> Self:
        return self

    def after(self, made: ApiCall) -> Self:
        return self

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        return self, pod


@dataclass(frozen=True)
class PodBindingCall(_LastWins):
    """Bind a pod to a node."""

    pod: Pod
    node_name: str
    call_type: ClassVar = "pod_binding"

    @property
    def object_uid(self) -> str:
        return self.pod.metadata.uid


@dataclass(frozen=True)
class PodDeletionCall(_LastWins):
    """Delete a pod."""

    pod: Pod
    call_type: ClassVar = "pod_deletion"

    @property
    def object_uid(self) -> str:
        return self.pod.metadata.uid


@dataclass(frozen=True)
class ObjectPatchCall(_LastWins):
    """Change a volume or a claim, if it has not changed since it was read.

    Of two that wait for one object only one can succeed; the newer one starts from newer data.
    """

    metadata: ObjectMeta
    call_type: ClassVar = "object_patch"

    @property
    def object_uid(self) -> str:
        return self.metadata.uid
