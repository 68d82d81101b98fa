"""The placement plugins of a profile: they generate the placements of a pod group and score them.

Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPlacementGeneratePlugins`,
`RunPlacementScorePlugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.failures import FilterPausedError
from scheduler.framework.status import Code, Status, error, unschedulable
from scheduler.runtime.meter import measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.framework.interface import Plugin
    from scheduler.framework.types import Placement, PodGroupAssignments, PodGroupInfo
    from scheduler.runtime.meter import Meter


class PlacementScores(NamedTuple):
    """The weighted scores of one placement by plugin, and their sum."""

    by_plugin: Mapping[str, int]
    total: int


class _ScoringError(Exception):
    """A placement plugin has failed; the text is upstream's."""


class Placements:
    """Runs the placement plugins, which are by extension point. `weights` are by plugin name."""

    def __init__(
        self,
        plugins: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
        meter: Meter,
    ) -> None:
        self.meter: Final = meter
        self._plugins: Final = plugins
        self._weights: Final = weights

    @measured("PlacementGenerate")
    def generate(
        self, state: CycleState, group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """Return the placements to try, or why there are none. Without a plugin: the parent.

        Raises `FilterPausedError` if the plugin pauses.
        """
        if not self._plugins["placement_generate"]:
            return [parent]
        (plugin,) = self._plugins["placement_generate"]
        try:
            with self.meter.plugin(state, plugin.name, "PlacementGenerate") as timing:
                placements = plugin.generate_placements(state, group, parent)
                timing.status = placements if isinstance(placements, Status) else None
        except FilterPausedError:
            raise
        except Exception as failure:  # noqa: BLE001 - code of a plugin
            return error(failure).with_plugin(plugin.name)
        if isinstance(placements, Status):
            return placements.with_plugin(plugin.name)
        if not placements:
            return unschedulable("no feasible placements found").with_plugin(plugin.name)
        return placements

    @measured("PlacementScore")
    def score(
        self, group: PodGroupInfo, assignments: Sequence[PodGroupAssignments]
    ) -> Sequence[PlacementScores] | Status:
        """Return the scores of each placement, or an Error status."""
        state = CycleState(records_plugin_metrics=True)
        try:
            scores = {
                plugin.name: self._scores_of(plugin, state, group, assignments)
                for plugin in self._plugins["placement_score"]
            }
        except _ScoringError as failure:
            return Status(Code.ERROR, str(failure), cause=failure)
        of_each = []
        for position in range(len(assignments)):
            by_plugin = {name: column[position] for name, column in scores.items()}
            of_each.append(PlacementScores(by_plugin, sum(by_plugin.values())))
        return of_each

    def _scores_of(
        self,
        plugin: Plugin,
        state: CycleState,
        group: PodGroupInfo,
        assignments: Sequence[PodGroupAssignments],
    ) -> list[int]:
        """Return one plugin's weighted scores of all placements; raises `_ScoringError`."""
        name = plugin.name
        step = "running PlacementScore plugins"
        try:
            scores = []
            for assignment in assignments:
                with self.meter.plugin(state, name, "PlacementScore"):
                    scores.append(plugin.score_placement(state, group, assignment))
            if hasattr(plugin, "normalize_placement_score"):
                step = "running NormalizePlacementScore on PlacementScore plugins"
                with self.meter.plugin(state, name, "PlacementScoreExtensionNormalize"):
                    scores = plugin.normalize_placement_score(state, group, scores)
        except Exception as failure:
            raise _ScoringError(f'{step}: plugin "{name}" failed with: {failure}') from failure
        for score in scores:
            if not 0 <= score <= MAX_NODE_SCORE:
                raise _ScoringError(
                    f'applying score defaultWeights on PlacementScore plugins: plugin "{name}" '
                    f"returns an invalid score {score}, it should in the range of "
                    f"[0, {MAX_NODE_SCORE}] after normalizing"
                )
        return [score * self._weights[name] for score in scores]
