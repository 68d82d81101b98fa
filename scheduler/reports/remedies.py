"""Find the distinct changes after which an unschedulable pod would fit on nodes.

The scheduler stops at the first plugin that rejects a node. Here every filter runs on every node,
so that all rejections are known. A plugin can propose remedies (`RemedyPlugin`); without them the
reason of its rejection is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.failures import FilterPausedError, PluginFailedError
from scheduler.framework.interface import Remedy
from scheduler.runtime.filtering import filter_nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.interface import Plugin, RemedyPlugin
    from scheduler.framework.status import Rejections
    from scheduler.runtime import Framework
    from scheduler.runtime.filtering import PreFilterOutcome
    from scheduler.snapshot import Nodes, PodInfo, Snapshot


class Remedies(NamedTuple):
    """The same changes for some nodes, each with the name of the plugin that rejects the nodes.

    `node` is the node with the smallest changes; the amounts are of this node.
    """

    node: str
    nodes: int
    changes: tuple[tuple[str, Remedy], ...]

    @property
    def distance(self) -> float:
        """The sum of the changes' distances; the smallest comes first."""
        return sum(remedy.distance for _, remedy in self.changes)


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


def distinct_remedies(
    rejected: AllRejections, snapshot: Snapshot, pod: PodInfo, *, candidates_max: int | None
) -> list[Remedies]:
    """Return the distinct changes after which nodes would fit, the smallest first.

    Only the `candidates_max` nodes with the fewest rejections are considered; None for all.
    """
    nodes, outcome = snapshot.nodes, rejected.pre_filter
    count = np.zeros(len(nodes), dtype=np.int64)
    for _, rejections in rejected.by_plugin:
        count += rejections.codes >= 0
    names = outcome.result.node_names
    if names is not None:
        count += [name not in names for name in nodes.names]
    found: dict[tuple[tuple[str, str], ...], Remedies] = {}
    for position in np.argsort(count, kind="stable")[:candidates_max].tolist():
        changes = list(_remedies(rejected, pod, nodes, position))
        name = nodes.name(position)
        if names is not None and name not in names:
            plugins = ", ".join(sorted(outcome.plugins_with_nodes))
            changes.append((plugins, Remedy("is not among the nodes that the pod can use")))
        if not changes:
            continue
        key = tuple((plugin, remedy.kind or remedy.text) for plugin, remedy in changes)
        known, new = found.get(key), Remedies(name, 1, tuple(changes))
        nearest = new if known is None or new.distance < known.distance else known
        found[key] = nearest._replace(nodes=1 if known is None else known.nodes + 1)
    return sorted(found.values(), key=lambda each: (each.distance, -each.nodes))


def _filtered(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes, *, may_lack_state: bool
) -> Rejections | None:
    """Run a filter on all nodes. Return None if PreFilter ended early and left it no state."""
    try:
        return filter_nodes_of(plugin)(state, pod, nodes)
    except FilterPausedError:
        raise
    except Exception as error:
        is_wrapped = isinstance(error, PluginFailedError)
        if may_lack_state and isinstance(error.__cause__ if is_wrapped else error, LookupError):
            return None
        if is_wrapped:
            raise
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
