"""NodeVolumeLimits: reject nodes where a CSI driver would have too many volumes attached.

A node's CSINode has the limit of each driver. The plugin counts the volumes of the pods on the
node, the volumes of VolumeAttachments, and the volumes of the new pod: volumes of its claims,
volumes to be provisioned for claims, and migrated in-tree volumes.
Mirrors `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.core import Pod
from scheduler.api.storage import CSIDriver, CSINode, PersistentVolumeClaim, VolumeAttachment
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import (
    Rejections,
    Status,
    reject_by,
    skip,
    unresolvable,
    unschedulable,
)
from scheduler.plugins._csi_translation import (
    CSI_DRIVERS,
    handle_of_inline_volume,
    in_tree_plugin_of_inline_volume,
)
from scheduler.plugins._queueing_hints import queue_for_claim, volumes_and_namespace
from scheduler.plugins.node_volume_limits.attached_volumes import (
    ATTACHMENTS,
    CSI_NODES,
    AttachedVolumes,
)
from scheduler.plugins.node_volume_limits.csi_volumes import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    AttachableVolumeError,
    ClaimNotFoundError,
    CsiVolume,
    CsiVolumes,
    Migrated,
)
from scheduler.snapshot.claims_and_disks import volumes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_CSI_DRIVERS: Final = "csidrivers"
_VOLUME_LIMIT_SCALING: Final = "VolumeLimitScaling"
_EXCEEDED: Final = unschedulable("node(s) exceed max volume count")

#: The volumes of the pod, or why they are unknown.
_Found = frozenset[CsiVolume] | AttachableVolumeError

#: By the in-tree plugins whose volumes count on a node, as far as there was such a node.
_REQUESTED_VOLUMES: Final = StateKey[dict[Migrated, _Found]]("PreFilterNodeVolumeLimits")


class NodeVolumeLimits(Plugin):
    """Keep pods off nodes where a CSI driver cannot attach their volumes."""

    ignores_resizes = True
    reads = (CLAIMS, VOLUMES, CLASSES, CSI_NODES, ATTACHMENTS, _CSI_DRIVERS)

    def __init__(self) -> None:
        self._volumes = CsiVolumes(self.handle)
        self._attached = AttachedVolumes(self.handle, self._volumes)
        has_choice = self.handle.version >= SchedulerVersion.V1_36
        self._is_required: Final = self._prevents_pods if has_choice else self._exists

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without a volume that may have to be attached."""
        if not pod.volumes.may_be_attached:
            return skip()
        self._attached.refresh()
        state.write(_REQUESTED_VOLUMES, {})
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes where a driver's limit is exceeded, and all nodes if a claim is missing.

        Raises `AttachableVolumeError` if volumes of this pod, or of a pod on a node with limits,
        are unknown.
        """
        if not pod.volumes.may_be_attached:
            return None
        wanted = state.find(_REQUESTED_VOLUMES)
        if wanted is None:  # a profile may have only the filter
            self._attached.refresh()
            state.write(_REQUESTED_VOLUMES, wanted := {})
        rejected: list[tuple[BoolArray, Status]] = []
        for migrated, which in self._attached.by_migration(nodes):
            if migrated not in wanted:
                wanted[migrated] = self._find(pod, migrated)
            volumes = wanted[migrated]
            rejected += self._rejections_before_limits(volumes, nodes, which)
            if migrated and volumes and not isinstance(volumes, AttachableVolumeError):
                full = self._attached.have_no_room_for(volumes, nodes, which)
                rejected.append((full, _EXCEEDED))
        return reject_by(*rejected) if rejected else None

    def _find(self, pod: PodInfo, migrated: Migrated) -> _Found:
        try:
            return self._volumes.of_new_pod(pod.pod, migrated)
        except AttachableVolumeError as error:
            return error

    def _rejections_before_limits(
        self, volumes: _Found, nodes: Nodes, which: BoolArray
    ) -> list[tuple[BoolArray, Status]]:
        """Return the rejections of some of the nodes that need no counts."""
        if isinstance(volumes, ClaimNotFoundError):
            return [(which, unresolvable(str(volumes)))]
        if isinstance(volumes, AttachableVolumeError):
            raise volumes
        if _VOLUME_LIMIT_SCALING not in self.handle.feature_gates:
            return []
        return [
            (
                which & self._attached.lacks_driver(driver, nodes),
                unschedulable(f"{driver} CSI driver is not installed on the node"),
            )
            for driver in sorted({volume.driver for volume in volumes})
            if self._is_required(driver)
        ]

    def _exists(self, driver: str) -> bool:
        """True if there is such a CSIDriver: the rule of 1.35."""
        return self.handle.lister(CSIDriver).get(driver) is not None

    def _prevents_pods(self, driver: str) -> bool:
        """True if the driver's volumes are rejected on nodes without the driver."""
        csi_driver = self.handle.lister(CSIDriver).get(driver)
        if csi_driver is None:
            return False
        return bool(csi_driver.spec.prevent_pod_scheduling_if_missing)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        detached = self.is_schedulable_after_volume_attachment_deleted
        return [
            on(CSINode, ActionType.ADD),
            on(CSINode, ActionType.UPDATE, self.is_schedulable_after_csi_node_updated),
            *self.on_pods(self.is_schedulable_after_pod_deleted, assigned=ActionType.DELETE),
            on(PersistentVolumeClaim, ActionType.ADD, queue_for_claim),
            on(VolumeAttachment, ActionType.DELETE, detached),
        ]

    def is_schedulable_after_csi_node_updated(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the limit of a driver grew. No limit counts as 0 here."""
        original, modified = as_kind(CSINode, old, new)
        if original is None or modified is None:
            return QueueingHint.QUEUE_SKIP
        before = _limits(original)
        return QueueingHint(
            any(count > before.get(driver, 0) for driver, count in _limits(modified).items())
        )

    def is_schedulable_after_pod_deleted(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the deleted pod, assigned or nominated to a node, had volumes that count."""
        deleted, _ = as_kind(Pod, old, new)
        if deleted is None or not (deleted.spec.node_name or deleted.status.nominated_node_name):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(volumes_of(deleted).may_be_attached)

    def is_schedulable_after_volume_attachment_deleted(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the pod has a claim, or an inline volume of the same driver.

        Raises `CsiTranslationError`.
        """
        deleted, _ = as_kind(VolumeAttachment, old, new)
        if deleted is None:
            return QueueingHint.QUEUE_SKIP
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                return QueueingHint.QUEUE
            plugin = in_tree_plugin_of_inline_volume(volume)
            if plugin is None:
                continue
            handle_of_inline_volume(volume)
            if deleted.spec.attacher == CSI_DRIVERS[plugin]:
                return QueueingHint.QUEUE
        return QueueingHint.QUEUE_SKIP

    hints_depend_on = staticmethod(volumes_and_namespace)


def _limits(csi_node: CSINode) -> Mapping[str, int]:
    """Return the limit of each driver; 0 without a limit."""
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }
