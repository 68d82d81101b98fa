"""Plugins as an author writes them, checked by mypy: their annotations must stay valid.

The plugins are those of README.md and of the design, with annotations.
"""

import msgspec

from fakeapi import FakeApiServer
from scheduler import (
    ActionType,
    BindPlugin,
    CausePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterNodesPlugin,
    FilterPlugin,
    IntArray,
    Lister,
    Node,
    NodeInfo,
    Nodes,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueingHint,
    QueueSortPlugin,
    Rejections,
    RemedyPlugin,
    ReservePlugin,
    ScoreNodesPlugin,
    ScorePlugin,
    SharedHintsPlugin,
    SortKeyPlugin,
    StateKey,
    Status,
    Unstructured,
    reject,
    unschedulable,
    wait,
)
from scheduler.testing import VirtualClock

RESERVED = unschedulable("node(s) were reserved for GPU pods")


class GpuGuard(Plugin):
    """Keep GPU nodes for the pods that ask for them."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if "gpu" in node.labels and "gpu" not in pod.labels:
            return RESERVED
        return None


class FastGpuGuard(Plugin):
    """The same rule, all nodes at once."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        reserved = nodes.labels("gpu").where(lambda value: value is not None)
        return reject(reserved & ("gpu" not in pod.labels), RESERVED)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        node_label = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(node_label, self.is_schedulable_after_node_change)]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: Node | None, new: Node | None
    ) -> QueueingHint:
        was_gpu = old is not None and "gpu" in old.metadata.labels
        is_gpu = new is not None and "gpu" in new.metadata.labels
        return QueueingHint.QUEUE if was_gpu != is_gpu else QueueingHint.QUEUE_SKIP


class PreferFastDisks(Plugin):
    """NVMe before SSD before the rest, all nodes at once."""

    class Args(msgspec.Struct, frozen=True):
        nvme: int = 100
        ssd: int = 60

    args: Args
    KEY = StateKey[int]("PreferFastDisks")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(self.KEY, self.args.nvme)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        best: int = state.read(self.KEY)
        return nodes.labels("disk").map({"nvme": best, "ssd": self.args.ssd})


class Patience(Plugin):
    """Hold pods for a while, and let others decide."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(10.0) if pod.priority < 0 else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await self.handle.sleep(1.0)
        return None

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.handle.event_recorder.event(
            pod.pod, type="Normal", reason="Patience", action="Binding", note="it was worth it"
        )


class Quota(Plugin):
    """Count the pods of a namespace against a custom object; objects and hints have types."""

    reads = (Pod, "quotas.v1.example.com", "configmaps.v1")
    required = ("quotas.v1.example.com",)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        pods: Lister[Pod] = self.handle.lister(Pod)
        running = [p for p in pods.list(pod.namespace) if p.spec.node_name]
        quota = self.handle.lister("quotas.v1.example.com").get("pods", pod.namespace)
        if quota is not None and len(running) >= int(quota["spec"]["limit"]):
            return unschedulable(f"quota {quota.metadata.name} is used up")
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        return [
            ClusterEventWithHint.on("quotas.v1.example.com", changed, self.after_quota_change),
            ClusterEventWithHint.on(Pod, ActionType.DELETE, self.after_pod_deleted),
        ]

    def after_quota_change(
        self, pod: PodInfo, old: Unstructured | None, new: Unstructured | None
    ) -> QueueingHint:
        grows = new is None or old is None or new["spec"]["limit"] > old["spec"]["limit"]
        return QueueingHint.QUEUE if grows else QueueingHint.QUEUE_SKIP

    def after_pod_deleted(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        same = old is not None and old.metadata.namespace == pod.namespace
        return QueueingHint.QUEUE if same else QueueingHint.QUEUE_SKIP


class Mistaken(Plugin):
    """mypy finds these mistakes; an unused `ignore` here would be an error."""

    def filter(self, state: CycleState, pod: PodInfo, node: Nodes) -> Status | None:  # type: ignore[override]
        return None

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:  # type: ignore[override]
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        wrong = self.after_pod_deleted
        return [ClusterEventWithHint.on(Node, ActionType.DELETE, wrong)]  # type: ignore[arg-type]

    def after_pod_deleted(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        return QueueingHint.QUEUE


def a_plugin_satisfies_every_contract(
    plugin: Plugin,
) -> tuple[
    PreEnqueuePlugin,
    QueueSortPlugin,
    SortKeyPlugin,
    EnqueueExtensions,
    SharedHintsPlugin,
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    FilterNodesPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ScoreNodesPlugin,
    NormalizeScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPreFlightPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    RemedyPlugin,
    CausePlugin,
]:
    """The declarations in `Plugin` are those of the protocols."""
    return (plugin,) * 22


def server_of_a_test() -> FakeApiServer:
    """The clock of a simulation is a clock of the API server."""
    return FakeApiServer(clock=VirtualClock())
