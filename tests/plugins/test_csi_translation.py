"""Translation of in-tree volumes to the CSI drivers that they are migrated to."""

from typing import Any

import msgspec
import pytest

from scheduler.api.core import Volume
from scheduler.api.storage import PersistentVolume
from scheduler.plugins._csi_translation import (
    CSI_DRIVERS,
    CsiTranslationError,
    handle_of_inline_volume,
    handle_of_volume,
    in_tree_plugin_of_inline_volume,
)

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


def volume(spec: dict[str, Any], **labels: str) -> PersistentVolume:
    names = {"zone": ZONE, "beta_zone": BETA_ZONE}
    metadata = {"name": "v", "labels": {names[key]: value for key, value in labels.items()}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolume)


def inline(source: dict[str, Any]) -> Volume:
    return msgspec.convert({"name": "v", **source}, Volume)


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, "ebs.csi.aws.com", "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1/"}}, "ebs.csi.aws.com", "vol-1"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ({"azureDisk": {"diskURI": "/a/b"}}, "disk.csi.azure.com", "/a/b"),
        ({"azureDisk": {"diskURI": "/a/b", "kind": "managed"}}, "disk.csi.azure.com", "/a/b"),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p"),
        ({"azureFile": {"shareName": "s"}}, "file.csi.azure.com", None),
        ({"vsphereVolume": {"volumePath": "p"}}, "csi.vsphere.vmware.com", None),
    ],
)
def test_drivers_have_their_own_names_for_volumes(
    source: dict[str, Any], driver: str, handle: str | None
) -> None:
    """`plugins/*_test.go` of csi-translation-lib, as far as handles go."""
    plugin = in_tree_plugin_of_inline_volume(inline(source))
    assert plugin is not None
    assert CSI_DRIVERS[plugin] == driver
    assert handle_of_inline_volume(inline(source)) == handle
    assert handle_of_volume(volume(source)) == handle


def test_other_volumes_have_no_driver() -> None:
    assert in_tree_plugin_of_inline_volume(inline({"iscsi": {"iqn": "i"}})) is None
    assert handle_of_inline_volume(inline({"emptyDir": {}})) is None


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({"zone": "eu-west-a"}, "zones/eu-west-a"),
        ({"beta_zone": "eu-west-b", "zone": "eu-west-a"}, "zones/eu-west-b"),
        ({"beta_zone": "", "zone": "eu-west-a"}, "zones/eu-west-a"),
        ({"zone": "eu-west-a__eu-west-b"}, "regions/eu-west"),
        ({}, "zones/UNSPECIFIED"),
    ],
)
def test_a_gce_disk_is_called_by_where_it_is(labels: dict[str, str], place: str) -> None:
    found = handle_of_volume(volume({"gcePersistentDisk": {"pdName": "d"}}, **labels))
    assert found == f"projects/UNSPECIFIED/{place}/disks/d"


@pytest.mark.parametrize(
    ("source", "labels", "message"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://z/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://z/disk)",
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1/x"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://z/vol-1/x)",
        ),
        (
            {"azureDisk": {"diskURI": "d", "kind": "Dedicated"}},
            {},
            "kind(Dedicated) is not supported in csi migration",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {"zone": "a__b"},
            "failed to get region from zones: zone in unexpected format, "
            "expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {"zone": "eu-west-a__eu-east-a"},
            "failed to get region from zones: multiple or no regions gotten from zones, "
            "got: map[eu-east:{} eu-west:{}]",
        ),
    ],
)
def test_some_volumes_no_driver_can_handle(
    source: dict[str, Any], labels: dict[str, str], message: str
) -> None:
    with pytest.raises(CsiTranslationError) as caught:
        handle_of_volume(volume(source, **labels))
    assert str(caught.value) == message
