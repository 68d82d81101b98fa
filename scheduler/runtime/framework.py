"""The framework of one profile: its plugins, created, checked, ordered and ready to run.

Source: `pkg/scheduler/framework/runtime/framework.go` (`NewFramework`).
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.config.types import GENERIC_WORKLOAD, RESIZE_PREEMPTION
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.failures import PluginFailedError, PluginSetupError
from scheduler.framework.interface import Plugin
from scheduler.framework.registrations import events_of
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.framework.types import EXTENDER_NAME, NominatingMode
from scheduler.runtime.binding import BindingPlugins
from scheduler.runtime.extension_points import EXTENSION_POINTS, expand, implements, takes_part
from scheduler.runtime.filtering import Filters, PreFilters
from scheduler.runtime.meter import Meter, measured
from scheduler.runtime.placements import Placements
from scheduler.runtime.scoring import Scores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.config.types import KubeSchedulerProfile, Plugins, PluginSet
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.framework.interface import PodGroupPreemption
    from scheduler.framework.registrations import PluginEvents
    from scheduler.framework.status import NodeToStatus
    from scheduler.framework.types import PostFilterResult, QueuedPod
    from scheduler.runtime.handle import MakeHandle
    from scheduler.runtime.registry import Registry
    from scheduler.runtime.worlds import Worlds
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: What the sum of all weighted scores may not pass.
_TOTAL_SCORE_MAX: Final = 2**63 - 1


class Framework:
    """The plugins of one profile at each extension point.

    `plugins` maps extension points (`pre_filter`, `filter`, ...) to plugins in their order.
    Raises `PluginSetupError` for a profile that cannot work, in upstream's words.
    """

    def __init__(
        self, profile: KubeSchedulerProfile, *, registry: Registry, make_handle: MakeHandle
    ) -> None:
        self.profile_name: Final = profile.scheduler_name
        self.percentage_of_nodes_to_score: Final = profile.percentage_of_nodes_to_score
        #: The handle of the plugins.
        self.handle: Final = make_handle(self.profile_name, self)
        instances = _create(profile, registry, self.handle)
        self.plugins: Final[Mapping[str, Sequence[Plugin]]] = {
            point.field: expand(point, profile.plugins, instances) for point in EXTENSION_POINTS
        }
        self._check()
        self.weights: Final[Mapping[str, int]] = _weights("score", profile.plugins, instances)
        self.placement_weights: Final[Mapping[str, int]] = _weights(
            "placement_score", profile.plugins, instances
        )
        #: Every plugin, in order of creation.
        self.instances: Final[Sequence[Plugin]] = tuple(instances.values())
        rejecting = [plugin for plugin in instances.values() if _can_reject(plugin)]
        if self.handle.extenders:
            rejecting.insert(0, _Extenders())
        #: The events of the extenders together, if there are any, then of every plugin that can
        #: reject a pod, in order of creation.
        self.registered_events: Final[Sequence[PluginEvents]] = [
            events_of(plugin, generic_workload=GENERIC_WORKLOAD in self.handle.feature_gates)
            for plugin in rejecting
        ]
        self.meter: Final = Meter(self.handle.metrics, self.profile_name)
        resizes = RESIZE_PREEMPTION in self.handle.feature_gates
        self.pre_filters: Final = PreFilters(
            self.plugins["pre_filter"],
            self.meter,
            ignore_resizes=frozenset(
                p.name for p in self.instances if resizes and p.ignores_resizes
            ),
        )
        self.filters: Final = Filters(
            self.plugins["filter"], self.pre_filters, self.handle.nominator, self.meter
        )
        self.scores: Final = Scores(
            self.plugins["pre_score"], self.plugins["score"], self.weights, self.meter
        )
        self.placements: Final = Placements(self.plugins, self.placement_weights, self.meter)
        joins_pre_binds = self.handle.version >= SchedulerVersion.V1_36
        self.binding: Final = BindingPlugins(
            self.plugins, self.meter, joins_pre_binds=joins_pre_binds
        )

    @property
    def pod_group_preemption(self) -> PodGroupPreemption | None:
        """The plugin that makes room for whole pod groups; None if the profile has none."""
        for plugin in self.instances:
            if hasattr(plugin, "pod_group_post_filter"):
                return cast("PodGroupPreemption", plugin)
        return None

    @property
    def less(self) -> Callable[[QueuedPod, QueuedPod], bool]:
        """The order of the queue: True if the first pod goes before the second."""
        return self.queue_sort_plugin.less

    @property
    def sort_key(self) -> Callable[[QueuedPod], tuple[object, ...]] | None:
        """The order of the queue as a key, if the plugin defines `sort_key` beside `less`.

        A key inherited by a class with its own `less` is not used: the two may differ.
        """
        plugin = self.queue_sort_plugin
        for owner in type(plugin).__mro__:
            if "sort_key" in vars(owner):
                return plugin.sort_key
            if "less" in vars(owner):
                return None
        return None

    @property
    def queue_sort_plugin(self) -> Plugin:
        """The one plugin that orders the queue."""
        return self.plugins["queue_sort"][0]

    @property
    def has_post_filter_plugins(self) -> bool:
        """True if the profile has PostFilter plugins."""
        return bool(self.plugins["post_filter"])

    @measured("PostFilter", status=itemgetter(1))
    async def run_post_filter_plugins(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter plugins until one succeeds, returns an unresolvable status, or fails.

        The reasons of the plugins that found nothing are merged.
        Source: `RunPostFilterPlugins`.
        """
        nominating: PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        for plugin in self.plugins["post_filter"]:
            try:
                run = plugin.post_filter
                with self.meter.plugin(state, plugin.name, "PostFilter") as timing:
                    result, status = await run(state, pod, statuses)
                    timing.status = status
            except Exception as error:  # noqa: BLE001 - code of a plugin
                failure = PluginFailedError(str(error), plugin=plugin.name, point="PostFilter")
                failure.__cause__ = error
                return None, Status(Code.ERROR, str(error), plugin=plugin.name, cause=failure)
            if status is None or status.is_success:
                return result, status or Status(Code.SUCCESS)
            if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status.with_plugin(plugin.name)
            if not status.is_rejected:
                return None, Status(Code.ERROR, status.message, plugin=plugin.name)
            if (
                result is not None
                and result.nominating_info is not None
                and result.nominating_info.mode != NominatingMode.NOOP
            ):
                nominating = result
            reasons += status.reasons
            rejector = rejector or plugin.name
        return nominating, unschedulable(*reasons).with_plugin(rejector)

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """Return a dry run of this profile's filters and scores, for the plugins' handle."""
        return self.filters.worlds(state, pod, nodes, scores=self.scores)

    def feasible_nodes(self, state: CycleState, pod: PodInfo) -> Nodes:
        """Return the nodes that pass PreFilter and Filter, for the plugins' handle."""
        snapshot = self.handle.snapshot
        nodes = snapshot.nodes_in_placement
        outcome = self.pre_filters.dry_run(state, pod, snapshot.nodes)
        if outcome.status is not None:
            return nodes.slice(0, 0)
        if (names := outcome.result.node_names) is not None:
            rows = sorted(snapshot.rows_in_placement(names))
            nodes = snapshot.nodes.take(np.array(rows, dtype=np.int64))
        rejections = self.filters.run_with_nominated_pods(state, pod, nodes)
        return nodes if rejections is None else nodes.take(rejections.passed)

    def _check(self) -> None:
        name = self.profile_name
        if (count := len(self.plugins["queue_sort"])) != 1:
            raise PluginSetupError(
                "only one queue sort plugin required for profile with scheduler name "
                f'"{name}", but got {count}'
            )
        if not self.plugins["bind"]:
            raise PluginSetupError(
                f'at least one bind plugin is needed for profile with scheduler name "{name}"'
            )
        if len(self.plugins["placement_generate"]) > 1:
            raise PluginSetupError(
                "at most one placement generate plugin is allowed for profile with scheduler name "
                f'"{name}"'
            )

    def __repr__(self) -> str:
        return f"<framework of {self.profile_name}>"


class _Extenders(Plugin):
    """Stands for the extenders among the plugins that reject pods. All events may help them."""

    name = EXTENDER_NAME


def _create(profile: KubeSchedulerProfile, registry: Registry, handle: Handle) -> dict[str, Plugin]:
    """Create every plugin that the profile names, each once; raises `PluginSetupError`."""
    args: dict[str, object] = {}
    for config in profile.plugin_config:
        if config.name in args:
            raise PluginSetupError(f"repeated config for plugin {config.name}")
        args[config.name] = config.args
    needed = dict.fromkeys(
        entry.name for _, point in profile.plugins.points() for entry in point.enabled
    )
    return {
        name: registry.create(name, args.get(name), handle) for name in needed if name in registry
    }


def _weights(field: str, plugins: Plugins, instances: Mapping[str, Plugin]) -> dict[str, int]:
    """Return the weight of each scoring plugin; a weight of its point precedes `multiPoint`'s."""
    point = next(point for point in EXTENSION_POINTS if point.field == field)
    entries: PluginSet = getattr(plugins, field)
    weights: dict[str, int] = {}
    total = 0
    for entry in (*entries.enabled, *plugins.multi_point.enabled):
        if not takes_part(instances[entry.name], point) or entry.name in weights:
            continue
        weight = entry.weight or 1
        if weight * MAX_NODE_SCORE > _TOTAL_SCORE_MAX - total:
            kind = field.replace("_", " ")
            raise PluginSetupError(f"{kind} plugins: total score of Score plugins could overflow")
        weights[entry.name] = weight
        total += weight * MAX_NODE_SCORE
    return weights


def _can_reject(plugin: Plugin) -> bool:
    rejecting = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit")
    return any(implements(plugin, point) for point in EXTENSION_POINTS if point.field in rejecting)
