"""The scheduling cycle, the binding cycle and the failure handler of one pod.

The scheduler's own parts around fake plugins, with a client that only takes notes.
"""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import ClassVar

import pytest
from msgspec.structs import replace

from scheduler.api.core import PodCondition
from scheduler.client import ServerError
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.framework import (
    Code,
    CycleState,
    Plugin,
    PodInfo,
    PostFilterResult,
    PreBindPreFlightResult,
    Status,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.framework.types import PODS_TO_ACTIVATE
from scheduler.testing import make_node, make_pod
from scheduler.testing.fake_api import RecordedEvent
from tests.cycle.line import Line, profile_of


def line_of(*plugins: type[Plugin], nodes: Iterable[str] = ("a",)) -> Line:
    """A line with one profile: NodeResourcesFit, and these plugins."""
    names = [plugin.name for plugin in plugins]
    return Line([profile_of("NodeResourcesFit", *names)], plugins, nodes=map(make_node, nodes))


def events(line: Line) -> list[RecordedEvent]:
    return line.recorders["default-scheduler"].recorded


def conditions(line: Line) -> list[tuple[str, str]]:
    """The reasons and messages that were written to pods."""
    return [(condition["reason"], condition["message"]) for condition in line.client.conditions]


class Journal(Plugin):
    """Writes down which of its methods were called."""

    calls: ClassVar[list[str]] = []

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("reserve")

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("unreserve")

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.calls.append("post_bind")


@pytest.fixture(autouse=True)
def _new_journal() -> None:
    Journal.calls.clear()


async def test_a_pod_that_fits_is_assumed_bound_and_announced() -> None:
    line = line_of(Journal)
    await line.schedule(make_pod("pod"))
    assert line.client.bound == {"pod": "a"}
    assert line.places == {"cache": ["pod"]}
    (event,) = events(line)
    assert event.note == "Successfully assigned default/pod to a"
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert Journal.calls == ["reserve", "post_bind"]
    assert line.metrics.attempts_by_result() == {"scheduled": 1, "unschedulable": 0, "error": 0}


@pytest.mark.parametrize(
    ("off", "calls"),
    [((), ["pre_flight"]), (("NominatedNodeNameForExpectation",), ["pre_bind"])],
)
async def test_pre_bind_pre_flight_runs_only_if_the_node_is_nominated(
    off: tuple[str, ...], calls: list[str]
) -> None:
    class Idle(Plugin):
        def pre_bind_pre_flight(
            self, state: CycleState, pod: PodInfo, node_name: str
        ) -> PreBindPreFlightResult:
            Journal.calls.append("pre_flight")
            return PreBindPreFlightResult(skip=True)

        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            Journal.calls.append("pre_bind")

    gates = DEFAULT_FEATURE_GATES - set(off)
    line = Line([profile_of("Idle")], [Idle], nodes=[make_node("a")], feature_gates=gates)
    await line.schedule(make_pod("pod"))
    assert (line.client.bound, Journal.calls) == ({"pod": "a"}, calls)
    measured = line.metrics.framework_extension_point_duration.by_labels
    assert (("PreBindPreFlight", "Skip", "default-scheduler") in measured) == (not off)


async def test_a_pod_that_does_not_fit_waits_and_is_reported() -> None:
    line = line_of()
    await line.schedule(make_pod("pod", requests={"cpu": "9"}))
    message = "0/1 nodes are available: 1 Insufficient cpu."
    assert conditions(line) == [("Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    (event,) = events(line)
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert event.note == message
    waiting = line.queue.find("default/pod")
    assert waiting is not None
    assert waiting.unschedulable_plugins == {"NodeResourcesFit"}


async def test_without_nodes_a_pod_backs_off() -> None:
    line = line_of(nodes=())
    await line.schedule(make_pod("pod"))
    message = "no nodes available to schedule pods"
    assert conditions(line) == [("Unschedulable", message)]
    assert line.places == {"backoff": ["pod"]}


async def test_a_failed_binding_gives_everything_back_and_backs_off() -> None:
    line = line_of(Journal)
    line.client.bind_failure = ServerError(500, "InternalError", "etcd is gone")
    await line.schedule(make_pod("pod"))
    message = 'running Bind plugin "DefaultBinder": etcd is gone'
    assert conditions(line) == [("SchedulerError", message)]
    assert line.places == {"backoff": ["pod"]}
    assert Journal.calls == ["reserve", "unreserve"]


async def test_a_failed_binding_frees_its_room_for_others() -> None:
    line = line_of()
    await line.schedule(make_pod("other", requests={"cpu": "9"}))
    line.client.bind_failure = ServerError(500, "InternalError", "no")
    await line.schedule(make_pod("pod"))
    assert sorted(line.places["backoff"]) == ["other", "pod"]


async def test_a_pod_deleted_meanwhile_is_dropped() -> None:
    line = line_of()
    pod = make_pod("pod", requests={"cpu": "9"})
    line.known.put(pod)
    line.queue.add(PodInfo(pod), 0.0)
    queued, _ = line.queue.pop_nowait(0.0)
    assert queued is not None
    line.known.remove("default/pod")
    await schedule_one(line.cycle_parts, queued)
    assert (line.places, events(line)) == ({}, [])


async def test_a_pod_found_waiting_already_stays_where_it_is_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = line_of()
    pod = make_pod("pod", requests={"cpu": "9"})
    line.known.put(pod)
    line.queue.add(PodInfo(pod), 0.0)
    queued, _ = line.queue.pop_nowait(0.0)
    assert queued is not None
    line.queue.add(PodInfo(pod), 0.0)
    await schedule_one(line.cycle_parts, queued)
    await line.rest()
    assert line.places == {"active": ["pod"]}
    assert [event.reason for event in events(line)] == ["FailedScheduling"]
    assert "default/pod" in str(caplog.records[-1].exc_info)


async def test_a_pod_being_deleted_is_not_scheduled() -> None:
    line = line_of()
    await line.schedule(make_pod("pod", deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    (event,) = events(line)
    assert event.note == "skip schedule deleting pod: default/pod"
    assert line.places == {}


async def test_a_pod_that_is_being_bound_is_not_scheduled_again() -> None:
    line = line_of()
    pod = make_pod("pod")
    line.cache.assume_pod(PodInfo(pod).assigned_to("a"))
    await line.schedule(pod)
    assert (line.client.bound, line.places) == ({}, {"cache": ["pod"]})


class Reluctant(Plugin):
    """Turns pods down after their node was chosen."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return unschedulable("not this one")


async def test_a_rejection_at_reserve_is_about_the_chosen_node_only() -> None:
    line = line_of(Reluctant, Journal, nodes=("a", "b"))
    await line.schedule(make_pod("pod"))
    message = "0/1 nodes are available: 1 not this one."
    assert conditions(line) == [("Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    assert Journal.calls == ["unreserve"]


class Doorkeeper(Plugin):
    """Has every pod wait for ten seconds at most."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return wait(10.0)


async def test_a_pod_held_at_permit_is_nominated_and_goes_when_it_is_allowed() -> None:
    line = line_of(Doorkeeper)
    await line.schedule(make_pod("pod"))
    assert line.places == {"in_flight": ["pod"], "cache": ["pod"]}
    assert line.client.nominated == ["a"]
    waiting = line.waiting_pods.get("uid-default-pod")
    assert waiting is not None
    waiting.allow("Doorkeeper")
    await line.rest()
    assert line.client.bound == {"pod": "a"}
    assert len(line.waiting_pods) == 0


async def test_without_its_gate_a_pod_held_at_permit_is_not_nominated() -> None:
    line = line_of(Doorkeeper)
    gates = DEFAULT_FEATURE_GATES - {"NominatedNodeNameForExpectation"}
    line.cycle_parts = dataclasses.replace(line.cycle_parts, feature_gates=gates)
    await line.schedule(make_pod("pod"))
    assert line.places == {"in_flight": ["pod"], "cache": ["pod"]}
    assert line.client.nominated == []


async def test_a_pod_that_is_not_allowed_in_time_is_rejected() -> None:
    line = line_of(Doorkeeper, Journal)
    await line.schedule(make_pod("pod"))
    await line.clock.advance(9.9)
    assert conditions(line) == []
    await line.clock.advance(0.1)
    message = (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Doorkeeper."
    )
    assert conditions(line) == [("Unschedulable", message)]
    assert line.places == {"waiting": ["pod"]}
    assert Journal.calls == ["reserve", "unreserve"]


def _rescuer(result: PostFilterResult | None, status: Status | None) -> type[Plugin]:
    """A plugin that makes room for pods that do not fit, or does not."""

    class Rescuer(Plugin):
        async def post_filter(
            self, state: CycleState, pod: PodInfo, statuses: object
        ) -> tuple[PostFilterResult | None, Status | None]:
            return result, status

    return Rescuer


async def test_the_reason_of_post_filter_ends_the_message() -> None:
    line = line_of(_rescuer(None, unresolvable("no help for it")))
    await line.schedule(make_pod("pod", requests={"cpu": "9"}, nominated_node_name="a"))
    ((_, message),) = conditions(line)
    assert message == "0/1 nodes are available: 1 Insufficient cpu. no help for it"
    # Nothing was said of nominations, so an older one stays.
    assert line.client.nominated == []


async def test_an_error_of_post_filter_is_logged_again_only_if_the_failure_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = line_of(_rescuer(None, Status(Code.ERROR, "not found")))
    await line.schedule(make_pod("pod", requests={"cpu": "9"}))
    (logged,) = caplog.records
    assert logged.args == {"pod": "default/pod", "status": "not found"}
    ((reason, message),) = conditions(line)
    for name, known, lines in (
        ("again", message.replace("0/1", "0/2"), 0),
        ("changed", "another", 1),
    ):
        caplog.clear()
        pod = make_pod(name, requests={"cpu": "9"})
        condition = PodCondition("PodScheduled", "False", reason, known)
        await line.schedule(replace(pod, status=replace(pod.status, conditions=(condition,))))
        assert len(caplog.records) == lines


async def test_pods_a_plugin_wants_tried_are_tried_once_its_own_pod_is_through() -> None:
    class Waker(Plugin):
        """Activates the pod that waits."""

        def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            state.read(PODS_TO_ACTIVATE)["default/other"] = PodInfo(make_pod("other"))

    line = line_of(Waker)
    await line.schedule(make_pod("other", requests={"cpu": "9"}))
    assert line.places == {"waiting": ["other"]}
    await line.schedule(make_pod("pod"))
    assert line.places == {"active": ["other"], "cache": ["pod"]}
