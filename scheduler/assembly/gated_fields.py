"""Fields of objects that are not read while a feature gate is off.

An informer drops such fields before any plugin reads the object; API servers do so too.
Source: the uses of the gates in component-helpers `resource/helpers.go`, `volumebinding/binder.go`,
`k8s.io/dynamic-resource-allocation/structured/internal/stable`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.dynamic_resources import ResourceSliceSpec
from scheduler.api_calls.calls import POD_SCHEDULED
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.devices.rules import CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES
from scheduler.plugins.dynamic_resources.node_allocatable import NODE_ALLOCATABLE_RESOURCES
from scheduler.plugins.node_declared_features import DECLARED_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.api.core import Node, Pod
    from scheduler.api.dynamic_resources import Device, ResourceSlice
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.config import FeatureGates

_TAINTS: Final = "DRADeviceTaints"
_POD_LEVEL_RESOURCES: Final = "PodLevelResources"
_POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
_RESIZE: Final = "InPlacePodVerticalScaling"
_OBSERVED_GENERATION: Final = "PodObservedGenerationTracking"
_ATTRIBUTES_CLASS: Final = "VolumeAttributesClass"


def transforms(
    gates: FeatureGates, version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
) -> Mapping[str, Callable[[Any], Any]]:
    """Return the functions that drop fields, by the plural name of the kind."""
    by_kind: dict[str, Callable[[Any], Any]] = {"pods": partial(_pod, gates=gates, version=version)}
    if _ATTRIBUTES_CLASS not in gates:
        by_kind["persistentvolumes"] = by_kind["persistentvolumeclaims"] = _without_attributes_class
    has_policy, has_features = version >= SchedulerVersion.V1_37, DECLARED_FEATURES in gates
    if not has_policy or not has_features:
        by_kind["nodes"] = partial(_node, has_policy=has_policy, has_features=has_features)
    if not {CONSUMABLE_CAPACITY, PARTITIONABLE_DEVICES, _TAINTS} <= gates:
        # Without the gate 1.34 takes devices beside counters that no device uses.
        needs_gate = version >= SchedulerVersion.V1_35
        by_kind["resourceslices"] = partial(_slice, gates=gates, needs_gate=needs_gate)
    return by_kind


def _pod(pod: Pod, gates: FeatureGates, version: SchedulerVersion) -> Pod:
    status = pod.status
    # The version does not know the groups of the other versions.
    other = "workload_ref" if version >= SchedulerVersion.V1_36 else "scheduling_group"
    if getattr(pod.spec, other) is not None:
        pod = replace(pod, spec=replace(pod.spec, **{other: None}))
    if _OBSERVED_GENERATION not in gates and not any(
        known.type == POD_SCHEDULED and known.observed_generation for known in status.conditions
    ):
        pod = replace(pod, metadata=replace(pod.metadata, generation=0))
    if status.node_allocatable_resource_claim_statuses and NODE_ALLOCATABLE_RESOURCES not in gates:
        status = replace(status, node_allocatable_resource_claim_statuses=())
        pod = replace(pod, status=status)
    if _RESIZE not in gates and (status.container_statuses or status.init_container_statuses):
        status = replace(status, container_statuses=(), init_container_statuses=())
        pod = replace(pod, status=status)
    if version >= SchedulerVersion.V1_37 and resources.reports_resources(pod):
        pod = replace(pod, sums_resources=True)
    if _POD_LEVEL_RESIZE in gates and _POD_LEVEL_RESOURCES in gates:
        return pod
    if pod.status.resources is not None or pod.status.allocated_resources:
        pod = replace(pod, status=replace(pod.status, resources=None, allocated_resources={}))
    if pod.spec.resources is not None and _POD_LEVEL_RESOURCES not in gates:
        pod = replace(pod, spec=replace(pod.spec, resources=None))
    return pod


def _node(node: Node, *, has_policy: bool, has_features: bool) -> Node:
    if node.spec.pod_preemption_policy is not None and not has_policy:
        node = replace(node, spec=replace(node.spec, pod_preemption_policy=None))
    if node.status.declared_features and not has_features:
        node = replace(node, status=replace(node.status, declared_features=()))
    return node


def _without_attributes_class(
    volume: PersistentVolume | PersistentVolumeClaim,
) -> PersistentVolume | PersistentVolumeClaim:
    if volume.spec.volume_attributes_class_name is None:
        return volume
    return replace(volume, spec=replace(volume.spec, volume_attributes_class_name=None))


def _slice(part: ResourceSlice, gates: FeatureGates, *, needs_gate: bool) -> ResourceSlice:
    """Return a slice without the fields that need gates; the allocator refuses devices that do.

    `needs_gate` is True if slices with counters have no devices without the gate.
    A slice that no node can use still counts for the completeness of its pool.
    """
    spec = part.spec
    if PARTITIONABLE_DEVICES not in gates and (
        spec.per_device_node_selection is not None or (needs_gate and spec.shared_counters)
    ):
        return replace(part, spec=ResourceSliceSpec(spec.driver, spec.pool))
    devices = tuple(_device(device, gates) for device in spec.devices)
    return replace(part, spec=replace(spec, devices=devices))


def _device(device: Device, gates: FeatureGates) -> Device:
    if _TAINTS not in gates:
        device = replace(device, taints=())
    if CONSUMABLE_CAPACITY not in gates:
        device = replace(device, allow_multiple_allocations=None)
    return device
