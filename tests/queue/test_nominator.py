"""Nominations. Cases stem from `TestPriorityQueue_UpdateNominatedPodForNode` and its neighbours."""

import pytest

from scheduler.api.core import Pod
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.queue import Nominator
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod

CLEAR = NominatingInfo("", NominatingMode.OVERRIDE)


def to(node_name: str) -> NominatingInfo:
    return NominatingInfo(node_name, NominatingMode.OVERRIDE)


def nominator_knowing(*pods: Pod) -> Nominator:
    listed = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}
    return Nominator(lambda namespace, name: listed.get((namespace, name)))


MED = make_pod("med", nominated_node_name="node1")
HIGH = make_pod("high")
UNSCHEDULABLE = make_pod("unschedulable", nominated_node_name="node1")


def test_the_last_nomination_counts() -> None:
    """TestPriorityQueue_UpdateNominatedPodForNode."""
    scheduled = make_pod("scheduled", node_name="foo")
    nominator = nominator_knowing(MED, HIGH, UNSCHEDULABLE, scheduled)
    nominator.add_nominated_pod(PodInfo(MED), None)
    nominator.add_nominated_pod(PodInfo(UNSCHEDULABLE), to("node5"))
    nominator.add_nominated_pod(PodInfo(HIGH), to("node2"))
    assert nominator.nominations == {
        MED.metadata.uid: "node1",
        UNSCHEDULABLE.metadata.uid: "node5",
        HIGH.metadata.uid: "node2",
    }
    nominator.add_nominated_pod(PodInfo(HIGH), to("node4"))
    assert nominator.nominations.get(HIGH.metadata.uid) == "node4"
    assert nominator.nominated_pods_for_node("node2") == []
    before = nominator.nominations
    nominator.add_nominated_pod(PodInfo(make_pod("not listed")), to("node1"))
    nominator.add_nominated_pod(PodInfo(make_pod("scheduled")), to("node1"))
    assert nominator.nominations == before
    nominator.delete_nominated_pod_if_exists(PodInfo(HIGH))
    nominator.delete_nominated_pod_if_exists(PodInfo(HIGH))
    assert nominator.nominations.get(HIGH.metadata.uid) is None
    assert list(nominator.complaints()) == []


@pytest.mark.parametrize(
    ("pod", "listed", "expected"),
    [
        pytest.param(MED, True, ["med"], id="alive"),
        pytest.param(MED, False, [], id="deleted"),
        pytest.param(HIGH, True, [], id="no node in its status"),
    ],
)
def test_without_another_nomination_the_status_counts(
    pod: Pod, listed: bool, expected: list[str]
) -> None:
    """TestPriorityQueue_NominatedPodDeleted."""
    nominator = nominator_knowing(*([pod] if listed else []))
    nominator.add_nominated_pod(PodInfo(pod), None)
    assert [pod.name for pod in nominator.nominated_pods_for_node("node1")] == expected


def test_a_nomination_with_mode_noop_is_that_of_the_status() -> None:
    nominator = nominator_knowing(MED)
    nominator.add_nominated_pod(PodInfo(MED), NominatingInfo("other", NominatingMode.NOOP))
    assert nominator.nominations.get(MED.metadata.uid) == "node1"


def test_a_nomination_can_be_overridden_with_no_node_at_all() -> None:
    nominator = nominator_knowing(MED)
    nominator.add_nominated_pod(PodInfo(MED), None)
    nominator.add_nominated_pod(PodInfo(MED), CLEAR)
    assert nominator.nominated_pods_for_node("node1") == []
    assert nominator.nominations.get(MED.metadata.uid) == ""
    nominator.forget(MED.metadata.uid)
    assert nominator.nominations == {}
    assert list(nominator.complaints()) == []


@pytest.mark.parametrize(
    ("old_node", "new_node", "in_memory", "expected"),
    [
        pytest.param("", "", "node2", "node2", id="nobody says anything: memory stands"),
        pytest.param("", "", "", "", id="nor if memory says no node"),
        pytest.param("", "", None, None, id="nothing to keep"),
        pytest.param("", "node3", "node2", "node3", id="a node appears"),
        pytest.param("node2", "node3", "node2", "node3", id="the node changes"),
        pytest.param("node2", "", "node2", None, id="the node is taken back"),
        pytest.param("node2", "node2", "node4", "node2", id="status before memory"),
    ],
)
def test_an_update_keeps_the_nomination_only_while_no_version_names_a_node(
    old_node: str, new_node: str, in_memory: str | None, expected: str | None
) -> None:
    old = make_pod("p", nominated_node_name=old_node)
    new = make_pod("p", nominated_node_name=new_node, labels={"new": "yes"})
    nominator = nominator_knowing(new)
    if in_memory is not None:
        nominator.add_nominated_pod(PodInfo(old), to(in_memory))
    info = PodInfo(new)
    nominator.update_nominated_pod(old, info)
    assert nominator.nominations.get(old.metadata.uid) == expected
    if expected is not None:
        assert nominator.nominated_pods_for_node(expected) == [info]


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
