"""The contract between the scheduler and its plugins, for plugin authors."""

from scheduler.framework.arithmetic import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    default_normalize_score,
)
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.framework.handle import Handle, WaitingPod
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import (
    Code,
    NodeToStatus,
    Rejections,
    Status,
    pending,
    reject,
    reject_by,
    reject_together,
    skip,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.framework.types import (
    NominatingInfo,
    NominatingMode,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
)
from scheduler.snapshot import Codes, NodeInfo, Nodes, PodInfo, Snapshot

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "ActionType",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "Codes",
    "CycleState",
    "EventResource",
    "Handle",
    "NodeInfo",
    "NodeToStatus",
    "Nodes",
    "NominatingInfo",
    "NominatingMode",
    "Plugin",
    "PodInfo",
    "PostFilterResult",
    "PreBindPreFlightResult",
    "PreFilterResult",
    "QueueingHint",
    "Rejections",
    "Remedy",
    "Snapshot",
    "StateKey",
    "Status",
    "WaitingPod",
    "default_normalize_score",
    "pending",
    "reject",
    "reject_by",
    "reject_together",
    "skip",
    "unresolvable",
    "unschedulable",
    "wait",
]
