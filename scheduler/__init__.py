"""kube-scheduler in Python: v1.36's behaviour, every node at once.

    import scheduler
    from scheduler import Plugin, reject, unschedulable

    class GpuGuard(Plugin):
        def filter(self, state, pod, node):
            if "gpu" in node.labels and "gpu" not in pod.labels:
                return unschedulable("node(s) were reserved for GPU pods")

    scheduler.run(plugins=[GpuGuard])

These names are the plugin author's; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    Codes,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    Nodes,
    NodeToStatus,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PodInfo,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    QueueingHint,
    Rejections,
    Snapshot,
    StateKey,
    Status,
    WaitingPod,
    default_normalize_score,
    pending,
    reject,
    reject_by,
    skip,
    unresolvable,
    unschedulable,
    wait,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
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
    "Snapshot",
    "StateKey",
    "Status",
    "WaitingPod",
    "default_normalize_score",
    "pending",
    "reject",
    "reject_by",
    "run",
    "skip",
    "unresolvable",
    "unschedulable",
    "wait",
]


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; everything else is said on the command line.

    `plugins` are classes, or references (`module:Class`); `args` stands for the command line, by
    default the process's own. Returns only by `SystemExit`.
    """
    # Here, so that a plugin module does not load a whole scheduler to be imported.
    from scheduler.cli import run as run_command

    run_command(plugins=plugins, args=args)
