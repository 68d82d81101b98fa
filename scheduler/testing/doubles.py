"""Stand-ins for the scheduler's surroundings: a clock that one sets, a handle that one can read."""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.assembly.watched_kinds import kinds_to_watch, read_by
from scheduler.client.kinds import kind_key
from scheduler.config.types import (
    DEFAULT_FEATURE_GATES,
    KubeSchedulerProfile,
    PluginConfig,
    Plugins,
    PluginSet,
)
from scheduler.config.types import Plugin as PluginEntry
from scheduler.framework.handle import KindNotWatchedError
from scheduler.framework.interface import Plugin
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator
from scheduler.runtime import Framework, PluginHandle, PodsInPreBind, Registry, WaitingPods
from scheduler.runtime.handle import run_in_parallel
from scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )

    from scheduler.api.core import ObjectMeta, ObjectReference, PodExtendedResourceClaimStatus
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.handle import Lister, Worlds
    from scheduler.framework.types import Condition, NominatingInfo, QueuedPod
    from scheduler.runtime.handle import DryRun, MakeHandle
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_group_state import PodGroupState
    from scheduler.snapshot.pod_info import PodInfo

P = TypeVar("P", bound=Plugin)
R = TypeVar("R")

#: 2026-01-01T00:00:00Z, where virtual time starts.
_START_SECONDS: Final = 1767225600.0


class Timer:
    """A scheduled callback."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future: Final = future

    def cancel(self) -> None:
        """Prevent the callback. A no-op if it has run."""
        self._future.cancel()


class VirtualClock:
    """A clock that stands still until it is advanced; satisfies `scheduler.clock.Clock`."""

    def __init__(self, start_seconds: float = _START_SECONDS) -> None:
        self._now = start_seconds
        self._start = start_seconds
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Epoch seconds on this clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._now - self._start

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once the clock has been advanced by `seconds`."""
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: None if done.cancelled() else callback())
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._order), future))
        return Timer(future)

    @property
    def next_wake_up(self) -> float | None:
        """The time of the next wake-up; None without sleepers."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance_nowait(self, seconds: float) -> None:
        """Advance and wake the sleepers that are due; their tasks run in the loop's next turn."""
        self._now += seconds
        while (due := self.next_wake_up) is not None and due <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)

    async def advance(self, seconds: float) -> None:
        """Move on from one wake-up to the next, letting tasks run in between."""
        end = self._now + seconds
        await let_tasks_run()
        while (due := self.next_wake_up) is not None and due <= end:
            self.advance_nowait(max(0.0, due - self._now))
            await let_tasks_run()
        self.advance_nowait(end - self._now)
        await let_tasks_run()


async def let_tasks_run() -> None:
    """A few turns of the event loop: enough for chains of tasks that wait for one another."""
    for _ in range(20):
        await asyncio.sleep(0)


class RecordedEvent(NamedTuple):
    """An event for users, as a plugin sent it."""

    regarding: str
    type: str
    reason: str
    action: str
    note: str


class ApiObject(Protocol):
    """An object of the API that a lister can hold."""

    @property
    def metadata(self) -> ObjectMeta: ...


class FakeLister:
    """A lister over a fixed list of objects: structs, or `Unstructured` ones."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self._objects: dict[tuple[str, str], ApiObject] = {
            (o.metadata.namespace, o.metadata.name): o for o in objects
        }

    def get(self, name: str, namespace: str = "") -> Any:
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Sequence[Any]:
        return [o for (ns, _), o in self._objects.items() if not namespace or ns == namespace]

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        return 0, None if cursor < 0 else ()


class StatusPatch(NamedTuple):
    """A change of a pod's status that a plugin has requested."""

    pod: str
    condition: Condition | None
    nominating_info: NominatingInfo | None


class RecordedEvents:
    """Records the events of plugins."""

    def __init__(self) -> None:
        self.recorded: Final[list[RecordedEvent]] = []

    def event(
        self,
        regarding: Pod,
        *,
        related: ObjectReference | None = None,
        type: str,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        self.recorded.append(RecordedEvent(regarding.key, type, reason, action, note))


class FakeResourceClaims:
    """Records the writes of resource claims: a word for the write, and the claim."""

    def __init__(self) -> None:
        self.written: Final[list[tuple[str, ResourceClaim]]] = []
        #: Raised by every write, if set.
        self.failure: Exception | None = None

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        return claim

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        name = f"{metadata.generate_name}{len(self.written)}"
        return self._write("create", replace(claim, metadata=replace(metadata, name=name)))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        return self._write("update", claim)

    async def update_status(self, before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        return self._write("update_status", claim)

    async def release(self, claim: ResourceClaim, uid: str) -> None:
        self._write("release", claim)

    async def delete(self, claim: ResourceClaim) -> None:
        self._write("delete", claim)

    def _write(self, word: str, claim: ResourceClaim) -> ResourceClaim:
        if self.failure is not None:
            raise self.failure
        self.written.append((word, claim))
        return claim


class FakeApi:
    """Records the writes of plugins; they can be made to fail."""

    def __init__(self) -> None:
        self.resource_claims: Final = FakeResourceClaims()
        #: By key of the pod: the claim of its extended resources.
        self.extended_claims: Final[dict[str, PodExtendedResourceClaimStatus]] = {}
        self.bound: Final[dict[str, str]] = {}
        self.status_patches: Final[list[StatusPatch]] = []
        self.deleted: Final[list[str]] = []
        self.updated_volumes: Final[list[PersistentVolume]] = []
        self.updated_claims: Final[list[PersistentVolumeClaim]] = []
        #: Raised by every write, if set.
        self.pod_group_conditions: Final[list[tuple[str, Condition]]] = []
        self.failure: Exception | None = None
        #: Raised by writes of these pods, by key.
        self.failures: Final[dict[str, Exception]] = {}
        #: The keys of pods that the API server no longer has.
        self.gone: Final[set[str]] = set()

    async def bind(self, pod: Pod, node_name: str) -> None:
        self._fail(pod.key)
        self.bound[pod.key] = node_name

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        self._fail(pod.key)
        self.status_patches.append(StatusPatch(pod.key, condition, nominating_info))
        return pod.key not in self.gone

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        self._fail()
        self.pod_group_conditions.append((pod_group.metadata.name, condition))

    async def delete_pod(self, pod: Pod) -> bool:
        self._fail(pod.key)
        self.deleted.append(pod.key)
        return pod.key not in self.gone

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self._fail()
        self.updated_volumes.append(volume)
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        self._fail()
        self.updated_claims.append(claim)
        return claim

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        self._fail(pod.key)
        self.extended_claims[pod.key] = status

    def _fail(self, key: str = "") -> None:
        if self.failure is not None:
            raise self.failure
        if key in self.failures:
            raise self.failures[key]


class FakeHandle(PluginHandle):
    """The handle of one plugin on its own, made of fakes that record the plugin's actions.

    `listers` are by kind, written as in `Plugin.reads`. Writes are in `api`, events in
    `event_recorder`, activated pods in `activated`, work for the background in `spawned`. For dry
    runs it needs a framework: `make` is its `make_handle`.
    """

    api: FakeApi
    clock: VirtualClock
    event_recorder: RecordedEvents
    nominator: Nominator

    # The handle of the scheduler is frozen; the parts of a fake may be replaced.
    __setattr__ = object.__setattr__

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        *,
        profile_name: str = "default-scheduler",
        seed: int = 0,
        clock: VirtualClock | None = None,
        listers: Mapping[Kind, Lister[Any]] | None = None,
        feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
        extenders: Sequence[Extender] = (),
    ) -> None:
        clock, metrics = VirtualClock() if clock is None else clock, SchedulerMetrics()
        self.dry_run: DryRun | None = None
        self.activated: Final[dict[str, PodInfo]] = {}
        self.pod_groups: Final[dict[str, PodGroupState]] = {}
        self.spawned: Final[list[Coroutine[None, None, None]]] = []
        self.listers: Final = {kind_key(kind): lister for kind, lister in (listers or {}).items()}
        unassigned = Pod()
        super().__init__(
            profile_name=profile_name,
            snapshot=Snapshot() if snapshot is None else snapshot,
            # Every pod is known, and without a node.
            nominator=Nominator(lambda namespace, name: unassigned),
            event_recorder=RecordedEvents(),
            api=FakeApi(),
            feature_gates=feature_gates,
            metrics=metrics,
            rng=random.Random(seed),
            clock=clock,
            waiting_pods=WaitingPods(clock, metrics),
            pods_in_pre_bind=PodsInPreBind(),
            worlds=self._worlds,
            lister=self._lister,
            pod_group=self.pod_groups.get,
            activate=self.activated.update,
            spawn=self._spawn,
            run_in_parallel=run_in_parallel,
            shared_objects={},
            extenders=extenders,
        )

    def make(self, profile_name: str, worlds: DryRun) -> FakeHandle:
        """Return this handle as that of a framework, whose filters it then runs in dry runs."""
        self.dry_run = worlds
        return self

    def with_parts(self, **parts: object) -> MakeHandle:
        """Return a `make_handle` for other parts, by field name, in place of some of the fakes."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

        def make_handle(profile_name: str, worlds: DryRun) -> PluginHandle:
            return PluginHandle(
                **(fields | {"profile_name": profile_name, "worlds": worlds} | parts)
            )

        return make_handle

    def _lister(self, kind: Kind, /) -> Lister[Any]:
        key = kind_key(kind)
        if key not in self.listers:
            raise KindNotWatchedError(key)
        return self.listers[key]

    def _worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        assert self.dry_run is not None, "the handle belongs to no framework"
        return self.dry_run(state, pod, nodes)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        self.spawned.append(work)


class _Sort(Plugin):
    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return False


class _Binder(Plugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass


def make_plugin(
    plugin_class: type[P], *, args: object = None, handle: FakeHandle | None = None
) -> P:
    """Return a plugin as the scheduler makes it, in a profile of its own.

    `args` are its arguments as in `pluginConfig`. Without a handle it gets a `FakeHandle` of an
    empty cluster; kinds that it reads and the handle does not have are empty. Raises
    `PluginSetupError`.
    """
    framework = framework_with(plugin_class, args=args, handle=handle or FakeHandle())
    return next(each for each in framework.instances if isinstance(each, plugin_class))


def framework_with(plugin_class: type[Plugin], *, args: object, handle: FakeHandle) -> Framework:
    """Return a profile with this plugin; raises `PluginSetupError`, as the scheduler does."""
    for kind in (*plugin_class.reads, *plugin_class.required):
        handle.listers.setdefault(read_by(plugin_class, kind).key, FakeLister())
    classes: list[type[Plugin]] = [plugin_class, _Binder]
    if not hasattr(plugin_class, "less"):
        classes.insert(0, _Sort)
    enabled = tuple(PluginEntry(name=each.name) for each in classes)
    profile = KubeSchedulerProfile(
        scheduler_name=handle.profile_name,
        plugins=Plugins(multi_point=PluginSet(enabled=enabled)),
        plugin_config=(PluginConfig(name=plugin_class.name, args=args),) if args else (),
    )
    framework = Framework(profile, registry=Registry(classes), make_handle=handle.make)
    kinds_to_watch({handle.profile_name: framework})  # raises for a kind that cannot exist
    return framework


def run_on_clock(work: Awaitable[R], clock: VirtualClock) -> R:
    """Return the result of `work`, advancing the clock whenever all wait for it.

    It has an event loop of its own in a thread of its own, so that it can be called anywhere.
    Raises TimeoutError if the work waits for anything else than the clock.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, _advancing(work, clock)).result()


async def _advancing(work: Awaitable[R], clock: VirtualClock) -> R:
    task = asyncio.ensure_future(work)
    while True:
        await let_tasks_run()
        if task.done():
            return task.result()
        if clock.next_wake_up is None:
            task.cancel()
            raise TimeoutError("it waits for something that never happens")
        clock.advance_nowait(clock.next_wake_up - clock.now())
