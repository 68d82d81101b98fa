"""Claims and volumes: bound at once or when a node is selected, and provisioned."""

from typing import Any

from fakeapi import VolumeOptions

from ..actor_cluster import PODS, cluster, node, pod
from ..api_client import Json

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTRIBUTES_CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
MAKER = VolumeOptions(provisioners=frozenset({"my.csi"}))


def volume(name: str, size: str, *, policy: str = "Retain", storage_class: str = "") -> Json:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": storage_class,
        "hostPath": {"path": "/x"},
    }
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str, size: str = "5Gi", *, storage_class: str = "", **metadata: Any) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": storage_class,
    }
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def storage_class(name: str, mode: str = "Immediate") -> Json:
    return {"metadata": {"name": name}, "provisioner": "my.csi", "volumeBindingMode": mode}


async def test_a_claim_gets_the_smallest_volume_that_fits() -> None:
    async with cluster(volumes=True) as c:
        for name, size in (("small", "1Gi"), ("large", "50Gi"), ("fit", "10Gi")):
            await c.create(VOLUMES, volume(name, size))
        assert (await c.read(f"{VOLUMES}/fit"))["status"]["phase"] == "Available"
        await c.create(CLAIMS, claim("c"))
        found = await c.read(f"{CLAIMS}/c")
        assert found["spec"]["volumeName"] == "fit"
        assert found["status"]["phase"] == "Bound"
        assert found["status"]["capacity"] == {"storage": "10Gi"}
        assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
        bound = await c.read(f"{VOLUMES}/fit")
        assert bound["status"]["phase"] == "Bound"
        assert bound["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
        await c.api.delete(f"{CLAIMS}/c")
        await c.settle()
        assert (await c.read(f"{VOLUMES}/fit"))["status"]["phase"] == "Released"


async def test_two_claims_never_share_a_volume() -> None:
    async with cluster(volumes=True) as c:
        await c.api.create(CLAIMS, claim("a"))
        await c.create(CLAIMS, claim("b"))
        await c.create(VOLUMES, volume("v1", "10Gi"))
        await c.create(VOLUMES, volume("v2", "10Gi"))
        names = {one["spec"]["volumeName"] for one in await c.items(CLAIMS)}
        assert names == {"v1", "v2"}


async def test_a_provisioner_creates_and_deletes_volumes() -> None:
    async with cluster(volumes=MAKER) as c:
        await c.create(CLASSES, storage_class("fast"))
        await c.create(CLAIMS, claim("c", storage_class="fast"))
        found = await c.read(f"{CLAIMS}/c")
        name = f"pvc-{found['metadata']['uid']}"
        assert (found["spec"]["volumeName"], found["status"]["phase"]) == (name, "Bound")
        await c.api.delete(f"{CLAIMS}/c")
        await c.settle()
        assert await c.items(VOLUMES) == []


async def test_a_claim_that_waits_for_a_consumer_is_bound_once_a_node_is_selected() -> None:
    async with cluster(volumes=MAKER) as c:
        await c.create(CLASSES, storage_class("late", "WaitForFirstConsumer"))
        await c.create(VOLUMES, volume("v", "10Gi", storage_class="late"))
        await c.create(CLAIMS, claim("made", storage_class="late"))
        await c.create(CLAIMS, claim("found", storage_class="late"))
        phases = [one["status"]["phase"] for one in await c.items(CLAIMS)]
        assert phases == ["Pending", "Pending"]
        note = {"volume.kubernetes.io/selected-node": "n1"}
        await c.api.patch(f"{CLAIMS}/made", {"metadata": {"annotations": note}})
        await c.settle()
        name = (await c.read(f"{CLAIMS}/made"))["spec"]["volumeName"]
        required = (await c.read(f"{VOLUMES}/{name}"))["spec"]["nodeAffinity"]["required"]
        term = required["nodeSelectorTerms"][0]["matchExpressions"][0]
        assert term["values"] == ["n1"]
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "found"}
        await c.api.patch(f"{VOLUMES}/v", {"spec": {"claimRef": reference}})
        await c.settle()
        assert (await c.read(f"{CLAIMS}/found"))["status"]["phase"] == "Bound"


async def test_a_claim_without_its_volume_is_lost() -> None:
    async with cluster(volumes=True) as c:
        await c.create(VOLUMES, volume("v", "10Gi"))
        await c.create(CLAIMS, claim("c"))
        await c.api.delete(f"{VOLUMES}/v")
        await c.settle()
        assert await c.code(f"{VOLUMES}/v") == 200  # bound volumes are kept, unless by force
        await c.api.patch(f"{VOLUMES}/v", {"metadata": {"finalizers": None}})
        await c.settle()
        assert (await c.read(f"{CLAIMS}/c"))["status"]["phase"] == "Lost"


async def test_a_claim_in_use_stays_until_its_pod_is_gone() -> None:
    async with cluster(volumes=True) as c:
        await c.create(CLAIMS, claim("c"))
        found = await c.read(f"{CLAIMS}/c")
        assert found["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        await c.create(PODS, pod(spec={"volumes": volumes}))
        await c.api.delete(f"{CLAIMS}/c")
        await c.settle()
        assert await c.code(f"{CLAIMS}/c") == 200
        await c.api.delete(f"{PODS}/p", gracePeriodSeconds=0)
        await c.settle()
        assert await c.code(f"{CLAIMS}/c") == 404


async def test_an_unbound_pod_keeps_no_claim() -> None:
    async with cluster(volumes=True) as c:
        await c.create(CLAIMS, claim("c"))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        waiting = pod(spec={"volumes": volumes})
        del waiting["spec"]["nodeName"]
        await c.create(PODS, waiting)
        await c.api.delete(f"{CLAIMS}/c")
        await c.settle()
        assert await c.code(f"{CLAIMS}/c") == 404


def attributes_class(name: str) -> Json:
    return {"metadata": {"name": name}, "driverName": "my.csi", "parameters": {"iops": "100"}}


async def test_an_unused_volume_attributes_class_is_deleted() -> None:
    async with cluster(garbage_collector=True) as c:
        await c.create(ATTRIBUTES_CLASSES, attributes_class("gold"))
        found = await c.read(f"{ATTRIBUTES_CLASSES}/gold")
        assert found["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
        await c.api.delete(f"{ATTRIBUTES_CLASSES}/gold")
        await c.settle()
        assert await c.code(f"{ATTRIBUTES_CLASSES}/gold") == 404


async def test_a_volume_attributes_class_stays_while_a_claim_uses_it() -> None:
    async with cluster(garbage_collector=True) as c:
        await c.create(ATTRIBUTES_CLASSES, attributes_class("gold"))
        wanted = claim("wanted")
        wanted["spec"]["volumeAttributesClassName"] = "gold"
        await c.create(CLAIMS, wanted)
        await c.create(CLAIMS, claim("current"))
        status = {"status": {"currentVolumeAttributesClassName": "gold"}}
        await c.api.patch(f"{CLAIMS}/current/status", status)
        await c.api.delete(f"{ATTRIBUTES_CLASSES}/gold")
        for name in ("wanted", "current"):
            await c.settle()
            assert await c.code(f"{ATTRIBUTES_CLASSES}/gold") == 200
            await c.api.delete(f"{CLAIMS}/{name}")
        await c.settle()
        assert await c.code(f"{ATTRIBUTES_CLASSES}/gold") == 404


async def test_a_volume_attributes_class_stays_while_a_volume_uses_it() -> None:
    async with cluster(garbage_collector=True) as c:
        await c.create(ATTRIBUTES_CLASSES, attributes_class("gold"))
        made = volume("v", "10Gi")
        del made["spec"]["hostPath"]
        csi = {"driver": "my.csi", "volumeHandle": "h"}
        made["spec"].update(csi=csi, volumeAttributesClassName="gold")
        await c.create(VOLUMES, made)
        await c.api.delete(f"{ATTRIBUTES_CLASSES}/gold")
        await c.settle()
        assert await c.code(f"{ATTRIBUTES_CLASSES}/gold") == 200
        await c.api.delete(f"{VOLUMES}/v")
        await c.settle()
        assert await c.code(f"{ATTRIBUTES_CLASSES}/gold") == 404


def zoned(mode: str) -> Json:
    zones = [{"key": "zone", "values": ["a", "b"]}]
    return {**storage_class("z", mode), "allowedTopologies": [{"matchLabelExpressions": zones}]}


async def test_a_volume_has_the_allowed_topologies_of_its_class() -> None:
    async with cluster(volumes=MAKER) as c:
        await c.create(CLASSES, zoned("Immediate"))
        await c.create(CLAIMS, claim("c", storage_class="z"))
        (made,) = await c.items(VOLUMES)
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        wanted = {"key": "zone", "operator": "In", "values": ["a", "b"]}
        assert term["matchExpressions"] == [wanted]


async def test_a_volume_is_created_in_the_zone_of_the_selected_node_or_not_at_all() -> None:
    nodes = [node("here", labels={"zone": "a"}), node("there", labels={"zone": "c"})]
    async with cluster(load=nodes, volumes=MAKER) as c:
        await c.create(CLASSES, zoned("WaitForFirstConsumer"))
        for name in ("here", "there"):
            chosen = {"volume.kubernetes.io/selected-node": name}
            await c.create(CLAIMS, claim(name, storage_class="z", annotations=chosen))
        (made,) = await c.items(VOLUMES)
        (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "zone", "operator": "In", "values": ["a"]}]
        assert (await c.read(f"{CLAIMS}/here"))["status"]["phase"] == "Bound"
        events = await c.items("/api/v1/namespaces/default/events")
        assert {(one["reason"], one["involvedObject"]["name"]) for one in events} == {
            ("ProvisioningSucceeded", "here"),
            ("ProvisioningFailed", "there"),
        }
