"""Small random clusters with volumes, in which pods often share claims, disks and drivers."""

import random
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.api.core import Node, ObjectMeta, OwnerReference, Pod
from scheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.testing import make_node, make_pod

NODES: Final = ("node-0", "node-1", "node-2", "node-3")
_NAMESPACES: Final = ("default", "default", "other")
CLAIMS: Final = ("c0", "c1", "c2", "c3", "c4")
_VOLUMES: Final = ("v0", "v1", "v2", "v3", "v4")
_CLASSES: Final = ("csi", "ebs", "file", "mute")
_PROVISIONERS: Final = ("a.example.com", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file", "")
_DRIVERS: Final = ("a.example.com", "b.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io")
_ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
)
_ZONES: Final = ("r-a-1", "r-a-2", "r-b-1", "r-a-1__r-a-2", "r-a-1__r-b-1", "r-a-1__", "odd__odder")
_SOURCES: Final = (
    {"csi": {"driver": "a.example.com", "volumeHandle": "h0"}},
    {"csi": {"driver": "a.example.com", "volumeHandle": "h1"}},
    {"csi": {"driver": "a.example.com", "volumeHandle": "h2"}},
    {"csi": {"driver": "a.example.com", "volumeHandle": "h3"}},
    {"csi": {"driver": "b.example.com", "volumeHandle": "h0"}},
    {"csi": {"driver": "b.example.com", "volumeHandle": ""}},
    {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0"}},
    {"awsElasticBlockStore": {"volumeID": "vol-0"}},
    {"awsElasticBlockStore": {"volumeID": "aws://r-a-1/vol-1"}},
    {"awsElasticBlockStore": {"volumeID": "aws://r-a-1/odd"}},
    {"gcePersistentDisk": {"pdName": "disk"}},
    {"azureDisk": {"diskURI": "disk", "kind": "Managed"}},
    {"azureDisk": {"diskURI": "disk", "kind": "Dedicated"}},
    {"azureFile": {"shareName": "share"}},
)
DISKS: Final = (
    {"gcePersistentDisk": {"pdName": "disk"}},
    {"gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
    {"gcePersistentDisk": {"pdName": "other", "readOnly": True}},
    {"gcePersistentDisk": {"pdName": "another"}},
    {"awsElasticBlockStore": {"volumeID": "vol-0", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "aws://r-a-1/vol-1"}},
    {"iscsi": {"iqn": "one"}},
    {"iscsi": {"iqn": "one", "readOnly": True}},
    {"rbd": {"monitors": ["a", "b"], "image": "i"}},
    {"rbd": {"monitors": ["b", "c"], "image": "i", "readOnly": True}},
    {"rbd": {"monitors": ["c"], "image": "i"}},
    {"rbd": {"monitors": ["c"], "image": "i", "pool": "other"}},
    {"cinder": {"volumeID": "one"}},
    {"azureFile": {"shareName": "share"}},
    {"emptyDir": {}},
)


class Maker:
    """Draws objects, one after another, from one generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng: Final = rng
        self._pods = 0

    def one_in(self, number: int) -> bool:
        return self.rng.randrange(number) == 0

    def node(self, name: str) -> Node:
        zones = {k: self.rng.choice(_ZONES[:3]) for k in _ZONE_LABELS if self.one_in(3)}
        return make_node(name, labels=zones)

    def pod(self, *, node: str = "", uid: str | None = None) -> Pod:
        self._pods += 1
        name = self.rng.choice(("p0", "p1"))
        volumes = [{"name": f"v{n}", **self._source()} for n in range(self.rng.randint(0, 3))]
        return make_pod(
            name,
            namespace=self.rng.choice(_NAMESPACES),
            uid=uid or f"uid-{self._pods}",
            node_name=node,
            volumes=volumes,
            priority=self.rng.choice((0, 10)),
        )

    def _source(self) -> dict[str, Any]:
        if self.one_in(2):
            return {"persistentVolumeClaim": {"claimName": self.rng.choice(CLAIMS)}}
        if self.one_in(10):
            return {"ephemeral": {}}
        return dict(self.rng.choice(DISKS))

    def claims(self) -> list[PersistentVolumeClaim]:
        names = [(ns, name) for ns in ("default", "other") for name in CLAIMS]
        found = [self.claim(ns, name) for ns, name in names if not self.one_in(20)]
        owned = [
            (ns, f"{pod}-v{n}")
            for ns in ("default", "other")
            for pod in ("p0", "p1")
            for n in range(3)
        ]
        return found + [self.claim(ns, name) for ns, name in owned if not self.one_in(4)]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        owner = OwnerReference(uid=f"uid-{self.rng.randint(1, 12)}", controller=True)
        metadata = ObjectMeta(name=name, namespace=namespace, owner_references=(owner,))
        mode = "ReadWriteOncePod" if self.one_in(4) else "ReadWriteOnce"
        spec = {
            "accessModes": [mode],
            "volumeName": self.rng.choice(("", *_VOLUMES)),
            "storageClassName": self.rng.choice((None, "", *_CLASSES)),
        }
        return msgspec.convert(
            {"metadata": msgspec.to_builtins(metadata), "spec": spec}, PersistentVolumeClaim
        )

    def volumes(self) -> list[PersistentVolume]:
        return [self.volume(name) for name in _VOLUMES if not self.one_in(8)]

    def volume(self, name: str) -> PersistentVolume:
        labels = {k: self.rng.choice(_ZONES) for k in _ZONE_LABELS if self.one_in(3)}
        return msgspec.convert(
            {"metadata": {"name": name, "labels": labels}, "spec": self.rng.choice(_SOURCES)},
            PersistentVolume,
        )

    def classes(self) -> list[StorageClass]:
        return [self.storage_class(name) for name in _CLASSES if not self.one_in(6)]

    def storage_class(self, name: str) -> StorageClass:
        modes = ("WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate", None)
        return StorageClass(
            metadata=ObjectMeta(name=name),
            provisioner=_PROVISIONERS[_CLASSES.index(name)],
            volume_binding_mode=self.rng.choice(modes),
        )

    def csi_nodes(self) -> list[CSINode]:
        return [self.csi_node(name) for name in NODES if not self.one_in(5)]

    def csi_node(self, name: str) -> CSINode:
        drivers = [
            {"name": driver, **({} if self.one_in(5) else {"allocatable": self._limit()})}
            for driver in _DRIVERS
            if not self.one_in(4)
        ]
        return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode)

    def _limit(self) -> dict[str, int]:
        return {} if self.one_in(6) else {"count": self.rng.choice((0, 1, 2, 2, 3))}

    def attachments(self) -> list[VolumeAttachment]:
        return [self.attachment(f"a{n}") for n in range(self.rng.randint(4, 12))]

    def attachment(self, name: str) -> VolumeAttachment:
        volume = self.rng.choice((None, *_VOLUMES))
        spec = {
            "attacher": self.rng.choice(("", *_DRIVERS, "a.example.com", "a.example.com")),
            "nodeName": self.rng.choice(NODES),
            "source": {"persistentVolumeName": volume},
        }
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)

    def one_of(self, objects: Sequence[Any]) -> Any:
        """One of the objects, of a kind that is drawn first."""
        kind = self.rng.choice(sorted({type(obj) for obj in objects}, key=str))
        return self.rng.choice([obj for obj in objects if type(obj) is kind])

    def another(self, objects: Sequence[Any]) -> Any:
        """Return an object that replaces one of the objects, under its name."""
        old = self.one_of(objects)
        metadata = old.metadata
        if isinstance(old, PersistentVolumeClaim):
            return self.claim(metadata.namespace, metadata.name)
        makers = {
            PersistentVolume: self.volume,
            StorageClass: self.storage_class,
            CSINode: self.csi_node,
            VolumeAttachment: self.attachment,
        }
        return makers[type(old)](metadata.name)
