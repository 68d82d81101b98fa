"""VolumeBinding: from PreFilter to Reserve, and scores."""

from typing import Any

import pytest

from scheduler.api.core import Pod
from scheduler.api.storage import PersistentVolume
from scheduler.config import SchedulerVersion
from scheduler.framework import CycleState
from scheduler.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.plugins.running import UNRESOLVABLE, Verdict, verdict_of
from tests.plugins.volumes import (
    ZONE,
    ClusterObjects,
    handle_with,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_pool,
    make_volume,
    plugin_with,
    pod_with_claims,
)

NODES = (
    make_node("node-0", zone="a"),
    make_node("node-1", zone="b"),
    make_node("node-2", zone="b"),
)
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MAKER = make_class("make", provisioner="disks.example.com")


class Cycle:
    """The cycle of one pod with the plugin, in a cluster of three nodes with these objects."""

    def __init__(self, pod: Pod, *objects: Any, plugin: VolumeBinding | None = None) -> None:
        self.handle: FakeHandle = handle_with(ClusterObjects(make_class(), MAKER, *objects))
        self.plugin = plugin or plugin_with(VolumeBinding, self.handle)
        self.pod = PodInfo(pod)
        self.state = CycleState()
        self.nodes = snapshot_of(NODES).nodes

    def pre_filter(self) -> Verdict | None:
        return verdict_of(self.plugin.pre_filter(self.state, self.pod, self.nodes))

    def rejected(self) -> dict[str, tuple[str, ...]]:
        """Return the reasons by node, after a PreFilter that accepts the pod."""
        assert self.pre_filter() is None
        rejections = self.plugin.filter_nodes(self.state, self.pod, self.nodes)
        statuses = [rejections.status(i) if rejections else None for i in range(len(NODES))]
        assert {str(s.code) for s in statuses if s is not None} <= {UNRESOLVABLE}
        named = zip(self.nodes.names, statuses, strict=True)
        return {name: status.reasons for name, status in named if status is not None}

    def reserve(self, node_name: str) -> None:
        self.plugin.reserve(self.state, self.pod, node_name)

    @property
    def all_bound(self) -> bool:
        return self.plugin.pre_bind_pre_flight(self.state, self.pod, "node-0").skip


def test_an_ephemeral_volume_waits_for_a_claim_of_its_own() -> None:
    reason = (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-data"'
    )
    cycle = Cycle(pod_with_claims(ephemeral=("data",)))
    assert cycle.pre_filter() == (UNRESOLVABLE, (reason,))


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    cycle = Cycle(pod_with_claims("claim"), make_claim(), make_class(mode=None))
    with pytest.raises(Exception, match=r'^VolumeBindingMode not set for StorageClass "wait"$'):
        cycle.pre_filter()


def test_a_volume_that_a_driver_has_taken_over_is_looked_for_in_the_drivers_zones() -> None:
    claim = make_claim(volume_name="volume")
    disk = make_volume(labels={ZONE: "a__b"}, source={"gcePersistentDisk": {"pdName": "disk"}})
    cycle = Cycle(
        pod_with_claims("claim"),
        claim,
        make_volume(labels={ZONE: "a"}, source={"gcePersistentDisk": {"pdName": "disk"}}),
        make_csi_node("node-0", migrated="kubernetes.io/gce-pd"),
        make_csi_node("node-1", migrated="kubernetes.io/aws-ebs"),
    )
    # No node has the driver's label, which matters only where the driver is in charge.
    assert cycle.rejected() == {"node-0": (OUT_OF_REACH,)}
    regional = Cycle(
        pod_with_claims("claim"),
        claim,
        disk,
        make_csi_node("node-0", migrated="kubernetes.io/gce-pd"),
    )
    with pytest.raises(ValueError, match=r"^could not translate pv: failed to get region from"):
        regional.rejected()


def test_each_claim_gets_a_volume_of_its_own_the_smallest_that_will_do() -> None:
    cycle = Cycle(
        pod_with_claims("big", "small"),
        make_claim("big", size="2Gi"),
        make_claim("small", size="1Gi"),
        make_volume("a", size="4Gi", node="node-0"),
        make_volume("b", size="3Gi", node="node-0"),
        make_volume("c", size="9Gi"),
        make_volume("d", size="3Gi", node="node-1"),
    )
    assert cycle.rejected() == {"node-2": (NO_VOLUME,)}
    assert taken_on(cycle, "node-0") == {"a": "big", "b": "small"}
    assert cycle.rejected() == {"node-2": (NO_VOLUME,)}
    assert taken_on(cycle, "node-1") == {"d": "small", "c": "big"}


def test_a_claim_named_twice_takes_two_volumes_as_upstream_has_it() -> None:
    claim = make_claim()
    kept = [make_volume(name, node="node-0", claim=claim) for name in ("a", "b")]
    cycle = Cycle(pod_with_claims("claim", "claim", "claim"), claim, *kept, make_volume("c"))
    assert cycle.rejected() == dict.fromkeys(("node-1", "node-2"), (NO_VOLUME,))
    assert taken_on(cycle, "node-0") == {"c": "claim"}
    volumes = [make_volume(name, node="node-1") for name in ("d", "e", "f")]
    cycle = Cycle(pod_with_claims("claim", "claim", "claim"), claim, *volumes)
    assert cycle.rejected() == dict.fromkeys(("node-0", "node-2"), (NO_VOLUME,))
    assert taken_on(cycle, "node-1") == dict.fromkeys(("d", "e", "f"), "claim")


def taken_on(cycle: Cycle, node_name: str) -> dict[str, str]:
    """Return the claims by the volumes that Reserve takes on a node; Unreserve follows."""
    before = {v.metadata.name: v.spec.claim_ref for v in cycle.plugin.binder.volumes.list()}
    cycle.reserve(node_name)
    after = {v.metadata.name: v.spec.claim_ref for v in cycle.plugin.binder.volumes.list()}
    cycle.plugin.unreserve(cycle.state, cycle.pod, node_name)
    again = {v.metadata.name: v.spec.claim_ref for v in cycle.plugin.binder.volumes.list()}
    assert again == before
    return {name: ref.name for name, ref in after.items() if ref and before[name] != ref}


@pytest.mark.parametrize(
    ("volume", "is_offered"),
    [
        (make_volume(labels={"disk": "ssd"}), True),
        (make_volume(labels={"disk": "ssd"}, phase="Released"), False),
        (make_volume(labels={"disk": "ssd"}, access_modes=("ReadOnlyMany",)), False),
        (make_volume(labels={"disk": "hdd"}), False),
    ],
)
def test_a_volume_must_be_available_and_have_the_labels_and_access_modes(
    volume: Any, is_offered: bool
) -> None:
    claim = make_claim(selector={"matchLabels": {"disk": "ssd"}})
    rejected = {} if is_offered else dict.fromkeys((n.metadata.name for n in NODES), (NO_VOLUME,))
    assert Cycle(pod_with_claims("claim"), claim, volume).rejected() == rejected


@pytest.mark.parametrize(
    ("claim", "objects", "rejected"),
    [
        # A claim for any size needs no room.
        (make_claim(storage_class="make", size=None), [], {}),
        (
            make_claim(storage_class="make"),
            [make_pool("odd", storage_class="make", nodes={"matchLabels": {"a": "no label!"}})],
            dict.fromkeys(("node-0", "node-1", "node-2"), (NO_SPACE,)),
        ),
        (
            make_claim(storage_class="odd", size=None),
            [
                make_class(
                    "odd",
                    provisioner="disks.example.com",
                    topologies=({ZONE: ("no label!",)}, {ZONE: ("a",)}),
                )
            ],
            dict.fromkeys(("node-1", "node-2"), (NO_VOLUME,)),
        ),
    ],
)
def test_malformed_topologies_have_no_node_and_a_claim_for_any_size_needs_no_room(
    claim: Any, objects: list[Any], rejected: dict[str, tuple[str, ...]]
) -> None:
    driver = make_driver("disks.example.com")
    assert Cycle(pod_with_claims("claim"), claim, driver, *objects).rejected() == rejected


@pytest.mark.parametrize(
    ("claim", "objects", "remedies"),
    [
        (
            make_claim(volume_name="gone"),
            [],
            ["volume gone of claim default/claim does not exist"],
        ),
        (
            make_claim(volume_name="disk"),
            [make_volume("disk", node="node-1")],
            ["volume disk of claim default/claim is at kubernetes.io/hostname=node-1"],
        ),
        (
            make_claim(storage_class="make", selected_node="node-2"),
            [],
            ["claim default/claim waits for its volume on node node-2"],
        ),
        (
            make_claim(storage_class="make", size="2Gi"),
            [make_driver("disks.example.com"), make_pool("small", storage_class="make")],
            ["class make has no storage left for 2Gi for claim default/claim"],
        ),
        (
            make_claim(),
            [],
            [
                "class wait has no free volume of 1Gi for claim default/claim, and provisions none "
                "here"
            ],
        ),
    ],
)
def test_a_remedy_names_the_claim_and_what_it_lacks_on_the_node(
    claim: Any, objects: list[Any], remedies: list[str]
) -> None:
    cycle = Cycle(pod_with_claims("claim"), claim, *objects)
    assert "node-0" in cycle.rejected()
    found = cycle.plugin.remedies(cycle.state, cycle.pod, cycle.nodes[0])
    assert [remedy.text for remedy in found] == remedies


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("5", None),
        ("7", None),
        ("3", 'v1.PersistentVolume "volume" is out of sync (stored: 5, assume: 3)'),
        ("x", 'error parsing ResourceVersion "x" for v1.PersistentVolume "volume": '),
    ],
)
def test_in_v1_34_a_newer_volume_can_be_assumed(version: str, problem: str | None) -> None:
    listers = {"persistentvolumes": FakeLister([make_volume(version="5")])}
    handle = FakeHandle(listers=listers, version=SchedulerVersion.V1_34)
    cache = AssumeCache(handle, "persistentvolumes", PersistentVolume)
    if problem is None:
        cache.assume(make_volume(version=version))
        return
    with pytest.raises(AssumeError) as refusal:
        cache.assume(make_volume(version=version))
    assert str(refusal.value).startswith(problem)


def test_a_malformed_selector_is_an_error_only_if_a_node_gets_that_far() -> None:
    malformed = {"matchExpressions": [{"key": "tier", "operator": "In"}]}
    odd = make_claim("odd", selector=malformed)
    with pytest.raises(ValueError, match=r"^error creating internal label selector for claim: "):
        Cycle(pod_with_claims("odd"), odd).rejected()
    elsewhere = make_claim("elsewhere", storage_class="make", selected_node="node-9")
    cycle = Cycle(pod_with_claims("odd", "elsewhere"), odd, elsewhere)
    assert cycle.rejected() == dict.fromkeys(("node-0", "node-1", "node-2"), (NO_VOLUME,))


def test_a_volume_reserved_for_one_pod_is_not_offered_to_the_next() -> None:
    first = Cycle(
        pod_with_claims("one"),
        make_claim("one"),
        make_claim("two"),
        make_volume("a", node="node-0"),
        make_volume("b", node="node-1"),
    )
    first.rejected()
    first.reserve("node-0")
    assert not first.all_bound
    second = Cycle(pod_with_claims("two", name="next"), plugin=first.plugin)
    assert second.rejected() == dict.fromkeys(("node-0", "node-2"), (NO_VOLUME,))
    first.plugin.unreserve(first.state, first.pod, "node-0")
    assert second.rejected() == {"node-2": (NO_VOLUME,)}


def test_a_pod_that_shares_a_claim_goes_to_the_node_selected_for_it() -> None:
    first = Cycle(pod_with_claims("claim"), make_claim(storage_class="make"))
    first.rejected()
    first.reserve("node-2")
    second = Cycle(pod_with_claims("claim", name="next"), plugin=first.plugin)
    assert second.rejected() == dict.fromkeys(("node-0", "node-1"), (NO_VOLUME,))


def test_a_node_never_looked_at_has_nothing_to_reserve() -> None:
    cycle = Cycle(pod_with_claims("claim"), make_claim(), make_volume())
    assert cycle.pre_filter() is None
    cycle.reserve("node-0")
    assert cycle.all_bound
    cycle.plugin.unreserve(cycle.state, cycle.pod, "node-0")
    cycle.plugin.unreserve(CycleState(), cycle.pod, "node-0")


def test_volumes_are_not_scored_without_the_gate() -> None:
    cycle = Cycle(pod_with_claims("claim"), make_claim(), make_volume())
    assert cycle.rejected() == {}
    status = cycle.plugin.pre_score(cycle.state, cycle.pod, cycle.nodes)
    assert status is not None
    assert status.is_skip
    assert cycle.plugin.score_nodes(cycle.state, cycle.pod, cycle.nodes).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"bindTimeoutSeconds": -1}, "should not be a negative value"),
        ({"shape": [{"utilization": 0, "score": 1}]}, "turn on the feature gate"),
    ],
)
def test_bad_arguments_are_refused(args: dict[str, object], complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        plugin_with(VolumeBinding, handle_with(ClusterObjects()), args)
