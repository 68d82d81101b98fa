"""NodeName: a pod with `spec.nodeName` fits only the node of that name.

Mirrors `pkg/scheduler/framework/plugins/nodename/node_name.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.events import ActionType, ClusterEventWithHint, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Rejections, reject, unresolvable
from scheduler.framework.types import PreFilterResult

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_MATCH: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName(Plugin):
    """Respect `spec.nodeName`."""

    only_takes_room: ClassVar[bool] = True
    points_since: ClassVar = {"pre_filter": SchedulerVersion.V1_37}

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | None:
        wanted = pod.spec.node_name
        return PreFilterResult(frozenset((wanted,))) if wanted else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        wanted = pod.spec.node_name
        return reject(~nodes.name_codes.isin((wanted,)), _NO_MATCH) if wanted else None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [on(Node, ActionType.ADD)]
