"""NodePorts: a pod fits only nodes where its host ports are free.

Two ports conflict if protocol and number are equal and the addresses overlap. Regular containers
and sidecars count.
Mirrors `pkg/scheduler/framework/plugins/nodeports/node_ports.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node, Pod
from scheduler.api.host_ports import HostPort, conflicts, host_ports
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, Status, reject, skip, unschedulable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_FREE_PORTS: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")

_WANTED: Final = StateKey[tuple[HostPort, ...]](
    "PreFilterNodePorts", 'reading "{}" from cycleState: not found'
)


class NodePorts(Plugin):
    """Keep pods off nodes where another pod uses one of their host ports."""

    only_takes_room: ClassVar[bool] = True
    ignores_resizes = True

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without host ports."""
        if not pod.host_ports:
            return skip()
        state.write(_WANTED, pod.host_ports)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        wanted = state.read(_WANTED)
        taken = nodes.host_ports.where(lambda used: used is not None and conflicts(wanted, used))
        return reject(taken, _NO_FREE_PORTS)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        texts = (
            f"host port {port.port}/{port.protocol}"
            for port in state.read(_WANTED)
            if conflicts((port,), node.host_ports)
        )
        return [Remedy(f"free {text}", 1.0, f"give up {text}", f"free {text}") for text in texts]

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            *self.on_pods(self.is_schedulable_after_pod_deleted, assigned=ActionType.DELETE),
            on(Node, ActionType.ADD),
        ]

    def is_schedulable_after_pod_deleted(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the deleted pod, assigned or nominated to a node, used one of the ports."""
        deleted, _ = as_kind(Pod, old, new)
        if deleted is None or not (deleted.spec.node_name or deleted.status.nominated_node_name):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(conflicts(pod.host_ports, host_ports(deleted)))

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return pod.host_ports
