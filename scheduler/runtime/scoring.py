"""PreScore and Score: which of the feasible nodes is best.

Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreScorePlugins`, `RunScorePlugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE, MIN_NODE_SCORE
from scheduler.framework.status import as_verdict
from scheduler.runtime.adapters import ScoreNodes, score_nodes_of
from scheduler.runtime.errors import PluginFailedError
from scheduler.snapshot.columns import IntArray, uniform, uniform_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.interface import NormalizeScorePlugin, Plugin, PreScorePlugin
    from scheduler.runtime.meter import Meter
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


_Normalize: TypeAlias = "Callable[[CycleState, PodInfo, IntArray], IntArray]"


class NodeScores(NamedTuple):
    """The scores of some nodes: each plugin's, times its weight, and their sums."""

    by_plugin: Mapping[str, IntArray]
    total: IntArray


class _Scorer(NamedTuple):
    name: str
    score_nodes: ScoreNodes
    normalize_score: _Normalize | None
    weight: int
    #: The count of its evaluations.
    evaluations: list[int]


class Scores:
    """The PreScore and Score plugins of a profile, in order."""

    def __init__(
        self,
        pre_score_plugins: Sequence[Plugin],
        score_plugins: Sequence[Plugin],
        weights: Mapping[str, int],
        meter: Meter,
    ) -> None:
        self._meter: Final = meter
        self._pre_scorers: Final = [
            (p.name, cast("PreScorePlugin", p).pre_score, meter.evaluations(p.name, "PreScore"))
            for p in pre_score_plugins
        ]
        self._scorers: Final = [
            _Scorer(
                p.name,
                score_nodes_of(p),
                _normalize_of(p),
                weights[p.name],
                meter.evaluations(p.name, "Score"),
            )
            for p in score_plugins
        ]

    def __bool__(self) -> bool:
        return bool(self._scorers)

    def run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> NodeScores:
        """Score feasible nodes; raises `PluginFailedError`."""
        with self._meter.point("PreScore"):
            self._pre_score(state, pod, nodes)
        with self._meter.point("Score"):
            return self._score(state, pod, nodes)

    def _score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> NodeScores:
        scored: list[tuple[_Scorer, IntArray]] = []
        score = self._measured_score if state.records_plugin_metrics else _score
        for scorer in self._scorers:
            if scorer.name not in state.skip_score_plugins:
                scorer.evaluations[0] += len(nodes)
                scored.append((scorer, score(scorer, state, pod, nodes)))
        normalize = self._measured_normalize if state.records_plugin_metrics else _normalized
        by_plugin: dict[str, IntArray] = {}
        total = np.zeros(len(nodes), dtype=np.int64)
        same = np.int64(0)
        for scorer, scores in scored:
            if scorer.normalize_score is not None:
                scores = normalize(scorer, scorer.normalize_score, state, pod, scores)
            weighted = _weighted(scorer, scores)
            by_plugin[scorer.name] = weighted
            if (value := uniform_value(weighted)) is not None:
                same += value
            else:
                total += weighted
        total += same
        return NodeScores(by_plugin, total)

    def _measured_score(
        self, scorer: _Scorer, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> IntArray:
        with self._meter.plugin(state, scorer.name, "Score"):
            return _score(scorer, state, pod, nodes)

    def _measured_normalize(
        self,
        scorer: _Scorer,
        normalize_score: _Normalize,
        state: CycleState,
        pod: PodInfo,
        scores: IntArray,
    ) -> IntArray:
        with self._meter.plugin(state, scorer.name, "ScoreExtensionNormalize"):
            return _normalized(scorer, normalize_score, state, pod, scores)

    def _pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        for name, pre_score, evaluations in self._pre_scorers:
            try:
                if state.records_plugin_metrics:
                    with self._meter.plugin(state, name, "PreScore") as timing:
                        status = timing.status = as_verdict(pre_score(state, pod, nodes))
                else:
                    status = as_verdict(pre_score(state, pod, nodes))
            except Exception as error:
                raise PluginFailedError(f'running PreScore plugin "{name}": {error}') from error
            if status is None:
                evaluations[0] += 1
                continue
            if not status.is_skip:
                raise PluginFailedError(f'running PreScore plugin "{name}": {status.message}')
            state.skip_score_plugins.add(name)


def _normalize_of(plugin: Plugin) -> _Normalize | None:
    if not hasattr(plugin, "normalize_score"):
        return None
    return cast("NormalizeScorePlugin", plugin).normalize_score


def _score(scorer: _Scorer, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
    try:
        return _checked(scorer.score_nodes(state, pod, nodes), len(nodes))
    except Exception as error:
        raise PluginFailedError(
            f'running Score plugins: plugin "{scorer.name}" failed with: {error}'
        ) from error


def _normalized(
    scorer: _Scorer,
    normalize_score: _Normalize,
    state: CycleState,
    pod: PodInfo,
    scores: IntArray,
) -> IntArray:
    try:
        return _checked(normalize_score(state, pod, scores), len(scores))
    except Exception as error:
        raise PluginFailedError(
            f'running Normalize on Score plugins: plugin "{scorer.name}" failed with: {error}'
        ) from error


def _checked(answer: object, wanted: int) -> IntArray:
    """What a plugin gives for scores, as such; raises TypeError or ValueError if it is not that."""
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
        # Seen as unsigned, a negative number is a huge one: one pass tells that all are in range.
        in_range = scores.view(np.uint64).max(initial=0) <= MAX_NODE_SCORE
    if not in_range:
        lowest, highest = int(scores.min()), int(scores.max())
        wrong = lowest if lowest < MIN_NODE_SCORE else highest
        raise PluginFailedError(
            f"applying score defaultWeights on Score plugins: "
            f'plugin "{scorer.name}" returns an invalid score {wrong}, it should in the range of '
            f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        )
    if scorer.weight == 1:
        return scores
    return scores * scorer.weight if value is None else uniform(len(scores), value * scorer.weight)
