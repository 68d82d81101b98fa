"""Run PreScore and Score: rank the feasible nodes.

Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreScorePlugins`, `RunScorePlugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE, MIN_NODE_SCORE
from scheduler.framework.failures import PluginFailedError
from scheduler.framework.status import as_verdict
from scheduler.runtime.meter import measured
from scheduler.snapshot.columns import IntArray, uniform, uniform_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.interface import Plugin
    from scheduler.framework.status import Status
    from scheduler.runtime.meter import Meter
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


ScoreNodes: TypeAlias = "Callable[[CycleState, PodInfo, Nodes], IntArray]"
_PreScore: TypeAlias = "Callable[[CycleState, PodInfo, Nodes], Status | None]"
_Normalize: TypeAlias = "Callable[[CycleState, PodInfo, IntArray], IntArray]"


class NodeScores(NamedTuple):
    """The scores of nodes: by plugin, times the plugin's weight, and their sums."""

    by_plugin: Mapping[str, IntArray]
    total: IntArray


class _PreScorer(NamedTuple):
    name: str
    pre_score: _PreScore
    timed_pre_score: _PreScore
    evaluations: list[int]


class _Scorer(NamedTuple):
    """A Score plugin. The timed forms are for cycles in which plugins are measured."""

    name: str
    score: ScoreNodes
    timed_score: ScoreNodes
    normalize: _Normalize | None
    timed_normalize: _Normalize | None
    weight: int
    evaluations: list[int]


class Scores:
    """Runs the PreScore and Score plugins of a profile."""

    def __init__(
        self,
        pre_score_plugins: Sequence[Plugin],
        score_plugins: Sequence[Plugin],
        weights: Mapping[str, int],
        meter: Meter,
    ) -> None:
        self.meter: Final = meter
        self._pre_scorers: Final = [_pre_scorer_of(p, meter) for p in pre_score_plugins]
        self._scorers: Final = [_scorer_of(p, weights[p.name], meter) for p in score_plugins]

    def __bool__(self) -> bool:
        return bool(self._scorers)

    def run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> NodeScores:
        """Score feasible nodes; raises `PluginFailedError`."""
        self._pre_score(state, pod, nodes)
        return self._score(state, pod, nodes)

    @measured("Score")
    def _score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> NodeScores:
        scored: list[tuple[_Scorer, IntArray]] = []
        is_timed = state.records_plugin_metrics
        for scorer in self._scorers:
            if scorer.name not in state.skip_score_plugins:
                scorer.evaluations[0] += len(nodes)
                score = scorer.timed_score if is_timed else scorer.score
                scored.append((scorer, score(state, pod, nodes)))
        by_plugin: dict[str, IntArray] = {}
        total = np.zeros(len(nodes), dtype=np.int64)
        same = np.int64(0)
        for scorer, scores in scored:
            normalize = scorer.timed_normalize if is_timed else scorer.normalize
            if normalize is not None:
                scores = normalize(state, pod, scores)
            weighted = _weighted(scorer, scores)
            by_plugin[scorer.name] = weighted
            if (value := uniform_value(weighted)) is not None:
                same += value
            else:
                total += weighted
        total += same
        return NodeScores(by_plugin, total)

    @measured("PreScore")
    def _pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        for name, pre_score, timed_pre_score, evaluations in self._pre_scorers:
            run = timed_pre_score if state.records_plugin_metrics else pre_score
            try:
                status = run(state, pod, nodes)
            except Exception as error:
                raise _pre_score_failed(name, error) from error
            if status is None:
                evaluations[0] += 1
                continue
            if not status.is_skip:
                raise _pre_score_failed(name, status.message)
            state.skip_score_plugins.add(name)


def _pre_score_failed(name: str, reason: object) -> PluginFailedError:
    text = f'running PreScore plugin "{name}": {reason}'
    return PluginFailedError(text, plugin=name, point="PreScore")


def score_nodes_of(plugin: Plugin) -> ScoreNodes:
    """Return the plugin's score over many nodes, derived from its `score` if need be."""
    if callable(getattr(plugin, "score_nodes", None)):
        return plugin.score_nodes
    score, name = plugin.score, plugin.name

    def score_nodes(state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        scores = []
        for node in nodes:
            try:
                answer: object = score(state, pod, node)
                if answer is None:
                    raise TypeError(f"score returned None for node {node.name}: expected an int")
                scores.append(answer)
            except Exception as error:
                raise _score_failed(name, error, node.name) from error
        return np.array(scores)

    return score_nodes


def _pre_scorer_of(plugin: Plugin, meter: Meter) -> _PreScorer:
    run, name = plugin.pre_score, plugin.name

    def pre_score(state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return as_verdict(run(state, pod, nodes))

    timed = meter.timed(pre_score, name, "PreScore")
    return _PreScorer(name, pre_score, timed, meter.evaluations(name, "PreScore"))


def _scorer_of(plugin: Plugin, weight: int, meter: Meter) -> _Scorer:
    name, score = plugin.name, _score_of(plugin)
    normalize = _normalize_of(plugin) if hasattr(plugin, "normalize_score") else None
    return _Scorer(
        name,
        score,
        meter.timed(score, name, "Score"),
        normalize,
        normalize and meter.timed(normalize, name, "ScoreExtensionNormalize"),
        weight,
        meter.evaluations(name, "Score"),
    )


def _score_of(plugin: Plugin) -> ScoreNodes:
    name, score_nodes = plugin.name, score_nodes_of(plugin)

    def score(state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        try:
            return _checked(score_nodes(state, pod, nodes), len(nodes))
        except PluginFailedError:
            raise
        except Exception as error:
            raise _score_failed(name, error) from error

    return score


def _score_failed(name: str, reason: object, node_name: str = "") -> PluginFailedError:
    text = f'running Score plugins: plugin "{name}" failed with: {reason}'
    return PluginFailedError(text, plugin=name, point="Score", node_name=node_name)


def _normalize_of(plugin: Plugin) -> _Normalize:
    name, normalize_score = plugin.name, plugin.normalize_score

    def normalize(state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        try:
            return _checked(normalize_score(state, pod, scores), len(scores))
        except Exception as error:
            raise PluginFailedError(
                f'running Normalize on Score plugins: plugin "{name}" failed with: {error}',
                plugin=name,
                point="ScoreExtensionNormalize",
            ) from error

    return normalize


def _checked(answer: object, wanted: int) -> IntArray:
    """Return a plugin's answer as an array of `wanted` scores.

    Raises `TypeError` or `ValueError` for an answer of another kind.
    """
    scores = np.asarray(answer)
    if scores.shape != (wanted,):
        raise ValueError(f"expected {wanted} scores, got an array of shape {scores.shape}")
    if scores.dtype != np.int64:
        if scores.dtype.kind not in "iub" and wanted:
            raise TypeError(f"expected integers, got {scores.dtype}")
        scores = scores.astype(np.int64)
    return scores


def _weighted(scorer: _Scorer, scores: IntArray) -> IntArray:
    value = uniform_value(scores)
    if value is not None:
        in_range = MIN_NODE_SCORE <= value <= MAX_NODE_SCORE
    else:
        # As unsigned integers negative numbers are huge, so one pass checks both bounds.
        in_range = scores.view(np.uint64).max(initial=0) <= MAX_NODE_SCORE
    if not in_range:
        lowest, highest = int(scores.min()), int(scores.max())
        wrong = lowest if lowest < MIN_NODE_SCORE else highest
        raise PluginFailedError(
            f"applying score defaultWeights on Score plugins: "
            f'plugin "{scorer.name}" returns an invalid score {wrong}, it should in the range of '
            f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing",
            plugin=scorer.name,
            point="Score",
        )
    if scorer.weight == 1:
        return scores
    return scores * scorer.weight if value is None else uniform(len(scores), value * scorer.weight)
