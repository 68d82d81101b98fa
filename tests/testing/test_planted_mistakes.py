"""`check_plugin` finds classic mistakes, two for each of six points; a correct plugin passes."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from scheduler.api.core import Node, Pod
from scheduler.api.unstructured import Kind, Unstructured
from scheduler.framework import (
    ActionType,
    ClusterEventWithHint,
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PreFilterResult,
    StateKey,
    Status,
    unschedulable,
    wait,
)
from scheduler.testing import NotJudgedWarning, check_plugin, make_pod

CONFIG_MAPS = "configmaps.v1"
TEAM = "example.com/team"
ALL = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
CONFIG_MAP_CHANGED = ClusterEventWithHint.on(CONFIG_MAPS, ALL)
NODE_ADDED = ClusterEventWithHint.on(Node, ActionType.ADD)
NODE_CHANGED = ClusterEventWithHint.on(Node, ActionType.ADD | ActionType.UPDATE)
POD_CHANGED = ClusterEventWithHint.on(Pod, ActionType.UPDATE)
POD_DELETED = ClusterEventWithHint.on(Pod, ActionType.DELETE)

Events = list[ClusterEventWithHint]


def config_map(name: str, **data: str) -> Unstructured:
    metadata = {"name": name, "namespace": "default"}
    return Unstructured(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


#: What the plugins are about: a ConfigMap each, and annotations with a team.
ABOUT: dict[str, Any] = {
    "objects": {CONFIG_MAPS: [config_map("open"), config_map("limits", pods="1")]},
    "annotations": {TEAM: ["red", "blue"]},
    "seeds": range(4),
}


class Planted(Plugin):
    """`events` are those of the correct plugin."""

    reads: ClassVar[tuple[Kind, ...]] = (CONFIG_MAPS, Pod)
    events: ClassVar[Events] = []

    def events_to_register(self) -> Events:
        return self.events

    def config(self, name: str) -> Any:
        return self.handle.lister(CONFIG_MAPS).get(name, "default")


class OpenForPods(Planted):
    """PreEnqueue: pods wait for a ConfigMap."""

    events: ClassVar[Events] = [CONFIG_MAP_CHANGED]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None if self.config("open") else unschedulable("closed")


class TeamGate(Planted):
    """PreEnqueue: pods wait for an annotation of their own."""

    reads = ()
    events: ClassVar[Events] = [POD_CHANGED]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return None if TEAM in pod.annotations else unschedulable("no team")


class Limit(Planted):
    """PreFilter: a limit of pods in a ConfigMap."""

    events: ClassVar[Events] = [CONFIG_MAP_CHANGED, POD_DELETED]

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        config = self.config("limits")
        running = sum(bool(each.spec.node_name) for each in self.handle.lister(Pod).list())
        is_full = config is not None and running >= int(config["data"]["pods"])
        return unschedulable("full") if is_full else None


class TeamNodes(Planted):
    """PreFilter: the nodes of the pod's team."""

    reads = ()
    events: ClassVar[Events] = [NODE_CHANGED, POD_CHANGED]

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | None:
        team = pod.annotations.get(TEAM)
        if team is None:
            return None
        names = {each.name for each in nodes if each.node.metadata.annotations.get(TEAM) == team}
        return PreFilterResult(frozenset(names))


class OpenForGpus(Planted):
    """Filter: nodes with a GPU wait for a ConfigMap; others take all pods."""

    events: ClassVar[Events] = [CONFIG_MAP_CHANGED, NODE_CHANGED]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        is_closed = "gpu" in node.labels and not self.config("open")
        return unschedulable("closed") if is_closed else None


class Untainted(Planted):
    """Filter: nodes without taints."""

    reads = ()
    events: ClassVar[Events] = [NODE_CHANGED]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("tainted") if node.taints else None


class Emptiest(Planted):
    """Score: fewer pods are better."""

    reads = ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return max(0, 100 - 10 * node.pod_count)


class ByPosition(Emptiest):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self.handle.snapshot.nodes.position(node.name) or 0


SEEN = StateKey[list[int]]("ByTurn")


class ByTurn(Emptiest):
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(SEEN, [0])

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        state.read(SEEN)[0] += 1
        return state.read(SEEN)[0]


class OneAtATime(Planted):
    """Reserve: a node gets one pod at a time; its own pod is not in its way."""

    reads = (Pod,)

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.handle.on_change(Pod, self.after_pod_change)

    def after_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is None:
            self.forget(old.spec.node_name, old.metadata.uid)

    def forget(self, node_name: str, uid: str) -> None:
        if self.taken.get(node_name) == uid:
            del self.taken[node_name]

    events: ClassVar[Events] = [NODE_ADDED, POD_DELETED]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        is_free = self.taken.get(node.name, pod.uid) == pod.uid
        return None if is_free else unschedulable("taken")

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.taken[node_name] = pod.uid

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.forget(node_name, pod.uid)


class NeverGivesBack(OneAtATime):
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Forgotten."""


class Slots(OneAtATime):
    """Reserve: a node has three slots."""

    def __init__(self) -> None:
        self.slots: dict[str, set[str]] = {}
        self.handle.on_change(Pod, self.after_pod_change)

    def forget(self, node_name: str, uid: str) -> None:
        self.slots.get(node_name, set()).discard(uid)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        others = self.slots.get(node.name, set()) - {pod.uid}
        return unschedulable("no slot") if len(others) >= 3 else None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.slots.setdefault(node_name, set()).add(pod.uid)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.forget(node_name, pod.uid)


class NeverGivesASlotBack(Slots):
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Forgotten."""


class KeepsTheNodesOfDeletedPods(OneAtATime):
    def after_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        """Forgotten."""


class OpenForBinding(Planted):
    """Permit: rejects pods without a ConfigMap."""

    events: ClassVar[Events] = [CONFIG_MAP_CHANGED]

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None if self.config("open") else unschedulable("closed")


class Pairs(Planted):
    """Permit: a pod waits for another one."""

    reads = ()
    events: ClassVar[Events] = [NODE_ADDED]

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        waiting: list[Any] = []
        self.handle.iterate_over_waiting_pods(waiting.append)
        for each in waiting:
            each.allow(self.name)
        return None if waiting else wait(60)


class NeverAllows(Pairs):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(60)


def forgetful(plugin_class: type[Planted], *events: ClusterEventWithHint) -> type[Planted]:
    """Return the plugin with these events only."""
    return type(f"Forgets{plugin_class.name}", (plugin_class,), {"events": list(events)})


@pytest.mark.parametrize(
    ("good", "planted", "found"),
    [
        (OpenForPods, forgetful(OpenForPods, NODE_ADDED), "the event configmaps.v1Add of open"),
        (TeamGate, forgetful(TeamGate, NODE_ADDED), "the event UnschedulablePodUpdate of"),
        (Limit, forgetful(Limit, POD_DELETED), "the event configmaps.v1"),
        (TeamNodes, forgetful(TeamNodes, NODE_ADDED, POD_CHANGED), "NodeUpdateNodeAnnotation"),
        (OpenForGpus, forgetful(OpenForGpus, NODE_CHANGED), "the event configmaps.v1Add of open"),
        (Untainted, forgetful(Untainted, NODE_ADDED), "the event NodeUpdateNodeTaint of"),
        (Emptiest, ByPosition, "answered differently for nodes in another order: scores of"),
        (Emptiest, ByTurn, "answered differently for nodes in another order: scores of"),
        (OneAtATime, NeverGivesBack, "differently about another pod after reserve"),
        (OneAtATime, KeepsTheNodesOfDeletedPods, "after a bound pod was deleted"),
        (Slots, NeverGivesASlotBack, "differently about another pod after reserve"),
        (OpenForBinding, forgetful(OpenForBinding, NODE_ADDED), "the event configmaps.v1Add of"),
    ],
)
@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_a_planted_mistake_is_an_error_and_the_correct_plugin_passes(
    good: type[Plugin], planted: type[Plugin], found: str
) -> None:
    check_plugin(good, **ABOUT)
    with pytest.raises(AssertionError, match=found):
        check_plugin(planted, **ABOUT)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (NeverAllows, "permit let pods wait, and none was ever allowed"),
        (forgetful(Pairs), "it has registered for no event: the pods that it rejects wait"),
    ],
)
def test_a_permit_that_never_allows_or_has_no_event_is_named(
    planted: type[Plugin], found: str
) -> None:
    pods = [make_pod(f"pair-{number}") for number in range(2)]
    assert check_plugin(Pairs, pods=pods, seeds=range(2)) == ()
    with pytest.warns(NotJudgedWarning, match=found):
        assert found in str(check_plugin(planted, pods=pods, seeds=range(2)))


def test_a_kind_without_events_is_named() -> None:
    with pytest.warns(NotJudgedWarning, match="could not judge all"):
        notes = check_plugin(OpenForGpus, seeds=range(4))
    assert notes == ("no event of configmaps.v1 was tried (give `objects`)",)


def test_a_class_that_is_no_plugin_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"expected a subclass of scheduler\.Plugin, got <class 'str'>"
    ):
        check_plugin(str)  # type: ignore[arg-type]
