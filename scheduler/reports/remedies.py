"""Find the nodes that need the fewest changes to fit an unschedulable pod, and the changes.

The scheduler stops at the first plugin that rejects a node. Here every filter runs on every node,
so that all rejections are known. A plugin can propose remedies (`RemedyPlugin`); without them the
reason of its rejection is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import Remedy
from scheduler.runtime import PluginFailedError
from scheduler.runtime.filtering import filter_nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.interface import Plugin, RemedyPlugin
    from scheduler.framework.status import Rejections
    from scheduler.runtime import Framework
    from scheduler.runtime.filtering import PreFilterOutcome
    from scheduler.snapshot import Nodes, PodInfo, Snapshot

#: The number of nodes whose remedies are computed; the nearest are chosen among these.
_CANDIDATES_MAX = 500


class NodeRemedies(NamedTuple):
    """The remedies of one node, each with the name of the plugin that rejects the node."""

    node: str
    remedies: tuple[tuple[str, Remedy], ...]

    @property
    def distance(self) -> float:
        """The sum of the remedies' distances; the nearest node has the smallest."""
        return sum(remedy.distance for _, remedy in self.remedies)


class AllRejections(NamedTuple):
    """The results of PreFilter and of every filter on every node, each on its own.

    A filter that rejects no node is left out.
    """

    state: CycleState
    pre_filter: PreFilterOutcome
    by_plugin: list[tuple[Plugin, Rejections]]


def all_rejections(
    framework: Framework, snapshot: Snapshot, pod: PodInfo, *, may_pause: bool = False
) -> AllRejections:
    """Run PreFilter once and every filter on all nodes. Raises `PluginFailedError`.

    With `may_pause` it raises `FilterPausedError` if a filter takes long.
    """
    nodes, state = snapshot.nodes, CycleState()
    outcome = framework.pre_filters.run(state, pod, nodes)
    state.may_pause = may_pause
    results = AllRejections(state, outcome, [])
    for plugin in framework.plugins["filter"]:
        if plugin.name not in state.skip_filter_plugins:
            rejections = _filtered(plugin, state, pod, nodes, may_lack_state=bool(outcome.status))
            if rejections is not None:
                results.by_plugin.append((plugin, rejections))
    return results


def nearest_nodes(
    rejected: AllRejections, snapshot: Snapshot, pod: PodInfo, *, nodes_max: int
) -> list[NodeRemedies]:
    """Return the nodes with the smallest distance, nearest first.

    If PreFilter has rejected the pod as a whole, its rejection is added for all nodes.
    """
    nodes, outcome = snapshot.nodes, rejected.pre_filter
    count = np.zeros(len(nodes), dtype=np.int64)
    for _, rejections in rejected.by_plugin:
        count += rejections.codes >= 0
    names = outcome.result.node_names
    if names is not None:
        count += [name not in names for name in nodes.names]
    nearest = []
    for position in np.argsort(count, kind="stable")[:_CANDIDATES_MAX].tolist():
        remedies = list(_remedies(rejected, pod, nodes, position))
        if names is not None and nodes.name(position) not in names:
            plugins = ", ".join(sorted(outcome.plugins_with_nodes))
            remedies.append((plugins, Remedy("is not among the nodes that the pod can use")))
        if remedies:
            nearest.append(NodeRemedies(nodes.name(position), tuple(remedies)))
    nearest.sort(key=lambda node: node.distance)
    return nearest[:nodes_max]


def _filtered(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes, *, may_lack_state: bool
) -> Rejections | None:
    """Run a filter on all nodes. Return None if PreFilter ended early and left it no state."""
    try:
        return filter_nodes_of(plugin)(state, pod, nodes)
    except PluginFailedError as error:
        if may_lack_state and isinstance(error.__cause__, LookupError):
            return None
        raise
    except LookupError as error:
        if may_lack_state:
            return None
        raise PluginFailedError(f'running "{plugin.name}" filter plugin: {error}') from error


def _remedies(
    rejected: AllRejections, pod: PodInfo, nodes: Nodes, position: int
) -> Iterable[tuple[str, Remedy]]:
    for plugin, rejections in rejected.by_plugin:
        status = rejections.status(position)
        if status is None:
            continue
        remedies: Iterable[Remedy] = ()
        if hasattr(plugin, "remedies"):
            node = nodes[position]
            remedies = cast("RemedyPlugin", plugin).remedies(rejected.state, pod, node)
        for remedy in remedies or [Remedy(f"no longer rejected: {status.message}")]:
            yield plugin.name, remedy
