"""Dry runs: what the filters would say if pods came and went, one world for each node.

In world i only node i differs from the snapshot, so one pass of the filters judges many worlds:
each of them on its own node. Plugins that look at all nodes at once keep one state for all worlds
and note what has changed under the node's `base_row`; those that look at one node at a time and
follow pods (`add_pod`, `remove_pod`) get a copy of the state for each world, as upstream's do.
Source: `RunFilterPluginsWithNominatedPods`, `addGENominatedPods`, `SelectVictimsOnNode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.framework.status import Code, Rejections, Status, as_verdict
from scheduler.runtime.errors import PluginFailedError
from scheduler.snapshot.columns import ABSENT
from scheduler.snapshot.what_if import WhatIf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.runtime.filtering import Filters
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo


class Follower(NamedTuple):
    """A plugin that follows pods in a dry run. `per_node` ones have a state for each world."""

    name: str
    per_node: bool
    add_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], object] | None
    remove_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], object] | None


class WorldStates:
    """The cycle state in many worlds: one that they share, and copies for plugins that need them.

    Worlds may lie within worlds: what is changed here stays here.
    """

    def __init__(self, outer: CycleState | WorldStates) -> None:
        self._outer: Final = outer
        shared = outer.shared if isinstance(outer, WorldStates) else outer
        self.shared: Final[CycleState] = shared.clone()
        self._own: Final[dict[int, CycleState]] = {}

    @property
    def skip_filter_plugins(self) -> set[str]:
        """The plugins left out of this cycle."""
        return self.shared.skip_filter_plugins

    @property
    def records_plugin_metrics(self) -> bool:
        """Whether plugins' calls are measured in this cycle."""
        return self.shared.records_plugin_metrics

    def of(self, base_row: int) -> CycleState:
        """The state in one world, to be read by a plugin that has one for each."""
        own = self._own.get(base_row)
        if own is not None:
            return own
        outer = self._outer
        return outer.of(base_row) if isinstance(outer, WorldStates) else outer

    def changed(self, base_row: int) -> CycleState:
        """Likewise, to be changed."""
        own = self._own.get(base_row)
        if own is None:
            own = self._own[base_row] = self.of(base_row).clone()
        return own


class Worlds:
    """One world for each of some nodes; satisfies `scheduler.framework.handle.Worlds`."""

    def __init__(
        self, filters: Filters, states: CycleState | WorldStates, pod: PodInfo, nodes: Nodes
    ) -> None:
        self._filters: Final = filters
        self._states: Final = WorldStates(states)
        self._pod: Final = pod
        self._what_if: Final = WhatIf(nodes)
        self._followers: Final = filters.followers(self._states)
        self._failures: Final[dict[int, PluginFailedError]] = {}

    @property
    def failures(self) -> dict[int, PluginFailedError]:
        """The worlds in which a plugin could not follow a pod, and what it said."""
        return self._failures

    def add_pods(self, worlds: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Put pods there: the first on the node of the first of `worlds`, and so on."""
        if not self._followers:
            self._what_if.add_pods(worlds, pods)
            return
        for some, theirs in _one_per_world(worlds, pods):
            self._what_if.add_pods(some, theirs)
            for follower in self._followers:
                if follower.add_pod is not None:
                    self._tell(follower, "AddPod", follower.add_pod, some, theirs)

    def remove_pods(self, worlds: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Take pods away, likewise."""
        if not self._followers:
            self._what_if.remove_pods(worlds, pods)
            return
        for some, theirs in _one_per_world(worlds, pods):
            self._what_if.remove_pods(some, theirs)
            for follower in self._followers:
                if follower.remove_pod is not None:
                    self._tell(follower, "RemovePod", follower.remove_pod, some, theirs)

    def run_filters(self, worlds: IntArray | None = None) -> Rejections | None:
        """The verdict in each of these worlds, all of them unless told; None if all pass.

        Pods nominated to the nodes are taken into account as in a search. A filter that fails in a
        world gives an Error status there, and the other worlds are judged all the same.
        """
        nodes = self._what_if.nodes
        return self._judged(nodes if worlds is None else nodes.take(worlds))

    def run_filters_as_is(self) -> Rejections | None:
        """The verdicts with no more pods than have been put there; raises `PluginFailedError`."""
        for failure in self._failures.values():
            raise failure
        return self._filters.run(self._states, self._pod, self._what_if.nodes)

    def _judged(self, nodes: Nodes) -> Rejections | None:
        try:
            return self._filters.run_with_nominated_pods(self._states, self._pod, nodes)
        except PluginFailedError as failure:
            if len(nodes) == 1:
                status = Status(Code.ERROR, str(failure), cause=failure)
                return Rejections(np.zeros(1, dtype=np.int32), (status,))
        middle = len(nodes) // 2
        parts = [nodes.slice(0, middle), nodes.slice(middle, len(nodes))]
        return _joined([(len(part), self._judged(part)) for part in parts])

    def _tell(
        self,
        follower: Follower,
        upstream_name: str,
        tell: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], object],
        worlds: Sequence[int],
        pods: Sequence[PodInfo],
    ) -> None:
        states, failures, node_of = self._states, self._failures, self._what_if.node
        for world, pod in zip(worlds, pods, strict=True):
            if world in failures:
                continue
            node = node_of(world)
            state = states.changed(node.base_row) if follower.per_node else states.shared
            try:
                answer = tell(state, self._pod, pod, node)
                if answer is not None and (status := as_verdict(answer)) is not None:
                    raise PluginFailedError(status.message)
            except Exception as error:
                failure = PluginFailedError(
                    f'running {upstream_name} on PreFilter plugin "{follower.name}": {error}'
                )
                failure.__cause__ = error
                failures[world] = failure


def _one_per_world(
    worlds: Sequence[int], pods: Sequence[PodInfo]
) -> Iterator[tuple[list[int], list[PodInfo]]]:
    """The changes in rounds in which each world sees one pod at most, in order."""
    rounds: list[tuple[list[int], list[PodInfo]]] = []
    seen: dict[int, int] = {}
    for world, pod in zip(worlds, pods, strict=True):
        turn = seen.get(world, 0)
        seen[world] = turn + 1
        if turn == len(rounds):
            rounds.append(([], []))
        rounds[turn][0].append(world)
        rounds[turn][1].append(pod)
    return iter(rounds)


def _joined(parts: Sequence[tuple[int, Rejections | None]]) -> Rejections | None:
    """The verdicts on several runs of nodes, each with its length, as one."""
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
