"""The handle that the plugins of one profile hold.

All parts of the scheduler that plugins can reach exist before the first plugin is created; the
handle is a record of them.
Source: `frameworkImpl` in `pkg/scheduler/framework/runtime/framework.go`, `parallelize`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from scheduler.clock import run_on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.unstructured import Kind
    from scheduler.clock import Clock
    from scheduler.config import FeatureGates, SchedulerVersion
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.handle import (
        ApiWriter,
        EventSink,
        Handle,
        Listers,
        PodInPreBind,
        PodNominator,
        WaitingPod,
        Worlds,
    )
    from scheduler.framework.types import Rng
    from scheduler.metrics import SchedulerMetrics
    from scheduler.runtime.pods_in_pre_bind import PodsInPreBind
    from scheduler.runtime.waiting_pods import WaitingPods
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_group_state import PodGroupState
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

T = TypeVar("T")


class DryRuns(Protocol):
    """Dry runs of a profile, as `scheduler.framework.handle.Handle` describes them."""

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes, /) -> Worlds: ...

    def feasible_nodes(self, state: CycleState, pod: PodInfo, /) -> Nodes: ...


#: Makes the handle of a profile from the profile's name and its dry runs.
MakeHandle: TypeAlias = "Callable[[str, DryRuns], Handle]"


@dataclass(frozen=True, kw_only=True)
class PluginHandle:
    """The parts of the scheduler that the plugins of one profile use.

    Satisfies `scheduler.framework.handle.Handle`, which describes the members. `dry_runs` can be
    used once all plugins of the profile are created: they run their filters.
    """

    profile_name: str
    snapshot: Snapshot
    nominator: PodNominator
    event_recorder: EventSink
    api: ApiWriter
    feature_gates: FeatureGates
    version: SchedulerVersion
    metrics: SchedulerMetrics
    rng: Rng
    clock: Clock
    waiting_pods: WaitingPods
    pods_in_pre_bind: PodsInPreBind
    dry_runs: DryRuns
    lister: Listers
    on_change: Callable[[Kind, Callable[[Any, Any], object]], None]
    pod_group: Callable[[str], PodGroupState | None]
    active_pods: Callable[[int], Sequence[PodInfo]]
    activate: Callable[[Mapping[str, PodInfo]], None]
    spawn: Callable[[Coroutine[None, None, None], str], None]
    run_in_parallel: Callable[[Iterable[Coroutine[None, None, None]]], Awaitable[None]]
    #: The objects of `shared`, by the function that makes them.
    shared_objects: dict[object, object]
    extenders: Sequence[Extender] = ()
    let_others_run: Callable[[], Awaitable[None]] = run_on

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        return self.dry_runs.worlds(state, pod, nodes)

    def feasible_nodes(self, state: CycleState, pod: PodInfo) -> Nodes:
        return self.dry_runs.feasible_nodes(state, pod)

    def shared(self, kind: Callable[[Handle], T], /) -> T:
        if kind not in self.shared_objects:
            self.shared_objects[kind] = kind(cast("Handle", self))
        return cast("T", self.shared_objects[kind])

    def now(self) -> float:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        return self.waiting_pods.get(uid)

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        return self.pods_in_pre_bind.get(uid)

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        self.waiting_pods.iterate(callback)

    def reject_waiting_pod(self, uid: str) -> bool:
        return self.waiting_pods.reject(uid)


async def run_in_parallel(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all coroutines at once. The first failure cancels the others and is raised."""
    failures: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except* Exception as several:  # noqa: BLE001 - raised below, without the group
        failures.extend(several.exceptions)
    if failures:
        raise failures[0]
