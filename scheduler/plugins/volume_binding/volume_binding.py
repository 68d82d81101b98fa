"""VolumeBinding: find nodes that can have all volumes of a pod, and bind the volumes.

PreFilter groups the claims: bound, to be bound once the pod has a node, and to be bound by the
volume controller first, for which the pod waits. Filter rejects nodes that cannot have all volumes.
Reserve assumes the volumes found, PreBind writes them to the API server and waits for the volume
controller. Claims of ephemeral volumes are treated like others once they exist.
Mirrors `pkg/scheduler/framework/plugins/volumebinding/volume_binding.go`, v1.36.3.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import numpy as np

from scheduler.api import field
from scheduler.api.core import Node
from scheduler.api.field import FieldError, quoted
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.api.volumes import LOST, claim_name, is_for_pod
from scheduler.config.encode import internal_form
from scheduler.config.types import FeatureGates, Int64, PluginArgs
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, Status, skip, unresolvable
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.plugins._csi_translation import MIGRATED_PLUGINS_ANNOTATION
from scheduler.plugins._queueing_hints import queue_for_claim, volumes_and_namespace
from scheduler.plugins._shape_score import UtilizationShapePoint, validate_shape
from scheduler.plugins.volume_binding.binder import (
    VolumeBinder,
    VolumeBindingError,
    not_created_for_pod,
)
from scheduler.plugins.volume_binding.pod_volumes import PodVolumes, PodVolumeSearch
from scheduler.plugins.volume_binding.scorer import VolumeCapacityScorer, storage_uses
from scheduler.plugins.volume_binding.unbound_claims import volume_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import Pod
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_UNBOUND_IMMEDIATE: Final = unresolvable("pod has unbound immediate PersistentVolumeClaims")


class _StateData:
    """The search for a pod's volumes, and its result for the reserved node."""

    def __init__(self, search: PodVolumeSearch | None) -> None:
        #: None for a pod without claims.
        self.search: Final = search
        self.all_bound = False
        self._pod_volumes: Final[dict[str, PodVolumes | None]] = {}

    def pod_volumes(self, node_name: str) -> PodVolumes | None:
        """Return the pod's volumes on a node; cached when called in the scheduling cycle."""
        if node_name not in self._pod_volumes and self.search is not None:
            self._pod_volumes[node_name] = self.search.pod_volumes(node_name)
        return self._pod_volumes.get(node_name)


_STATE: Final = StateKey[_StateData]("VolumeBinding")

#: The feature gate of scores by storage in use.
_STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"

#: The more storage is in use, the lower the score.
_DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Arguments of VolumeBinding."""

    always_written: ClassVar[frozenset[str]] = frozenset({"bind_timeout_seconds"})

    bind_timeout_seconds: Int64 = 600
    """Seconds PreBind waits until volumes are bound; 0 means not at all. Default: 600."""

    shape: tuple[UtilizationShapePoint, ...] | None = None
    """Score by the storage in use; only with the gate StorageCapacityScoring.

    Default: 10 at 0 %, 0 at 100 %.
    """

    def with_defaults(self, gates: FeatureGates) -> VolumeBindingArgs:
        if self.shape or _STORAGE_CAPACITY_SCORING not in gates:
            return self
        return msgspec.structs.replace(self, shape=_DEFAULT_SHAPE)

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        errors = []
        if self.bind_timeout_seconds < 0:
            message = "invalid BindTimeoutSeconds, should not be a negative value"
            timeout_path = field.child_path(path, "bindTimeoutSeconds")
            errors.append(field.invalid(timeout_path, self.bind_timeout_seconds, message))
        shape_path = field.child_path(path, "shape")
        if _STORAGE_CAPACITY_SCORING in gates:
            errors += validate_shape(self.shape or (), shape_path)
        elif self.shape is not None:
            message = (
                "unexpected field `shape`, remove it or turn on the feature gate "
                f"{_STORAGE_CAPACITY_SCORING}"
            )
            errors.append(field.invalid(shape_path, internal_form(self.shape), message))
        return errors


class VolumeBinding(Plugin):
    """Keep pods on nodes that can reach their volumes, and bind the volumes."""

    only_ranks = True
    ignores_resizes = True
    Args = VolumeBindingArgs
    args: VolumeBindingArgs
    reads = (
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses",
        "csinodes",
        "csidrivers",
        "csistoragecapacities",
    )

    def __init__(self) -> None:
        self.binder: Final = VolumeBinder(
            self.handle, bind_timeout_seconds=float(self.args.bind_timeout_seconds)
        )
        scores = _STORAGE_CAPACITY_SCORING in self.handle.feature_gates
        self._scorer: Final = VolumeCapacityScorer(self.args.shape or ()) if scores else None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Reject pods with a claim that cannot be bound now; skip pods without claims."""
        has_claims, reason = self._check_claims(pod.pod)
        if reason:
            return unresolvable(reason)
        if not has_claims:
            state.write(_STATE, _StateData(None))
            return skip()
        claims = self.binder.pod_volume_claims(pod.pod)
        if claims.unbound_claims_immediate:
            return _UNBOUND_IMMEDIATE
        search = PodVolumeSearch(
            claims,
            handle=self.handle,
            volumes=self.binder.volumes,
            row_of=nodes.table.row_of,
            total=nodes.total,
        )
        state.write(_STATE, _StateData(search))
        return None

    def _check_claims(self, pod: Pod) -> tuple[bool, str]:
        """Return True if the pod has claims, and the reason why the first bad one is rejected."""
        lister, namespace = self.handle.lister(PersistentVolumeClaim), pod.metadata.namespace
        has_claims = False
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                continue
            has_claims = True
            is_ephemeral = volume.persistent_volume_claim is None
            claim = lister.get(name, namespace)
            if reason := _reason_against(claim, name, pod, is_ephemeral=is_ephemeral):
                return True, reason
        return has_claims, ""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that cannot have one of the volumes."""
        search = state.read(_STATE).search
        if search is None:
            return None
        with self._counting_errors("predicate"):
            return search.filter_nodes(nodes)

    @contextlib.contextmanager
    def _counting_errors(self, stage: str) -> Iterator[None]:
        """Count exceptions of a stage (`VolumeSchedulingStageFailed`)."""
        try:
            yield
        except Exception:
            self.handle.metrics.volume_scheduling_stage_errors[(stage,)] += 1
            raise

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Name the volumes that are elsewhere, and the classes without a free volume."""
        search = state.read(_STATE).search
        return [] if search is None else list(search.remedies(node))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip without the gate StorageCapacityScoring."""
        return skip() if self._scorer is None else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return the scores of the storage the pod would use, by the configured shape."""
        search = state.read(_STATE).search if self._scorer is not None else None
        if self._scorer is None or search is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._scorer.score(storage_uses(search.unbound_claims, nodes.base_rows), len(nodes))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Assume the volumes found for the node.

        Raises `AssumeError` if one of them has changed since.
        """
        binding = state.read(_STATE)
        pod_volumes = binding.pod_volumes(node_name)
        with self._counting_errors("assume"):
            binding.all_bound = pod_volumes is None or self.binder.assume(
                pod.pod, node_name, pod_volumes
            )

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        binding = state.find(_STATE)
        pod_volumes = binding.pod_volumes(node_name) if binding is not None else None
        if pod_volumes is not None:
            self.binder.revert(pod_volumes)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult:
        binding = state.read(_STATE)
        if not binding.all_bound:
            _found_for(binding, node_name)
        return PreBindPreFlightResult(allow_parallel=True, skip=binding.all_bound)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Write the assumed objects and wait until all claims are bound.

        Raises `VolumeBindingError`, or the client's errors; then the pod is retried.
        """
        binding = state.read(_STATE)
        if not binding.all_bound:
            pod_volumes = _found_for(binding, node_name)
            with self._counting_errors("bind"):
                await self.binder.bind(pod.pod, pod_volumes)

    hints_depend_on = staticmethod(volumes_and_namespace)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        change = ActionType.ADD | ActionType.UPDATE
        capacity_change = self.is_schedulable_after_csi_storage_capacity_change
        return [
            on(StorageClass, change, self.is_schedulable_after_class_change),
            on(PersistentVolumeClaim, change, queue_for_claim),
            on(PersistentVolume, change),
            on(Node, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(CSINode, change, self.is_schedulable_after_csi_node_change),
            on(CSIDriver, ActionType.UPDATE, self.is_schedulable_after_csi_driver_change),
            on(CSIStorageCapacity, change, capacity_change),
        ]

    def is_schedulable_after_class_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue for a new class, and for a class with other allowed topologies than before."""
        before, after = as_kind(StorageClass, old, new)
        if before is None or after is None:
            return QueueingHint.QUEUE
        return QueueingHint(before.allowed_topologies != after.allowed_topologies)

    def is_schedulable_after_csi_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue for a new CSINode, and if the migrated plugins changed."""
        before, after = as_kind(CSINode, old, new)
        if before is None or after is None:
            return QueueingHint.QUEUE
        plugins = [
            n.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "") for n in (before, after)
        ]
        return QueueingHint(plugins[0] != plugins[1])

    def is_schedulable_after_csi_driver_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the driver of an inline volume stopped tracking storage capacity.

        Claims are ignored, as upstream.
        """
        before, after = as_kind(CSIDriver, old, new)
        if before is None or after is None:
            return QueueingHint.QUEUE_SKIP
        drivers = {v.csi.driver for v in pod.spec.volumes if v.csi is not None}
        stopped = bool(before.spec.storage_capacity) and not after.spec.storage_capacity
        return QueueingHint(stopped and after.metadata.name in drivers)

    def is_schedulable_after_csi_storage_capacity_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue for a new pool, and for a pool with a larger volume limit than before."""
        before, after = as_kind(CSIStorageCapacity, old, new)
        if before is None or after is None:
            return QueueingHint.QUEUE
        had, has = volume_limit(before), volume_limit(after)
        return QueueingHint(has is not None and (had is None or has > had))


def _reason_against(
    claim: PersistentVolumeClaim | None, name: str, pod: Pod, *, is_ephemeral: bool
) -> str:
    """Return why a claim cannot be bound to any volume; empty if it can."""
    if claim is None:
        if is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                f"{quoted(name)}"
            )
        return f"persistentvolumeclaim {quoted(name)} not found"
    if claim.status.phase == LOST:
        volume_name = quoted(claim.spec.volume_name)
        return (
            f"persistentvolumeclaim {quoted(name)} bound to non-existent "
            f"persistentvolume {volume_name}"
        )
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quoted(name)} is being deleted"
    if is_ephemeral and not is_for_pod(claim, pod):
        return not_created_for_pod(claim, pod)
    return ""


def _found_for(binding: _StateData, node_name: str) -> PodVolumes:
    pod_volumes = binding.pod_volumes(node_name)
    if pod_volumes is None:
        raise VolumeBindingError(f"no pod volume found for node {quoted(node_name)}")
    return pod_volumes
