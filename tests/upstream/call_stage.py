"""Runs the `steps` of a case, one line each, on a queue of API calls, and checks the outcomes.

`calls` gives each call its object, its type (`low`, `high`) and perhaps when it has no effect:
`no-op`, `no-op-once-merged`, `no-op-once-synced`.

    add A [skipped] | pop A | pop nothing | finalize A
    sync UID ahead|as-it-was         the object is shown as its call will make it, or as it is
    told A overwritten|skipped       the caller of A was notified of this, once
    pending low=1 high=0             these may be popped, and no others
    calls A..                        these are recorded in the queue
    in-flight UID..                  calls for these objects are under way
    asked A merged=1 synced=1 is_no_op=2
"""

from collections import Counter
from typing import Self

from scheduler.api.core import Pod
from scheduler.api_calls import (
    ApiCall,
    CallNotMade,
    CallOverwritten,
    CallQueue,
    CallSkipped,
    QueuedCall,
)
from scheduler.testing import make_pod
from tests.upstream.loading import Case

_RELEVANCES = {"low": 1, "high": 2}
_OUTCOMES = {"overwritten": CallOverwritten, "skipped": CallSkipped}


class _Call:
    """Upstream's mock: returns scripted values and counts the calls of its methods."""

    def __init__(self, object_uid: str, call_type: str, effect: str = "") -> None:
        self.object_uid = object_uid
        self.call_type = call_type
        self._effect = effect
        self.asked: Counter[str] = Counter()

    @property
    def is_no_op(self) -> bool:
        self.asked["is_no_op"] += 1
        return self._effect == "no-op"

    def merged(self, older: ApiCall) -> Self:
        self.asked["merged"] += 1
        self._effect = self._effect.removesuffix("-once-merged")
        return self

    def after(self, made: ApiCall) -> Self:
        return self

    def synced(self, pod: Pod) -> tuple[Self, Pod]:
        self.asked["synced"] += 1
        self._effect = self._effect.removesuffix("-once-synced")
        return self, make_pod("ahead", uid=pod.metadata.uid)


class CallStage:
    """Plays one case."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._queue = CallQueue(_RELEVANCES)
        self._told: dict[str, list[CallNotMade]] = {}
        self._calls: dict[str, tuple[_Call, QueuedCall]] = {}
        self._in_flight: set[str] = set()
        for name, text in case["calls"].items():
            call = _Call(*text.split())
            told = self._told[name] = []
            self._calls[name] = call, QueuedCall(call, told.append)

    def play(self) -> None:
        """Run all steps, and check the invariants of the queue after each."""
        for step in self._case["steps"]:
            verb, *words = step.split()
            getattr(self, f"_do_{verb.replace('-', '_')}")(*words)
            self._queue.check()

    def _do_add(self, name: str, outcome: str = "") -> None:
        try:
            self._queue.add(self._calls[name][1])
        except CallSkipped:
            assert outcome == "skipped"
        else:
            assert outcome == ""

    def _do_pop(self, name: str) -> None:
        expected = None if name == "nothing" else self._calls[name][1]
        assert self._queue.pop() is expected
        if expected is not None:
            self._in_flight.add(expected.call.object_uid)

    def _do_finalize(self, name: str) -> None:
        call, queued = self._calls[name]
        self._queue.finalize(queued, made=True)
        self._in_flight.discard(call.object_uid)

    def _do_sync(self, uid: str, expected: str) -> None:
        pod = make_pod("seen", uid=uid)
        found = self._queue.sync_pod(pod)
        assert found.metadata.name == ("ahead" if expected == "ahead" else "seen")

    def _do_pending(self, *counts: str) -> None:
        wanted = Counter({name: int(n) for name, n in (count.split("=") for count in counts)})
        assert Counter(queued.call.call_type for queued in self._queue.waiting()) == wanted

    def _do_calls(self, *names: str) -> None:
        assert set(self._queue.calls()) == {self._calls[name][1] for name in names}

    def _do_in_flight(self, *uids: str) -> None:
        assert self._in_flight == set(uids)
        assert self._queue.under_way == len(uids)

    def _do_told(self, name: str, outcome: str) -> None:
        assert [type(why) for why in self._told[name]] == [_OUTCOMES[outcome]]

    def _do_asked(self, name: str, *counts: str) -> None:
        asked = self._calls[name][0].asked
        for count in counts:
            question, times = count.split("=")
            assert asked[question] == int(times), question
