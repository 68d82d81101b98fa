"""PreEnqueue: the plugin that gates a pod, and plugins that fail."""

import pytest

from scheduler.framework import status as statuses
from scheduler.framework.status import Status
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    PV_ADD,
    LabelGate,
    SchedulingGates,
    World,
    queue,
)


@pytest.mark.parametrize("counts", [False, True], ids=["1.36", "1.37"])
def test_the_nomination_of_a_gated_pod_counts_since_1_37(counts: bool) -> None:
    """kubernetes#139057."""
    world = World(gates=[SchedulingGates()], counts_gated=counts)
    world.add(make_pod("p", scheduling_gates=["hello"], nominated_node_name="n1"))
    assert [*world.queue.nominator.nominations.values()] == (["n1"] if counts else [])
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
