"""Pods that wait for a resize, with `InPlacePodVerticalScalingSchedulerPreemption` of v1.37.2.

Source: `deferred_pod_scheduling_test.go`, `noderesources/fit_test.go` (`TestDeferredResizeFit` and
hints), `eventhandlers_test.go` (`TestEventHandlers_DeferredResize`), `schedule_one_test.go`
(`TestScheduler_DeferredResizePluginSkipping`). Preemption is in the conformance cases.
"""

import itertools

import pytest
from msgspec.structs import replace

from scheduler.api.core import Node, NodePodPreemptionPolicy, NodeSpec, Pod, PodCondition
from scheduler.config import RESIZE_PREEMPTION, SchedulerVersion, default_feature_gates
from scheduler.config.default_plugins import default_plugins
from scheduler.framework import CycleState, Plugin, PodInfo
from scheduler.plugins import IN_TREE
from scheduler.plugins.deferred_pod_scheduling import DeferredPodScheduling
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.testing import FakeHandle, make_node, make_plugin, make_pod, snapshot_of
from tests.plugins.running import (
    QUEUE,
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Verdict,
    rejected,
    verdict_of,
)
from tests.upstream.test_event_handlers import OURS, World

V1_37 = SchedulerVersion.V1_37
GATES = default_feature_gates(V1_37)
DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")
CPU, MEMORY = "Insufficient cpu", "Insufficient memory"


def deferred(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=(DEFERRED,)))


def node(name: str, *forbidding: str) -> Node:
    policy = NodePodPreemptionPolicy(forbidding)
    return replace(make_node(name), spec=NodeSpec(pod_preemption_policy=policy))


def handle(*pods: Pod, is_on: bool = True) -> FakeHandle:
    """Return a handle of one node of 1000m and 2000 bytes, with these pods there."""
    one = make_node("node1", allocatable={"cpu": "1000m", "memory": "2000", "pods": "32"})
    gates = GATES | {RESIZE_PREEMPTION} if is_on else GATES
    return FakeHandle(snapshot_of([one], pods), feature_gates=gates, version=V1_37)


def requesting(cpu: str, memory: str = "", name: str = "pod1", on: str = "node1") -> Pod:
    requests = {"cpu": cpu, "memory": memory} if memory else {"cpu": cpu}
    return make_pod(name, requests=requests, node_name=on)


WAITING = deferred(make_pod("pod1", node_name="node1"))
PLAIN = make_pod("pod1", node_name="node1")


@pytest.mark.parametrize(
    ("pod", "on", "is_on", "verdict"),
    [
        (WAITING, node("node1", "policy1"), False, None),
        (PLAIN, node("node1", "policy1"), True, None),
        (WAITING, make_node("node1"), True, None),
        (WAITING, node("node1"), True, None),
        (WAITING, node("node1", "policy1"), True, "node had resize preemption disabled"),
        (WAITING, make_node("node2"), True, "pod assigned to different node"),
    ],
)
def test_a_resize_is_for_the_pods_node_unless_that_forbids_preemption(
    pod: Pod, on: Node, *, is_on: bool, verdict: str | None
) -> None:
    plugin = make_plugin(DeferredPodScheduling, handle=handle(is_on=is_on))
    rejections = plugin.filter_nodes(CycleState(), PodInfo(pod), snapshot_of([on]).nodes)
    status = rejections.status(0) if rejections is not None else None
    assert verdict_of(status) == (None if verdict is None else (UNRESOLVABLE, (verdict,)))


@pytest.mark.parametrize(("pod", "is_on"), [(WAITING, False), (PLAIN, True), (WAITING, True)])
def test_a_pod_that_fits_is_not_bound(pod: Pod, *, is_on: bool) -> None:
    plugin, info = make_plugin(DeferredPodScheduling, handle=handle(is_on=is_on)), PodInfo(pod)
    waits = is_on and pod is WAITING
    skipped = plugin.pre_filter(CycleState(), info, snapshot_of([]).nodes)
    assert (skipped is None) == waits
    fits = (UNRESOLVABLE, ("pod resize fits, waiting for Kubelet actuation",))
    assert verdict_of(plugin.permit(CycleState(), info, "node1")) == (fits if waits else None)


@pytest.mark.parametrize(
    ("pod", "old", "new", "is_on", "hint"),
    [
        (WAITING, node("node1", "policy1"), node("node1"), False, SKIP),
        (PLAIN, node("node1", "policy1"), node("node1"), True, SKIP),
        (WAITING, node("node2"), node("node2"), True, SKIP),
        (WAITING, node("node1", "policy1"), node("node1"), True, QUEUE),
        (WAITING, node("node1"), node("node1", "policy1"), True, SKIP),
        (WAITING, node("node1"), node("node1"), True, SKIP),
        (WAITING, None, node("node1"), False, SKIP),
        (PLAIN, None, node("node1"), True, SKIP),
        (WAITING, None, node("node2"), True, SKIP),
        (WAITING, None, node("node1"), True, QUEUE),
        (WAITING, None, node("node1", "policy1"), True, SKIP),
    ],
)
def test_a_node_that_allows_preemption_is_an_event(
    pod: Pod, old: Node | None, new: Node, *, is_on: bool, hint: str
) -> None:
    plugin = make_plugin(DeferredPodScheduling, handle=handle(is_on=is_on))
    assert str(plugin.is_schedulable_after_node_change(PodInfo(pod), old, new)) == hint


@pytest.mark.parametrize(
    ("pod", "there", "is_on", "verdict"),
    [
        (requesting("800m", "1600"), [requesting("500m", "1000")], True, None),
        (
            requesting("800m", "1600"),
            [requesting("500m", "1000")],
            False,
            (UNSCHEDULABLE, (CPU, MEMORY)),
        ),
        (
            requesting("800m"),
            [requesting("500m"), requesting("400m", name="pod2")],
            True,
            (UNSCHEDULABLE, (CPU,)),
        ),
        (requesting("1200m"), [requesting("500m")], True, (UNRESOLVABLE, (CPU,))),
        (requesting("800m", "1600"), [], False, None),
    ],
)
def test_what_the_pod_holds_counts_once(
    pod: Pod, there: list[Pod], *, is_on: bool, verdict: Verdict | None
) -> None:
    here = handle(*there, is_on=is_on)
    found = rejected(make_plugin(NodeResourcesFit, handle=here), deferred(pod), here.snapshot)
    assert found == ({} if verdict is None else {"node1": verdict})


@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        (deferred(requesting("1")), requesting("1", name="pod2", on="node2"), None, SKIP),
        (deferred(requesting("1")), requesting("1", name="pod2"), None, QUEUE),
        *(
            (deferred(requesting("1")), requesting("2", name="p", on=on), less, hint)
            for on, less, hint in (
                ("node2", requesting("1", name="p", on="node2"), SKIP),
                ("node1", requesting("1", name="p"), QUEUE),
            )
        ),
    ],
)
def test_room_on_another_node_does_not_help_a_resize(
    pod: Pod, old: Pod, new: Pod | None, hint: str
) -> None:
    plugin = make_plugin(NodeResourcesFit, handle=handle())
    assert str(plugin.is_schedulable_after_pod_event(PodInfo(pod), old, new)) == hint


@pytest.mark.parametrize(
    ("pod", "grown", "hint"),
    [
        (PLAIN, PLAIN, SKIP),
        (WAITING, WAITING, QUEUE),
        (PLAIN, requesting("2", name="pod2"), SKIP),
        (WAITING, requesting("2", name="pod2", on="node2"), SKIP),
        (WAITING, requesting("2", name="pod2"), QUEUE),
    ],
)
def test_a_pod_that_grows_beside_a_waiting_one_is_an_event(pod: Pod, grown: Pod, hint: str) -> None:
    plugin = make_plugin(NodeResourcesFit, handle=handle())
    assert str(plugin.is_schedulable_after_pod_scale_up(PodInfo(pod), PLAIN, grown)) == hint
    with pytest.raises(TypeError):
        plugin.is_schedulable_after_pod_scale_up(PodInfo(pod), None, make_node("node1"))


def test_both_plugins_register_for_the_events_of_resizes() -> None:
    def labels(kind: type[Plugin], *, is_on: bool = True) -> set[str]:
        plugin = make_plugin(kind, handle=handle(is_on=is_on))
        return {registered.event.label for registered in plugin.events_to_register()}

    grown = {"AssignedPodUpdatePodScaleUp", "TargetPodUpdatePodScaleUp"}
    assert labels(NodeResourcesFit) - labels(NodeResourcesFit, is_on=False) == grown
    assert labels(DeferredPodScheduling) == {"NodeUpdateNodePreemptionPolicy", "NodeAdd"}


def test_all_other_filters_are_left_out() -> None:
    gates = GATES | {RESIZE_PREEMPTION}
    enabled = [plugin.name for plugin in default_plugins(gates, V1_37).multi_point.enabled]
    assert enabled.index("DeferredPodScheduling") == enabled.index("NodeResourcesFit") - 1
    filters = {name for name in enabled if hasattr(IN_TREE[name], "filter_nodes")}
    ignoring = {name for name in filters if IN_TREE[name].ignores_resizes}
    assert filters - ignoring == {"NodeName", "NodeResourcesFit", "DeferredPodScheduling"}
    assert len(ignoring) == 12


OLD = make_pod("pod1", node_name="node1", scheduler_name=OURS)
NEW = deferred(OLD)
LARGER = deferred(make_pod("pod1", node_name="node1", scheduler_name=OURS, requests={"cpu": "2"}))


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("pods", "is_queued"),
    [([NEW], True), ([OLD, NEW], True), ([NEW, OLD], False), ([NEW, LARGER], True)],
)
def test_a_pod_waits_in_the_queue_while_its_resize_is_deferred(
    pods: list[Pod], *, is_queued: bool, is_on: bool
) -> None:
    world = World(resize_preemption=is_on)
    world.pods.on_add(pods[0], is_initial=False)
    for old, new in itertools.pairwise(pods):
        world.pods.on_update(old, new)
    waiting = world.queued(pods[-1])
    assert waiting == (pods[-1] if is_queued and is_on else None)
    assert world.cached(pods[-1]) == pods[-1]
    world.pods.on_delete(pods[-1], final_state_unknown=False)
    assert [world.queued(OLD), world.cached(OLD)] == [None, None]
