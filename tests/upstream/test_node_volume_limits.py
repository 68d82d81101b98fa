"""NodeVolumeLimits against upstream's own cases."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.framework import CycleState, EventResource
from scheduler.plugins.node_volume_limits.csi import NodeVolumeLimits
from scheduler.plugins.node_volume_limits.csi_volumes import AttachableVolumeError
from tests.plugins.volumes import ClusterObjects, handle_with, plugin_with
from tests.upstream.loading import Case, cases, feature_gates, snapshot, verdict, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of, pre_filter

NODE, CLASS = "node-0", "csi-sc"


def objects(case: Case) -> Iterator[Any]:
    """Yield the objects that the helpers of upstream's test make (`getFakeCSIPVCLister`, ...)."""
    drivers = case["drivers"]
    for driver in drivers:
        for number in range(4):
            name = f"csi-{driver}-{number}"
            yield claim(name, volumeName=name)
            yield convert(PersistentVolume, name, spec=volume_spec(driver, name))
        for number in range(case.get("attachments", 0)):
            source = {"persistentVolumeName": f"csi-{driver}-{number}"}
            spec = {"attacher": driver, "nodeName": NODE, "source": source}
            yield convert(VolumeAttachment, f"va-{driver}-{number}", spec=spec)
    yield claim("csi-4", storageClassName=CLASS)
    yield claim("csi-5")
    yield claim("csi-6", storageClassName=CLASS, volumeName="missing-in-action")
    yield StorageClass(ObjectMeta(name=CLASS), provisioner=drivers[0])
    for value in case.get("claims", ()):
        yield msgspec.convert(value, PersistentVolumeClaim)
    if "csi_driver" in case.fields:
        yield msgspec.convert(case["csi_driver"], CSIDriver)
    if case["limits_from"] != "nothing":
        yield convert(CSINode, NODE, spec={"drivers": drivers_on_node(case)})


def drivers_on_node(case: Case) -> list[dict[str, Any]]:
    if case["limits_from"] == "no-csi-driver":
        return []
    limit = {"allocatable": {"count": case["limit"]}} if case["limits_from"] == "csinode" else {}
    return [{"name": driver, "nodeID": NODE, **limit} for driver in case["drivers"]]


def volume_spec(driver: str, handle: str) -> dict[str, Any]:
    if driver == "kubernetes.io/aws-ebs":
        return {"awsElasticBlockStore": {"volumeID": handle}}
    if driver == "kubernetes.io/hostpath":
        return {"hostPath": {"path": "/tmp"}}
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def claim(name: str, **spec: str) -> PersistentVolumeClaim:
    return convert(PersistentVolumeClaim, name, spec=spec)


def convert(kind: Any, name: str, **fields: Any) -> Any:
    return msgspec.convert({"metadata": {"name": name}, **fields}, kind)


def limits(case: Case) -> Any:
    listed = ClusterObjects(*objects(case))
    handle = handle_with(listed, snapshot=snapshot(case), feature_gates=feature_gates(case))
    return plugin_with(NodeVolumeLimits, handle)


@pytest.mark.parametrize("case", cases("node_volume_limits", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    plugin, state = limits(case), CycleState()
    assert pre_filter(plugin, case, state) == verdict(case.get("pre_filter"))
    if "error" in case.fields:
        with pytest.raises(AttachableVolumeError) as caught:
            filter_statuses(plugin, case, state)
        assert str(caught.value) == case["error"]
    else:
        assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_volume_limits", "volume_limit_scaling"))
def test_drivers_that_a_node_lacks(case: Case) -> None:
    plugin, state = limits(case), CycleState()
    assert pre_filter(plugin, case, state) is None
    assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_volume_limits", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    plugin = plugin_of(NodeVolumeLimits, case)
    assert hint(plugin, case, EventResource(case["event"])) == case["hint"]
