"""The recorder's results from a watch: placements in order, verdicts, and undecided pods."""

from collections.abc import AsyncGenerator

import pytest

from conformance.api import Listing, Ref, WatchEvent
from conformance.clock import VirtualClock
from conformance.errors import RequestFailed
from conformance.replay.held import HeldPod
from conformance.replay.recording import Placement, Recorder
from tests.conformance.replay.evidence import held_pod, task

A, B = task("a"), task("b")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(100.0)


@pytest.fixture
def recorder(clock: VirtualClock) -> Recorder:
    return Recorder(["a", "b"], clock)


def test_a_pod_is_undecided_until_it_is_bound_or_unschedulable(recorder: Recorder) -> None:
    recorder.observe("ADDED", held_pod(A))
    recorder.observe("ADDED", held_pod(B))
    assert recorder.undecided == {"a", "b"}
    recorder.observe("MODIFIED", held_pod(A, node="n"))
    recorder.observe("MODIFIED", held_pod(B, message="0/1 nodes are available: 1 x."))
    assert not recorder.undecided
    assert (recorder.bound, recorder.unschedulable) == (1, 1)
    assert [(verdict.pod, verdict.bound) for verdict in recorder.verdicts] == [
        ("a", True),
        ("b", False),
    ]


def test_a_condition_without_a_verdict_decides_nothing(recorder: Recorder) -> None:
    pod = held_pod(A, message="gated")
    assert pod.status.conditions
    pod.status.conditions[0].reason = "SchedulingGated"
    recorder.observe("MODIFIED", pod)
    assert "a" in recorder.undecided
    assert recorder.unschedulable == 0


def test_an_unschedulable_pod_may_still_be_bound(recorder: Recorder) -> None:
    recorder.observe("MODIFIED", held_pod(A, message="no room"))
    recorder.observe("MODIFIED", held_pod(A, node="n", message="no room"))
    assert (recorder.bound, recorder.unschedulable) == (1, 0)
    assert len(recorder.verdicts) == 1


def test_placements_keep_their_order_and_time(recorder: Recorder, clock: VirtualClock) -> None:
    recorder.observe("MODIFIED", held_pod(B, node="n"))
    clock.move_to(101.5)
    recorder.observe("MODIFIED", held_pod(A, node="m"))
    recorder.observe("MODIFIED", held_pod(A, node="m"))
    recorder.observe("DELETED", held_pod(B, node="n"))
    assert recorder.placements == [
        Placement(100.0, "b", "uid-b", "n"),
        Placement(101.5, "a", "uid-a", "m"),
        Placement(101.5, "b", "uid-b", ""),
    ]
    assert recorder.last_change_seconds == 101.5


class Server:
    """Answers lists and watches from a script: each watch yields events, then fails if told to."""

    def __init__(
        self, lists: list[Listing[HeldPod]], watches: list[list[WatchEvent[HeldPod]]]
    ) -> None:
        self.lists = lists
        self.watches = watches
        self.asked: list[str] = []

    async def listing(self, kind: Ref, item: type[HeldPod]) -> Listing[HeldPod]:
        assert (kind.kind, item) == ("Pod", HeldPod)
        return self.lists.pop(0)

    async def watch(
        self, kind: Ref, item: type[HeldPod], resource_version: str
    ) -> AsyncGenerator[WatchEvent[HeldPod], None]:
        assert (kind.kind, item) == ("Pod", HeldPod)
        self.asked.append(resource_version)
        if not self.watches:
            raise RequestFailed("no more", status=500)
        for event in self.watches.pop(0):
            if event.type == "ERROR":
                raise RequestFailed("too old", status=410)
            yield event


async def follow(recorder: Recorder, server: Server) -> None:
    await recorder.start(server)  # type: ignore[arg-type] # the two methods are all it calls
    with pytest.raises(RequestFailed, match="no more"):
        await recorder.run(server)  # type: ignore[arg-type]


async def test_a_watch_that_ends_is_resumed_where_it_ended(recorder: Recorder) -> None:
    bound = WatchEvent("MODIFIED", held_pod(A, node="n", version=7))
    server = Server([Listing("5", [held_pod(A, version=4)])], [[bound], []])
    await follow(recorder, server)
    assert server.asked == ["5", "7", "7"]
    assert recorder.bound == 1
    assert recorder.gaps == 0


async def test_a_gap_is_closed_by_a_list_in_the_order_of_versions(recorder: Recorder) -> None:
    lost = WatchEvent("ERROR", held_pod(A))
    missed = [held_pod(A, node="n", version=9), held_pod(B, node="m", version=8)]
    server = Server([Listing("5", []), Listing("9", missed)], [[lost]])
    await follow(recorder, server)
    assert [placement.pod for placement in recorder.placements] == ["b", "a"]
    assert recorder.gaps == 1
    assert server.asked == ["5", "9"]


async def test_a_bound_pod_that_went_during_a_gap_gives_its_node_back(recorder: Recorder) -> None:
    bound = WatchEvent("MODIFIED", held_pod(A, node="n", version=6))
    lost = WatchEvent("ERROR", held_pod(A))
    lists: list[Listing[HeldPod]] = [Listing("5", []), Listing("9", []), Listing("9", [])]
    server = Server(lists, [[bound, lost], [lost]])
    await follow(recorder, server)
    assert [placement.node for placement in recorder.placements] == ["n", ""]
    assert recorder.bound == 0
