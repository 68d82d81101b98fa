"""Fields of pods and volumes that no plugin sees while their feature gate is off."""

from collections.abc import Mapping

import pytest

from scheduler.api.core import Node, Pod
from scheduler.api.dynamic_resources import ResourceSlice
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.assembly.gated_fields import transforms
from scheduler.config import DEFAULT_FEATURE_GATES, SchedulerVersion, default_feature_gates
from scheduler.devices.rules import PARTITIONABLE_DEVICES
from scheduler.snapshot import PodInfo
from tests.upstream.loading import api_object

RESIZED = {
    "metadata": {"name": "web"},
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "resources": {"requests": {"cpu": "2"}},
    },
    "status": {
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "4"},
    },
}


def _requests(pod: Pod) -> Mapping[str, int]:
    return PodInfo(pod).requests.resources


@pytest.mark.parametrize(("minor", "key"), [(35, "ns/w/g/"), (36, "ns/train")])
def test_a_pod_has_the_group_of_the_version_only(minor: int, key: str) -> None:
    groups = {
        "schedulingGroup": {"podGroupName": "train"},
        "workloadRef": {"name": "w", "podGroup": "g"},
    }
    pod = api_object(Pod, {"metadata": {"name": "p", "namespace": "ns"}, "spec": groups})
    read = transforms(DEFAULT_FEATURE_GATES, SchedulerVersion(minor))["pods"]
    assert PodInfo(read(pod)).pod_group_key == key


def test_what_claims_take_of_a_node_counts_with_its_gate_only() -> None:
    taken = {"resourceClaimName": "c", "resources": {"cpu": "3"}}
    pod = api_object(Pod, {"status": {"nodeAllocatableResourceClaimStatuses": [taken]}})
    assert _requests(pod) == {"cpu": 3000}
    assert _requests(transforms(DEFAULT_FEATURE_GATES)["pods"](pod)) == {}


def test_without_resizing_of_pods_their_specification_counts() -> None:
    pod = api_object(Pod, RESIZED)
    gates = DEFAULT_FEATURE_GATES - {"InPlacePodLevelResourcesVerticalScaling"}
    assert _requests(pod)["cpu"] == 4000
    assert _requests(transforms(gates)["pods"](pod))["cpu"] == 2000


def test_without_resources_of_pods_their_containers_count() -> None:
    pod = api_object(Pod, RESIZED)
    off = {"InPlacePodLevelResourcesVerticalScaling", "PodLevelResources"}
    assert _requests(transforms(DEFAULT_FEATURE_GATES - off)["pods"](pod))["cpu"] == 1000


def test_without_classes_of_attributes_a_claim_fits_every_volume() -> None:
    found = transforms(DEFAULT_FEATURE_GATES - {"VolumeAttributesClass"})
    spec = {"volumeAttributesClassName": "gold"}
    for kind, plural in (
        (PersistentVolume, "persistentvolumes"),
        (PersistentVolumeClaim, "persistentvolumeclaims"),
    ):
        volume = found[plural](api_object(kind, {"metadata": {"name": "v"}, "spec": spec}))
        assert volume.spec.volume_attributes_class_name is None
        assert found[plural](volume) is volume


def test_without_resizing_of_containers_their_specification_counts() -> None:
    status = {"name": "c", "allocatedResources": {"cpu": "7"}, "resources": {}}
    fields = {**RESIZED, "status": {"containerStatuses": [status]}}
    pod, off = api_object(Pod, fields), {"InPlacePodVerticalScaling", "PodLevelResources"}
    assert transforms(DEFAULT_FEATURE_GATES)["pods"](pod).status.container_statuses
    read = transforms(DEFAULT_FEATURE_GATES - off)["pods"](pod)
    assert read.status.container_statuses == ()
    assert _requests(read)["cpu"] == 1000


@pytest.mark.parametrize(("minor", "milli"), [(36, 8000), (37, 5000)])
def test_since_v1_37_containers_are_summed_up_before_spec_and_status_are_compared(
    minor: int, milli: int
) -> None:
    """One container shrinks from 4 to 1, and the other one grows from 1 to 4."""
    spec = [{"name": name, "resources": {"requests": {"cpu": cpu}}} for name, cpu in ("a1", "b4")]
    statuses = [
        {"name": name, "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in ("a4", "b1")
    ]
    pod = api_object(Pod, {"spec": {"containers": spec}, "status": {"containerStatuses": statuses}})
    read = transforms(DEFAULT_FEATURE_GATES, SchedulerVersion(minor))["pods"]
    assert _requests(read(pod))["cpu"] == milli


def test_before_v1_37_a_node_has_no_preemption_policy() -> None:
    node = api_object(Node, {"spec": {"podPreemptionPolicy": {}}})
    read = transforms(DEFAULT_FEATURE_GATES)["nodes"]
    assert node.spec.pod_preemption_policy is not None
    assert read(node).spec.pod_preemption_policy is None
    plain = read(node)
    assert read(plain) is plain
    assert "nodes" not in transforms(DEFAULT_FEATURE_GATES, SchedulerVersion.V1_37)


@pytest.mark.parametrize("version", SchedulerVersion)
def test_devices_beside_counters_need_the_gate_from_1_35_on(version: SchedulerVersion) -> None:
    devices = [{"name": "plain"}, {"name": "part", "consumesCounters": [{"counterSet": "g"}]}]
    spec = {"driver": "d", "pool": {"name": "p"}, "devices": devices}
    part = api_object(ResourceSlice, {"spec": {**spec, "sharedCounters": [{"name": "g"}]}})
    read = transforms(default_feature_gates(version) - {PARTITIONABLE_DEVICES}, version)
    names = [device.name for device in read["resourceslices"](part).spec.devices]
    assert names == (["plain", "part"] if version == SchedulerVersion.V1_34 else [])
