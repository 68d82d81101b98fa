"""Stand-ins for the scheduler's surroundings: a clock that one sets, a handle that one can read."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from scheduler.config.types import DEFAULT_FEATURE_GATES
from scheduler.metrics import SchedulerMetrics
from scheduler.runtime.background import run_in_parallel
from scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.core import ObjectMeta, ObjectReference, Pod
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Lister, PodInPreBind, PreemptionExtender, WaitingPod
    from scheduler.framework.types import Condition, NominatingInfo
    from scheduler.runtime.filtering import Filters
    from scheduler.runtime.worlds import Worlds
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: 2026-01-01T00:00:00Z, where virtual time starts.
_START_SECONDS: Final = 1767225600.0


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

    @property
    def next_wake_up(self) -> float | None:
        """When the next sleeper is due; None if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance_nowait(self, seconds: float) -> None:
        """Move on and wake whoever is due; their tasks run when the event loop next does."""
        self._now += seconds
        while (due := self.next_wake_up) is not None and due <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)

    async def advance(self, seconds: float) -> None:
        """Move on from one wake-up to the next, letting tasks run in between."""
        end = self._now + seconds
        await _let_tasks_run()
        while (due := self.next_wake_up) is not None and due <= end:
            self.advance_nowait(max(0.0, due - self._now))
            await _let_tasks_run()
        self.advance_nowait(end - self._now)
        await _let_tasks_run()


async def _let_tasks_run() -> None:
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


class _ApiObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class FakeLister:
    """A lister over a fixed list of objects."""

    def __init__(self, objects: Iterable[_ApiObject] = ()) -> None:
        self._objects: dict[tuple[str, str], _ApiObject] = {
            (o.metadata.namespace, o.metadata.name): o for o in objects
        }

    def get(self, name: str, namespace: str = "") -> object | None:
        """One object."""
        return self._objects.get((namespace, name))

    def list(self, namespace: str = "") -> Iterable[object]:
        """All objects, or those of one namespace."""
        return [o for (ns, _), o in self._objects.items() if not namespace or ns == namespace]

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """Nothing ever changes."""
        return 0, None if cursor < 0 else ()


class StatusPatch(NamedTuple):
    """A change to a pod's status, as a plugin asked for it."""

    pod: str
    condition: Condition | None
    nominating_info: NominatingInfo | None


class FakeHandle:
    """A `Handle` for one plugin on its own; what the plugin does is there to be read.

    `filters` must be set for whoever does dry runs.
    """

    filters: Filters

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        *,
        profile_name: str = "default-scheduler",
        seed: int = 0,
        clock: VirtualClock | None = None,
        listers: Mapping[str, Lister] | None = None,
    ) -> None:
        self.profile_name: Final = profile_name
        self.snapshot = snapshot if snapshot is not None else Snapshot()
        self.rng: Final = random.Random(seed)
        self.clock: Final = clock if clock is not None else VirtualClock()
        self.nominated: Final[dict[str, PodInfo]] = {}
        self.nominations: Final[dict[str, str]] = {}
        self.events: Final[list[RecordedEvent]] = []
        self.bound: Final[dict[str, str]] = {}
        self.activated: Final[dict[str, PodInfo]] = {}
        self.updated_volumes: Final[list[PersistentVolume]] = []
        self.updated_claims: Final[list[PersistentVolumeClaim]] = []
        self.waiting_pods: Final[dict[str, WaitingPod]] = {}
        #: Raised by the next write, if set.
        self.failure: Exception | None = None
        #: Raised by writes to these pods, by key.
        self.failures: Final[dict[str, Exception]] = {}
        #: The keys of pods that the API server does not know any more.
        self.gone: Final[set[str]] = set()
        self.status_patches: Final[list[StatusPatch]] = []
        self.deleted: Final[list[str]] = []
        self.pods_in_pre_bind: Final[dict[str, PodInPreBind]] = {}
        self.spawned: Final[list[Coroutine[None, None, None]]] = []
        self.extenders: Sequence[PreemptionExtender] = ()
        self.feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
        self.metrics: Final = SchedulerMetrics()
        self._listers: Final = dict(listers or {})

    @property
    def nominator(self) -> FakeHandle:
        """This handle keeps the nominations itself."""
        return self

    @property
    def nominated_nodes(self) -> Collection[str]:
        """The nodes on which pods are expected."""
        return {name for name in self.nominations.values() if name}

    @property
    def event_recorder(self) -> FakeHandle:
        """This handle records events itself."""
        return self

    @property
    def api(self) -> FakeHandle:
        """This handle takes writes itself."""
        return self

    def now(self) -> float:
        """Epoch seconds on the virtual clock."""
        return self.clock.now()

    def lister(self, resource: str) -> Lister:
        """One of the listers given."""
        return self._listers[resource]

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Remember the pods."""
        self.activated.update(pods)

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """One of `waiting_pods`."""
        return self.waiting_pods.get(uid)

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        """Show all of `waiting_pods`."""
        for waiting in list(self.waiting_pods.values()):
            callback(waiting)

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject one of `waiting_pods`."""
        waiting = self.waiting_pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """Remember which node the pod is expected on."""
        named = pod.pod.status.nominated_node_name
        node_name = nominating_info.nominated_node_name if nominating_info else named
        self.nominated[pod.uid] = pod
        self.nominations[pod.uid] = node_name

    def delete_nominated_pod_if_exists(self, pod: PodInfo) -> None:
        """Expect the pod nowhere."""
        self.nominated.pop(pod.uid, None)
        self.nominations.pop(pod.uid, None)

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """The pods expected on a node."""
        return [self.nominated[uid] for uid, name in self.nominations.items() if name == node_name]

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
        """Record an event."""
        self.events.append(RecordedEvent(regarding.key, type, reason, action, note))

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """A dry run of `filters`, which must have been set."""
        return self.filters.worlds(state, pod, nodes)

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Keep the work, for the test to await."""
        self.spawned.append(work)

    async def run_in_parallel(self, works: Iterable[Coroutine[None, None, None]]) -> None:
        """Do the work at a time, as in earnest."""
        await run_in_parallel(works)

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """One of `pods_in_pre_bind`."""
        return self.pods_in_pre_bind.get(uid)

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Record a status patch, or fail as told."""
        self._write(pod)
        self.status_patches.append(StatusPatch(pod.key, condition, nominating_info))
        return pod.key not in self.gone

    async def delete_pod(self, pod: Pod) -> bool:
        """Record a deletion, or fail as told."""
        self._write(pod)
        self.deleted.append(pod.key)
        return pod.key not in self.gone

    def _write(self, pod: Pod) -> None:
        if self.failure is not None:
            raise self.failure
        if pod.key in self.failures:
            raise self.failures[pod.key]

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Record a binding, or fail as told."""
        if self.failure is not None:
            raise self.failure
        self.bound[pod.key] = node_name

    async def sleep(self, seconds: float) -> None:
        """Wait on the virtual clock."""
        await self.clock.sleep(seconds)

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Record a volume as it was sent, or fail as told."""
        if self.failure is not None:
            raise self.failure
        self.updated_volumes.append(volume)
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Record a claim as it was sent, or fail as told."""
        if self.failure is not None:
            raise self.failure
        self.updated_claims.append(claim)
        return claim
