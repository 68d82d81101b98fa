"""The scheduling algorithm: from a pod and a snapshot to a node, or to the reasons why not.

Pure decision: no waiting, no clock; chance only through the generator handed in. The scheduler's
loop and `kubesched-explain` both run exactly this.
Source: `pkg/scheduler/schedule_one.go` (`schedulePod`, `findNodesThatFitPod`, `prioritizeNodes`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from scheduler.framework.status import NodeToStatus, Rejections, unresolvable
from scheduler.framework.types import NO_NODES_AVAILABLE, Diagnosis, FitError
from scheduler.runtime.errors import PluginFailedError
from scheduler.runtime.scoring import NodeScores

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.types import Rng
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)

#: Below this many nodes all of them are looked at.
_FEASIBLE_NODES_MIN: Final = 100
#: The adaptive share never goes below this.
_PERCENTAGE_MIN: Final = 5
#: Filters run over at least this many nodes at a time: fewer cost more than they save.
_BLOCK_MIN: Final = 1024


class NoNodesAvailableError(Exception):
    """The cluster has no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)


class TieBreak(Protocol):
    """Chooses one of several nodes with the highest score."""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        """One of the positions in `best`, which are in scheduling order."""
        ...


class FirstInOrder:
    """Takes the first in scheduling order."""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        """The first of these."""
        return int(best[0])


class RandomTie:
    """Takes any of them, by the generator's word."""

    def __init__(self, rng: Rng) -> None:
        self._rng: Final = rng

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        """Any of these."""
        return int(best[self._rng.randrange(len(best))] if len(best) > 1 else best[0])


class Verdict(NamedTuple):
    """A pod's place, and how it was found."""

    suggested_host: str
    #: The nodes that were looked at, and those of them that fit.
    evaluated_nodes: int
    feasible: Nodes
    diagnosis: Diagnosis
    #: None where one node alone was feasible: it is taken unscored.
    scores: NodeScores | None
    #: Where among the feasible nodes the chosen one is.
    position: int = 0


def num_feasible_nodes_to_find(num_all_nodes: int, percentage: int) -> int:
    """After how many feasible nodes the search may stop; 0 percent is adaptive.

    Source: `numFeasibleNodesToFind`.
    """
    if num_all_nodes < _FEASIBLE_NODES_MIN:
        return num_all_nodes
    if percentage == 0:
        percentage = max(50 - num_all_nodes // 125, _PERCENTAGE_MIN)
    return max(num_all_nodes * percentage // 100, _FEASIBLE_NODES_MIN)


class SchedulingAlgorithm:
    """Finds a node for one pod after another over one snapshot.

    `next_start_node_index` moves on with every search that stopped early, so that all nodes get
    their turn. `exhaustive` never stops early, whatever the percentages say.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        tie_break: TieBreak,
        percentage_of_nodes_to_score: int = 0,
        exhaustive: bool = False,
    ) -> None:
        self._snapshot: Final = snapshot
        self._tie_break: Final = tie_break
        self._percentage: Final = percentage_of_nodes_to_score
        self._exhaustive: Final = exhaustive
        self.next_start_node_index = 0

    def schedule_pod(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        *,
        score_single_node: bool = False,
    ) -> Verdict:
        """Find the best node.

        Raises `NoNodesAvailableError`, `FitError` if no node fits, or `PluginFailedError`.
        `score_single_node` scores even where there is no choice, for whoever wants to see it.
        """
        feasible, diagnosis = self.find_nodes_that_fit_pod(framework, state, pod)
        if not len(feasible):
            raise FitError(pod, len(self._snapshot), diagnosis)
        evaluated = len(feasible) + len(diagnosis.node_to_status)
        if len(feasible) == 1 and not score_single_node:
            return Verdict(feasible.name(0), evaluated, feasible, diagnosis, None)
        scores = prioritize_nodes(framework, state, pod, feasible)
        position = self.select_host(feasible, scores.total)
        host = feasible.name(position)
        return Verdict(host, evaluated, feasible, diagnosis, scores, position)

    def find_nodes_that_fit_pod(
        self, framework: Framework, state: CycleState, pod: PodInfo
    ) -> tuple[Nodes, Diagnosis]:
        """The feasible nodes, and why the others are not.

        Raises `NoNodesAvailableError` or `PluginFailedError`.
        """
        if not len(self._snapshot):
            raise NoNodesAvailableError
        all_nodes = self._snapshot.nodes
        table = self._snapshot.table
        diagnosis = Diagnosis(NodeToStatus(table.names, table.row_of))
        outcome = framework.pre_filters.run(state, pod, all_nodes)
        diagnosis.unschedulable_plugins |= outcome.plugins_with_nodes
        diagnosis.pre_filter_node_names = outcome.result.node_names
        if outcome.status is not None:
            diagnosis.node_to_status.absent_nodes_status = outcome.status
            diagnosis.pre_filter_status = outcome.status
            diagnosis.add_plugin_status(outcome.status)
            return all_nodes.slice(0, 0), diagnosis

        if nominated := pod.pod.status.nominated_node_name:
            feasible = self._evaluate_nominated_node(framework, state, pod, nominated, diagnosis)
            if len(feasible):
                return feasible, diagnosis

        nodes = all_nodes
        if (names := outcome.result.node_names) is not None:
            rows = sorted(table.row_of[name] for name in names if name in table.row_of)
            nodes = all_nodes.take(np.array(rows, dtype=np.int64))
            plugins = " ".join(sorted(outcome.plugins_with_nodes))
            diagnosis.node_to_status.absent_nodes_status = unresolvable(
                f"node(s) didn't satisfy plugin(s) [{plugins}]"
            )
        search = self._search(framework, nodes, diagnosis)
        try:
            with framework.meter.point("Filter"):
                search.run(framework, state, pod)
        finally:
            # Even after an error, lest every search begin where the last one failed.
            self._move_start(search.found + len(diagnosis.node_to_status))
        return search.feasible, diagnosis

    def select_host(self, nodes: Nodes, total: IntArray) -> int:
        """The position of one of the nodes with the highest total score."""
        return self._tie_break(nodes, np.flatnonzero(total == total.max()))

    def _evaluate_nominated_node(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        name: str,
        diagnosis: Diagnosis,
    ) -> Nodes:
        """Look at the node that a preemption has prepared, before all others.

        A node that is gone, or a plugin that fails here, only means that the search goes on.
        """
        row = self._snapshot.table.row_of.get(name)
        nodes = self._snapshot.nodes
        if row is not None:
            search = self._search(framework, nodes.slice(row, row + 1), diagnosis)
            try:
                search.run(framework, state, pod)
            except PluginFailedError as failure:
                _log.error("Evaluation failed on nominated node %s: %s", name, failure)
            return search.feasible
        return nodes.slice(0, 0)

    def _search(self, framework: Framework, nodes: Nodes, diagnosis: Diagnosis) -> _Search:
        wanted = self._num_wanted(framework, len(nodes))
        start = self.next_start_node_index % len(nodes) if len(nodes) else 0
        return _Search(nodes, start=start, wanted=wanted, diagnosis=diagnosis)

    def _num_wanted(self, framework: Framework, total: int) -> int:
        if self._exhaustive:
            return total
        if not framework.scores:
            return min(1, total)
        percentage = framework.percentage_of_nodes_to_score
        return num_feasible_nodes_to_find(
            total, self._percentage if percentage is None else percentage
        )

    def _move_start(self, processed: int) -> None:
        self.next_start_node_index = (self.next_start_node_index + processed) % len(self._snapshot)


def prioritize_nodes(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Nodes
) -> NodeScores:
    """The scores of the feasible nodes; without any score plugin all are worth 1.

    Raises `PluginFailedError`.
    """
    if not framework.scores:
        return NodeScores({}, np.ones(len(nodes), dtype=np.int64))
    return framework.scores.run(state, pod, nodes)


class _Search:
    """The first feasible nodes from a start on, as many as are wanted (`findNodesThatPassFilters`).

    Filters run over blocks of nodes, but what is found is what Go finds with a single worker, that
    looks at one node after another until one more than wanted would fit: that decides which
    rejections are recorded, and whether a plugin that fails on some node is met at all.
    """

    def __init__(self, nodes: Nodes, *, start: int, wanted: int, diagnosis: Diagnosis) -> None:
        self._nodes: Final = nodes
        self._start: Final = start
        self._wanted: Final = wanted
        self._diagnosis: Final = diagnosis
        self._chosen: Final[list[Nodes]] = []
        #: How many feasible nodes there are so far.
        self.found = 0

    def run(self, framework: Framework, state: CycleState, pod: PodInfo) -> None:
        """Look at the nodes; raises `PluginFailedError`, what was found until then stays."""
        if not framework.filters:
            order = np.arange(self._wanted, dtype=np.int64) + self._start
            self._choose(self._nodes.take(order % max(len(self._nodes), 1)))
            return
        blocks = _blocks(self._nodes, self._start, max(_BLOCK_MIN, self._wanted))
        blocks.reverse()
        while blocks:
            block = blocks.pop()
            try:
                rejections = framework.filters.run_with_nominated_pods(state, pod, block)
            except PluginFailedError:
                if len(block) == 1:
                    raise
                middle = len(block) // 2
                blocks += [block.slice(middle, len(block)), block.slice(0, middle)]
                continue
            passed, stopped = _first(block, rejections, self._wanted - self.found, self._diagnosis)
            self._choose(passed)
            if stopped:
                return

    @property
    def feasible(self) -> Nodes:
        """The feasible nodes, in the order in which they were looked at."""
        parts = [part for part in self._chosen if len(part)]
        if not parts:
            return self._nodes.slice(0, 0)
        return parts[0].joined(parts[1:]) if len(parts) > 1 else parts[0]

    def _choose(self, nodes: Nodes) -> None:
        self._chosen.append(nodes)
        self.found += len(nodes)


def _blocks(nodes: Nodes, start: int, size: int) -> list[Nodes]:
    """The nodes from `start` around to it again, in runs that are slices of the columns."""
    blocks = []
    for begin, end in ((start, len(nodes)), (0, start)):
        blocks += [nodes.slice(first, min(first + size, end)) for first in range(begin, end, size)]
    return blocks


def _first(
    block: Nodes, rejections: Rejections | None, wanted: int, diagnosis: Diagnosis
) -> tuple[Nodes, bool]:
    """At most so many feasible nodes of a block, and whether the search stops here."""
    if rejections is None:
        return (block, False) if len(block) <= wanted else (block.slice(0, wanted), True)
    codes = rejections.codes
    feasible = np.flatnonzero(codes < 0)
    stopped = len(feasible) > wanted
    if stopped:
        block = block.slice(0, int(feasible[wanted]))
        codes = codes[: len(block)]
        feasible = feasible[:wanted]
    used = np.bincount(codes[codes >= 0], minlength=len(rejections.statuses))
    for status, nodes in zip(rejections.statuses, used.tolist(), strict=True):
        if nodes:
            diagnosis.add_plugin_status(status)
    diagnosis.node_to_status.set_rows(block.row_array, Rejections(codes, rejections.statuses))
    return block.take(feasible), stopped
