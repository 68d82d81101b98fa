"""Pods, nodes and their parts, as far as the scheduler reads them.

Frozen `msgspec` structs with the API's own field names in snake_case. Fields that are not declared
here are skipped while decoding, which saves most of the memory of 150,000 pods.
Lists are tuples, so that values are immutable. Absent and empty differ only where they have
different meanings in the API, as in label selectors.
Source: `k8s.io/api/core/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.api.quantity import QuantityError, parse_quantity

#: A resource list: valid quantities, kept as texts (or bare numbers) until they are parsed.
Quantities = Mapping[str, str | int | float]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_QUANTITIES: Final[Quantities] = MappingProxyType({})


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The base of every API object: immutable, camelCase on the wire, unknown fields skipped."""


def _check(quantities: Quantities) -> None:
    """Parse every amount once, to find a malformed one when the object is decoded."""
    for name, amount in quantities.items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            raise ValueError(f'{name}: "{amount}": {error}') from error


class OwnerReference(Struct, frozen=True):
    """The owner of an object; `controller` is true for the managing controller."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """The metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Mapping[str, str] = _NONE
    annotations: Mapping[str, str] = _NONE
    owner_references: tuple[OwnerReference, ...] = ()
    generate_name: str = ""
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object; None without one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ObjectReference(Struct, frozen=True):
    """A reference to one object, for events and bindings."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class LabelSelectorRequirement(Struct, frozen=True):
    """One expression of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """All of its expressions must match; an empty selector selects everything."""

    match_labels: Mapping[str, str] = _NONE
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Struct, frozen=True):
    """One expression over labels or fields: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """All expressions and fields must match; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """At least one term must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    """A term that adds `weight` to the score of matching nodes."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    """The required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True):
    """A selection of pods, and the node label that defines the topology domains."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    """A pod affinity term with a weight."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Terms about other pods, for affinity and for anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    """The taints that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Struct, frozen=True):
    """A taint repels pods that do not tolerate it; the time matters for evictions."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """The allowed skew of matching pods over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ResourceClaim(Struct, frozen=True):
    """A container's reference to a claim of the pod."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    """Requests and limits of a container or a whole pod."""

    requests: Quantities = _NO_QUANTITIES
    limits: Quantities = _NO_QUANTITIES
    claims: tuple[ResourceClaim, ...] = ()

    def __post_init__(self) -> None:
        _check(self.requests)
        _check(self.limits)


class ContainerPort(Struct, frozen=True):
    """A port of a container; `host_port` is its port on the node, or 0."""

    host_ip: str = msgspec.field(name="hostIP", default="")
    host_port: int = 0
    container_port: int = 0
    protocol: str = ""


class ContainerRestartRule(Struct, frozen=True):
    """An action for certain exits of a container."""

    action: str = ""


class VolumeMount(Struct, frozen=True):
    """A volume in a container, as far as it limits the nodes."""

    bind_mount_options: tuple[str, ...] = ()


class Container(Struct, frozen=True):
    """A container; `restart_policy` Always makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    """A volume of a claim."""

    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct, frozen=True):
    """A volume whose claim is created for the pod, with the name pod-volume."""


class CSIVolumeSource(Struct, frozen=True):
    """An inline volume of a CSI driver."""

    driver: str = ""


class GCEPersistentDiskVolumeSource(Struct, frozen=True):
    """An inline GCE disk."""

    pd_name: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct, frozen=True):
    """An inline EBS volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    partition: int = 0
    read_only: bool = False


class AzureDiskVolumeSource(Struct, frozen=True):
    """An inline Azure disk."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    kind: str | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(Struct, frozen=True):
    """An inline Azure file share."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False


class CinderVolumeSource(Struct, frozen=True):
    """An inline Cinder volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Struct, frozen=True):
    """An inline vSphere disk."""

    volume_path: str = ""


class PortworxVolumeSource(Struct, frozen=True):
    """An inline Portworx volume."""

    volume_id: str = msgspec.field(name="volumeID", default="")
    read_only: bool = False


class ISCSIVolumeSource(Struct, frozen=True):
    """An inline iSCSI disk."""

    iqn: str = ""
    read_only: bool = False


class RBDVolumeSource(Struct, frozen=True):
    """An inline Rados block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class ImageVolumeSource(Struct, frozen=True):
    """A volume of a container image."""

    reference: str = ""


class Volume(Struct, frozen=True):
    """A pod's volume, with the sources that affect scheduling."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = msgspec.field(
        name="gcePersistentDisk", default=None
    )
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = msgspec.field(
        name="awsElasticBlockStore", default=None
    )
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    image: ImageVolumeSource | None = None


class PodSchedulingGate(Struct, frozen=True):
    """A gate that blocks scheduling until it is removed."""

    name: str = ""


class PodSchedulingGroup(Struct, frozen=True):
    """The pod group that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadReference(Struct, frozen=True):
    """The Workload that a pod belongs to in 1.35, and the group in it."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodResourceClaim(Struct, frozen=True):
    """A device claim of a pod, or its template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True):
    """The specification of a pod."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Quantities = _NO_QUANTITIES
    node_selector: Mapping[str, str] = _NONE
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None

    def __post_init__(self) -> None:
        _check(self.overhead)


class PodCondition(Struct, frozen=True):
    """A condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime | None = None


class ContainerStatus(Struct, frozen=True):
    """The resources that the kubelet has given a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = _NO_QUANTITIES

    def __post_init__(self) -> None:
        _check(self.allocated_resources)


class PodResourceClaimStatus(Struct, frozen=True):
    """The claim that was created for a pod from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """The request of the generated claim for an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """The claim that was created for the extended resources of a pod."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResources(Struct, frozen=True):
    """The amount of a node's resource that the devices of a claim stand for."""

    name: str = ""
    quantity: str | int | float | None = None


class NodeAllocatableOverheadResources(Struct, frozen=True):
    """The amount of a node's resource that the use of a claim's devices costs."""

    name: str = ""
    per_pod: str | int | float | None = None
    per_container: str | int | float | None = None


class NodeAllocatableResourceClaimStatus(Struct, frozen=True):
    """The node's own resources that a claim takes, and the containers that use the claim.

    v1.36 has `resources`, later versions `mapping` and `overhead`.
    """

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: Quantities = _NO_QUANTITIES
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodStatus(Struct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Quantities = _NO_QUANTITIES
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()

    def __post_init__(self) -> None:
        _check(self.allocated_resources)


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    #: The whole object in JSON, if it is kept for extenders (`Resource.keeps_json`).
    json: bytes = msgspec.field(name="$json", default=b"")
    #: True if the resources of the containers are summed up before spec and status are compared;
    #: informers set it for 1.37.
    sums_resources: bool = msgspec.field(name="$sumsResources", default=False)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_resize_deferred(self) -> bool:
        """True if the node has no room yet for the resources that the pod wants now."""
        return any(
            condition.type == "PodResizePending" and condition.reason == "Deferred"
            for condition in self.status.conditions
        )


class NodePodPreemptionPolicy(Struct, frozen=True):
    """Limits of preemption on a node, since 1.37."""

    #: The owners of this setting; while there are any, resizes evict no pods.
    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(Struct, frozen=True):
    """The specification of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class ContainerImage(Struct, frozen=True):
    """An image on a node, with all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeCondition(Struct, frozen=True):
    """A condition of a node."""

    type: str = ""
    status: str = ""


class NodeStatus(Struct, frozen=True):
    """The status of a node: resources, conditions, images."""

    capacity: Quantities = _NO_QUANTITIES
    allocatable: Quantities = _NO_QUANTITIES
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self.capacity)
        _check(self.allocatable)


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    #: The whole object in JSON, if it is kept for extenders (`Resource.keeps_json`).
    json: bytes = msgspec.field(name="$json", default=b"")


class Namespace(Struct, frozen=True):
    """A namespace, whose labels the scheduler reads."""

    metadata: ObjectMeta = ObjectMeta()
