"""The API objects as they come off the wire."""

import msgspec
import pytest

from scheduler.api.core import LabelSelector, Node, Pod, PodAffinityTerm
from scheduler.testing import make_pod

POD = b"""
{"kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "managedFields": [1],
  "creationTimestamp": "2026-01-01T00:00:00Z"},
 "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 5, "unheardOf": {"x": [1]},
  "containers": [{"name": "c", "ports": [{"hostIP": "10.0.0.1", "hostPort": 80}],
    "resources": {"requests": {"cpu": "100m", "memory": 1024}}}],
  "volumes": [{"awsElasticBlockStore": {"volumeID": "v"}}]}}
"""


def test_declared_fields_are_read_and_all_others_skipped() -> None:
    pod = msgspec.json.decode(POD, type=Pod)
    assert pod.key == "shop/web-1"
    assert pod.spec.node_name == "n1"
    assert pod.spec.termination_grace_period_seconds == 5
    [container] = pod.spec.containers
    assert container.resources.requests == {"cpu": "100m", "memory": 1024}
    assert container.ports[0].host_ip == "10.0.0.1"
    volume = pod.spec.volumes[0].aws_elastic_block_store
    assert volume is not None
    assert volume.volume_id == "v"


def test_absent_fields_have_their_defaults() -> None:
    pod = msgspec.json.decode(b"{}", type=Pod)
    assert pod == Pod()
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.priority is None
    assert pod.spec.affinity is None
    assert msgspec.json.decode(b"{}", type=Node).status.allocatable == {}


def test_objects_are_written_as_the_api_writes_them_defaults_left_out() -> None:
    pod = msgspec.json.decode(POD, type=Pod)
    written = msgspec.to_builtins(pod)
    [container] = written["spec"]["containers"]
    assert list(container["ports"]) == [{"hostIP": "10.0.0.1", "hostPort": 80}]
    assert "status" not in written
    assert msgspec.convert(written, Pod) == pod


def test_objects_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make_pod().metadata.name = "other"  # type: ignore[misc]


def test_an_empty_selector_is_not_an_absent_one() -> None:
    term = msgspec.json.decode(b'{"labelSelector": {}}', type=PodAffinityTerm)
    assert term.label_selector == LabelSelector()
    assert term.namespace_selector is None


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (Pod, "spec.overhead"),
        (Pod, "spec.resources.requests"),
        (Pod, "status.allocatedResources"),
        (Node, "status.capacity"),
        (Node, "status.allocatable"),
    ],
)
def test_a_malformed_quantity_is_found_as_the_object_is_read(
    kind: type[Pod | Node], where: str
) -> None:
    document: object = {"cpu": "2", "memory": "lots"}
    for name in reversed(where.split(".")):
        document = {name: document}
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(msgspec.json.encode(document), type=kind)
    assert str(error.value).startswith('memory: "lots": quantities must match the regular')
    assert f"`$.{where.rpartition('.')[0]}`" in str(error.value)


def test_a_malformed_quantity_of_a_container_is_found_with_the_containers_place() -> None:
    container = {"name": "b", "resources": {"limits": {"cpu": "1x"}}}
    document = {"spec": {"containers": [{"name": "a"}, container]}}
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(document, Pod)
    assert "`$.spec.containers[1].resources`" in str(error.value)
