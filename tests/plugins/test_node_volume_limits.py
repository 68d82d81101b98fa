"""NodeVolumeLimits: cases that upstream's tables (`tests/upstream`) do not have."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api.storage import CSIDriver, CSINode, VolumeAttachment
from scheduler.cache import Cache
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework import CycleState
from scheduler.plugins._csi_translation import AWS_EBS, MIGRATED_PLUGINS_ANNOTATION, PORTWORX
from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits
from scheduler.plugins.node_volume_limits.csi_volumes import AttachableVolumeError
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing import make_node, make_pod
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, UNSCHEDULABLE, hint, rejected
from tests.plugins.volumes import (
    ClusterObjects,
    handle_with,
    make_claim,
    make_class,
    make_volume,
    plugin_with,
    pod_with_claims,
)

DRIVER = "csi.example.com"
FULL = (UNSCHEDULABLE, ("node(s) exceed max volume count",))


def csi_node(name: str, drivers: dict[str, int | None]) -> CSINode:
    listed = [
        {"name": driver, **({} if limit is None else {"allocatable": {"count": limit}})}
        for driver, limit in drivers.items()
    ]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": listed}}, CSINode)


def portworx_volume(name: str) -> dict[str, object]:
    return {"name": "v", "portworxVolume": {"volumeID": name}}


def attachment(name: str, volume: str, node: str, attacher: str = DRIVER) -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)


def bound(name: str, driver: str = DRIVER) -> tuple[Any, Any]:
    source = {"csi": {"driver": driver, "volumeHandle": name}}
    return make_claim(name, volume_name=name), make_volume(name, source=source)


def user(name: str, *claims: str, node: str = "a") -> Pod:
    volumes = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}}
        for n, claim in enumerate(claims)
    ]
    return make_pod(name, node_name=node, volumes=volumes)


class World:
    """Nodes a and b, each with a limit of 2, and one plugin over their whole history."""

    def __init__(
        self,
        *objects: Any,
        gates: frozenset[str] = frozenset(),
        version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
    ) -> None:
        limits = [csi_node(name, {DRIVER: 2}) for name in ("a", "b")]
        some = [part for name in ("c0", "c1", "c2", "c3") for part in bound(name)]
        self.objects = ClusterObjects(*limits, *some, *objects)
        self.cache, self.snapshot = Cache(), Snapshot()
        self.cache.add_node(make_node("a"))
        self.cache.add_node(make_node("b"))
        self.cache.update_snapshot(self.snapshot)
        handle = handle_with(
            self.objects, snapshot=self.snapshot, feature_gates=gates, version=version
        )
        self.plugin = plugin_with(NodeVolumeLimits, handle)

    def run(self, *pods: Pod) -> None:
        for pod in pods:
            self.cache.add_pod(PodInfo(pod))

    def full_for(self, pod: Pod) -> set[str]:
        """Return the nodes over their limit; fails if a node is rejected for another reason."""
        found = self.verdicts(pod)
        assert set(found.values()) <= {FULL}
        return set(found)

    def verdicts(self, pod: Pod) -> dict[str, Any]:
        self.cache.update_snapshot(self.snapshot)
        return rejected(self.plugin, pod, self.snapshot)


POD = pod_with_claims("c0")


def test_pods_that_come_and_go_are_counted() -> None:
    world = World()
    one, two = user("one", "c1"), user("two", "c2")
    world.run(one, two)
    assert world.full_for(POD) == {"a"}
    world.cache.remove_pod(one)
    assert world.full_for(POD) == set()


def test_a_volume_that_the_node_has_already_costs_nothing() -> None:
    world = World()
    world.run(user("one", "c1", "c0"))
    assert world.full_for(POD) == set()
    assert world.full_for(pod_with_claims("c0", "c2")) == {"a"}


def test_a_volume_that_only_an_attachment_mentions_counts_twice() -> None:
    """As in upstream, the volume counts twice: as attached and as new."""
    world = World(attachment("at", "c0", "a"))
    world.run(user("one", "c1"))
    assert world.full_for(POD) == {"a"}


def test_attachments_that_come_move_and_go_are_counted() -> None:
    world = World()
    world.run(user("one", "c1"))
    assert world.full_for(POD) == set()
    world.objects.put(attachment("at", "c2", "a"))
    assert world.full_for(POD) == {"a"}
    world.objects.put(attachment("at", "c2", "b"))
    assert world.full_for(pod_with_claims("c0", "c3")) == {"a", "b"}
    assert world.full_for(POD) == set()
    world.objects.put(attachment("at", "c1", "a"))
    assert world.full_for(POD) == set(), "what a pod uses is attached, and counts once"
    world.objects.put(attachment("at", "c2", "a"))
    world.objects.remove(attachment("at", "c2", "a"))
    assert world.full_for(POD) == set()


@pytest.mark.parametrize(
    "useless",
    [
        attachment("at", "c2", "a", attacher=""),
        attachment("at", "gone", "a"),
        attachment("at", "c2", "elsewhere"),
        attachment("at", "c2", "a", attacher="other.example.com"),
        msgspec.convert(
            {"metadata": {"name": "at"}, "spec": {"attacher": DRIVER, "nodeName": "a"}},
            VolumeAttachment,
        ),
    ],
)
def test_attachments_of_nothing_that_counts_are_left_out(useless: VolumeAttachment) -> None:
    world = World(useless)
    world.run(user("one", "c1"))
    assert world.full_for(POD) == set()


def test_claims_volumes_and_classes_that_change_are_looked_up_again() -> None:
    world = World()
    world.run(user("one", "c1", "late"))
    assert world.full_for(POD) == set()
    world.objects.put(make_claim("late", storage_class="slow"))
    assert world.full_for(POD) == set()
    world.objects.put(make_class("slow", provisioner=DRIVER))
    assert world.full_for(POD) == {"a"}
    world.objects.put(make_claim("late", storage_class="slow", volume_name="c1"))
    assert world.full_for(POD) == set()
    world.objects.put(make_claim("late", storage_class="slow", volume_name="made"))
    assert world.full_for(POD) == {"a"}
    world.objects.put(
        make_volume("made", source={"csi": {"driver": "other.example.com", "volumeHandle": "h"}})
    )
    assert world.full_for(POD) == set()


def test_limits_that_change_count_at_once() -> None:
    world = World()
    world.run(user("one", "c1", "c2"))
    assert world.full_for(POD) == {"a"}
    world.objects.put(csi_node("a", {DRIVER: 3}))
    assert world.full_for(POD) == set()
    world.objects.put(csi_node("a", {DRIVER: 0}))
    assert world.full_for(POD) == {"a"}
    world.objects.put(csi_node("a", {DRIVER: None}))
    assert world.full_for(POD) == set()
    world.objects.remove(csi_node("a", {}))
    assert world.full_for(POD) == set()


def test_nodes_that_come_in_place_of_others_have_their_own_accounts() -> None:
    world = World(csi_node("c", {DRIVER: 1}))
    gone = user("one", "c1", "c2")
    world.run(gone)
    assert world.full_for(POD) == {"a"}
    world.cache.remove_pod(gone)
    world.cache.remove_node(make_node("a"))
    world.cache.add_node(make_node("c"))
    assert world.full_for(POD) == set()
    assert world.full_for(pod_with_claims("c0", "c3")) == {"c"}


def test_many_nodes_have_room_in_the_books() -> None:
    world = World(csi_node("n-40", {DRIVER: 1}))
    assert world.full_for(POD) == set()
    for number in range(60):
        world.cache.add_node(make_node(f"n-{number}"))
    world.run(user("one", "c1", node="n-40"), user("two", "c2", node="n-41"))
    assert world.full_for(POD) == {"n-40"}


def supposed(world: World, pod: Pod, *, gone: Pod | None = None, come: Pod | None = None) -> Any:
    """Return True if node a accepts the pod when another pod is removed or added."""
    world.cache.update_snapshot(world.snapshot)
    info, state, nodes = PodInfo(pod), CycleState(), world.snapshot.nodes
    assert world.plugin.pre_filter(state, info, nodes) is None
    what_if = WhatIf(nodes)
    row = nodes.names.index("a")
    if gone is not None:
        what_if.remove_pod(row, gone.metadata.uid)
    if come is not None:
        what_if.add_pod(row, PodInfo(come))
    rejections = world.plugin.filter_nodes(state, info, what_if.nodes)
    return rejections is None or bool(rejections.passed[row])


def test_a_pod_that_would_go_makes_room_unless_another_uses_its_volume() -> None:
    world = World()
    one, two = user("one", "c1"), user("two", "c1", "c2")
    world.run(one, two)
    assert supposed(world, POD) is False
    assert supposed(world, POD, gone=one) is False
    assert supposed(world, POD, gone=two) is True


def test_a_pod_that_would_come_takes_room() -> None:
    world = World()
    world.run(user("one", "c1"))
    assert supposed(world, POD, come=user("two", "c2")) is False
    assert supposed(world, POD, come=user("two", "c0")) is True


def test_a_volume_with_an_attachment_counts_with_and_without_its_pod() -> None:
    world = World(attachment("one", "c1", "a"), attachment("two", "c2", "a"))
    leaving = user("one", "c1")
    world.run(leaving)
    assert supposed(world, POD, gone=leaving) is False
    world.objects.put(csi_node("a", {DRIVER: 3}))
    assert supposed(world, POD, come=user("two", "c2")) is True


def test_a_missing_claim_keeps_the_pod_out_with_or_without_a_csi_node() -> None:
    world = World()
    world.objects.remove(csi_node("b", {}))
    verdict = (
        UNRESOLVABLE,
        ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',),
    )
    assert world.verdicts(pod_with_claims("gone")) == {"a": verdict, "b": verdict}


def test_a_running_pod_with_an_invalid_claim_fails_the_cycle_where_there_are_limits() -> None:
    strange = make_pod("odd", node_name="a", volumes=[{"name": "v", "ephemeral": {}}])
    world = World(make_claim("odd-v"))
    world.run(strange)
    with pytest.raises(AttachableVolumeError, match="was not created for pod default/odd"):
        world.verdicts(POD)
    with pytest.raises(AttachableVolumeError, match="pod is not owner"):
        supposed(world, POD, come=user("two", "c2"))
    assert supposed(world, POD, gone=strange) is True
    world.objects.put(csi_node("a", {DRIVER: None}))
    assert world.full_for(POD) == set()


def test_an_in_tree_volume_that_no_driver_can_handle_fails_the_cycle() -> None:
    volumes = [{"name": "v", "awsElasticBlockStore": {"volumeID": "aws://z/odd"}}]
    with pytest.raises(AttachableVolumeError) as caught:
        World().verdicts(make_pod(volumes=volumes))
    assert str(caught.value) == (
        "converting volume(v) from inline to csi: failed to translate Kubernetes ID to EBS "
        "Volume ID Invalid format for AWS volume (aws://z/odd)"
    )


def test_behind_a_claim_such_a_volume_does_not_count() -> None:
    source = {"awsElasticBlockStore": {"volumeID": "aws://z/odd"}}
    world = World(make_claim("odd", volume_name="odd"), make_volume("odd", source=source))
    world.objects.put(csi_node("a", {"ebs.csi.aws.com": 0}))
    assert world.full_for(pod_with_claims("odd")) == set()


@pytest.mark.parametrize("source", [{"azureFile": {"shareName": "s"}}, {"vsphereVolume": {}}])
def test_in_tree_volumes_that_are_never_attached_do_not_count(source: dict[str, Any]) -> None:
    drivers = {"file.csi.azure.com": 0, "csi.vsphere.vmware.com": 0}
    world = World(csi_node("a", drivers))
    assert world.full_for(make_pod(volumes=[{"name": "v", **source}])) == set()


@pytest.mark.parametrize(
    ("minor", "prevents"), [(35, {}), (36, {"preventPodSchedulingIfMissing": True})]
)
def test_a_driver_that_insists_keeps_pods_from_nodes_without_it_if_the_gate_is_on(
    minor: int, prevents: dict[str, bool]
) -> None:
    """In 1.35 each driver does."""
    driver = msgspec.convert({"metadata": {"name": DRIVER}, "spec": prevents}, CSIDriver)
    gates = frozenset({"VolumeLimitScaling"})
    world = World(driver, gates=gates, version=SchedulerVersion(minor))
    world.objects.put(csi_node("b", {"other.example.com": 5}))
    world.cache.add_node(make_node("bare"))
    missing = (UNSCHEDULABLE, (f"{DRIVER} CSI driver is not installed on the node",))
    assert world.verdicts(POD) == {"b": missing, "bare": missing}


@pytest.mark.parametrize(
    ("version", "gates", "full"),
    [
        (SchedulerVersion.V1_36, set(), [{"a"}, {"a"}]),
        (SchedulerVersion.V1_35, {"CSIMigrationPortworx"}, [set(), {"a"}]),
        (SchedulerVersion.V1_35, set(), [set(), set()]),
    ],
)
def test_up_to_1_35_portworx_counts_where_the_kubelet_lists_it(
    version: SchedulerVersion, gates: set[str], full: list[set[str]]
) -> None:
    world = World(version=version, gates=frozenset(gates))
    unlisted = csi_node("a", {"pxd.portworx.com": 1})
    listed = {MIGRATED_PLUGINS_ANNOTATION: f"{AWS_EBS},{PORTWORX}"}
    world.run(make_pod("one", node_name="a", volumes=[portworx_volume("one")]))
    found = []
    for annotations in ({}, listed):
        metadata = replace(unlisted.metadata, annotations=annotations)
        world.objects.put(replace(unlisted, metadata=metadata))
        found.append(world.full_for(make_pod("two", volumes=[portworx_volume("two")])))
    assert found == full


def test_without_pre_filter_the_filter_finds_out_itself() -> None:
    world = World()
    world.run(user("one", "c1", "c2"))
    world.cache.update_snapshot(world.snapshot)
    nodes = world.snapshot.nodes
    rejections = world.plugin.filter_nodes(CycleState(), PodInfo(POD), nodes)
    assert [nodes.names[i] for i in range(2) if not rejections.passed[i]] == ["a"]


def test_a_pod_without_volumes_to_attach_is_skipped() -> None:
    world = World()
    pod = PodInfo(make_pod(volumes=[{"name": "v", "iscsi": {"iqn": "i"}}]))
    assert world.plugin.pre_filter(CycleState(), pod, world.snapshot.nodes).is_skip
    assert world.plugin.filter_nodes(CycleState(), pod, world.snapshot.nodes) is None


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (user("gone", "c1"), QUEUE),
        (
            make_pod("gone", nominated_node_name="a", volumes=[{"name": "v", "ephemeral": {}}]),
            QUEUE,
        ),
        (pod_with_claims("c1", name="gone"), SKIP),
        (make_pod("gone", node_name="a", volumes=[{"name": "v", "emptyDir": {}}]), SKIP),
    ],
)
def test_a_deleted_pod_helps_if_it_had_volumes_on_a_node(gone: Pod, expected: str) -> None:
    assert hint(World().plugin, POD, old=gone) == expected
