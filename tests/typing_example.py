"""What a plugin author writes, checked by mypy: the author's view must not break.

The plugins are those of README.md and of the design, with annotations.
"""

from __future__ import annotations

import msgspec

from scheduler import (
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
    reject,
    unschedulable,
    wait,
)

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
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        return QueueingHint.QUEUE


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

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> object:
        best: int = state.read(self.KEY)
        return nodes.labels("disk").map({"nvme": best, "ssd": self.args.ssd})


class Patience(Plugin):
    """Hold pods for a while, and let somebody else decide."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(10.0) if pod.priority < 0 else None

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.handle.event_recorder.event(
            pod.pod, type="Normal", reason="Patience", action="Binding", note="it was worth it"
        )
