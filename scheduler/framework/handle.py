"""What a plugin may ask of the scheduler.

Protocols only: plugins depend on these words, not on the parts that answer them.
Source: `Handle` in `k8s.io/kube-scheduler/framework/interface.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from scheduler.api.core import ObjectReference, Pod
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.framework.types import NominatingInfo, Rng
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

__all__ = ["ApiWriter", "EventSink", "Handle", "Lister", "PodNominator", "WaitingPod"]


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


class Lister(Protocol):
    """Objects of one kind as the informers know them; not the snapshot, and maybe newer."""

    def get(self, name: str, namespace: str = "") -> object | None:
        """One object, None if there is none."""
        ...

    def list(self, namespace: str = "") -> Iterable[object]:
        """All objects, or those of one namespace."""
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
    def rng(self) -> Rng:
        """The scheduler's seeded chance."""
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

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        """Show every pod held at Permit to `callback`."""
        ...

    def reject_waiting_pod(self, uid: str) -> bool:
        """Turn down a pod held at Permit; False if it was not there."""
        ...
