"""PreFilter and Filter: which nodes a pod can run on.

Filters see a run of nodes at a time, each one only what the earlier ones have let pass; the first
rejection of a node stands. Nodes that other pods are nominated to are asked twice: first as if
those pods were there, then as they are, and must pass both times.
Source: `pkg/scheduler/framework/runtime/framework.go` (`RunPreFilterPlugins`, `RunFilterPlugins`,
`RunFilterPluginsWithNominatedPods`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from scheduler.framework.status import Code, Rejections, Status, unresolvable
from scheduler.framework.types import PreFilterResult
from scheduler.runtime.adapters import FilterNodes, PerNodeFilter, filter_nodes_of
from scheduler.runtime.errors import PluginFailedError
from scheduler.runtime.worlds import Follower, Worlds, WorldStates
from scheduler.snapshot.columns import ABSENT, IntArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.interface import Plugin, PreFilterPlugin
    from scheduler.runtime.meter import Meter
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_ALL_NODES: Final = PreFilterResult(None)

_PreFilter: TypeAlias = "Callable[[CycleState, PodInfo, Nodes], PreFilterResult | Status | None]"


class PreFilterOutcome(NamedTuple):
    """What PreFilter has found: the nodes to look at, or a rejection of the pod as a whole."""

    result: PreFilterResult
    status: Status | None
    #: The plugins that have narrowed the search.
    plugins_with_nodes: frozenset[str]


class PreFilters:
    """The PreFilter plugins of a profile, in order."""

    def __init__(self, plugins: Sequence[Plugin], meter: Meter) -> None:
        self._plugins: Final = [
            (p.name, _pre_filter_of(p), meter.evaluations(p.name, "PreFilter")) for p in plugins
        ]
        self._meter: Final = meter
        self._followers: Final = [f for p in plugins if (f := _follower_of(p)) is not None]

    def run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        """Ask all plugins; raises `PluginFailedError`.

        An unresolvable rejection ends it at once; a plain one waits until all have been asked, so
        that preemption finds every plugin's state.
        """
        with self._meter.point("PreFilter") as timing:
            outcome = self._run(state, pod, nodes)
            timing.status = outcome.status
            return outcome

    def _run(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
        narrowed = _ALL_NODES
        plugins_with_nodes: set[str] = set()
        rejection: Status | None = None
        for name, pre_filter, evaluations in self._plugins:
            try:
                answer = (
                    self._measured(name, pre_filter, state, pod, nodes)
                    if state.records_plugin_metrics
                    else pre_filter(state, pod, nodes)
                )
            except Exception as error:
                raise PluginFailedError(f'running PreFilter plugin "{name}": {error}') from error
            if isinstance(answer, Status) and answer.is_skip:
                state.skip_filter_plugins.add(name)
                continue
            evaluations[0] += 1
            if answer is None:
                continue
            if isinstance(answer, Status):
                if answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(_ALL_NODES, answer.with_plugin(name), frozenset())
                elif answer.code == Code.UNSCHEDULABLE:
                    rejection = answer.with_plugin(name)
                elif not answer.is_success:
                    raise PluginFailedError(f'running PreFilter plugin "{name}": {answer.message}')
                continue
            if not isinstance(answer, PreFilterResult):
                raise PluginFailedError(
                    f'running PreFilter plugin "{name}": '
                    f"expected a PreFilterResult, a Status or None, got {answer!r}"
                )
            if answer.node_names is not None:
                plugins_with_nodes.add(name)
            narrowed = narrowed.merge(answer)
            if narrowed.node_names is not None and not narrowed.node_names:
                return PreFilterOutcome(
                    narrowed, _nobody_left(plugins_with_nodes), frozenset(plugins_with_nodes)
                )
        return PreFilterOutcome(narrowed, rejection, frozenset(plugins_with_nodes))

    def _measured(
        self, name: str, pre_filter: _PreFilter, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        with self._meter.plugin(state, name, "PreFilter") as timing:
            answer = pre_filter(state, pod, nodes)
            timing.status = answer if isinstance(answer, Status) else None
            return answer

    def followers(self, state: CycleState | WorldStates) -> list[Follower]:
        """The plugins whose filters are on, and that want to follow pods in a dry run."""
        return [f for f in self._followers if f.name not in state.skip_filter_plugins]


class Filters:
    """The Filter plugins of a profile, in order."""

    def __init__(
        self, plugins: Sequence[Plugin], pre_filters: PreFilters, handle: Handle, meter: Meter
    ) -> None:
        self._plugins: Final = [
            (p.name, filter_nodes_of(p), meter.evaluations(p.name, "Filter")) for p in plugins
        ]
        self._meter: Final = meter
        self._pre_filters: Final = pre_filters
        self._handle: Final = handle

    def __bool__(self) -> bool:
        return bool(self._plugins)

    def run(self, state: CycleState | WorldStates, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """The verdicts on these nodes, None if all pass; raises `PluginFailedError`."""
        verdicts = _Verdicts(len(nodes))
        left = nodes
        call = self._measured if state.records_plugin_metrics else _call
        for name, filter_nodes, evaluations in self._plugins:
            if name in state.skip_filter_plugins:
                continue
            evaluations[0] += len(left)
            rejections = call(name, filter_nodes, state, pod, left)
            if rejections is None:
                continue
            verdicts.add(rejections, name)
            left = left.take(rejections.passed)
            if not len(left):
                break
        return verdicts.rejections

    def _measured(
        self,
        name: str,
        filter_nodes: FilterNodes,
        state: CycleState | WorldStates,
        pod: PodInfo,
        nodes: Nodes,
    ) -> Rejections | None:
        with self._meter.plugin(state, name, "Filter") as timing:
            rejections = _call(name, filter_nodes, state, pod, nodes)
            if rejections is not None and not len(rejections.passed) and rejections.statuses:
                timing.status = rejections.statuses[0]
            return rejections

    def run_with_nominated_pods(
        self, state: CycleState | WorldStates, pod: PodInfo, nodes: Nodes
    ) -> Rejections | None:
        """Likewise, and where pods of at least this priority are expected, as if they were there.

        Passing both ways is the careful choice: those pods may come, or may end up elsewhere.
        """
        rejections = self.run(state, pod, nodes)
        expected = self._expected(pod, nodes)
        if not expected:
            return rejections
        positions = np.array(list(expected), dtype=np.int64)
        worlds = Worlds(self, state, pod, nodes.take(positions))
        numbers = np.repeat(np.arange(len(expected)), [len(pods) for pods in expected.values()])
        worlds.add_pods(numbers.tolist(), [pod for pods in expected.values() for pod in pods])
        with_them = worlds.run_filters_as_is()
        if with_them is None:
            return rejections
        verdicts = _Verdicts.from_rejections(rejections, len(nodes))
        verdicts.override(positions, with_them)
        return verdicts.rejections

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """A dry run for a pod on these nodes."""
        return Worlds(self, state, pod, nodes)

    def followers(self, state: CycleState | WorldStates) -> list[Follower]:
        """The plugins that want to follow pods in a dry run."""
        return self._pre_filters.followers(state)

    def _expected(self, pod: PodInfo, nodes: Nodes) -> dict[int, list[PodInfo]]:
        """The pods nominated to these nodes that this one must leave room for, by position."""
        nominator = self._handle.nominator
        found: dict[int, list[PodInfo]] = {}
        names = nominator.nominated_nodes
        for name, position in nodes.positions(names).items() if names else ():
            pods = [
                other
                for other in nominator.nominated_pods_for_node(name)
                if other.priority >= pod.priority and other.uid != pod.uid
            ]
            if pods:
                found[position] = pods
        return found


class _Verdicts:
    """The verdicts of several plugins, each on what the earlier ones left over."""

    def __init__(self, total: int) -> None:
        self._total: Final = total
        self._codes: np.ndarray[tuple[int], np.dtype[np.int32]] | None = None
        self._statuses: list[Status] = []
        self._left: IntArray | None = None

    @staticmethod
    def from_rejections(rejections: Rejections | None, total: int) -> _Verdicts:
        """Start from verdicts already there."""
        verdicts = _Verdicts(total)
        if rejections is not None:
            verdicts._codes = rejections.codes.astype(np.int32)  # a copy, to be written to
            verdicts._statuses = list(rejections.statuses)
        return verdicts

    def add(self, rejections: Rejections, plugin: str) -> None:
        """Take in one plugin's verdicts on the nodes that were left."""
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
        """Put the verdicts on some nodes in place of what was there; those that pass stay."""
        if self._codes is None:
            self._codes = np.full(self._total, ABSENT, dtype=np.int32)
        rejected = rejections.codes >= 0
        codes = rejections.codes[rejected].astype(np.int32)
        self._codes[positions[rejected]] = codes + len(self._statuses)
        self._statuses += rejections.statuses

    @property
    def rejections(self) -> Rejections | None:
        """All of them, None if every node passes."""
        return None if self._codes is None else Rejections(self._codes, self._statuses)


def _pre_filter_of(plugin: Plugin) -> _PreFilter:
    pre_filter_plugin: PreFilterPlugin = plugin  # type: ignore[assignment] # checked by expand
    return pre_filter_plugin.pre_filter


def _nobody_left(plugins: set[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")


def _follower_of(plugin: Plugin) -> Follower | None:
    add_pod, remove_pod = getattr(plugin, "add_pod", None), getattr(plugin, "remove_pod", None)
    if add_pod is None and remove_pod is None:
        return None
    return Follower(plugin.name, hasattr(plugin, "filter"), add_pod, remove_pod)


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
    except Exception as error:
        raise PluginFailedError(f'running "{name}" filter plugin: {error}') from error
    if rejections is None:
        return None
    if not isinstance(rejections, Rejections):
        raise PluginFailedError(
            f'running "{name}" filter plugin: expected Rejections or None, got {rejections!r}'
        )
    for status in rejections.statuses:
        if not status.is_rejected:
            raise PluginFailedError(f'running "{name}" filter plugin: {status.message}')
    if len(rejections.codes) != len(nodes):
        raise PluginFailedError(
            f'running "{name}" filter plugin: '
            f"{len(rejections.codes)} verdicts on {len(nodes)} nodes"
        )
    return rejections
