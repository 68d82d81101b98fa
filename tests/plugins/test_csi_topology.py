"""Topology of in-tree volumes that are migrated to CSI drivers."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta
from scheduler.api.storage import PersistentVolume, PersistentVolumeSpec
from scheduler.plugins._csi_translation import (
    CsiTranslationError,
    in_tree_plugin,
    migrated_node_affinity,
    migrated_plugins,
)
from tests.plugins.volumes import make_csi_node, make_volume, within_reach_of

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
EBS, GCE = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"
EBS_DISK = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
AZURE_DISK = {"azureDisk": {"diskName": "d", "diskURI": "u"}}
GCE_DISK = {"gcePersistentDisk": {"pdName": "disk"}}


def volume(source: dict[str, Any], affinity: Any = None, labels: Any = None) -> PersistentVolume:
    made = make_volume(labels=labels, source=source)
    return replace(
        made, spec=replace(made.spec, node_affinity=affinity and within_reach_of(affinity))
    )


def terms(of: PersistentVolume) -> list[dict[str, tuple[str, ...]]] | None:
    plugin = in_tree_plugin(of.spec)
    assert plugin is not None
    affinity = migrated_node_affinity(of, plugin)
    if affinity is None or affinity.required is None:
        return None
    found = affinity.required.node_selector_terms
    return [{e.key: e.values for e in term.match_expressions} for term in found]


@pytest.mark.parametrize(
    ("source", "plugin"),
    [
        (EBS_DISK, "kubernetes.io/aws-ebs"),
        (GCE_DISK, "kubernetes.io/gce-pd"),
        ({"cinder": {"volumeID": "v"}}, "kubernetes.io/cinder"),
        ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, "kubernetes.io/azure-disk"),
        ({"portworxVolume": {"volumeID": "v"}}, "kubernetes.io/portworx-volume"),
        ({"azureFile": {"secretName": "s", "shareName": "n"}}, None),
        ({"vsphereVolume": {"volumePath": "p"}}, None),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, None),
    ],
)
def test_only_some_plugins_may_have_been_taken_over(
    source: dict[str, Any], plugin: str | None
) -> None:
    assert in_tree_plugin(msgspec.convert(source, PersistentVolumeSpec)) == plugin


def test_a_csi_node_names_the_migrated_plugins() -> None:
    assert migrated_plugins(make_csi_node("node")) == frozenset()
    both = make_csi_node("node", migrated="kubernetes.io/gce-pd,kubernetes.io/aws-ebs")
    assert migrated_plugins(both) == {"kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"}
    none = replace(both, metadata=ObjectMeta(name="node"))
    assert migrated_plugins(none) == frozenset()


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (volume(EBS_DISK, {ZONE: ("a",)}), [{EBS: ("a",)}]),
        (volume(GCE_DISK, {ZONE: ("a", "b")}), [{GCE: ("a", "b")}]),
        (
            volume(EBS_DISK, {OLD_ZONE: ("a",), OLD_REGION: ("r",)}),
            [{EBS: ("a",), REGION: ("r",)}],
        ),
        # With a zone label of today the region label of old is left alone.
        (volume(EBS_DISK, {ZONE: ("a",), OLD_REGION: ("r",)}), [{EBS: ("a",), OLD_REGION: ("r",)}]),
        (volume(EBS_DISK, None, {ZONE: "b__a__ "}), [{EBS: ("a", "b")}]),
        (volume(EBS_DISK, None, {OLD_ZONE: "a"}), [{EBS: ("a",)}]),
        (volume(EBS_DISK, {"disk": ("x",)}, {ZONE: "a"}), [{"disk": ("x",), EBS: ("a",)}]),
        # The affinity has precedence over the labels.
        (volume(EBS_DISK, {ZONE: ("a",)}, {ZONE: "b"}), [{EBS: ("a",)}]),
        (volume(EBS_DISK, None, {ZONE: " "}), None),
        (volume(EBS_DISK), None),
        (
            volume({"azureDisk": {"diskName": "d", "diskURI": "u"}}, {ZONE: ("a",)}),
            [{ZONE: ("a",)}],
        ),
        (volume({"portworxVolume": {"volumeID": "v"}}, {ZONE: ("a",)}), [{ZONE: ("a",)}]),
    ],
)
def test_zones_become_the_drivers_zones(
    of: PersistentVolume, found: list[dict[str, tuple[str, ...]]] | None
) -> None:
    assert terms(of) == found


@pytest.mark.parametrize(
    ("of", "complaint"),
    [
        (
            volume({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk"}}),
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://us-east-1a/disk)",
        ),
        (
            volume({"awsElasticBlockStore": {"volumeID": "aws://vol-1"}}),
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://vol-1)",
        ),
        (
            volume(GCE_DISK, None, {ZONE: "here__there"}),
            "failed to get region from zones: zone in unexpected format, expected: "
            "{locale}-{region}-{zone}, got: here",
        ),
        (
            volume(GCE_DISK, None, {ZONE: "us-east1-a__us-west1-a"}),
            "failed to get region from zones: multiple or no regions gotten from zones, got: "
            "map[us-east1:{} us-west1:{}]",
        ),
        (
            volume({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}),
            "kind(Dedicated) is not supported in csi migration",
        ),
    ],
)
def test_a_volume_that_no_driver_could_handle_is_refused_with_upstreams_message(
    of: PersistentVolume, complaint: str
) -> None:
    with pytest.raises(CsiTranslationError) as caught:
        terms(of)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}},
        {"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}},
        {"awsElasticBlockStore": {"volumeID": "anything"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "managed"}},
    ],
)
def test_a_volume_that_a_driver_can_handle_is_accepted(source: dict[str, Any]) -> None:
    assert terms(volume(source)) is None
