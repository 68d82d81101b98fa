"""The nominated pods of a node. `test_recorded.py` has upstream's own nominations."""

from scheduler.api.core import Pod
from scheduler.queue import Nominator
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod


def nominator_knowing(*pods: Pod) -> Nominator:
    listed = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    return Nominator(lambda namespace, name: listed.get((namespace, name)))


MED = make_pod("med", nominated_node_name="node1")
UNSCHEDULABLE = make_pod("unschedulable", nominated_node_name="node1")


def test_pods_on_a_node_are_listed_in_the_order_of_nomination() -> None:
    """TestPriorityQueue_NominatedPodsForNode; the list is the caller's own."""
    nominator = nominator_knowing(MED, UNSCHEDULABLE)
    for pod in (MED, UNSCHEDULABLE):
        nominator.add_nominated_pod(PodInfo(pod), None)
    pods = nominator.nominated_pods_for_node("node1")
    assert [pod.name for pod in pods] == ["med", "unschedulable"]
    pods.clear()
    assert len(nominator.nominated_pods_for_node("node1")) == 2
    assert nominator.nominated_pods_for_node("node2") == []


def test_a_pod_that_is_nominated_to_no_node_is_no_nominated_pod() -> None:
    nominator = nominator_knowing(make_pod("p"))
    nominator.add_nominated_pod(PodInfo(make_pod("p")), None)
    assert nominator.nominations == {}


def test_a_newer_version_takes_the_place_of_a_nominated_pod() -> None:
    nominator = nominator_knowing(MED)
    nominator.refresh(PodInfo(MED))
    assert nominator.nominations == {}
    nominator.add_nominated_pod(PodInfo(MED), None)
    newer = PodInfo(MED)
    nominator.refresh(newer)
    assert nominator.nominated_pod(newer.uid) is newer
    assert nominator.nominated_pods_for_node("node1") == [newer]


def test_nominations_that_contradict_each_other_are_complained_about() -> None:
    nominator = nominator_knowing(MED)
    nominator.add_nominated_pod(PodInfo(MED), None)
    nominator._node_of[MED.metadata.uid] = "elsewhere"
    assert "nominations by node" in "".join(nominator.complaints())
