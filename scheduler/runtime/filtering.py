"""Run PreFilter and Filter: find the nodes that fit a pod.

Each filter gets many nodes at a time, and only those that the earlier filters have let pass; the
first rejection of a node stands. Nodes that other pods are nominated to are filtered twice: as they
are, and as if those pods ran there. They must pass both times.
Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreFilterPlugins`, `RunFilterPlugins`,
`RunFilterPluginsWithNominatedPods`).
"""

from __future__ import annotations

import functools
import itertools
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from scheduler.framework.failures import FilterPausedError, PluginFailedError
from scheduler.framework.status import Code, Rejections, Status, as_verdict, unresolvable
from scheduler.framework.types import PreFilterResult
from scheduler.runtime.meter import measured
from scheduler.runtime.worlds import PodExtensions, Worlds, WorldStates
from scheduler.snapshot.columns import ABSENT, IntArray, run_starts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import PodNominator
    from scheduler.framework.interface import Plugin
    from scheduler.runtime.meter import Meter
    from scheduler.runtime.scoring import Scores
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_ALL_NODES: Final = PreFilterResult(None)
_NO_PLUGINS: Final = frozenset[str]()

FilterNodes: TypeAlias = "Callable[[CycleState, PodInfo, Nodes], Rejections | None]"
_PreFilter: TypeAlias = "Callable[[CycleState, PodInfo, Nodes], PreFilterResult | Status | None]"
_Filter: TypeAlias = "Callable[[CycleState | WorldStates, PodInfo, Nodes], Rejections | None]"


class PreFilterOutcome(NamedTuple):
    """The result of PreFilter: the nodes to search, or a rejection of the pod as a whole."""

    result: PreFilterResult
    status: Status | None
    #: The plugins that have narrowed the search.
    plugins_with_nodes: frozenset[str]


class _PreFilterPlugin(NamedTuple):
    """A PreFilter plugin. The timed form is for cycles in which plugins are measured."""

    name: str
    pre_filter: _PreFilter
    timed_pre_filter: _PreFilter
    evaluations: list[int]


class PreFilters:
    """Runs the PreFilter plugins of a profile."""

    def __init__(
        self, plugins: Sequence[Plugin], meter: Meter, *, ignore_resizes: frozenset[str]
    ) -> None:
        self.meter: Final = meter
        self._plugins: Final = [_pre_filter_plugin_of(p, meter) for p in plugins]
        self._extensions: Final = [e for p in plugins if (e := _extensions_of(p)) is not None]
        #: The plugins that are not called for a pod whose resize is deferred.
        self._ignore_resizes: Final = ignore_resizes

    @measured("PreFilter", status=attrgetter("status"))
    def run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        """Run the plugins; raises `PluginFailedError`, and `FilterPausedError` if one pauses."""
        return self.dry_run(state, pod, nodes)

    def dry_run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        """Run the plugins without measuring the whole: a plugin may call this in its PreFilter.

        An unresolvable rejection ends the run at once. After any other rejection the remaining
        plugins still run, so that preemption finds the state of every plugin.
        """
        narrowed = _ALL_NODES
        plugins_with_nodes: set[str] = set()
        rejection: Status | None = None
        ignored = self._ignore_resizes if pod.pod.is_resize_deferred else _NO_PLUGINS
        state.skip_filter_plugins |= ignored
        for name, pre_filter, timed_pre_filter, evaluations in self._plugins:
            if name in ignored:
                continue
            run = timed_pre_filter if state.records_plugin_metrics else pre_filter
            try:
                answer = run(state, pod, nodes)
            except FilterPausedError:
                raise
            except Exception as error:
                raise _pre_filter_failed(name, error) from error
            if answer is None:
                evaluations[0] += 1
                continue
            if isinstance(answer, Status) and answer.is_skip:
                state.skip_filter_plugins.add(name)
                continue
            evaluations[0] += 1
            result = _interpreted(name, answer)
            if result is None:
                continue
            if isinstance(result, Status):
                if result.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(_ALL_NODES, result, frozenset())
                rejection = result
                continue
            if result.node_names is not None:
                plugins_with_nodes.add(name)
            narrowed = narrowed.merge(result)
            if narrowed.node_names is not None and not narrowed.node_names:
                rejection = _no_common_nodes(plugins_with_nodes)
                break
        return PreFilterOutcome(narrowed, rejection, frozenset(plugins_with_nodes))

    def extensions(self, state: CycleState | WorldStates) -> list[PodExtensions]:
        """Return the AddPod and RemovePod methods of the plugins whose filters are not skipped."""
        return [e for e in self._extensions if e.name not in state.skip_filter_plugins]


def _interpreted(name: str, answer: object) -> PreFilterResult | Status | None:
    """Return one plugin's answer as a result, a rejection under the plugin's name, or None.

    Raises `PluginFailedError` for an Error status and for an answer of another kind.
    """
    if isinstance(answer, PreFilterResult):
        return answer
    if not isinstance(answer, Status):
        raise _pre_filter_failed(
            name, f"expected a PreFilterResult, a Status or None, got {answer!r}"
        )
    if answer.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        return answer.with_plugin(name)
    if answer.is_success:
        return None
    raise _pre_filter_failed(name, answer.message)


def _pre_filter_failed(name: str, reason: object) -> PluginFailedError:
    text = f'running PreFilter plugin "{name}": {reason}'
    return PluginFailedError(text, plugin=name, point="PreFilter")


class _FilterPlugin(NamedTuple):
    """A Filter plugin. The timed form is for cycles in which plugins are measured."""

    name: str
    filter: _Filter
    timed_filter: _Filter
    evaluations: list[int]


class Filters:
    """Runs the Filter plugins of a profile; satisfies `scheduler.runtime.worlds.FilterRunner`."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        pre_filters: PreFilters,
        nominator: PodNominator,
        meter: Meter,
    ) -> None:
        self._plugins: Final = [_filter_plugin_of(p, meter) for p in plugins]
        self._pre_filters: Final = pre_filters
        self._nominator: Final = nominator
        #: The plugins that look at more than room.
        self._picky: Final = {p.name for p in plugins if not p.only_takes_room}

    def __bool__(self) -> bool:
        return bool(self._plugins)

    def run(self, state: CycleState | WorldStates, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Return the rejections of these nodes, None if all pass; raises `PluginFailedError`."""
        merged = _MergedRejections(len(nodes))
        left = nodes
        is_timed = state.records_plugin_metrics
        for name, run, timed_run, evaluations in self._plugins:
            if name in state.skip_filter_plugins:
                continue
            evaluations[0] += len(left)
            rejections = (timed_run if is_timed else run)(state, pod, left)
            if rejections is None:
                continue
            merged.add(rejections, name)
            left = left.take(rejections.passed)
            if not len(left):
                break
        return merged.rejections

    def run_with_nominated_pods(
        self, state: CycleState | WorldStates, pod: PodInfo, nodes: Nodes
    ) -> Rejections | None:
        """Return the rejections of these nodes, with and without the pods nominated to them.

        A node must pass as it is, and as if its nominated pods of at least this pod's priority ran
        there: those pods may come, or may end up elsewhere. Raises `PluginFailedError`.
        """
        rejections = self.run(state, pod, nodes)
        nominated, at = self._nominated_pods(pod, nodes)
        if not nominated:
            return rejections
        is_first = run_starts(at)
        positions = at[is_first]
        worlds = Worlds(self, state, pod, nodes.take(positions), run=self.run)
        worlds.add_pods(np.cumsum(is_first) - 1, nominated)
        with_them = worlds.run_filters_as_is()
        if with_them is None:
            return rejections
        merged = _MergedRejections.from_rejections(rejections, len(nodes))
        merged.override(positions, with_them)
        return merged.rejections

    def worlds(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, *, scores: Scores | None = None
    ) -> Worlds:
        """Return a dry run for a pod on these nodes; with `scores` it can score, too.

        Where filters only look at room, nominated pods take it in every world from the beginning: a
        node on which the pod fits beside them has room for it without them too.
        """
        if not self._only_take_room(state):
            run = self.run_with_nominated_pods
            return Worlds(self, state, pod, nodes, run=run, scores=scores)
        worlds = Worlds(self, state, pod, nodes, run=self.run, scores=scores, only_room=True)
        nominated, at = self._nominated_pods(pod, nodes)
        if nominated:
            worlds.add_pods(at, nominated)
        return worlds

    def _only_take_room(self, state: CycleState) -> bool:
        return self._picky <= state.skip_filter_plugins

    def extensions(self, state: CycleState | WorldStates) -> list[PodExtensions]:
        return self._pre_filters.extensions(state)

    def _nominated_pods(self, pod: PodInfo, nodes: Nodes) -> tuple[list[PodInfo], IntArray]:
        """Return the nominated pods that the pod must leave room for, node by node.

        The array has the position of each pod's node.
        """
        nominator, uid, priority = self._nominator, pod.uid, pod.priority
        names = nominator.nominated_nodes
        if not names:
            return [], np.zeros(0, dtype=np.int64)
        if len(nodes) < len(names):
            position_of = {n: position for position, n in enumerate(nodes.names) if n in names}
        else:
            position_of = nodes.positions(names)
        nominated, on_nodes = nominator.nominated_pods_for_nodes(position_of)
        at = np.repeat(np.array([*position_of.values()], dtype=np.int64), on_nodes)
        counts = [other.priority >= priority and other.uid != uid for other in nominated]
        if not all(counts):
            nominated = [*itertools.compress(nominated, counts)]
            at = at[counts]
        return nominated, at


class _MergedRejections:
    """The rejections of several plugins. Each plugin has filtered the nodes left by the others."""

    def __init__(self, total: int) -> None:
        self._total: Final = total
        self._codes: np.ndarray[tuple[int], np.dtype[np.int32]] | None = None
        self._statuses: list[Status] = []
        self._left: IntArray | None = None

    @staticmethod
    def from_rejections(rejections: Rejections | None, total: int) -> _MergedRejections:
        """Return a copy of the rejections of `total` nodes."""
        merged = _MergedRejections(total)
        if rejections is not None:
            merged._codes = rejections.codes.astype(np.int32)  # a copy, to be written to
            merged._statuses = list(rejections.statuses)
        return merged

    def add(self, rejections: Rejections, plugin: str) -> None:
        """Add one plugin's rejections of the nodes that were left."""
        codes = rejections.codes
        statuses = [status.with_plugin(plugin) for status in rejections.statuses]
        if self._codes is None or self._left is None:
            self._codes = codes.astype(np.int32)
            self._left = np.flatnonzero(codes < 0)
            self._statuses = statuses
            return
        rejected = codes >= 0
        self._codes[self._left[rejected]] = codes[rejected].astype(np.int32) + len(self._statuses)
        self._left = self._left[~rejected]
        self._statuses += statuses

    def override(self, positions: IntArray, rejections: Rejections) -> None:
        """Replace the rejections at some positions; nodes that pass keep theirs."""
        if self._codes is None:
            self._codes = np.full(self._total, ABSENT, dtype=np.int32)
        rejected = rejections.codes >= 0
        codes = rejections.codes[rejected].astype(np.int32)
        self._codes[positions[rejected]] = codes + len(self._statuses)
        self._statuses += rejections.statuses

    @property
    def rejections(self) -> Rejections | None:
        """All rejections; None if every node passes."""
        return None if self._codes is None else Rejections(self._codes, self._statuses)


class PerNodeFilter:
    """The filter over many nodes of a plugin that defines `filter` for one node.

    Equal statuses are kept once. With `follows_pods` the plugin has its own state per node in a dry
    run (`in_worlds`).
    """

    def __init__(self, plugin: Plugin) -> None:
        self._name: Final = plugin.name
        self._filter: Final = plugin.filter
        self.follows_pods: Final = hasattr(plugin, "add_pod") or hasattr(plugin, "remove_pod")

    def __call__(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        return self.in_worlds(lambda base_row: state, pod, nodes)

    def in_worlds(
        self, state_of: Callable[[int], CycleState], pod: PodInfo, nodes: Nodes
    ) -> Rejections | None:
        """Filter each node with the state of its world; `state_of` gets the node's `base_row`.

        Raises `PluginFailedError`, which names the node.
        """
        codes = np.full(len(nodes), ABSENT, dtype=np.int32)
        index_of: dict[Status, int] = {}
        for position, node in enumerate(nodes):
            try:
                answer = self._filter(state_of(node.base_row), pod, node)
                if answer is not None and (status := as_verdict(answer)) is not None:
                    codes[position] = index_of.setdefault(status, len(index_of))
            except Exception as error:
                raise _filter_failed(self._name, error, node.name) from error
        return Rejections(codes, list(index_of)) if index_of else None


def filter_nodes_of(plugin: Plugin) -> FilterNodes:
    """Return the plugin's filter over many nodes, derived from `filter` if need be."""
    if callable(getattr(plugin, "filter_nodes", None)):
        return plugin.filter_nodes
    return PerNodeFilter(plugin)


def _pre_filter_plugin_of(plugin: Plugin, meter: Meter) -> _PreFilterPlugin:
    run, name = plugin.pre_filter, plugin.name
    timed_run = meter.timed(run, name, "PreFilter")
    return _PreFilterPlugin(name, run, timed_run, meter.evaluations(name, "PreFilter"))


def _filter_plugin_of(plugin: Plugin, meter: Meter) -> _FilterPlugin:
    name = plugin.name
    run = functools.partial(_call, name, filter_nodes_of(plugin))
    timed_run = meter.timed(run, name, "Filter", _status_if_none_pass)
    return _FilterPlugin(name, run, timed_run, meter.evaluations(name, "Filter"))


def _extensions_of(plugin: Plugin) -> PodExtensions | None:
    add_pod, remove_pod = getattr(plugin, "add_pod", None), getattr(plugin, "remove_pod", None)
    if add_pod is None and remove_pod is None:
        return None
    is_per_node = hasattr(plugin, "filter")
    return PodExtensions(plugin.name, is_per_node, add_pod=add_pod, remove_pod=remove_pod)


def _status_if_none_pass(rejections: Rejections | None) -> Status | None:
    """Return the status by which a plugin's call is measured."""
    if rejections is not None and not len(rejections.passed) and rejections.statuses:
        return rejections.statuses[0]
    return None


def _no_common_nodes(plugins: set[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")


def _call(
    name: str,
    filter_nodes: FilterNodes,
    state: CycleState | WorldStates,
    pod: PodInfo,
    nodes: Nodes,
) -> Rejections | None:
    try:
        if not isinstance(state, WorldStates):
            rejections = filter_nodes(state, pod, nodes)
        elif isinstance(filter_nodes, PerNodeFilter) and filter_nodes.follows_pods:
            rejections = filter_nodes.in_worlds(state.of, pod, nodes)
        else:
            rejections = filter_nodes(state.shared, pod, nodes)
    except (PluginFailedError, FilterPausedError):
        raise
    except Exception as error:
        raise _filter_failed(name, error) from error
    if rejections is None:
        return None
    if not isinstance(rejections, Rejections):
        raise _filter_failed(name, f"expected Rejections or None, got {rejections!r}")
    for status in rejections.statuses:
        if not status.is_rejected:
            raise _filter_failed(name, status.message)
    if len(rejections.codes) != len(nodes):
        raise _filter_failed(name, f"{len(rejections.codes)} verdicts on {len(nodes)} nodes")
    return rejections


def _filter_failed(name: str, reason: object, node_name: str = "") -> PluginFailedError:
    text = f'running "{name}" filter plugin: {reason}'
    return PluginFailedError(text, plugin=name, point="Filter", node_name=node_name)
