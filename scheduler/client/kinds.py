"""The kinds that plugins read, by the plural name they ask for them by.

A plugin names in `Plugin.reads` what it lists; the scheduler then keeps a local copy of it. Events
of further kinds, `plural.version.group`, can be registered for: of those only metadata is read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from scheduler.api.core import ObjectMeta, Struct
from scheduler.api.dynamic_resources import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.client.resources import NAMESPACES, NODES, PODS, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"


class PartialObject(Struct, frozen=True):
    """An object of whatever kind, as far as its metadata goes."""

    metadata: ObjectMeta = ObjectMeta()


_ALL: Final[tuple[Resource[Any], ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    Resource("", "v1", "services", "Service", Service),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", ReplicationController),
    Resource("apps", "v1", "replicasets", "ReplicaSet", ReplicaSet),
    Resource("apps", "v1", "statefulsets", "StatefulSet", StatefulSet),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim),
    Resource(_STORAGE, "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False),
    Resource(_STORAGE, "v1", "csinodes", "CSINode", CSINode, namespaced=False),
    Resource(_STORAGE, "v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False),
    Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity),
    Resource(
        _STORAGE, "v1", "volumeattachments", "VolumeAttachment", VolumeAttachment, namespaced=False
    ),
    Resource(_DEVICES, "v1", "resourceclaims", "ResourceClaim", ResourceClaim),
    Resource(_DEVICES, "v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False),
    Resource(_DEVICES, "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False),
)

#: By plural.
KINDS: Final[Mapping[str, Resource[Any]]] = MappingProxyType({r.plural: r for r in _ALL})

#: By kind.
KINDS_BY_NAME: Final[Mapping[str, Resource[Any]]] = MappingProxyType({r.kind: r for r in _ALL})


def resource_named(name: str) -> Resource[Any]:
    """A kind by its plural, or by `plural.version.group` (`schema.ParseResourceArg`).

    Raises KeyError for a plural that is not known, ValueError for a text that is neither.
    """
    if "." not in name:
        return KINDS[name]
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    if not (plural and version and group):
        raise ValueError(f"{name!r}: expected <plural>.<version>.<group>")
    return Resource(group, version, plural, plural, PartialObject, namespaced=False)


def kind_of_event(resource: str) -> Resource[Any] | None:
    """The kind whose objects an event's resource is about; None for special ones.

    Raises ValueError for one that no kind is known for.
    """
    kind = resource.rpartition("/")[2]
    if kind in KINDS_BY_NAME:
        return KINDS_BY_NAME[kind]
    if "." in resource and "/" not in resource:
        return resource_named(resource)
    return None
