"""The scheduling algorithm: from a pod and a snapshot to a node, or to the reasons why none fits.

    find_nodes_that_fit_pod --> feasible nodes --> prioritize_nodes --> scores --> select_host
       Filter, extenders                              Score, extenders

Each step is pure: no I/O, no clock, randomness only from the generator passed in. The steps wait
for nothing but extenders, and other tasks where a plugin takes long (`FilterPausedError`). The
scheduling cycle runs them through `schedule_pod`, `kubesched-explain` runs them one by one.
Source: `pkg/scheduler/schedule_one.go` (`schedulePod`, `findNodesThatFitPod`,
`findNodesThatPassExtenders`, `prioritizeNodes`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.extender import MAX_EXTENDER_PRIORITY, ExtenderError
from scheduler.framework.failures import FilterPausedError, PluginFailedError
from scheduler.framework.status import NodeToStatus, Rejections, unresolvable, unschedulable
from scheduler.framework.types import EXTENDER_NAME, NO_NODES_AVAILABLE, Diagnosis, FitError
from scheduler.runtime.scoring import NodeScores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.types import Rng
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

R = TypeVar("R")

_log: Final = logging.getLogger(__name__)

#: With fewer nodes than this, all of them are evaluated.
_FEASIBLE_NODES_MIN: Final = 100
#: The lower bound of the adaptive percentage.
_PERCENTAGE_MIN: Final = 5
#: Filters run over at least this many nodes at a time: smaller blocks cost more than they save.
_BLOCK_MIN: Final = 1024
#: A block is so many times as large as one before it in which no node is feasible.
_BLOCK_GROWTH: Final = 4
_BATCHING: Final = "OpportunisticBatching"


class NoNodesAvailableError(Exception):
    """The snapshot has no node."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)


class TieBreak(Protocol):
    """Chooses one of several nodes with the highest score."""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        """Return one element of `best`: positions in `nodes`, shape (ties,), ascending."""


class FirstInOrder:
    """Takes the first node in scheduling order."""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        return int(best[0])


class RandomTie:
    """Takes a random one of the nodes."""

    def __init__(self, rng: Rng) -> None:
        self._rng: Final = rng

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        return int(best[self._rng.randrange(len(best))] if len(best) > 1 else best[0])


class ScheduleResult(NamedTuple):
    """The node chosen for a pod, and the course of the search."""

    suggested_host: str
    #: The number of nodes that were filtered.
    evaluated_nodes: int
    feasible_nodes: Nodes
    diagnosis: Diagnosis
    #: None if a single node was feasible: it is taken without scoring.
    scores: NodeScores | None
    #: The position of the chosen node in `feasible_nodes`.
    position: int

    def host_scores(self) -> tuple[tuple[str, int], ...]:
        """Return each plugin's name and weighted score of the chosen node."""
        if self.scores is None:
            return ()
        by_plugin = self.scores.by_plugin
        return tuple((plugin, int(by_plugin[plugin][self.position])) for plugin in by_plugin)


def num_feasible_nodes_to_find(num_all_nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes at which the search stops; 0 percent is adaptive.

    Source: `numFeasibleNodesToFind`.
    """
    if num_all_nodes < _FEASIBLE_NODES_MIN:
        return num_all_nodes
    if percentage == 0:
        percentage = max(50 - num_all_nodes // 125, _PERCENTAGE_MIN)
    return max(num_all_nodes * percentage // 100, _FEASIBLE_NODES_MIN)


class SchedulingAlgorithm:
    """Finds nodes for one pod after another over one snapshot.

    `next_start_node_index` advances with every search that stopped early, so that all nodes are
    evaluated in rotation. An `exhaustive` search never stops early, whatever the percentages are.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        tie_break: TieBreak,
        percentage_of_nodes_to_score: int = 0,
        exhaustive: bool = False,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self.snapshot: Final = snapshot
        self.extenders: Final = extenders
        self._tie_break: Final = tie_break
        self._percentage: Final = percentage_of_nodes_to_score
        self._exhaustive: Final = exhaustive
        self.next_start_node_index = 0

    async def find_nodes_that_fit_pod(
        self, framework: Framework, state: CycleState, pod: PodInfo
    ) -> tuple[Nodes, Diagnosis]:
        """Return the nodes that fit the pod, and the diagnosis of the others.

        Raises `NoNodesAvailableError`, `PluginFailedError` or `ExtenderError`.
        """
        all_nodes = self.snapshot.nodes_in_placement
        if not len(all_nodes):
            raise NoNodesAvailableError
        table = self.snapshot.table
        diagnosis = Diagnosis(NodeToStatus(table.names, table.row_of))
        outcome = await run_with_pauses(
            framework, state, lambda: framework.pre_filters.run(state, pod, self.snapshot.nodes)
        )
        diagnosis.unschedulable_plugins |= outcome.plugins_with_nodes
        diagnosis.pre_filter_node_names = outcome.result.node_names
        if outcome.status is not None:
            diagnosis.node_to_status.absent_nodes_status = outcome.status
            diagnosis.pre_filter_status = outcome.status
            diagnosis.add_plugin_status(outcome.status)
            return all_nodes.slice(0, 0), diagnosis

        if _BATCHING in framework.handle.feature_gates:
            framework.handle.metrics.batch_attempts[framework.profile_name, "no_hint"] += 1
        if nominated := pod.pod.status.nominated_node_name or outcome.result.first_node_name:
            feasible = await self._evaluate_nominated_node(
                framework, state, pod, nominated, diagnosis
            )
            if len(feasible):
                return feasible, diagnosis

        nodes = all_nodes
        if (names := outcome.result.node_names) is not None:
            rows = sorted(self.snapshot.rows_in_placement(names))
            nodes = self.snapshot.nodes.take(np.array(rows, dtype=np.int64))
            plugins = " ".join(sorted(outcome.plugins_with_nodes))
            diagnosis.node_to_status.absent_nodes_status = unresolvable(
                f"node(s) didn't satisfy plugin(s) [{plugins}]"
            )
        search = self._search(framework, nodes, diagnosis)
        try:
            with framework.meter.point("Filter"):
                await search.run(framework, state, pod)
        finally:
            # Even after an error, so that the next search does not begin where this one failed.
            processed = search.found + len(diagnosis.node_to_status)
            self.next_start_node_index = (self.next_start_node_index + processed) % len(all_nodes)
        passed = await self._find_nodes_that_pass_extenders(pod, search.feasible, diagnosis)
        if len(passed) != len(search.feasible):
            diagnosis.unschedulable_plugins.add(EXTENDER_NAME)
        return passed, diagnosis

    def select_host(
        self, feasible: Nodes, diagnosis: Diagnosis, scores: NodeScores | None
    ) -> ScheduleResult:
        """Choose one of the nodes with the highest total score; without scores the first node."""
        position = 0
        if scores is not None:
            best = np.flatnonzero(scores.total == scores.total.max())
            position = self._tie_break(feasible, best)
        return ScheduleResult(
            suggested_host=feasible.name(position),
            evaluated_nodes=len(feasible) + len(diagnosis.node_to_status),
            feasible_nodes=feasible,
            diagnosis=diagnosis,
            scores=scores,
            position=position,
        )

    async def _evaluate_nominated_node(
        self,
        framework: Framework,
        state: CycleState,
        pod: PodInfo,
        name: str,
        diagnosis: Diagnosis,
    ) -> Nodes:
        """Filter the pod's nominated node, before all others.

        If the node is deleted, is not in the placement, or a plugin or an extender fails here,
        nothing is feasible and the search goes on.
        """
        nodes = self.snapshot.nodes
        for row in self.snapshot.rows_in_placement((name,)):
            search = self._search(framework, nodes.slice(row, row + 1), diagnosis)
            try:
                await search.run(framework, state, pod)
                return await self._find_nodes_that_pass_extenders(pod, search.feasible, diagnosis)
            except (PluginFailedError, ExtenderError) as failure:
                _log.error("Evaluation failed on nominated node %s: %s", name, failure)
        return nodes.slice(0, 0)

    async def _find_nodes_that_pass_extenders(
        self, pod: PodInfo, nodes: Nodes, diagnosis: Diagnosis
    ) -> Nodes:
        """Return the nodes that the extenders accept; each gets the nodes that are left.

        Raises `ExtenderError` for an extender that fails and is not ignorable.
        Source: `findNodesThatPassExtenders`.
        """
        for extender in self.extenders:
            if not len(nodes):
                break
            if not extender.is_filter or not extender.is_interested(pod):
                continue
            try:
                result = await extender.filter(pod, nodes)
            except ExtenderError as failure:
                if not extender.is_ignorable:
                    raise
                _log.info("Skipped extender %s, which failed: %s", extender.name, failure)
                continue
            unresolvable_nodes = result.failed_and_unresolvable_nodes
            statuses = {
                **{node: unschedulable(text) for node, text in result.failed_nodes.items()},
                **{node: unresolvable(text) for node, text in unresolvable_nodes.items()},
            }
            for node, status in statuses.items():
                diagnosis.node_to_status.set(node, status.with_plugin(extender.name))
            nodes = result.nodes
        return nodes

    def _search(self, framework: Framework, nodes: Nodes, diagnosis: Diagnosis) -> _Search:
        wanted = self._num_wanted(framework, len(nodes))
        start = self.next_start_node_index % len(nodes) if len(nodes) else 0
        return _Search(nodes, start=start, wanted=wanted, diagnosis=diagnosis)

    def _num_wanted(self, framework: Framework, total: int) -> int:
        if self._exhaustive:
            return total
        extends_search = any(e.is_filter or e.is_prioritizer for e in self.extenders)
        if not framework.scores and not extends_search:
            return min(1, total)
        percentage = framework.percentage_of_nodes_to_score
        return num_feasible_nodes_to_find(
            total, self._percentage if percentage is None else percentage
        )


async def prioritize_nodes(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: Nodes,
    *,
    extenders: Sequence[Extender] = (),
) -> NodeScores:
    """Score the feasible nodes.

    If the profile has no score plugin and there is no extender, each node's total is 1.
    Raises `PluginFailedError`.
    """
    if not extenders and not framework.scores:
        return NodeScores({}, np.ones(len(nodes), dtype=np.int64))
    scores = framework.scores.run(state, pod, nodes)
    interested = [e for e in extenders if e.is_prioritizer and e.is_interested(pod)]
    if not interested:
        return scores
    by_extender = await _scores_of_extenders(framework, interested, pod, nodes)
    total = sum(by_extender.values(), start=scores.total)
    return NodeScores({**scores.by_plugin, **by_extender}, total)


async def _scores_of_extenders(
    framework: Framework, extenders: Sequence[Extender], pod: PodInfo, nodes: Nodes
) -> dict[str, IntArray]:
    """Return the weighted scores of extenders, called all at once, by the extender's name.

    They are scaled to the range of the plugins' scores. An extender that fails gives no scores,
    whether it is ignorable or not.
    """
    goroutines = framework.handle.metrics.goroutines
    by_extender: dict[str, IntArray] = {}

    async def add_scores(extender: Extender) -> None:
        goroutines[("prioritizing_extender",)] += 1
        try:
            scores = await extender.prioritize(pod, nodes)
        except ExtenderError as failure:
            _log.info("No scores for pod %s by extender %s: %s", pod.key, extender.name, failure)
            return
        finally:
            goroutines[("prioritizing_extender",)] -= 1
        of_nodes = np.array([scores.get(node, 0) for node in nodes.names], dtype=np.int64)
        # Arrays overflow as Go's integers do.
        weighted = of_nodes * np.int64(extender.weight) * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        by_extender[extender.name] = by_extender.get(extender.name, 0) + weighted

    await framework.handle.run_in_parallel([add_scores(extender) for extender in extenders])
    return by_extender


async def schedule_pod(
    algorithm: SchedulingAlgorithm, framework: Framework, state: CycleState, pod: PodInfo
) -> ScheduleResult:
    """Find the best node for the pod. A single feasible node is taken without scoring.

    Raises `NoNodesAvailableError`, `FitError` if no node fits, `PluginFailedError`, or
    `ExtenderError`.
    """
    feasible, diagnosis = await algorithm.find_nodes_that_fit_pod(framework, state, pod)
    if not len(feasible):
        raise FitError(pod, len(algorithm.snapshot.nodes_in_placement), diagnosis)
    scores = None
    if len(feasible) > 1:
        extenders = algorithm.extenders
        scores = await prioritize_nodes(framework, state, pod, feasible, extenders=extenders)
    return algorithm.select_host(feasible, diagnosis, scores)


class _Search:
    """Finds the first `wanted` feasible nodes from `start` on (`findNodesThatPassFilters`).

    Filters run over blocks of nodes, but the result is that of Go with a single worker, which
    filters one node after another until it has met one feasible node more than wanted. That decides
    which rejections are recorded, and whether the search meets a node on which a plugin fails.
    """

    def __init__(self, nodes: Nodes, *, start: int, wanted: int, diagnosis: Diagnosis) -> None:
        self._nodes: Final = nodes
        self._start: Final = start
        self._wanted: Final = wanted
        self._diagnosis: Final = diagnosis
        self._chosen: Final[list[Nodes]] = []
        #: The number of feasible nodes so far.
        self.found = 0

    async def run(self, framework: Framework, state: CycleState, pod: PodInfo) -> None:
        """Filter the nodes. Raises `PluginFailedError`; what was found until then stays."""
        if not framework.filters:
            order = np.arange(self._wanted, dtype=np.int64) + self._start
            self._choose(self._nodes.take(order % max(len(self._nodes), 1)))
            return
        nodes, start = self._nodes, self._start
        # The first part comes last.
        left = [
            part for part in (nodes.slice(0, start), nodes.slice(start, len(nodes))) if len(part)
        ]
        size = max(_BLOCK_MIN, self._wanted)
        run = framework.filters.run_with_nominated_pods
        while left:
            block = left.pop()
            if len(block) > size:
                left.append(block.slice(size, len(block)))
                block = block.slice(0, size)
            try:
                rejections = await run_with_pauses(
                    framework, state, functools.partial(run, state, pod, block)
                )
            except PluginFailedError:
                if len(block) == 1:
                    raise
                # It is filtered in halves, up to the node on which the plugin fails.
                left.append(block)
                size = len(block) // 2
                continue
            passed, stopped = _first(block, rejections, self._wanted - self.found, self._diagnosis)
            self._choose(passed)
            if stopped:
                return
            if not len(passed):
                size *= _BLOCK_GROWTH

    @property
    def feasible(self) -> Nodes:
        """The feasible nodes, in the order in which they were filtered."""
        parts = [part for part in self._chosen if len(part)]
        if not parts:
            return self._nodes.slice(0, 0)
        return parts[0].joined(parts[1:]) if len(parts) > 1 else parts[0]

    def _choose(self, nodes: Nodes) -> None:
        self._chosen.append(nodes)
        self.found += len(nodes)


async def run_with_pauses(framework: Framework, state: CycleState, run: Callable[[], R]) -> R:
    """Call plugins until none pauses; other tasks run in each pause."""
    state.may_pause = True
    try:
        while True:
            with contextlib.suppress(FilterPausedError):
                return run()
            await framework.handle.let_others_run()
    finally:
        state.may_pause = False


def _first(
    block: Nodes, rejections: Rejections | None, wanted: int, diagnosis: Diagnosis
) -> tuple[Nodes, bool]:
    """Return at most `wanted` feasible nodes of a block, and True if the search stops here."""
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
