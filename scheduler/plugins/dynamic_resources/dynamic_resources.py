"""DynamicResources: resource claims, without the allocation of devices.

A pod stays out of the queue until all its claims exist. A pod with a claim is then rejected:
devices cannot be allocated yet. A pod whose extended resource is backed by device classes fits only
nodes that offer the resource without devices. All other pods pass; if they fit no node, PostFilter
adds upstream's reason.
Mirrors `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go` and
`extendeddynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api import field
from scheduler.api.dynamic_resources import (
    ClaimError,
    ResourceClaim,
    claim_referenced_by,
    ensure_is_for_pod,
    is_claim_for_extended_resources,
    is_dra_extended_resource_name,
)
from scheduler.config.duration import SECOND, Duration
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin
from scheduler.framework.status import (
    Rejections,
    Status,
    reject_by,
    skip,
    unresolvable,
    unschedulable,
)
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.plugins._device_classes import backed_by_devices
from scheduler.plugins._queueing_hints import updated_self
from scheduler.snapshot.columns import uniform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.core import Node, Pod
    from scheduler.api.dynamic_resources import ClaimReference
    from scheduler.api.field import FieldError
    from scheduler.framework.status import NodeToStatus
    from scheduler.framework.types import PostFilterResult
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_CLAIMS_NOT_BUILT: Final = unresolvable(
    "resource claims need the allocation of devices, which is not built yet"
)
_EXTENDED_NOT_BUILT: Final = unresolvable(
    "extended resources backed by device classes need the allocation of devices, "
    "which is not built yet"
)
_CANNOT_FIT: Final = unresolvable("cannot fit resource")
_NOTHING_TO_DEALLOCATE: Final = unschedulable("no new claims to deallocate")
_STILL_NOT_SCHEDULABLE: Final = unschedulable("still not schedulable")


class _ExtendedResources(NamedTuple):
    """The extended resources a pod requests; both sets are empty if none is backed by devices."""

    backed_by_devices: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


_NONE: Final = _ExtendedResources()

#: Later extension points fail without this state.
_REQUESTED: Final = StateKey[_ExtendedResources]("DynamicResources")


_DEFAULT_FILTER_TIMEOUT: Final = Duration(10 * SECOND)
_DEFAULT_BINDING_TIMEOUT: Final = Duration(600 * SECOND)
_SECOND: Final = Duration(SECOND)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Arguments of DynamicResources."""

    always_written: ClassVar[frozenset[str]] = frozenset({"filter_timeout"})

    filter_timeout: Duration | None = None
    """Longest search for devices on one node; 0 means unlimited. Default: 10s.

    None, and forbidden, without the gate DRASchedulerFilterTimeout.
    """

    binding_timeout: Duration | None = None
    """Longest wait for devices in PreBind, at least 1s. Default: 10m.

    None, and forbidden, without both gates of binding conditions.
    """

    def with_defaults(self, gates: FeatureGates) -> DynamicResourcesArgs:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and _may_limit_filter(gates):
            filter_timeout = _DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and _may_limit_binding(gates):
            binding_timeout = _DEFAULT_BINDING_TIMEOUT
        return msgspec.structs.replace(
            self, filter_timeout=filter_timeout, binding_timeout=binding_timeout
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        return [
            *self._filter_timeout_errors(field.child_path(path, "filterTimeout"), gates),
            *self._binding_timeout_errors(field.child_path(path, "bindingTimeout"), gates),
        ]

    def _filter_timeout_errors(self, path: str, gates: FeatureGates) -> list[FieldError]:
        if self.filter_timeout is None:
            return []
        if not _may_limit_filter(gates):
            # The gate is spelt DRASchedulerFilterTimeout; the message is upstream's.
            return [field.forbidden(path, "DRASchedulingFilterTimeout feature gate is disabled")]
        if self.filter_timeout < Duration():
            return [field.invalid(path, str(self.filter_timeout), "must be zero or positive")]
        return []

    def _binding_timeout_errors(self, path: str, gates: FeatureGates) -> list[FieldError]:
        if self.binding_timeout is None:
            return []
        if not _may_limit_binding(gates):
            message = (
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is "
                "disabled"
            )
            return [field.forbidden(path, message)]
        if self.binding_timeout < _SECOND:
            return [field.invalid(path, str(self.binding_timeout), "must be at least 1 second")]
        return []


def _may_limit_filter(gates: FeatureGates) -> bool:
    return "DRASchedulerFilterTimeout" in gates


def _may_limit_binding(gates: FeatureGates) -> bool:
    return {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= gates


class DynamicResources(Plugin):
    """Wait for claims, reject pods that have any, and pass all other pods."""

    Args = DynamicResourcesArgs
    args: DynamicResourcesArgs
    reads = ("resourceclaims", "deviceclasses")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod unless all its claims exist."""
        try:
            self._claims_of(pod.pod)
        except ClaimError as error:
            return unresolvable(str(error))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without claims; reject those that have one."""
        state.write(_REQUESTED, _NONE)
        try:
            claims = self._claims_of(pod.pod)
        except ClaimError as error:
            return unresolvable(str(error))
        if claims:
            return _CLAIMS_NOT_BUILT
        requested = self._extended_resources(pod)
        if not requested.backed_by_devices:
            return skip()
        if any(is_claim_for_extended_resources(pod.pod, c) for c in self._claims(pod.namespace)):
            return _EXTENDED_NOT_BUILT
        state.write(_REQUESTED, requested)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that do not offer the extended resources themselves."""
        requested = state.read(_REQUESTED)
        if not requested.backed_by_devices:
            return None
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        for name in requested.backed_by_devices:
            lacking |= nodes.allocatable(name) == 0
        others = requested.others
        unknown = nodes.derive(_offered_by).where(
            lambda known: known is None or not others <= known
        )
        return reject_by((unknown, _CANNOT_FIT), (lacking, _EXTENDED_NOT_BUILT))

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status]:
        """Reject with the reason that no claim can be deallocated."""
        requested = state.read(_REQUESTED)
        is_backed = bool(requested.backed_by_devices)
        return None, _STILL_NOT_SCHEDULABLE if is_backed else _NOTHING_TO_DEALLOCATE

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return 0 for every node, as no device has been chosen."""
        state.read(_REQUESTED)
        return uniform(len(nodes), np.int64(0))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        state.read(_REQUESTED)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing was reserved."""

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult:
        is_backed = bool(state.read(_REQUESTED).backed_by_devices)
        return PreBindPreFlightResult(allow_parallel=True, skip=not is_backed)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Do nothing: the node provides the resources without devices."""
        state.read(_REQUESTED)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        added_or_changed = ActionType.ADD | ActionType.UPDATE
        node_change = ClusterEvent(
            EventResource.NODE,
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE,
        )
        claim_change = ClusterEvent(EventResource.RESOURCE_CLAIM, added_or_changed)
        pod_change = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        return [
            ClusterEventWithHint(node_change),
            ClusterEventWithHint(claim_change, self.is_schedulable_after_claim_change),
            ClusterEventWithHint(pod_change, self.is_schedulable_after_pod_change),
            ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, added_or_changed)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, added_or_changed)),
        ]

    def is_schedulable_after_claim_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if devices were deallocated, or a claim of this pod is new or has a new status.

        Skip while not all of the pod's claims exist.
        """
        original, modified = as_kind(ResourceClaim, old, new)
        try:
            claims = self._claims_of(pod.pod)
        except ClaimError:
            return QueueingHint.QUEUE_SKIP
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        had_devices = original is not None and original.status.allocation is not None
        if had_devices and modified.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim.metadata.uid != modified.metadata.uid for claim in claims):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(original is None or original.status != modified.status)

    def is_schedulable_after_pod_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if this pod was updated and all its claims exist now."""
        modified = updated_self(pod, None, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        try:
            self._claims_of(modified)
        except ClaimError:
            return QueueingHint.QUEUE_SKIP
        return QueueingHint.QUEUE

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        """Return a pod's claims; raises `ClaimError` if one is missing or not the pod's."""
        entries = pod.spec.resource_claims
        if not entries:
            return []
        references = (claim_referenced_by(pod, entry) for entry in entries)
        return [self._claim(pod, reference) for reference in references if reference is not None]

    def _claim(self, pod: Pod, reference: ClaimReference) -> ResourceClaim:
        name, namespace = reference.name, pod.metadata.namespace
        claim = self.handle.lister(ResourceClaim).get(name, namespace)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if reference.must_be_own:
            ensure_is_for_pod(pod, claim)
        return claim

    def _claims(self, namespace: str) -> Iterable[ResourceClaim]:
        return self.handle.lister(ResourceClaim).list(namespace)

    def _extended_resources(self, pod: PodInfo) -> _ExtendedResources:
        requests = pod.spec_requests
        names = [n for n, count in requests.items() if count and is_dra_extended_resource_name(n)]
        backed = backed_by_devices(self.handle, names)
        if not backed:
            return _NONE
        return _ExtendedResources(backed, frozenset(names) - backed)


def _offered_by(node: Node) -> frozenset[str]:
    """Return the names of the node's resources, including those with an amount of 0."""
    return frozenset(node.status.allocatable)
