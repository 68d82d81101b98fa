"""What a plugin may ask of the scheduler.

Protocols only: plugins depend on these words, not on the parts that answer them.
Source: `Handle` in `k8s.io/kube-scheduler/framework/interface.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

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

    from scheduler.api.core import ObjectReference, Pod
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.config.types import FeatureGates
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import Rejections
    from scheduler.framework.types import Condition, NominatingInfo, Rng
    from scheduler.metrics import SchedulerMetrics
    from scheduler.snapshot.columns import IntArray, World
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot


class WaitingPod(Protocol):
    """A pod held at Permit."""

    @property
    def pod(self) -> PodInfo:
        """The pod, with its node filled in."""
        ...

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins whose word is still out."""
        ...

    def allow(self, plugin_name: str) -> None:
        """A plugin lets the pod go; the last one to do so sends it on its way."""
        ...

    def reject(self, plugin_name: str, message: str) -> bool:
        """A plugin turns the pod down for good; False if it was no longer waiting."""
        ...

    def preempt(self, plugin_name: str, message: str) -> bool:
        """A plugin needs the pod's place: the pod is tried again. False if no longer waiting."""
        ...


class PodInPreBind(Protocol):
    """A pod on its way from Permit to its bind, while PreBind plugins work for it."""

    def cancel_pod(self, message: str) -> bool:
        """Stop the binding, which then fails with this message; False if it is too late."""
        ...


class PodNominator(Protocol):
    """Which pods are expected on which node, though not there yet."""

    @property
    def nominated_nodes(self) -> Collection[str]:
        """The nodes on which any pod is expected; mostly none."""
        ...

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """Expect a pod on the node given, or on the one its status names."""
        ...

    def delete_nominated_pod_if_exists(self, pod: PodInfo) -> None:
        """Expect the pod nowhere."""
        ...

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """The pods expected on a node."""
        ...


class EventSink(Protocol):
    """Takes events for users; never blocks, never fails."""

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
        """Tell users that something happened to a pod."""
        ...


class ApiWriter(Protocol):
    """The writes a plugin may make. Each waits for the API server's answer.

    They raise the client's `ApiError` when it refuses.
    """

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Give a pod its node."""
        ...

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Set a condition, a nominated node, or both; nothing is sent if nothing changes.

        False if the pod is gone.
        """
        ...

    async def delete_pod(self, pod: Pod) -> bool:
        """Have a pod deleted, with the grace it asks for; False if it is gone already."""
        ...

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write for which claim a volume is kept, and by whom; returns it as the server has it.

        Refused with a conflict if the volume has changed since it was read.
        """
        ...

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write near which node a claim's volume is to be made; likewise."""
        ...


class Background(Protocol):
    """Runs a coroutine in the background, under a name for debuggers."""

    def __call__(self, work: Coroutine[None, None, None], name: str, /) -> object:
        """Return at once; the coroutine starts later."""
        ...


class Lister(Protocol):
    """Objects of one kind as the informers know them; not the snapshot, and maybe newer."""

    def get(self, name: str, namespace: str = "") -> object | None:
        """One object, None if there is none."""
        ...

    def list(self, namespace: str = "") -> Iterable[object]:
        """All objects, or those of one namespace."""
        ...

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """What has changed: the keys (`namespace/name`, or `name`), and the next cursor.

        None instead of keys means that anything may have: always so for the cursor -1.
        """
        ...


class Worlds(Protocol):
    """A dry run: one world for each of some nodes, numbered as the nodes are.

    In each of them pods come and go on its own node, and all else is as in the snapshot.
    """

    @property
    def failures(self) -> Mapping[World, Exception]:
        """The worlds in which a plugin could not follow a pod, and why."""
        ...

    def add_pods(self, worlds: Sequence[World], pods: Sequence[PodInfo]) -> None:
        """Put pods there: the first on the node of the first of `worlds`, and so on."""
        ...

    def remove_pods(self, worlds: Sequence[World], pods: Sequence[PodInfo]) -> None:
        """Take pods away that are there, likewise."""
        ...

    def run_filters(self, worlds: IntArray | None = None) -> Rejections | None:
        """The verdict on the pod in each of these worlds (all by default); None if all pass.

        Nominated pods are taken into account. A filter that fails gives an Error status.
        """
        ...


class Victims(NamedTuple):
    """The pods that would have to leave a node, the most important one first."""

    pods: Sequence[PodInfo]
    #: How many of them no disruption budget lets go.
    num_pdb_violations: int


class PreemptionExtender(Protocol):
    """A process outside that has a say in whom to preempt."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """Whether scheduling goes on without it when it fails."""
        ...

    @property
    def supports_preemption(self) -> bool:
        """Whether it wants to be asked about victims at all."""
        ...

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether it wants to be asked about this pod."""
        ...

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims]:
        """Fewer nodes, or other victims, by node name; may raise anything."""
        ...


class Handle(Protocol):
    """The scheduler as plugins of one profile see it."""

    @property
    def profile_name(self) -> str:
        """The `schedulerName` this profile serves."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as of this cycle. For PreFilter to Permit only: it changes afterwards."""
        ...

    @property
    def nominator(self) -> PodNominator:
        """The pods expected on nodes."""
        ...

    @property
    def event_recorder(self) -> EventSink:
        """Where events for users go."""
        ...

    @property
    def api(self) -> ApiWriter:
        """Writes to the API server. For PostFilter and the binding cycle."""
        ...

    @property
    def extenders(self) -> Sequence[PreemptionExtender]:
        """The extenders, in the order in which they are asked."""
        ...

    @property
    def feature_gates(self) -> FeatureGates:
        """The names of the feature gates that are on."""
        ...

    @property
    def metrics(self) -> SchedulerMetrics:
        """What the scheduler counts and measures; plugins of ours count here too."""
        ...

    @property
    def rng(self) -> Rng:
        """The scheduler's seeded chance."""
        ...

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """A dry run of this profile's filters for a pod on some nodes. For PostFilter."""
        ...

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Have work done in the background, which must see to its own failures and soon end."""
        ...

    def run_in_parallel(self, works: Iterable[Coroutine[None, None, None]]) -> Awaitable[None]:
        """Do several things at a time; the first failure cancels the others, and is raised."""
        ...

    def now(self) -> float:
        """Epoch seconds on the scheduler's clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once so much time has passed on it. For the binding cycle only."""
        ...

    def lister(self, resource: str) -> Lister:
        """The objects of one kind (`pods`, `nodes`); raises KeyError if nobody watches it."""
        ...

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Try these waiting pods at once, whatever their backoff."""
        ...

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """A pod held at Permit."""
        ...

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """A pod that PreBind plugins are at work for."""
        ...

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        """Show every pod held at Permit to `callback`."""
        ...

    def reject_waiting_pod(self, uid: str) -> bool:
        """Turn down a pod held at Permit; False if it was not there."""
        ...
