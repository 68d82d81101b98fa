"""PreEnqueue. Cases stem from `TestPriorityQueue_moveToActiveQ`, `..._moveToBackoffQ` and
`Test_queuedPodInfo_gatedSetUponCreationAndUnsetUponUpdate`."""

import pytest

from scheduler.framework import status as statuses
from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    FORCE_ACTIVATE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.status import Status
from scheduler.queue import Place
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    NODE_ADD,
    PV_ADD,
    LabelGate,
    SchedulingGates,
    World,
    never,
    queue,
    waiting,
)

ADDED = DEFAULT_POD_EVENTS.label(ActionType.ADD)
GATES_ELIMINATED = ClusterEvent(
    EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
)

FOO_BAR, FOO, BAR = ("foo", "bar"), ("foo",), ("bar",)


@pytest.mark.parametrize(
    ("gates", "label", "from_backoff", "enters"),
    [
        pytest.param([], "p", False, True, id="no plugins"),
        pytest.param([(), ()], "p", False, False, id="all object"),
        pytest.param([FOO_BAR, FOO], "bar", False, False, id="one objects"),
        pytest.param([FOO_BAR, FOO], "bar", True, True, id="not asked again after backoff"),
        pytest.param([FOO_BAR, BAR], "bar", False, True, id="all agree"),
    ],
)
@pytest.mark.parametrize("event_label", [ADDED, FORCE_ACTIVATE])
def test_a_pod_becomes_active_if_all_plugins_agree(
    gates: list[tuple[str, ...]], label: str, from_backoff: bool, enters: bool, event_label: str
) -> None:
    """TestPriorityQueue_moveToActiveQ."""
    world = World(gates=[LabelGate(*allowed, name=f"g{i}") for i, allowed in enumerate(gates)])
    info = waiting(make_pod("p", labels={label: ""}))
    move = world.queue._move(
        info, Place.ACTIVE, event_label, world.now, pre_enqueue=not from_backoff
    )
    assert (move.target == Place.ACTIVE) is enters
    assert world.places == {"active" if enters else "unschedulable": ["p"]}
    world.update(
        make_pod("p", labels={label: ""}), make_pod("p", labels={label: ""}, annotations={"a": ""})
    )
    assert world.places == {"active" if enters else "unschedulable": ["p"]}
    world.queue.check()


@pytest.mark.parametrize(
    ("gates", "label", "enters"),
    [
        pytest.param([], "p", True, id="no plugins"),
        pytest.param([(), ()], "p", False, id="all object"),
        pytest.param([FOO_BAR, FOO], "bar", False, id="one objects"),
        pytest.param([FOO_BAR, BAR], "bar", True, id="all agree"),
    ],
)
def test_a_pod_may_back_off_if_all_plugins_agree(
    gates: list[tuple[str, ...]], label: str, enters: bool
) -> None:
    """TestPriorityQueue_moveToBackoffQ."""
    world = World(gates=[LabelGate(*allowed, name=f"g{i}") for i, allowed in enumerate(gates)])
    info = waiting(make_pod("p", labels={label: ""}), unschedulable_count=1)
    move = world.queue._move(info, Place.BACKOFF, ADDED, world.now)
    assert (move.target == Place.BACKOFF) is enters
    assert world.places == {"backoff" if enters else "unschedulable": ["p"]}
    world.queue.check()


@pytest.mark.parametrize("counts", [False, True], ids=["1.36", "1.37"])
def test_the_nomination_of_a_gated_pod_counts_since_1_37(counts: bool) -> None:
    """kubernetes#139057."""
    world = World(gates=[SchedulingGates()], counts_gated=counts)
    world.add(make_pod("p", scheduling_gates=["hello"], nominated_node_name="n1"))
    assert [*world.queue.nominator.nominations.values()] == (["n1"] if counts else [])
    world.queue.check()


def test_a_gated_pod_enters_when_its_gates_are_removed() -> None:
    """Test_queuedPodInfo_gatedSetUponCreationAndUnsetUponUpdate."""
    world = World({GATES_ELIMINATED: [("SchedulingGates", queue)]}, gates=[SchedulingGates()])
    gated = make_pod("p", scheduling_gates=["hello", "world"])
    world.add(gated)
    assert world.place_of(gated) == "gated"
    assert world.ready == 0
    fewer = make_pod("p", scheduling_gates=["world"])
    world.update(gated, fewer)
    assert world.place_of(gated) == "gated"
    world.update(fewer, make_pod("p"))
    assert world.ready == 1
    info = world.pop()
    assert not info.is_gated
    assert info.unschedulable_plugins == {"SchedulingGates"}
    world.queue.check()


def test_the_gating_plugin_is_remembered_and_asked_first() -> None:
    first, second = LabelGate("p", name="first"), LabelGate(name="second")
    world = World({PV_ADD: [("second", queue)]}, gates=[first, second])
    world.add(make_pod("p", labels={"p": ""}))
    assert (first.asked, second.asked) == (["p"], ["p"])
    world.event(PV_ADD)
    assert (first.asked, second.asked) == (["p"], ["p", "p"])
    info = world.find("p")
    assert info.gating_plugin == "second"
    assert info.gating_plugin_events == (PV_ADD,)
    second.allowed = ("p",)
    first.allowed = ()
    world.event(PV_ADD)
    assert info.gating_plugin == "first"
    assert info.unschedulable_plugins == {"first", "second"}
    world.queue.check()


def test_a_gated_pod_is_moved_only_by_events_that_its_gate_has_registered_for() -> None:
    gate = LabelGate(name="gate")
    world = World({NODE_ADD: [("other", never)], PV_ADD: [("gate", queue)]}, gates=[gate])
    world.add(make_pod("p", labels={"p": ""}))
    gate.allowed = ("p",)
    for event in (NODE_ADD, EVENT_UNSCHEDULABLE_TIMEOUT):
        world.event(event)
        assert world.places == {"unschedulable": ["p"]}
    world.event(PV_ADD)
    assert world.places == {"active": ["p"]}


def test_pre_enqueue_is_not_run_again_when_the_backoff_is_over() -> None:
    gate = LabelGate("p")
    world = World(gates=[gate])
    pod = make_pod("p", labels={"p": ""})
    world.try_in_vain(pod)
    assert world.places == {"backoff": ["p"]}
    gate.allowed = ()
    world.now += 2
    world.flush_backoff()
    assert world.places == {"active": ["p"]}
    world.queue.check()


def test_a_pod_that_may_not_back_off_is_gated_instead() -> None:
    gate = LabelGate("p")
    world = World({NODE_ADD: [("Fit", queue)]}, gates=[gate])
    world.try_in_vain(make_pod("p", labels={"p": ""}), "Fit")
    gate.allowed = ()
    world.event(NODE_ADD)
    assert world.place_of(make_pod("p")) == "gated"
    assert world.queue.statistics().gated == 1
    world.queue.check()


class BrokenGate(LabelGate):
    """Raises, or returns a status of an error."""

    def __init__(self, *, raises: bool) -> None:
        super().__init__(name="BrokenGate")
        self.raises = raises

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        failure = RuntimeError("the gate is stuck")
        if self.raises:
            raise failure
        return statuses.error(failure)


@pytest.mark.parametrize("raises", [True, False])
def test_a_plugin_that_fails_gates_the_pod_and_is_logged(
    raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(gates=[BrokenGate(raises=raises)])
    world.add(make_pod("p"))
    assert world.place_of(make_pod("p")) == "gated"
    assert (
        "Unexpected error running PreEnqueue plugin: pod=default/p plugin=BrokenGate "
        "err=the gate is stuck" in caplog.text
    )
    assert "RuntimeError" in caplog.text
    world.queue.check()


def test_the_traceback_of_a_gate_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(gates=[BrokenGate(raises=True)])
    for name in ("first", "second"):
        world.add(make_pod(name))
    assert [record.exc_info is not None for record in caplog.records] == [True, False]


def test_a_plugin_may_return_a_status_of_success() -> None:
    class Polite(LabelGate):
        def pre_enqueue(self, pod: PodInfo) -> Status | None:
            return statuses.Status(statuses.Code.SUCCESS)

    world = World(gates=[Polite()])
    world.add(make_pod("p"))
    assert world.places == {"active": ["p"]}


def test_adding_an_active_pod_again_does_not_gate_it() -> None:
    gate = LabelGate("p")
    world = World(gates=[gate])
    pod = make_pod("p", labels={"p": ""})
    world.add(pod)
    gate.allowed = ()
    world.add(pod)
    assert world.places == {"active": ["p"]}
    world.queue.check()
