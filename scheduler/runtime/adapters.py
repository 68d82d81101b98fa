"""From a plugin's per-node method to the vectorised form that the runtime calls.

The simple method is complete: the framework asks it node by node, on the rows that no earlier
plugin has turned down, and encodes the answers. A plugin with the fast method is called directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.framework.status import Rejections, Status, as_verdict
from scheduler.snapshot.columns import ABSENT, IntArray

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.interface import (
        FilterNodesPlugin,
        FilterPlugin,
        Plugin,
        ScoreNodesPlugin,
        ScorePlugin,
    )
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

FilterNodes = Callable[["CycleState", "PodInfo", "Nodes"], Rejections | None]
ScoreNodes = Callable[["CycleState", "PodInfo", "Nodes"], IntArray]


def filter_nodes_of(plugin: Plugin) -> FilterNodes:
    """The plugin's filter over many nodes, whichever form it defines."""
    if callable(getattr(plugin, "filter_nodes", None)):
        return cast("FilterNodesPlugin", plugin).filter_nodes
    return PerNodeFilter(cast("FilterPlugin", plugin))


def score_nodes_of(plugin: Plugin) -> ScoreNodes:
    """The plugin's score over many nodes, whichever form it defines."""
    if callable(getattr(plugin, "score_nodes", None)):
        return cast("ScoreNodesPlugin", plugin).score_nodes
    return _PerNodeScore(cast("ScorePlugin", plugin))


class PerNodeFilter:
    """Asks `filter` once per node, and keeps each distinct status once.

    `follows_pods` says that in a dry run the plugin has a state of its own for each node.
    """

    def __init__(self, plugin: FilterPlugin) -> None:
        self._filter: Final = plugin.filter
        self.follows_pods: Final = hasattr(plugin, "add_pod") or hasattr(plugin, "remove_pod")

    def __call__(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """The verdicts on these nodes."""
        return self.in_worlds(lambda base_row: state, pod, nodes)

    def in_worlds(
        self, state_of: Callable[[int], CycleState], pod: PodInfo, nodes: Nodes
    ) -> Rejections | None:
        """Likewise, each node with the state of its world, by the node's `base_row`."""
        codes = np.full(len(nodes), ABSENT, dtype=np.int32)
        index_of: dict[Status, int] = {}
        for position, node in enumerate(nodes):
            answer = self._filter(state_of(node.base_row), pod, node)
            if answer is not None and (status := as_verdict(answer)) is not None:
                codes[position] = index_of.setdefault(status, len(index_of))
        return Rejections(codes, list(index_of)) if index_of else None


class _PerNodeScore:
    """Asks `score` once per node."""

    def __init__(self, plugin: ScorePlugin) -> None:
        self._score: Final = plugin.score

    def __call__(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        score = self._score
        return np.array([score(state, pod, node) for node in nodes])
