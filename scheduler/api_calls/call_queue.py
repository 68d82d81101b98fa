"""The queue of calls to the API server: one waits for each object, and one is under way.

                add, nothing known of the object
                               |
                               v      pop                 finalize
        .----- drops ------ waiting ---------> under way ----------> gone
        |                      ^                   |
        |                      | finalize of       | add for the same object
        |                      | the one under way v
        '----- drops --------- `------------- next in line

    drops: a newer call of its type takes what it has to say and its place (overwritten),
           a more relevant call takes its place (overwritten),
           nothing is left to do (skipped)

A call less relevant than the one it meets is skipped at once. So no two calls for one object are
ever under way together, and a call that has waited says the newest there is to say.

Differs from upstream's queue in three ways, none of which a healthy server sees: a call that is
next in line is told when a more relevant one takes its place (upstream forgets about it); a call
under way keeps its own outcome though a newer one takes over what it says; and the one next in line
starts from what the one before it has made of the object, where upstream waits for the informer.
Source: `pkg/scheduler/backend/api_dispatcher/call_queue.go`, v1.36.3.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol, Self

from scheduler.api_calls.errors import CallNotMade, CallOverwritten, CallSkipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scheduler.api.core import Pod

_NO_EFFECT: Final = "call does not need to be executed because it has no effect"
_NO_EFFECT_AFTER_SYNC: Final = (
    "call does not need to be executed because after sync it has no effect"
)


class ApiCall(Protocol):
    """A write as a value. What merges gives a new value."""

    @property
    def call_type(self) -> str:
        """Its type; calls of one type merge."""
        ...

    @property
    def object_uid(self) -> str:
        """Which object it is about."""
        ...

    @property
    def is_no_op(self) -> bool:
        """Whether the object, as far as it is known, is already as the call wants it."""
        ...

    def merged(self, older: Self) -> Self:
        """This call, and what `older` has to say that this one does not."""
        ...

    def after(self, made: ApiCall) -> Self:
        """This call, now that another one for the object has been made."""
        ...

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        """This call for a newer version of its pod, and the pod as the call will make it."""
        ...


class QueuedCall:
    """A call in a queue; `on_dropped` is told, at most once, if it will not be made.

    `call` is what is to be made: it takes in what older calls had to say.
    """

    __slots__ = ("call", "on_dropped")

    def __init__(self, call: ApiCall, on_dropped: Callable[[CallNotMade], object]) -> None:
        self.call = call
        self.on_dropped: Final = on_dropped


class CallQueue:
    """Which calls wait, which are under way. `relevances` rates call types, higher wins.

    Types of one relevance must be for objects of different kinds.
    """

    def __init__(self, relevances: Mapping[str, int]) -> None:
        self._relevances: Final = relevances
        #: The newest call for each object: the waiting one, the next in line, or else the one
        #: under way.
        self._newest: Final[dict[str, QueuedCall]] = {}
        #: The objects whose call waits, first come first served.
        self._waiting: Final[dict[str, None]] = {}
        self._under_way: Final[dict[str, QueuedCall]] = {}

    def __len__(self) -> int:
        """How many calls may be popped."""
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """How many calls have been popped and not finalized."""
        return len(self._under_way)

    def is_under_way(self, queued: QueuedCall) -> bool:
        """Whether this very call has been popped and not finalized."""
        return self._under_way.get(queued.call.object_uid) is queued

    def pending(self) -> Counter[str]:
        """How many calls may be popped, by type."""
        return Counter(self._newest[uid].call.call_type for uid in self._waiting)

    def calls(self) -> Iterator[QueuedCall]:
        """The newest call for each object."""
        yield from self._newest.values()

    def add(self, queued: QueuedCall) -> None:
        """Queue a call. Raises CallSkipped if it will not be made."""
        uid = queued.call.object_uid
        older = self._newest.get(uid)
        if older is not None:
            self._reconcile(older, queued)
        # What is known of the object does not count while it is being changed.
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
        """The call to make now, `finalize` it when it is done; None if none waits."""
        uid = next(iter(self._waiting), None)
        if uid is None:
            return None
        del self._waiting[uid]
        queued = self._under_way[uid] = self._newest[uid]
        return queued

    def finalize(self, queued: QueuedCall, *, made: bool) -> None:
        """A popped call is done; `made` says whether the server has carried it out."""
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
        """Nobody wants this call any more; harmless once it is under way, dropped or done."""
        uid = queued.call.object_uid
        if self.is_under_way(queued) or self._newest.get(uid) is not queued:
            return
        under_way = self._under_way.get(uid)
        if under_way is None:
            self._forget_waiting(uid)
        else:
            self._newest[uid] = under_way

    def sync_pod(self, pod: Pod) -> Pod:
        """The pod as it will be once its newest call is made, which is told of this version."""
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
        assert not lost, f"calls that nobody will pop: {sorted(lost)}"
        unknown = self._under_way.keys() - self._newest.keys()
        assert not unknown, f"calls under way of which nothing is known: {sorted(unknown)}"

    def _forget_waiting(self, uid: str) -> None:
        self._newest.pop(uid, None)
        self._waiting.pop(uid, None)
