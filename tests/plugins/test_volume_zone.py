"""VolumeZone: cases that upstream's tables (`tests/upstream`) do not have."""

from typing import Any

import pytest

from scheduler.api.core import Pod
from scheduler.framework import CycleState
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import UNRESOLVABLE, rejected
from tests.plugins.volumes import (
    ClusterObjects,
    handle_with,
    make_claim,
    make_class,
    make_volume,
    plugin_with,
    pod_with_claims,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
ELSEWHERE = (UNRESOLVABLE, ("node(s) had no available volume zone",))
NODES = [
    make_node("a", zone="za", region="r"),
    make_node("b", zone="zb", region="r"),
    make_node("old", labels={BETA_ZONE: "za", ZONE: "zb"}),
    make_node("none"),
]


def plugin_in(*objects: Any) -> Any:
    handle = handle_with(ClusterObjects(*objects), snapshot=snapshot_of(NODES))
    return plugin_with(VolumeZone, handle)


def judged(plugin: Any, pod: Pod) -> dict[str, Any]:
    return rejected(plugin, pod, plugin.handle.snapshot)


def bound(name: str = "one", **labels: str) -> tuple[Any, Any]:
    keys = {"zone": ZONE, "region": REGION, "beta_zone": BETA_ZONE}
    volume = make_volume(name, labels={keys[key]: value for key, value in labels.items()})
    return volume, make_claim(name, volume_name=name)


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        ({"zone": "za"}, {"b", "old"}),
        ({"zone": "za__zc"}, {"b", "old"}),
        ({"zone": " za __ zb "}, set()),
        ({"beta_zone": "za"}, {"b"}),
        ({"beta_zone": "zb"}, {"a", "old"}),
        ({"zone": "za", "region": "r"}, {"b", "old"}),
        ({"zone": "zb__za", "region": "other"}, {"a", "b", "old"}),
        ({"zone": "za__"}, set()),
        ({}, set()),
    ],
)
def test_a_pod_goes_where_its_volume_is(labels: dict[str, str], refused: set[str]) -> None:
    plugin = plugin_in(*bound(**labels))
    assert judged(plugin, pod_with_claims("one")) == dict.fromkeys(refused, ELSEWHERE)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "one" not found'),
        ([make_claim("one", volume_name="gone")], 'persistentvolume "gone" not found'),
        ([make_claim("one", storage_class="no")], 'storageclass.storage.k8s.io "no" not found'),
        (
            [make_claim("one", storage_class=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        (
            [make_claim("one"), make_class(mode=None)],
            'VolumeBindingMode not set for StorageClass "wait"',
        ),
        ([make_claim("one"), make_class(mode="Immediate")], "PersistentVolume had no name"),
        (
            [
                make_claim("one", annotations={"volume.beta.kubernetes.io/storage-class": "no"}),
                make_class(),
            ],
            'storageclass.storage.k8s.io "no" not found',
        ),
    ],
)
def test_a_claim_whose_zone_is_unknown_rejects_the_pod(objects: list[Any], reason: str) -> None:
    verdict = (UNRESOLVABLE, (reason,))
    plugin = plugin_in(*objects)
    assert judged(plugin, pod_with_claims("one")) == dict.fromkeys(
        ("a", "b", "old", "none"), verdict
    )


def test_a_claim_must_have_a_name() -> None:
    verdict = (UNRESOLVABLE, ("PersistentVolumeClaim had no name",))
    assert judged(plugin_in(), pod_with_claims(""))["a"] == verdict


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(),
        pod_with_claims("waits"),
        pod_with_claims(ephemeral=("v",)),
        pod_with_claims("anywhere"),
    ],
)
def test_a_pod_without_volumes_that_have_a_place_is_skipped(pod: Pod) -> None:
    plugin = plugin_in(make_claim("waits"), make_class(), *bound("anywhere"))
    status = plugin.pre_filter(CycleState(), PodInfo(pod), plugin.handle.snapshot.nodes)
    assert status.is_skip
    assert plugin.filter_nodes(CycleState(), PodInfo(pod), plugin.handle.snapshot.nodes) is None
