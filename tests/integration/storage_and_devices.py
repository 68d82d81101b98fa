"""Clients that create volumes or devices, and act as a volume controller or a driver."""

from __future__ import annotations

from tests.integration.api_client import Api, eventually

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NOTE = {"note": "of no concern to a scheduler"}
RESOURCES = "/apis/resource.k8s.io/v1"
RESOURCE_CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"


class Storage(Api):
    """An API server with two classes, and the actions of a volume controller."""

    async def with_classes(self) -> Storage:
        for name, provisioner in (
            ("local", "kubernetes.io/no-provisioner"),
            ("made", "disks.example.com"),
        ):
            body = {
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            await self.create(CLASSES, body)
        return self

    async def local_volume(self, name: str, node: str, size: str = "1Gi") -> None:
        """A disk of a node, available to any claim."""
        hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/mnt/disk"},
            "persistentVolumeReclaimPolicy": "Retain",
            "mountOptions": ["noatime"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        }
        await self.create(VOLUMES, {"metadata": {"name": name, "annotations": NOTE}, "spec": spec})
        await self.patch_status(f"{VOLUMES}/{name}", {"phase": "Available"})

    async def claim(self, name: str, storage_class: str, size: str = "1Gi") -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        await self.create(CLAIMS, {"metadata": {"name": name, "annotations": NOTE}, "spec": spec})

    async def pod_with(self, name: str, claim: str, **spec: object) -> None:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        await self.pod(name, volumes=[volume], **spec)

    async def finish_binding(self, claim: str, volume: str) -> None:
        """As the volume controller, complete the binding once a volume is reserved for a claim."""
        patch = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume},
        }
        await self.patch(f"{CLAIMS}/{claim}", patch)

    async def kept_for(self, volume: str) -> dict[str, object]:
        """Return the claim that a volume is reserved for, once it is."""

        async def kept() -> str:
            return (await self.get(f"{VOLUMES}/{volume}"))["spec"].get("claimRef", "")

        return await eventually(kept)  # type: ignore[return-value]


class Devices(Api):
    """An API server with a class of devices, and the actions of a driver."""

    async def device_class(self, name: str = "gpu", **spec: object) -> None:
        await self.create(f"{RESOURCES}/deviceclasses", {"metadata": {"name": name}, "spec": spec})

    async def slice(self, node: str, *names: str, **device: object) -> None:
        spec = {
            "driver": "gpu.example.com",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": name, **device} for name in names],
        }
        await self.create(f"{RESOURCES}/resourceslices", {"metadata": {"name": node}, "spec": spec})

    async def claim(self, name: str, count: int = 1, **exactly: object) -> None:
        counted = {"allocationMode": "ExactCount", "count": count, **exactly}
        exactly = {"deviceClassName": "gpu", **counted}
        parameters = {"driver": "gpu.example.com", "parameters": {"mode": "fast", "x": {"y": 1}}}
        devices = {
            "requests": [{"name": "r", "exactly": exactly}],
            "config": [{"opaque": parameters}],
        }
        spec = {"devices": devices}
        await self.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": spec})

    async def pod_with(self, name: str, claim: str, **spec: object) -> None:
        entry = {"name": "devices", "resourceClaimName": claim}
        await self.pod(name, cpu="100m", resourceClaims=[entry], **spec)
