"""What would have to change for a pod to fit: on the nodes that are nearest to taking it.

The scheduler stops at the first plugin that rejects a node. Here every filter is asked about every
node, so that all objections are known, and the plugins themselves say what would settle them
(`RemedyPlugin`); where one has nothing to say, its reason stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import Remedy
from scheduler.runtime import PluginFailedError
from scheduler.runtime.adapters import filter_nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.framework.interface import Plugin, RemedyPlugin
    from scheduler.framework.status import Rejections, Status
    from scheduler.runtime import Framework
    from scheduler.snapshot import Nodes, PodInfo, Snapshot

#: Nodes whose remedies are worked out, to find the nearest among them.
_LOOKED_AT_MAX = 500


class NodeRemedies(NamedTuple):
    """Everything that stands between a pod and a node, by the plugin that objects."""

    node: str
    remedies: tuple[tuple[str, Remedy], ...]

    @property
    def distance(self) -> float:
        """How far the node is from taking the pod; comparable between nodes."""
        return sum(remedy.distance for _, remedy in self.remedies)


def nearest_nodes(
    framework: Framework, snapshot: Snapshot, pod: PodInfo, *, nodes_max: int
) -> tuple[Status | None, list[NodeRemedies]]:
    """The nodes that fewest changes would make fit, nearest first.

    The first part of the answer is a rejection of the pod as a whole, if there is one: that has to
    be settled whatever the node. Raises `PluginFailedError`.
    """
    nodes, state = snapshot.nodes, CycleState()
    outcome = framework.pre_filters.run(state, pod, nodes)
    objections: list[tuple[Plugin, Rejections]] = []
    for plugin in framework.plugins["filter"]:
        if plugin.name not in state.skip_filter_plugins:
            rejections = _asked(plugin, state, pod, nodes, may_lack_state=bool(outcome.status))
            if rejections is not None:
                objections.append((plugin, rejections))
    count = np.zeros(len(nodes), dtype=np.int64)
    for _, rejections in objections:
        count += rejections.codes >= 0
    names = outcome.result.node_names
    if names is not None:
        count += [name not in names for name in nodes.names]
    found = []
    for position in np.argsort(count, kind="stable")[:_LOOKED_AT_MAX].tolist():
        remedies = list(_remedies(objections, state, pod, nodes, position))
        if names is not None and nodes.name(position) not in names:
            plugins = ", ".join(sorted(outcome.plugins_with_nodes))
            remedies.append((plugins, Remedy("is not among the nodes that the pod can use")))
        if remedies:
            found.append(NodeRemedies(nodes.name(position), tuple(remedies)))
    found.sort(key=lambda node: node.distance)
    return outcome.status, found[:nodes_max]


def _asked(
    plugin: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes, *, may_lack_state: bool
) -> Rejections | None:
    """A filter's verdicts; after PreFilter has ended early, some have nothing to go by."""
    try:
        return filter_nodes_of(plugin)(state, pod, nodes)
    except LookupError as error:
        if may_lack_state:
            return None
        raise PluginFailedError(f'running "{plugin.name}" filter plugin: {error}') from error


def _remedies(
    objections: Iterable[tuple[Plugin, Rejections]],
    state: CycleState,
    pod: PodInfo,
    nodes: Nodes,
    position: int,
) -> Iterable[tuple[str, Remedy]]:
    for plugin, rejections in objections:
        status = rejections.status(position)
        if status is None:
            continue
        remedies: Iterable[Remedy] = ()
        if hasattr(plugin, "remedies"):
            remedies = cast("RemedyPlugin", plugin).remedies(state, pod, nodes[position])
        for remedy in remedies or [Remedy(status.message)]:
            yield plugin.name, remedy
