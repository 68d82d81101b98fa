"""Random clusters: the same for the same seed, and with a bit of everything in them."""

from scheduler.testing import snapshot_of
from scheduler.testing.random_cluster import random_cluster

CLUSTERS = [random_cluster(seed) for seed in range(40)]
NODES = [node for cluster in CLUSTERS for node in cluster.nodes]
PODS = [pod for cluster in CLUSTERS for pod in (*cluster.running, *cluster.incoming)]


def test_a_seed_stands_for_one_cluster() -> None:
    assert random_cluster(7) == random_cluster(7)
    assert random_cluster(7) != random_cluster(8)


def test_a_cluster_is_one_that_could_be() -> None:
    for cluster in CLUSTERS:
        assert cluster.nodes
        assert all(not pod.spec.node_name for pod in cluster.incoming)
        snapshot = snapshot_of(cluster.nodes, cluster.running)
        assert snapshot.nodes.pod_count.sum() == len(cluster.running)


def test_everything_that_rules_look_at_occurs_sooner_or_later() -> None:
    assert any(node.spec.taints for node in NODES)
    assert any(node.spec.unschedulable for node in NODES)
    assert any(node.status.images for node in NODES)
    assert any("example.com/gpu" in node.status.allocatable for node in NODES)
    assert any(pod.spec.tolerations for pod in PODS)
    assert any(pod.spec.node_selector for pod in PODS)
    assert any(pod.spec.containers[0].ports for pod in PODS)
    assert {pod.spec.priority for pod in PODS} == {None, 0, 10}
    affinities = [pod.spec.affinity for pod in PODS if pod.spec.affinity]
    for kind in ("node_affinity", "pod_affinity", "pod_anti_affinity"):
        assert any(getattr(affinity, kind) for affinity in affinities)


def test_more_labels_can_be_given() -> None:
    nodes = [
        node for seed in range(10) for node in random_cluster(seed, labels={"rack": ["1"]}).nodes
    ]
    racks = {node.metadata.labels.get("rack") for node in nodes}
    assert racks == {None, "1"}
