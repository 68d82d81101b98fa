"""kube-scheduler in Python: v1.36's behaviour, every node at once.

    import scheduler
    from scheduler import Plugin, reject, unschedulable

    class GpuGuard(Plugin):
        def filter(self, state, pod, node):
            if "gpu" in node.labels and "gpu" not in pod.labels:
                return unschedulable("node(s) were reserved for GPU pods")

    scheduler.run(plugins=[GpuGuard])

The names of this package are for plugin authors; everything else may change. They are those of
`scheduler.framework`, which is imported when the first of them is used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework import (
        MAX_NODE_SCORE,
        MIN_NODE_SCORE,
        PODS_TO_ACTIVATE,
        ActionType,
        ArgsWithDefaults,
        BindPlugin,
        BoolArray,
        ClusterEvent,
        ClusterEventWithHint,
        Code,
        Codes,
        Condition,
        CycleState,
        EnqueueExtensions,
        EventResource,
        FilterNodesPlugin,
        FilterPlugin,
        FitError,
        Handle,
        IntArray,
        Kind,
        Lister,
        Node,
        NodeInfo,
        Nodes,
        NodeToStatus,
        NominatingInfo,
        NominatingMode,
        NormalizeScorePlugin,
        PermitPlugin,
        Plugin,
        PluginSetupError,
        Pod,
        PodInfo,
        PostBindPlugin,
        PostFilterPlugin,
        PostFilterResult,
        PreBindPlugin,
        PreBindPreFlightPlugin,
        PreBindPreFlightResult,
        PreEnqueuePlugin,
        PreFilterExtensions,
        PreFilterPlugin,
        PreFilterResult,
        PreScorePlugin,
        QueuedPod,
        QueueingHint,
        QueueingHintFn,
        QueueSortPlugin,
        Rejections,
        Remedy,
        RemedyPlugin,
        ReservePlugin,
        ScoreNodesPlugin,
        ScorePlugin,
        SharedHintsPlugin,
        Snapshot,
        SortKeyPlugin,
        StateKey,
        Status,
        Unstructured,
        ValidatedArgs,
        Victims,
        WaitingPod,
        World,
        Worlds,
        as_kind,
        default_normalize_score,
        pending,
        reject,
        reject_by,
        reject_together,
        skip,
        unresolvable,
        unschedulable,
        wait,
    )

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "PODS_TO_ACTIVATE",
    "ActionType",
    "ArgsWithDefaults",
    "BindPlugin",
    "BoolArray",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "Codes",
    "Condition",
    "CycleState",
    "EnqueueExtensions",
    "EventResource",
    "FilterNodesPlugin",
    "FilterPlugin",
    "FitError",
    "Handle",
    "IntArray",
    "Kind",
    "Lister",
    "Node",
    "NodeInfo",
    "NodeToStatus",
    "Nodes",
    "NominatingInfo",
    "NominatingMode",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PluginSetupError",
    "Pod",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreBindPreFlightPlugin",
    "PreBindPreFlightResult",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueuedPod",
    "QueueingHint",
    "QueueingHintFn",
    "Rejections",
    "Remedy",
    "RemedyPlugin",
    "ReservePlugin",
    "ScoreNodesPlugin",
    "ScorePlugin",
    "SharedHintsPlugin",
    "Snapshot",
    "SortKeyPlugin",
    "StateKey",
    "Status",
    "Unstructured",
    "ValidatedArgs",
    "Victims",
    "WaitingPod",
    "World",
    "Worlds",
    "as_kind",
    "default_normalize_score",
    "pending",
    "reject",
    "reject_by",
    "reject_together",
    "run",
    "skip",
    "unresolvable",
    "unschedulable",
    "wait",
]


def run(*, plugins: Sequence[type[Plugin] | str] = (), args: Sequence[str] | None = None) -> None:
    """Run a scheduler with plugins of your own; the command line has all other options.

    `plugins` are classes, or references (`module:Class`). `args` replaces the command line of the
    process. Returns only by `SystemExit`.
    """
    # Imported here, so that the import of a plugin module does not load the whole scheduler.
    from scheduler.cli import run as run_command

    run_command(plugins=plugins, args=args)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module("scheduler.framework"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
