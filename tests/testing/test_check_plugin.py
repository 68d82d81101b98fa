"""`check_plugin` passes good plugins, and names the broken rule of each bad one."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import msgspec
import numpy as np
import pytest

from scheduler.api.core import Node, ObjectMeta, Pod
from scheduler.api.unstructured import Unstructured
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    QueueingHint,
    Rejections,
    StateKey,
    Status,
    default_normalize_score,
    reject,
    unschedulable,
    wait,
)
from scheduler.plugins import IN_TREE
from scheduler.runtime import PluginSetupError
from scheduler.snapshot import IntArray
from scheduler.testing import NotJudgedWarning, check_plugin, make_pod
from tests.runtime.profiles import answering

RESERVED = unschedulable("node(s) were reserved for GPU pods")


def _relevant_events() -> list[ClusterEventWithHint]:
    return [
        ClusterEventWithHint.on(Node, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        ClusterEventWithHint.on(Pod, ActionType.UPDATE_POD_LABEL),
    ]


class GpuGuard(Plugin):
    def events_to_register(self) -> list[ClusterEventWithHint]:
        return _relevant_events()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if "gpu" in node.labels and "gpu" not in pod.labels:
            return RESERVED
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return len(node.pods)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return default_normalize_score(scores)


class FastGpuGuard(GpuGuard):
    filter = score = None  # type: ignore[assignment]

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        reserved = nodes.labels("gpu").where(lambda value: value is not None)
        return reject(reserved & ("gpu" not in pod.labels), RESERVED)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return nodes.pod_count


def test_good_plugins_pass_and_their_twins_with_them() -> None:
    check_plugin(GpuGuard, twin=FastGpuGuard, seeds=range(6))
    check_plugin(FastGpuGuard, twin=GpuGuard, seeds=range(6))


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
@pytest.mark.parametrize("name", IN_TREE)
def test_in_tree_plugins_pass(name: str) -> None:
    check_plugin(IN_TREE[name], seeds=range(4))


def _with_required(kind: str, topology_key: str) -> Pod:
    term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return make_pod(f"{kind}-{topology_key[-4:]}".lower(), labels={"app": "web"}, affinity=affinity)


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_inter_pod_affinity_passes_with_required_terms() -> None:
    kinds, keys = ("podAffinity", "podAntiAffinity"), ("topology.kubernetes.io/zone", "disk")
    pods = [_with_required(kind, key) for kind in kinds for key in keys]
    check_plugin(IN_TREE["InterPodAffinity"], pods=pods, seeds=range(4))


class Sized(Plugin):
    class Args(msgspec.Struct):
        size: int

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        assert isinstance(self.args, Sized.Args)
        return unschedulable("too long") if len(pod.name) > self.args.size else None


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_arguments_are_handed_on() -> None:
    check_plugin(Sized, args={"size": 3}, seeds=[0])
    check_plugin(Sized, args=Sized.Args(3), seeds=[0])


class Racks(Plugin):
    seen: set[str | None]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self.seen.add(node.labels.get("rack"))


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_nodes_carry_the_labels_that_the_plugin_is_about() -> None:
    Racks.seen = set()
    check_plugin(Racks, labels={"rack": ["r1", "r2"]}, seeds=range(6))
    assert Racks.seen == {None, "r1", "r2"}


# The bad ones.


class Remembers(Plugin):
    def __init__(self) -> None:
        self.met: set[str] = set()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        known = pod.uid in self.met
        self.met.add(pod.uid)
        return unschedulable("again") if known else None


class Changeable(Plugin):
    makes: Iterator[int] = itertools.count()

    def __init__(self) -> None:
        self.make = next(self.makes)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return self.make % 2


class Scribbles(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        node.labels["seen"] = "yes"  # type: ignore[index]


class Overwrites(Plugin):
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        nodes.allocatable("cpu")[0] = 0
        return nodes.pod_count


class BothForms(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        return reject(np.arange(len(nodes)) == 0, unschedulable("first in view"))


class AsksForMore(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return RESERVED if node.labels["rack"] == "1" else None


class OutOfCodes(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections:
        return Rejections(np.ones(len(nodes), dtype=np.int16), (RESERVED,))


class TooFew(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections:
        return Rejections(np.zeros(99, dtype=np.int16), (RESERVED,))


class Waits(Plugin):
    async def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        """Call an async function, which takes its time."""


class CloneableCounts(dict[str, int]):
    def clone(self) -> CloneableCounts:
        return CloneableCounts(self)


COUNTS = StateKey[dict[str, int]]("Counts")
COUNT = StateKey[list[int]]("Count")


class SharesState(Plugin):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(COUNT, [0])

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(COUNT)[0] += 1

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("counted") if state.read(COUNT)[0] else None


class Half(list[int]):
    def clone(self) -> Half:
        return Half(self)


class NeverForgets(SharesState):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(COUNT, Half([0]))


class Counts(Plugin):
    """Filters by a count of PreFilter, without `remove_pod`."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        counts = {node.name: node.pod_count for node in nodes}
        state.write(COUNTS, counts)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("too many pods") if state.read(COUNTS)[node.name] > 1 else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [*_relevant_events(), ClusterEventWithHint.on(Pod, ActionType.DELETE)]


class CountsInDryRuns(Counts):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(COUNTS, CloneableCounts({node.name: node.pod_count for node in nodes}))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(COUNTS)[node.name] += 1

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(COUNTS)[node.name] -= 1


class FarOut(GpuGuard):
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return scores * 1000


class Disagrees(FastGpuGuard):
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return nodes.pod_count * 0


class Reserves(GpuGuard):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return RESERVED if "gpu" in node.labels else None


class Leaks(Plugin):
    """Does not undo `reserve`."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("taken") if node.name in self.taken else None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.taken.add(node_name)


class Undoes(Leaks):
    reads = (Pod,)

    def __init__(self) -> None:
        super().__init__()
        self.handle.on_change(Pod, self.after_pod_change)

    def after_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is None:
            self.taken.discard(old.spec.node_name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.taken.discard(node_name)


class UndoesOnce(Leaks):
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.taken.remove(node_name)


class SharesItsClass(Undoes):
    everything: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        self.taken = self.everything


class BlocksInPreBind(Plugin):
    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Not async."""


class HangsInBind(Plugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await asyncio.Event().wait()


class SleepsInPreBind(Plugin):
    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await self.handle.sleep(3600)


class Registers(GpuGuard):
    """Rejects for GPU labels; `events` are its events."""

    events: ClassVar[list[ClusterEventWithHint]] = []

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return self.events


def registering(*hints: Callable[..., object]) -> type[Plugin]:
    """A plugin with these hints for new nodes."""
    event = ClusterEvent(EventResource.NODE, ActionType.ADD)
    events = [ClusterEventWithHint(event, cast("Any", hint)) for hint in hints]
    return type("Registers", (Registers,), {"events": events})


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_reserve_and_waiting_are_fine_if_they_are_undone() -> None:
    check_plugin(Undoes, seeds=range(4))
    check_plugin(SleepsInPreBind, seeds=range(4))
    check_plugin(answering("P", permit=wait(5)), seeds=range(4))


@pytest.mark.parametrize(
    ("plugin_class", "notes"),
    [
        (answering("P", filter=None), ("it never rejected a node",)),
        (answering("P", score=5), ("all scores were equal",)),
        (
            answering("P", filter=RESERVED, reserve=None),
            (
                "reserve was never called",
                "it has no events_to_register: every change retries the pods that it rejects",
            ),
        ),
    ],
)
def test_behaviour_that_was_never_seen_is_a_warning(
    plugin_class: type[Plugin], notes: tuple[str, ...]
) -> None:
    with pytest.warns(NotJudgedWarning, match=notes[0]):
        assert check_plugin(plugin_class, seeds=range(2)) == notes


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
def test_pods_of_the_author_are_scheduled_with_objects_and_annotations() -> None:
    seen: set[str] = set()

    class Reads(Plugin):
        reads = ("configmaps.v1",)

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            seen.update(str(each) for each in self.handle.lister("configmaps.v1").list())
            seen.update(value for key, value in pod.annotations.items() if key == "cost")
            return unschedulable("mine") if pod.name == "mine" else None

    class Named(Pod):
        def __str__(self) -> str:
            return self.metadata.name

    config = Named(metadata=ObjectMeta(name="quota", namespace="default"))
    check_plugin(
        Reads,
        annotations={"cost": ["1", "2"]},
        objects={"configmaps.v1": [config]},
        pods=[make_pod("mine")],
        seeds=range(6),
    )
    assert seen == {"quota", "1", "2"}


@pytest.mark.parametrize(
    ("plugin_class", "complaint"),
    [
        (Remembers, "answered differently when asked again: verdicts of node-"),
        (Changeable, "answered differently when made anew: scores of node-"),
        (Scribbles, "changed an argument: node node-0"),
        (Overwrites, "score_nodes raised ValueError: assignment destination is read-only"),
        (BothForms, "filters a node differently when the nodes are in another order"),
        (AsksForMore, "filter raised KeyError: 'rack'"),
        (OutOfCodes, "filter_nodes gave codes that stand for no status"),
        (TooFew, "filter_nodes gave (99,) verdicts on"),
        (SharesState, "let a dry run change the state of the real one"),
        (NeverForgets, "filters differently after a pod has come and gone in a dry run"),
        (FarOut, "which is not in 0..100"),
        (Counts, "pre_filter has written"),
        (Leaks, "decides differently after reserve has been undone by unreserve"),
        (UndoesOnce, "unreserve raised KeyError"),
        (SharesItsClass, "shares state with a second scheduler"),
        (HangsInBind, "bind raised TimeoutError: the work waits for more than the clock"),
        (registering(), "after the event NodeAdd of node-"),
        (registering(lambda pod, old, new: QueueingHint.QUEUE_SKIP), "returns QUEUE_SKIP"),
        (registering(lambda pod, old, new: True), "returned True: expected a QueueingHint"),
        (registering(lambda pod, old, new: old.metadata), "hint for NodeAdd raised Attribute"),
    ],
)
def test_the_error_names_the_broken_rule(plugin_class: type[Plugin], complaint: str) -> None:
    with pytest.raises(AssertionError) as story:
        check_plugin(plugin_class)
    first, second = str(story.value).splitlines()
    assert first.startswith(f"{plugin_class.name} ")
    assert complaint in first
    assert second.endswith("repeats it)")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"events": 5}, "events_to_register returned 5: return a list of ClusterEventWithHint"),
        ({"events": ["Node"]}, "return a list of ClusterEventWithHint"),
        ({"events": ClusterEventWithHint.on(Pod, ActionType.ADD)}, "return a list of"),
        (
            {"events": [ClusterEventWithHint(ClusterEvent("Nodes", ActionType.ADD))]},
            "events: 'Nodes' is not a known kind",
        ),
        ({"reads": ("configmaps",)}, "reads: 'configmaps' is not a known kind"),
    ],
)
def test_what_the_scheduler_refuses_is_refused(changed: dict[str, object], text: str) -> None:
    with pytest.raises(PluginSetupError, match=f'plugin "P": .*{re.escape(text)}'):
        check_plugin(type("P", (Registers,), changed))


def test_state_of_pre_filter_that_dry_runs_update_is_fine() -> None:
    check_plugin(CountsInDryRuns, seeds=range(8))


class CrowdGuard(Registers):
    """Rejects nodes with a pod that has the label `app`."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("app") if any("app" in each.labels for each in node.pods) else None


class Reads(Registers):
    """Rejects all pods if `rejects` is true for the ConfigMap `go`, which may be None."""

    reads = ("configmaps.v1",)
    rejects: ClassVar[Callable[[Unstructured | None], bool]]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        found = self.handle.lister("configmaps.v1").get("go", "default")
        return unschedulable("go") if type(self).rejects(found) else None


def reading(rejects: Callable[[Any], bool]) -> type[Plugin]:
    return type("Reads", (Reads,), {"rejects": staticmethod(rejects)})


@pytest.mark.filterwarnings("ignore::scheduler.testing.NotJudgedWarning")
@pytest.mark.parametrize(
    ("plugin_class", "events", "event"),
    [
        (
            Registers,
            {Node: ActionType.UPDATE_NODE_LABEL, Pod: ActionType.UPDATE_POD_LABEL},
            "NodeAdd",
        ),
        (
            Registers,
            {Node: ActionType.ADD, Pod: ActionType.UPDATE_POD_LABEL},
            "NodeUpdateNodeLabel",
        ),
        (
            Registers,
            {Node: ActionType.ADD | ActionType.UPDATE_NODE_LABEL},
            "UnschedulablePodUpdatePodLabel",
        ),
        (
            CrowdGuard,
            {Node: ActionType.ADD, Pod: ActionType.DELETE},
            "AssignedPodUpdatePodLabel",
        ),
        (CrowdGuard, {Node: ActionType.ADD, Pod: ActionType.UPDATE_POD_LABEL}, "AssignedPodDelete"),
        (reading(lambda go: go is None), {"configmaps.v1": ActionType.DELETE}, "configmaps.v1Add"),
        (reading(bool), {"configmaps.v1": ActionType.ADD}, "configmaps.v1Delete"),
        (
            reading(lambda go: go is not None and int(go["data"]["pods"]) < 10),
            {"configmaps.v1": ActionType.DELETE},
            "configmaps.v1Update",
        ),
        (
            reading(lambda go: go is not None and "closed" in go.metadata.labels),
            {"configmaps.v1": ActionType.DELETE},
            "configmaps.v1Update",
        ),
    ],
)
def test_a_forgotten_event_is_named(
    plugin_class: type[Plugin], events: dict[type | str, ActionType], event: str
) -> None:
    metadata = {"name": "go", "namespace": "default", "labels": {"closed": "true"}}
    fields = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    go = Unstructured({**fields, "data": {"pods": "5"}})
    objects: dict[type[object] | str, list[Unstructured]] = {"configmaps.v1": [go]}
    forgets, complete = (
        type(
            plugin_class.__name__,
            (plugin_class,),
            {"events": [ClusterEventWithHint.on(kind, action) for kind, action in given.items()]},
        )
        for given in (events, {**dict.fromkeys(events, ActionType.ALL), Pod: ActionType.ALL})
    )
    with pytest.raises(AssertionError, match=f"after the event {event} of .* has not registered"):
        check_plugin(forgets, objects=objects, seeds=range(8))
    check_plugin(complete, objects=objects, seeds=range(3))


@pytest.mark.parametrize(
    ("plugin_class", "complaint"),
    [
        (Waits, "filter must not be async: it decides, and may not wait"),
        (BlocksInPreBind, "pre_bind must be async (`async def pre_bind`)"),
    ],
)
def test_a_plugin_that_cannot_be_registered_is_refused(
    plugin_class: type[Plugin], complaint: str
) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        check_plugin(plugin_class)
    assert str(refusal.value) == f'plugin "{plugin_class.name}": {complaint}'


@pytest.mark.parametrize(
    ("twin", "complaint"),
    [
        (Disagrees, "GpuGuard and Disagrees disagree: scores of node-"),
        (Reserves, "GpuGuard and Reserves disagree: verdicts of node-"),
    ],
)
def test_the_error_names_the_node_where_twins_differ(twin: type[Plugin], complaint: str) -> None:
    with pytest.raises(AssertionError) as story:
        check_plugin(GpuGuard, twin=twin)
    assert str(story.value).startswith(complaint)


def test_a_failure_can_be_repeated_by_its_seed() -> None:
    with pytest.raises(AssertionError) as story:
        check_plugin(GpuGuard, twin=Disagrees, seeds=range(100))
    told = str(story.value)
    seed = int(told.split("seeds=[")[1].split("]")[0])
    with pytest.raises(AssertionError) as again:
        check_plugin(GpuGuard, twin=Disagrees, seeds=[seed])
    assert str(again.value) == told
    assert f"on the random cluster of seed {seed}, pod " in told
