"""The handle of plugins: the protocols of the scheduler's parts that plugins can use.

Plugins depend on these protocols and not on the parts that implement them.
Source: `Handle` in `k8s.io/kube-scheduler/framework/interface.go`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

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

    from scheduler.api.core import (
        NodeAllocatableResourceClaimStatus,
        ObjectReference,
        Pod,
        PodExtendedResourceClaimStatus,
    )
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind, Unstructured
    from scheduler.config.types import FeatureGates
    from scheduler.config.versions import SchedulerVersion
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.status import Rejections
    from scheduler.framework.types import Condition, NominatingInfo, Rng
    from scheduler.metrics import SchedulerMetrics
    from scheduler.snapshot.columns import IntArray, World
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_group_state import PodGroupState
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot


class KindNotWatchedError(KeyError):
    """A plugin lists a kind that no plugin of the profiles reads."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return f'the kind "{self.kind}" is not watched: add it to reads of the plugin'


class WaitingPod(Protocol):
    """A pod held at Permit."""

    @property
    def pod(self) -> PodInfo:
        """The pod, with its node filled in."""

    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed the pod yet."""

    def allow(self, plugin_name: str) -> None:
        """Allow the pod for one plugin. The last pending plugin ends the wait."""

    def reject(self, plugin_name: str, message: str) -> bool:
        """Reject the pod as unschedulable; False if it was no longer waiting."""

    def preempt(self, plugin_name: str, message: str) -> bool:
        """Fail the pod with an error, so that it is retried; False if it was no longer waiting."""


class PodInPreBind(Protocol):
    """A pod while its PreBind plugins run."""

    def cancel_pod(self, message: str) -> bool:
        """Cancel the binding, which fails with this message; False if it is too late."""


class PodNominator(Protocol):
    """The nominated pods: each is expected on a node and not running there yet."""

    @property
    def nominated_nodes(self) -> Collection[str]:
        """The names of the nodes with nominated pods; mostly none."""

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """Nominate a pod to the given node, or to the one in its status."""

    def delete_nominated_pod_if_exists(self, pod: PodInfo) -> None:
        """Remove the nomination of a pod, if it has one."""

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """Return the pods nominated to a node."""

    def nominated_pods_for_nodes(
        self, node_names: Iterable[str]
    ) -> tuple[list[PodInfo], list[int]]:
        """Return the pods nominated to some nodes, node by node, and their number on each."""


class EventSink(Protocol):
    """Takes events for users; it never blocks and never fails."""

    def event(
        self,
        regarding: Pod | ObjectReference,
        *,
        related: ObjectReference | None = None,
        type: str,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        """Record an event about a pod, or another object."""


class WriteConflictError(Exception):
    """The object has changed since it was read. The text is the API server's."""


class WriteOutcomeUnknownError(Exception):
    """A write failed, and may have been executed all the same. The text is the client's."""


class ObjectNotFoundError(Exception):
    """There is no such object. The text is the API server's."""


class ResourceClaimWriter(Protocol):
    """The writes of resource claims. Each waits for the response of the API server.

    Updates raise `WriteConflictError` if the claim has changed since it was read, and
    `WriteOutcomeUnknownError` if they may have been executed without an answer. Any other refusal
    raises the client's `ApiError` where no other error is named.
    """

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim as the API server has it; raises `ObjectNotFoundError`."""

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim; its name is generated."""

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers of a claim; return the claim from the response."""

    async def update_status(self, before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        """Write allocation, users and devices of a claim; return the claim from the response.

        `before` is the claim as it was read.
        """

    async def release(self, claim: ResourceClaim, uid: str) -> None:
        """Remove a user from a claim, whatever its version is."""

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim."""


class ObjectClient(Protocol):
    """Requests for the objects of one kind. Each waits for the response of the API server.

    Objects that are sent are JSON as plain values; those that come back are `Unstructured`. A
    refusal raises the client's `ApiError` where no other error is named, and `WriteRefused` a write
    that is not sent: in shadow mode, in `kubesched-explain`, and while another process may lead.
    """

    async def get(self, name: str, *, namespace: str = "") -> Unstructured:
        """Return an object as the API server has it; raises `ObjectNotFoundError`."""

    async def create(self, obj: Mapping[str, object]) -> Unstructured:
        """Create an object of `metadata.namespace`; return it with its uid and version."""

    async def patch(
        self,
        name: str,
        patch: Mapping[str, object],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Unstructured:
        """Set fields by a JSON merge patch; None removes a field. Return the object.

        Raises `ObjectNotFoundError`, and `WriteConflictError` if the patch has a
        `metadata.resourceVersion` that is not the object's.
        """

    async def delete(self, name: str, *, namespace: str = "") -> bool:
        """Delete an object; False if there is none."""


class ApiWriter(Protocol):
    """The writes that plugins can make. Each waits for the response of the API server.

    A refusal raises the client's `ApiError`.
    """

    async def patch_pod(
        self,
        pod: Pod,
        *,
        labels: Mapping[str, str | None] = MappingProxyType({}),
        annotations: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Pod:
        """Set labels and annotations of a pod; None removes one. Return the pod.

        Raises `ObjectNotFoundError` if the pod is gone, and `WriteRefused` as `ObjectClient`.
        """

    def client(self, kind: Kind, /) -> ObjectClient:
        """Return the client of any kind, written as in `Plugin.reads`; ValueError for a bad one."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node."""

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Set a condition, a nominated node, or both; a no-op is not sent.

        Returns False if the pod is gone.
        """

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        """Set a condition of a pod group; a no-op is not sent."""

    async def delete_pod(self, pod: Pod) -> bool:
        """Delete a pod with its own grace period; False if it is gone already."""

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference of a volume; return the volume from the response.

        Refused with a conflict if the volume has changed since it was read.
        """

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the selected node of a claim; return the claim from the response.

        Refused with a conflict if the claim has changed since it was read.
        """

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        """Set the claim of a pod's extended resources in the pod's status."""

    async def patch_claim_statuses(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Set what a pod's claims take of its node in the pod's status."""

    @property
    def resource_claims(self) -> ResourceClaimWriter:
        """The writes of resource claims."""


class Background(Protocol):
    """Runs a coroutine in the background, under a name for debuggers."""

    def __call__(self, work: Coroutine[None, None, None], name: str, /) -> object:
        """Return at once; the coroutine starts later."""


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Lister(Protocol[T_co]):
    """The objects of one kind in an informer; they may be newer than the snapshot."""

    def get(self, name: str, namespace: str = "") -> T_co | None:
        """Return an object; None if there is none."""

    def list(self, namespace: str = "") -> Sequence[T_co]:
        """Return all objects, or the objects of one namespace."""

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """Return the next cursor and the changed keys (`namespace/name`, or `name`).

        None instead of keys means that any object may have changed, as for the cursor -1.
        """


class Listers(Protocol):
    """The listers of the kinds that plugins read."""

    @overload
    def __call__(self, kind: type[T], /) -> Lister[T]: ...

    @overload
    def __call__(self, kind: str, /) -> Lister[Unstructured]: ...

    def __call__(self, kind: Kind, /) -> Lister[object]:
        """Return the lister of a kind, written as in `Plugin.reads`.

        Raises `KindNotWatchedError` if the kind is not watched.
        """


class Worlds(Protocol):
    """A dry run: one world for each of several nodes, with the same numbers.

    A world changes only the pods of its own node; all else is as in the snapshot.
    """

    @property
    def nodes(self) -> Nodes:
        """The nodes with their pods in these worlds."""

    @property
    def failures(self) -> Mapping[World, Exception]:
        """The error of AddPod or RemovePod, by world in which one failed."""

    @property
    def only_room(self) -> bool:
        """True if a pod that fits in a world also fits there with fewer pods."""

    def add_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Add `pods[i]` to the node of `worlds[i]`, for each i."""

    def remove_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Remove `pods[i]` from the node of `worlds[i]`, for each i."""

    def run_filters(self, worlds: IntArray | None = None) -> Rejections | None:
        """Return the rejections of the pod in these worlds (by default all); None if all pass.

        Nominated pods are taken into account. A filter that fails gives an Error status.
        """

    def run_scores(self) -> IntArray:
        """Return the sum of the profile's weighted scores in each world; it includes no extender's.

        PreScore and the normalisation see the nodes of all worlds. Raises `PluginFailedError`.
        """


class Handle(Protocol):
    """The parts of the scheduler that the plugins of one profile can use."""

    @property
    def profile_name(self) -> str:
        """The `schedulerName` of the profile."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as of this cycle. For PreFilter to Permit only: it changes afterwards."""

    @property
    def nominator(self) -> PodNominator:
        """The nominated pods."""

    @property
    def event_recorder(self) -> EventSink:
        """The recorder of events for users."""

    @property
    def api(self) -> ApiWriter:
        """Writes to the API server. For PostFilter and the binding cycle."""

    @property
    def extenders(self) -> Sequence[Extender]:
        """The extenders, in the order of their calls."""

    @property
    def feature_gates(self) -> FeatureGates:
        """The names of the feature gates that are on."""

    @property
    def version(self) -> SchedulerVersion:
        """The version of kube-scheduler as which the scheduler decides."""

    @property
    def metrics(self) -> SchedulerMetrics:
        """The scheduler's metrics."""

    @property
    def rng(self) -> Rng:
        """The scheduler's seeded random generator."""

    def worlds(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Worlds:
        """Return a dry run of this profile's filters and scores for a pod on some nodes.

        `state` is that of PostFilter, or of `feasible_nodes`.
        """

    def feasible_nodes(self, state: CycleState, pod: PodInfo) -> Nodes:
        """Run this profile's PreFilter and Filter for any pod, and return the nodes that pass.

        `state` is a new one, and ready for `worlds` then. Extenders are not called. For plugins
        that look at other pods than their cycle's; raises `PluginFailedError`.
        """

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run a coroutine in the background. It should handle its own errors and end soon."""

    def run_in_parallel(self, works: Iterable[Coroutine[None, None, None]]) -> Awaitable[None]:
        """Run coroutines at once; the first failure cancels the others and is raised."""

    def let_others_run(self) -> Awaitable[None]:
        """Give other tasks a turn if this one has run for long. For loops over much, in PostFilter.

        Events may arrive meanwhile; the snapshot does not change.
        """

    def now(self) -> float:
        """Return the time of the scheduler's clock in epoch seconds, for timestamps."""

    def monotonic(self) -> float:
        """Return the seconds since some start, which never decrease, for durations."""

    async def sleep(self, seconds: float) -> None:
        """Sleep on the scheduler's clock. For the binding cycle only."""

    @property
    def lister(self) -> Listers:
        """`lister(kind)`: the objects of a kind of `Plugin.reads`, such as `Pod`.

        For a kind without a type of its own, `<plural>.<version>.<group>`, the objects are
        `Unstructured`. Raises `KeyError` if the kind is not watched.
        """

    def on_change(self, kind: Kind, function: Callable[[Any, Any], object], /) -> None:
        """Call `function(old, new)` for each change of an object of a kind, written as in `reads`.

        `old` is None for a new object, as for all of the first list, and `new` for a deleted one.
        The lister has the change already. For `__init__` of a plugin only; the function may not
        wait. It is how Permit waits for an object: allow or reject the waiting pods there.
        """

    def shared(self, kind: Callable[[Handle], T], /) -> T:
        """Return the object that `kind(handle)` makes: one for the plugins of all profiles."""

    def pod_group(self, key: str, /) -> PodGroupState | None:
        """Return the present members of a pod group, by the group's `namespace/name`."""

    def active_pods(self, count: int) -> Sequence[PodInfo]:
        """Return the next pods of the active queue, at most `count`, in the order of the queue."""

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        """Move pods to the active queue at once, without backoff."""

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod held at Permit; None if it is not held."""

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """Return a pod in PreBind; None if it is not there."""

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], None]) -> None:
        """Call `callback` with every pod held at Permit."""

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a pod held at Permit; False if it was not held."""
