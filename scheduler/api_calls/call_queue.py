"""The queue of calls to the API server: for each object one call waits and one is under way.

                add, nothing known of the object
                               |
                               v      pop                 finalize
        .----- drops ------ waiting ---------> under way ----------> gone
        |                      ^                   |
        |                      | finalize of       | add for the same object
        |                      | the one under way v
        '----- drops --------- `------------- next in line

    drops: a newer call of the same type is merged with it and replaces it (overwritten),
           a more relevant call replaces it (overwritten),
           the call has become a no-op (skipped)

A call that is less relevant than the queued one is skipped at once. So no two calls for one object
are under way together, and a call that has waited carries the newest values.

Differs from upstream's queue in three ways, none of which a healthy server sees: a call that is
next in line is reported as overwritten when a more relevant one replaces it (upstream forgets it);
a call under way keeps its own outcome although a newer one is merged with it; and the call that is
next in line starts from the object as the one before it leaves it, where upstream waits for the
informer.
Source: `pkg/scheduler/backend/api_dispatcher/call_queue.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.api.core import Pod

_NO_EFFECT: Final = "call does not need to be executed because it has no effect"
_NO_EFFECT_AFTER_SYNC: Final = (
    "call does not need to be executed because after sync it has no effect"
)


class CallNotMade(Exception):
    """A call is not made: another one replaces it, or it is a no-op. This is not a failure.

    Source: `k8s.io/kube-scheduler/framework/api_dispatcher.go`.
    """


class CallSkipped(CallNotMade):
    """The call is a no-op, or a more relevant call for the object is queued."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: call skipped")


class CallOverwritten(CallNotMade):
    """A newer call replaces this one. Calls of the same type are merged."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: call overwritten")


class ApiCall(Protocol):
    """A write as an immutable value."""

    @property
    def call_type(self) -> str:
        """The key of the call's relevance; calls of one type merge."""

    @property
    def object_uid(self) -> str:
        """The key of the object that is written; calls for one object are made in order."""

    @property
    def is_no_op(self) -> bool:
        """True if the object, as far as it is known, is already as the call sets it."""

    def merged(self, older: Self) -> Self:
        """Return this call with the values of `older` that this one does not set."""

    def after(self, made: ApiCall) -> Self:
        """Return this call for the object as `made`, another call, has left it."""

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        """Return this call for a newer version of its pod, and the pod as the call will set it."""


class QueuedCall:
    """A call in the queue. `on_dropped` is called at most once, if the call will not be made.

    `call` is replaced when the queue merges older calls into it.
    """

    __slots__ = ("call", "on_dropped")

    def __init__(self, call: ApiCall, on_dropped: Callable[[CallNotMade], object]) -> None:
        self.call = call
        self.on_dropped: Final = on_dropped


class CallQueue:
    """The calls that wait or are under way. A call of a more relevant type replaces the other.

    Types of the same relevance must be for objects of different kinds.
    """

    def __init__(self, relevances: Mapping[str, int]) -> None:
        self._relevances: Final = relevances
        #: By object: the waiting call, the one next in line, or else the one under way.
        self._newest: Final[dict[str, QueuedCall]] = {}
        #: The objects with a waiting call, the first queued first.
        self._waiting: Final[dict[str, None]] = {}
        self._under_way: Final[dict[str, QueuedCall]] = {}

    @property
    def under_way(self) -> int:
        """The number of calls that have been popped and not finalized."""
        return len(self._under_way)

    def is_under_way(self, queued: QueuedCall) -> bool:
        """Return True if `queued` itself has been popped and not finalized."""
        return self._under_way.get(queued.call.object_uid) is queued

    def waiting(self) -> list[QueuedCall]:
        """Return the calls that can be popped, in order; for tests."""
        return [self._newest[uid] for uid in self._waiting]

    def calls(self) -> list[QueuedCall]:
        """Return the newest call for each object; for tests."""
        return list(self._newest.values())

    def add(self, queued: QueuedCall) -> None:
        """Queue a call. Raises CallSkipped if it will not be made."""
        uid = queued.call.object_uid
        older = self._newest.get(uid)
        if older is not None:
            self._reconcile(older, queued)
        # While another call changes the object, its known state does not count.
        if queued.call.is_no_op and uid not in self._under_way:
            self._forget_waiting(uid)
            raise CallSkipped(_NO_EFFECT)
        self._newest[uid] = queued
        if older is None:
            self._waiting[uid] = None

    def _reconcile(self, older: QueuedCall, newer: QueuedCall) -> None:
        old_type, new_type = older.call.call_type, newer.call.call_type
        if self._relevances[new_type] < self._relevances[old_type]:
            raise CallSkipped("a more relevant call is already enqueued for this object")
        if old_type == new_type:
            newer.call = newer.call.merged(older.call)
            reason = "a call of the same type was enqueued for this object"
        else:
            reason = "a more relevant call was enqueued for this object"
        if not self.is_under_way(older):
            older.on_dropped(CallOverwritten(reason))

    def pop(self) -> QueuedCall | None:
        """Return the next call, to be passed to `finalize` when it is done; None if none waits."""
        uid = next(iter(self._waiting), None)
        if uid is None:
            return None
        del self._waiting[uid]
        queued = self._under_way[uid] = self._newest[uid]
        return queued

    def finalize(self, queued: QueuedCall, *, made: bool) -> None:
        """Remove a popped call; `made` is True if the server has executed it."""
        uid = queued.call.object_uid
        del self._under_way[uid]
        following = self._newest[uid]
        if following is queued:
            del self._newest[uid]
            return
        if made:
            following.call = following.call.after(queued.call)
        if following.call.is_no_op:
            del self._newest[uid]
            following.on_dropped(CallSkipped(_NO_EFFECT))
        else:
            self._waiting[uid] = None

    def withdraw(self, queued: QueuedCall) -> None:
        """Remove a waiting call; a no-op if it is under way, dropped or done."""
        uid = queued.call.object_uid
        if self.is_under_way(queued) or self._newest.get(uid) is not queued:
            return
        under_way = self._under_way.get(uid)
        if under_way is None:
            self._forget_waiting(uid)
        else:
            self._newest[uid] = under_way

    def sync_pod(self, pod: Pod) -> Pod:
        """Base the pod's newest call on this version; return the pod as the call will set it."""
        uid = pod.metadata.uid
        queued = self._newest.get(uid)
        if queued is None:
            return pod
        call, synced = queued.call.synced(pod)
        if not self.is_under_way(queued):
            queued.call = call
            if call.is_no_op and uid not in self._under_way:
                self._forget_waiting(uid)
                queued.on_dropped(CallSkipped(_NO_EFFECT_AFTER_SYNC))
        return synced

    def check(self) -> None:
        """Verify that every call is in exactly one place. Raises AssertionError."""
        for uid in self._waiting:
            assert uid in self._newest, f"{uid} waits without a call"
            assert uid not in self._under_way, f"{uid} waits while a call for it is under way"
        lost = self._newest.keys() - self._waiting.keys() - self._under_way.keys()
        assert not lost, f"calls that will not be popped: {sorted(lost)}"
        unknown = self._under_way.keys() - self._newest.keys()
        assert not unknown, f"calls under way that are not recorded: {sorted(unknown)}"

    def _forget_waiting(self, uid: str) -> None:
        self._newest.pop(uid, None)
        self._waiting.pop(uid, None)
