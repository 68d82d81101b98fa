"""Builders: new objects in one line, with the given fields and defaults."""

import pytest

from scheduler.api import core
from scheduler.testing import make_node, make_pod, snapshot_of


def test_a_pod_is_as_a_fresh_one() -> None:
    pod = make_pod()
    assert (pod.key, pod.metadata.uid) == ("default/pod", "uid-default-pod")
    assert pod.status.phase == "Pending"
    assert pod.spec.node_name == ""
    assert [container.name for container in pod.spec.containers] == ["c"]


def test_the_arguments_of_make_pod_go_into_its_container() -> None:
    pod = make_pod(requests={"cpu": "1"}, limits={"cpu": "2"}, image="app:1", host_ports=[80])
    [container] = pod.spec.containers
    assert container.resources == core.ResourceRequirements({"cpu": "1"}, {"cpu": "2"})
    assert container.image == "app:1"
    assert [port.host_port for port in container.ports] == [80]


def test_parts_may_be_written_as_the_api_writes_them() -> None:
    written = make_pod(
        tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        containers=[{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        resources={"requests": {"cpu": "2"}},
    )
    assert written == make_pod(
        tolerations=[core.Toleration("k", "Exists", toleration_seconds=5)],
        affinity=core.Affinity(core.NodeAffinity(core.NodeSelector())),
        containers=[core.Container("a", resources=core.ResourceRequirements({"cpu": "1"}))],
        resources=core.ResourceRequirements({"cpu": "2"}),
    )


def test_a_node_is_labelled_with_its_name_and_offers_something() -> None:
    node = make_node("n", zone="z", region="r", labels={"disk": "ssd"})
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "n",
        "disk": "ssd",
        "topology.kubernetes.io/zone": "z",
        "topology.kubernetes.io/region": "r",
    }
    assert node.status.allocatable == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert make_node(allocatable={"cpu": "1"}).status.allocatable == {"cpu": "1"}


def test_a_nodes_images_and_taints_may_be_written_short() -> None:
    node = make_node(images={"app:1": 5}, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert node.status.images == (core.ContainerImage(("app:1",), 5),)
    assert node.spec.taints == (core.Taint("k", "", "NoSchedule"),)


def test_a_snapshot_shows_nodes_in_the_order_given_with_their_pods() -> None:
    snapshot = snapshot_of(
        [make_node("b", zone="z"), make_node("a", images={"app:1": 5})],
        [make_pod("p", node_name="a"), make_pod("waiting")],
    )
    assert snapshot.names == ["b", "a"]
    assert [node.pod_count for node in snapshot.nodes] == [0, 1]
    image = snapshot.nodes.image("app:1")
    assert image is not None
    assert image.present.tolist() == [False, True]
    snapshot.table.check()


def test_a_pod_on_a_node_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        snapshot_of([make_node("a")], [make_pod(node_name="b")])
