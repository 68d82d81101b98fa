"""The part of a cluster that bears on scheduling: read it, and keep only the fields that matter.

Every object becomes an object that can be created on an empty server: fields that the server or a
controller sets are left out, and so are annotations that the scheduler does not read, volumes that
need no storage, the containers' commands and environment, and resizes in progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..api import Json, Ref
from ..errors import RequestFailed
from ..format.reading import is_over
from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..api import ApiClient

_RESOURCE: Final = "resource.k8s.io/v1"
_STORAGE: Final = "storage.k8s.io/v1"


class Whole(NamedTuple):
    """A field that is kept as it is."""


_ALL: Final = Whole()
#: The kept fields of an object: all of a field, or some fields of it, or of each of its items.
Fields = dict[str, "Whole | Fields"]

_CONTAINER: Final[Fields] = {
    "name": _ALL,
    "image": _ALL,
    "resources": {"requests": _ALL, "limits": _ALL, "claims": _ALL},
    "ports": {"hostPort": _ALL, "containerPort": _ALL, "protocol": _ALL, "hostIP": _ALL},
    "restartPolicy": _ALL,
}
_CLAIM: Final[Fields] = {
    "accessModes": _ALL,
    "resources": _ALL,
    "selector": _ALL,
    "storageClassName": _ALL,
    "volumeMode": _ALL,
    "volumeName": _ALL,
}
#: Volumes that are a cloud's disk.
_DISKS: Final[Fields] = {
    "gcePersistentDisk": {"pdName": _ALL, "readOnly": _ALL},
    "awsElasticBlockStore": {"volumeID": _ALL, "readOnly": _ALL},
    "azureDisk": {"diskName": _ALL, "diskURI": _ALL, "kind": _ALL, "readOnly": _ALL},
    "cinder": {"volumeID": _ALL, "readOnly": _ALL},
}
#: Volumes of a pod on which a plugin has a rule; all others are left out.
_STORED: Final[Fields] = {
    **_DISKS,
    "persistentVolumeClaim": _ALL,
    "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": _ALL}, "spec": _CLAIM}},
    "csi": {"driver": _ALL, "readOnly": _ALL},
    "iscsi": {"targetPortal": _ALL, "iqn": _ALL, "lun": _ALL, "readOnly": _ALL},
    "rbd": {"monitors": _ALL, "image": _ALL, "pool": _ALL, "readOnly": _ALL},
}
_POD_SPEC: Final[Fields] = {
    "affinity": _ALL,
    "containers": _CONTAINER,
    "hostNetwork": _ALL,
    "initContainers": _CONTAINER,
    "nodeName": _ALL,
    "nodeSelector": _ALL,
    "overhead": _ALL,
    "priorityClassName": _ALL,
    "resourceClaims": _ALL,
    "resources": _ALL,
    "schedulerName": _ALL,
    "schedulingGates": _ALL,
    "schedulingGroup": _ALL,
    "terminationGracePeriodSeconds": _ALL,
    "tolerations": _ALL,
    "topologySpreadConstraints": _ALL,
    "volumes": {"name": _ALL, **_STORED},
}
_CONTROLLER_FIELDS: Final[Fields] = {
    "spec": {"selector": _ALL, "serviceName": _ALL, "template": {"metadata": {"labels": _ALL}}}
}
#: Controllers of pods, by whose selector pods are spread by default.
CONTROLLERS: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
#: The kinds with their API version and their kept fields, in the order of creation.
KINDS: Final[dict[tuple[str, str], Fields]] = {
    ("v1", "Namespace"): {},
    ("scheduling.k8s.io/v1", "PriorityClass"): {
        "value": _ALL, "globalDefault": _ALL, "preemptionPolicy": _ALL,
    },
    (_STORAGE, "StorageClass"): {
        "provisioner": _ALL, "volumeBindingMode": _ALL, "allowedTopologies": _ALL,
        "reclaimPolicy": _ALL,
    },
    (_STORAGE, "CSIDriver"): {"spec": {"storageCapacity": _ALL, "attachRequired": _ALL}},
    ("v1", "Node"): {
        "spec": {"taints": _ALL, "unschedulable": _ALL},
        "status": {
            "allocatable": _ALL, "capacity": _ALL, "images": _ALL, "declaredFeatures": _ALL,
        },
    },
    (_STORAGE, "CSINode"): {"spec": _ALL},
    (_STORAGE, "CSIStorageCapacity"): {
        "storageClassName": _ALL, "nodeTopology": _ALL, "capacity": _ALL,
        "maximumVolumeSize": _ALL,
    },
    ("v1", "PersistentVolume"): {
        "spec": {
            "accessModes": _ALL, "capacity": _ALL, "storageClassName": _ALL, "nodeAffinity": _ALL,
            "claimRef": {"namespace": _ALL, "name": _ALL, "kind": _ALL, "apiVersion": _ALL},
            "volumeMode": _ALL, "csi": {"driver": _ALL, "volumeHandle": _ALL},
            "local": _ALL, "hostPath": _ALL, "persistentVolumeReclaimPolicy": _ALL, **_DISKS,
        },
        "status": {"phase": _ALL},
    },
    ("v1", "PersistentVolumeClaim"): {
        "spec": _CLAIM, "status": {"phase": _ALL, "accessModes": _ALL, "capacity": _ALL},
    },
    (_STORAGE, "VolumeAttachment"): {
        "spec": {"attacher": _ALL, "nodeName": _ALL, "source": {"persistentVolumeName": _ALL}},
        "status": {"attached": _ALL},
    },
    ("policy/v1", "PodDisruptionBudget"): {
        "spec": _ALL,
        "status": {
            "disruptionsAllowed": _ALL, "currentHealthy": _ALL, "desiredHealthy": _ALL,
            "expectedPods": _ALL, "observedGeneration": _ALL,
        },
    },
    (_RESOURCE, "DeviceClass"): {"spec": _ALL},
    (_RESOURCE, "ResourceSlice"): {"spec": _ALL},
    (_RESOURCE, "ResourceClaimTemplate"): {"spec": {"spec": _ALL}},
    (_RESOURCE, "ResourceClaim"): {
        "spec": _ALL, "status": {"allocation": _ALL, "reservedFor": _ALL},
    },
    ("scheduling.k8s.io/v1alpha2", "PodGroup"): {"spec": _ALL},
    ("apps/v1", "ReplicaSet"): _CONTROLLER_FIELDS,
    ("apps/v1", "StatefulSet"): _CONTROLLER_FIELDS,
    ("v1", "ReplicationController"): _CONTROLLER_FIELDS,
    ("v1", "Service"): {"spec": {"selector": _ALL, "ports": _ALL}},
    ("v1", "Pod"): {
        "spec": _POD_SPEC,
        "status": {
            "phase": _ALL, "startTime": _ALL, "nominatedNodeName": _ALL,
            "resourceClaimStatuses": _ALL, "extendedResourceClaimStatus": _ALL,
        },
    },
}  # fmt: skip
#: The annotations that the scheduler reads.
_ANNOTATIONS: Final = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "volume.kubernetes.io/selected-node",
        "storage.alpha.kubernetes.io/migrated-plugins",
    }
)
_SYSTEM_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


async def read_objects(api: ApiClient) -> list[Json]:
    """Return all objects of `KINDS` that the server has, as it has them. Raises RequestFailed."""
    objects: list[Json] = []
    for api_version, kind in KINDS:
        try:
            listing = await api.listing(Ref(kind, "", "", api_version), Json)
        except RequestFailed as error:
            if error.status == 404:
                continue  # a kind that the server does not know
            raise
        objects += [{**item, "apiVersion": api_version, "kind": kind} for item in listing.items]
    return objects


def kept_part(obj: Json) -> Json | None:
    """Return the part of an object that bears on scheduling; None without such a part."""
    kind = str(obj["kind"])
    fields = KINDS.get((str(obj["apiVersion"]), kind))
    metadata = part(obj, "metadata")
    name = str(metadata.get("name", ""))
    if fields is None or (kind == "PriorityClass" and name.startswith("system-")):
        return None
    if kind == "Pod" and is_over(obj):
        return None
    if kind == "Service" and not part(obj, "spec").get("selector"):
        return None
    if kind == "Namespace" and name in _SYSTEM_NAMESPACES:
        return None
    kept = _kept(obj, fields)
    if kind == "Pod":
        volumes = objects(part(kept, "spec").get("volumes"))
        stored = [volume for volume in volumes if len(volume) > 1]
        kept["spec"] = {
            **without(part(kept, "spec"), "volumes"),
            **({"volumes": stored} if stored else {}),
        }
    head: Json = {"apiVersion": obj["apiVersion"], "kind": kind, "metadata": _metadata(metadata)}
    return {**head, **kept}


def without(obj: Json, *names: str) -> Json:
    """Return an object without some of its fields."""
    return {name: value for name, value in obj.items() if name not in names}


def _kept(obj: Mapping[str, object], fields: Fields) -> Json:
    kept: Json = {}
    for name, inner in fields.items():
        value = obj.get(name)
        if value in (None, {}, [], ""):
            continue
        if isinstance(inner, Whole):
            kept[name] = value
        elif isinstance(value, dict):
            kept[name] = _kept(value, inner)
        elif isinstance(value, list):
            kept[name] = [_kept(item, inner) for item in objects(value)]
    return kept


def _metadata(metadata: Json) -> Json:
    annotations = {
        name: value for name, value in part(metadata, "annotations").items() if name in _ANNOTATIONS
    }
    kept = {name: metadata[name] for name in ("name", "namespace") if metadata.get(name)}
    labels = part(metadata, "labels")
    return {
        **kept,
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
