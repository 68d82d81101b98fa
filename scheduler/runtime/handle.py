"""The handle that plugins of a profile hold: the scheduler's parts, joined as they come to be.

Plugins are created before the queue that needs their order and before the client that needs their
kinds; the composition root fills in the parts of `SchedulerParts` one after another, all before the
first pod is scheduled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.config.types import DEFAULT_FEATURE_GATES
from scheduler.metrics import SchedulerMetrics
from scheduler.runtime.pods_in_pre_bind import PodsInPreBind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from scheduler.clock import Clock
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import (
        ApiWriter,
        EventSink,
        Lister,
        PodInPreBind,
        PodNominator,
        PreemptionExtender,
        WaitingPod,
    )
    from scheduler.framework.types import Rng
    from scheduler.runtime.filtering import Filters
    from scheduler.runtime.waiting_pods import WaitingPods
    from scheduler.runtime.worlds import Worlds
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot


class SchedulerParts:
    """What all profiles share. Parts that come later are filled in by the composition root."""

    nominator: PodNominator
    api: ApiWriter
    activate: Callable[[Mapping[str, PodInfo]], None]
    spawn: Callable[[Coroutine[None, None, None], str], None]
    run_in_parallel: Callable[[Iterable[Coroutine[None, None, None]]], Awaitable[None]]
    listers: Mapping[str, Lister]
    event_recorder_of: Callable[[str], EventSink]

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        clock: Clock,
        rng: Rng,
        waiting_pods: WaitingPods,
        feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self.metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self.snapshot: Final = snapshot
        self.clock: Final = clock
        self.rng: Final = rng
        self.waiting_pods: Final = waiting_pods
        self.pods_in_pre_bind: Final = PodsInPreBind()
        self.feature_gates: Final = feature_gates
        self.extenders: Sequence[PreemptionExtender] = ()


class ProfileHandle:
    """The scheduler as the plugins of one profile see it; see `framework.handle.Handle`.

    `filters` are the profile's own, and are there once all of its plugins are.
    """

    filters: Filters

    def __init__(self, profile_name: str, parts: SchedulerParts) -> None:
        self.profile_name: Final = profile_name
        self._parts: Final = parts

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as of this cycle."""
        return self._parts.snapshot

    @property
    def nominator(self) -> PodNominator:
        """The pods expected on nodes."""
        return self._parts.nominator

    @property
    def event_recorder(self) -> EventSink:
        """Where events for users go, in this profile's name."""
        return self._parts.event_recorder_of(self.profile_name)

    @property
    def api(self) -> ApiWriter:
        """Writes to the API server."""
        return self._parts.api

    @property
    def extenders(self) -> Sequence[PreemptionExtender]:
        """The extenders."""
        return self._parts.extenders

    @property
    def metrics(self) -> SchedulerMetrics:
        """What this scheduler counts and measures."""
        return self._parts.metrics

    @property
    def feature_gates(self) -> FeatureGates:
        """The feature gates that are on."""
        return self._parts.feature_gates

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """A dry run of this profile's filters."""
        return self.filters.worlds(state, pod, nodes)

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Have work done in the background."""
        self._parts.spawn(work, name)

    async def run_in_parallel(self, works: Iterable[Coroutine[None, None, None]]) -> None:
        """Do several things at a time."""
        await self._parts.run_in_parallel(works)

    @property
    def rng(self) -> Rng:
        """The scheduler's seeded chance."""
        return self._parts.rng

    def now(self) -> float:
        """Epoch seconds on the scheduler's clock."""
        return self._parts.clock.now()

    async def sleep(self, seconds: float) -> None:
        """Return once so much time has passed on it."""
        await self._parts.clock.sleep(seconds)

    def lister(self, resource: str) -> Lister:
        """The objects of one kind; raises KeyError if nobody watches it."""
        return self._parts.listers[resource]

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Try these waiting pods at once."""
        self._parts.activate(pods)

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """A pod held at Permit."""
        return self._parts.waiting_pods.get(uid)

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """A pod that PreBind plugins are at work for."""
        return self._parts.pods_in_pre_bind.get(uid)

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        """Show every pod held at Permit to `callback`."""
        self._parts.waiting_pods.iterate(callback)

    def reject_waiting_pod(self, uid: str) -> bool:
        """Turn down a pod held at Permit."""
        return self._parts.waiting_pods.reject(uid)
