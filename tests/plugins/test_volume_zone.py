"""VolumeZone: cases that upstream's tables (`tests/upstream`) do not have."""

from typing import Any

import pytest

from scheduler.api.core import Pod
from scheduler.plugins.volume_zone import VolumeZone
from scheduler.testing import make_node, snapshot_of
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
        ({"zone": " za __ zb "}, set()),
        ({"beta_zone": "za"}, {"b"}),
        ({"beta_zone": "zb"}, {"a", "old"}),
        ({"zone": "zb__za", "region": "other"}, {"a", "b", "old"}),
        ({"zone": "za__"}, set()),
    ],
)
def test_a_pod_goes_where_its_volume_is(labels: dict[str, str], refused: set[str]) -> None:
    plugin = plugin_in(*bound(**labels))
    assert judged(plugin, pod_with_claims("one")) == dict.fromkeys(refused, ELSEWHERE)


def test_the_annotation_of_old_names_the_class_of_a_claim() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "no"}
    plugin = plugin_in(make_claim("one", annotations=annotations), make_class())
    verdict = (UNRESOLVABLE, ('storageclass.storage.k8s.io "no" not found',))
    nodes = [node.metadata.name for node in NODES]
    assert judged(plugin, pod_with_claims("one")) == dict.fromkeys(nodes, verdict)


def test_a_claim_must_have_a_name() -> None:
    verdict = (UNRESOLVABLE, ("PersistentVolumeClaim had no name",))
    assert judged(plugin_in(), pod_with_claims(""))["a"] == verdict
