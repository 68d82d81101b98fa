"""Claims and disks in use."""

from typing import Any

from scheduler.api.volumes import disks_of
from scheduler.snapshot import PodInfo
from scheduler.snapshot.claims_and_disks import NO_VOLUMES
from scheduler.snapshot.volume_index import VolumeIndex
from scheduler.testing import make_node, make_pod, snapshot_of


def pod(name: str, *sources: dict[str, Any], namespace: str = "default") -> PodInfo:
    volumes = [{"name": f"v{n}", **source} for n, source in enumerate(sources)]
    return PodInfo(make_pod(name, namespace=namespace, volumes=volumes))


def claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def disk(*, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}}


def put(index: VolumeIndex, slot: int, *pods: PodInfo) -> None:
    index.set_pods(slot, {one.uid: one for one in pods})
    index.check()


def test_claims_are_counted_by_namespace_over_all_slots() -> None:
    index = VolumeIndex()
    put(index, 0, pod("a", claim("c"), claim("c")), pod("b", claim("c"), namespace="other"))
    put(index, 40, pod("d", claim("c"), {"ephemeral": {}}))
    assert index.claim_users("default", "c") == 3
    assert index.claim_users("other", "c") == 1
    assert index.claim_users("other", "d") == 0


def test_a_removed_pod_releases_its_claims_and_disks() -> None:
    index = VolumeIndex()
    wanted = disks_of(make_pod(volumes=[{"name": "v", **disk()}]))
    gone, stays = pod("a", claim("c"), disk()), pod("b", disk(read_only=True))
    put(index, 0, gone, stays)
    put(index, 1, gone)
    assert index.slots_without_room_for(wanted) == {0, 1}
    put(index, 0, stays)
    put(index, 1)
    assert index.slots_without_room_for(wanted) == {0}
    assert index.claim_users("default", "c") == 0


def test_a_disk_that_is_only_read_leaves_room_for_one_more_reader() -> None:
    index = VolumeIndex()
    reader = disks_of(make_pod(volumes=[{"name": "v", **disk(read_only=True)}]))
    put(index, 0, pod("a", disk(read_only=True)))
    put(index, 1, pod("b", disk()))
    assert index.slots_without_room_for(reader) == {1}


def test_slots_that_are_not_kept_are_empty() -> None:
    index = VolumeIndex()
    put(index, 0, pod("a", claim("c")))
    put(index, 1, pod("b", claim("c")))
    index.keep_only([1])
    assert index.claim_users("default", "c") == 1


def test_only_changes_of_volumes_are_changes() -> None:
    index = VolumeIndex()
    user, other = pod("a", claim("c")), pod("b", {"configMap": {}})
    put(index, 0, user)
    put(index, 30, pod("d", disk()))
    version = index.version
    put(index, 0, user, other)
    assert index.changed_since(version) == []
    put(index, 30)
    put(index, 2, pod("e", claim("c")))
    assert index.changed_since(version) == [2, 30]
    assert index.changed_since(0) == [0, 2, 30]
    assert index.changed_since(index.version) == []


def test_an_updated_pod_is_a_change() -> None:
    index = VolumeIndex()
    put(index, 0, pod("a", claim("c")))
    version = index.version
    put(index, 0, pod("a", claim("d")))
    assert index.changed_since(version) == [0]
    assert index.claim_users("default", "c") == 0


def test_pods_without_such_volumes_share_one_answer() -> None:
    assert pod("a", {"secret": {}}).volumes is NO_VOLUMES
    assert pod("a").volumes is NO_VOLUMES
    assert pod("a", {"iscsi": {"iqn": "i"}}).volumes.may_be_attached is False
    assert pod("a", {"azureFile": {"shareName": "s"}}).volumes.may_be_attached is True


def test_the_snapshot_keeps_the_index_and_knows_nodes_by_slot() -> None:
    used = make_pod("a", node_name="two", volumes=[{"name": "v", **claim("c")}])
    snapshot = snapshot_of([make_node("one"), make_node("two")], [used])
    assert snapshot.volume_index.claim_users("default", "c") == 1
    assert snapshot.slots.tolist() == [0, 1]
    assert snapshot.volume_index.changed_since(0) == [1]
