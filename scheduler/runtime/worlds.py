"""Dry runs: filter nodes as if pods were added to them and removed from them.

There is one world for each node. In world i only node i differs from the snapshot, so one pass of
the filters judges many worlds, each on its own node. Plugins that filter many nodes at once keep
one state for all worlds and note changes under the node's `base_row`. Plugins that filter one node
at a time and define `add_pod` or `remove_pod` get a copy of the state for each world, as upstream.
Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods`, `SelectVictimsOnNode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from scheduler.framework.failures import PluginFailedError
from scheduler.framework.status import Code, Rejections, Status, as_verdict
from scheduler.snapshot.columns import ABSENT
from scheduler.snapshot.what_if import WhatIf, as_worlds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.runtime.scoring import Scores
    from scheduler.snapshot.columns import IntArray, World
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo


RunFilters: TypeAlias = "Callable[[CycleState | WorldStates, PodInfo, Nodes], Rejections | None]"
_ChangePod: TypeAlias = "Callable[[CycleState, PodInfo, PodInfo, NodeInfo], object]"


class PodExtensions(NamedTuple):
    """The PreFilter extensions of a plugin: AddPod and RemovePod, called in dry runs.

    A plugin with `is_per_node` has its own state for each world.
    """

    name: str
    is_per_node: bool
    add_pod: _ChangePod | None
    remove_pod: _ChangePod | None


class FilterRunner(Protocol):
    """The filters that a dry run needs (`scheduler.runtime.filtering.Filters`)."""

    def run(
        self, state: CycleState | WorldStates, pod: PodInfo, nodes: Nodes, /
    ) -> Rejections | None:
        """Return the rejections of the nodes as they are; raises `PluginFailedError`."""

    def extensions(self, state: CycleState | WorldStates, /) -> list[PodExtensions]:
        """Return the AddPod and RemovePod methods of the plugins whose filters are not skipped."""


class WorldStates:
    """The cycle state in many worlds: one shared state, and copies per world on first write.

    A dry run within a dry run starts from the outer states and does not change them.
    """

    def __init__(self, outer: CycleState | WorldStates) -> None:
        self._outer: Final = outer
        shared = outer.shared if isinstance(outer, WorldStates) else outer
        self.shared: Final[CycleState] = shared.clone()
        self._own: Final[dict[int, CycleState]] = {}

    @property
    def skip_filter_plugins(self) -> set[str]:
        return self.shared.skip_filter_plugins

    @property
    def records_plugin_metrics(self) -> bool:
        return self.shared.records_plugin_metrics

    def of(self, base_row: int) -> CycleState:
        """Return the state of one world, for reading."""
        own = self._own.get(base_row)
        if own is not None:
            return own
        outer = self._outer
        return outer.of(base_row) if isinstance(outer, WorldStates) else outer

    def writable(self, base_row: int) -> CycleState:
        """Return the state of one world, copied on the first write."""
        own = self._own.get(base_row)
        if own is None:
            own = self._own[base_row] = self.of(base_row).clone()
        return own


class Worlds:
    """One world for each of some nodes; satisfies `scheduler.framework.handle.Worlds`.

    `run` runs the filters as `run_filters` is to do: with or without a look at nominated pods.
    With `only_room` all filters that take part only look at room (`Plugin.only_takes_room`).
    """

    def __init__(
        self,
        filters: FilterRunner,
        states: CycleState | WorldStates,
        pod: PodInfo,
        nodes: Nodes,
        *,
        run: RunFilters,
        scores: Scores | None = None,
        only_room: bool = False,
    ) -> None:
        self.only_room: Final = only_room
        self._filters: Final = filters
        self._run: Final = run
        self._scores: Final = scores
        self._states: Final = WorldStates(states)
        self._pod: Final = pod
        self._what_if: Final = WhatIf(nodes)
        self._extensions: Final = filters.extensions(self._states)
        #: The error of AddPod or RemovePod, by world in which one failed.
        self.failures: Final[dict[World, PluginFailedError]] = {}

    @property
    def nodes(self) -> Nodes:
        """The nodes with their pods in these worlds."""
        return self._what_if.nodes

    def add_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Add `pods[i]` to the node of `worlds[i]`, for each i."""
        if not self._extensions:
            self._what_if.add_pods(worlds, pods)
            return
        for some, added in _one_per_world(worlds, pods):
            self._what_if.add_pods(some, added)
            for plugin in self._extensions:
                if plugin.add_pod is not None:
                    self._run_extension(plugin, "AddPod", plugin.add_pod, some, added)

    def remove_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Remove `pods[i]` from the node of `worlds[i]`, for each i."""
        if not self._extensions:
            self._what_if.remove_pods(worlds, pods)
            return
        for some, removed in _one_per_world(worlds, pods):
            self._what_if.remove_pods(some, removed)
            for plugin in self._extensions:
                if plugin.remove_pod is not None:
                    self._run_extension(plugin, "RemovePod", plugin.remove_pod, some, removed)

    def run_filters(self, worlds: IntArray | None = None) -> Rejections | None:
        """Return the rejections in these worlds (by default all); None if all pass.

        Nominated pods are taken into account as in a search. A filter that fails in a world gives
        an Error status there and does not affect the other worlds.
        """
        nodes = self._what_if.nodes
        return self._filtered(nodes if worlds is None else nodes.take(worlds))

    def run_filters_as_is(self) -> Rejections | None:
        """Return the rejections without nominated pods; raises `PluginFailedError`."""
        for failure in self.failures.values():
            raise failure
        return self._filters.run(self._states, self._pod, self._what_if.nodes)

    def run_scores(self) -> IntArray:
        """Return the sum of the weighted scores in each world; raises `PluginFailedError`."""
        assert self._scores is not None, "this dry run is of filters only"
        state = self._states.shared.clone()
        state.skip_score_plugins = set()
        return self._scores.run(state, self._pod, self._what_if.nodes).total

    def _filtered(self, nodes: Nodes) -> Rejections | None:
        try:
            return self._run(self._states, self._pod, nodes)
        except PluginFailedError as failure:
            if len(nodes) == 1:
                status = Status(Code.ERROR, str(failure), cause=failure)
                return Rejections(np.zeros(1, dtype=np.int32), (status,))
        middle = len(nodes) // 2
        parts = [nodes.slice(0, middle), nodes.slice(middle, len(nodes))]
        return _joined([(len(part), self._filtered(part)) for part in parts])

    def _run_extension(
        self,
        plugin: PodExtensions,
        upstream_name: str,
        change_pod: _ChangePod,
        worlds: Sequence[World],
        pods: Sequence[PodInfo],
    ) -> None:
        states, failures, node_of = self._states, self.failures, self._what_if.node
        for world, pod in zip(worlds, pods, strict=True):
            if world in failures:
                continue
            node = node_of(world)
            state = states.writable(node.base_row) if plugin.is_per_node else states.shared
            try:
                answer = change_pod(state, self._pod, pod, node)
                if answer is not None and (status := as_verdict(answer)) is not None:
                    raise PluginFailedError(status.message)
            except Exception as error:  # noqa: BLE001 - code of a plugin
                failure = PluginFailedError(
                    f'running {upstream_name} on PreFilter plugin "{plugin.name}": {error}',
                    plugin=plugin.name,
                    point=upstream_name,
                    node_name=node.name,
                )
                failure.__cause__ = error
                failures[world] = failure


def _one_per_world(
    worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]
) -> Iterator[tuple[list[World], list[PodInfo]]]:
    """Split the changes into rounds with at most one pod per world, in order."""
    rounds: list[tuple[list[World], list[PodInfo]]] = []
    seen: dict[World, int] = {}
    for world, pod in zip(as_worlds(worlds), pods, strict=True):
        index = seen.get(world, 0)
        seen[world] = index + 1
        if index == len(rounds):
            rounds.append(([], []))
        rounds[index][0].append(world)
        rounds[index][1].append(pod)
    return iter(rounds)


def _joined(parts: Sequence[tuple[int, Rejections | None]]) -> Rejections | None:
    """Concatenate the rejections of several parts; each part has its number of nodes."""
    codes: list[IntArray] = []
    statuses: list[Status] = []
    for length, rejections in parts:
        if rejections is None:
            codes.append(np.full(length, ABSENT, dtype=np.int64))
            continue
        shifted = rejections.codes.astype(np.int64) + len(statuses)
        codes.append(np.where(rejections.codes < 0, ABSENT, shifted))
        statuses += rejections.statuses
    return Rejections(np.concatenate(codes).astype(np.int32), statuses) if statuses else None
