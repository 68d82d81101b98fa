"""Gangs of 1.35, which are parts of Workloads: TestGangSchedulingFlow and the hints of v1.35.4."""

import pytest

from scheduler.api.core import Pod
from scheduler.api.pod_groups import Workload
from scheduler.config import SchedulerVersion
from scheduler.framework import CycleState, Status
from scheduler.framework.events import QueueingHint
from scheduler.plugins.gang_scheduling import GangScheduling
from scheduler.snapshot import PodInfo
from scheduler.snapshot.pod_group_state import PodGroupState
from scheduler.testing import FakeHandle, FakeLister, make_plugin
from tests.upstream.loading import api_object

GROUPS = [
    {"name": "pg1", "policy": {"gang": {"minCount": 3}}},
    {"name": "pg2", "policy": {"gang": {"minCount": 4}}},
]
GANGS = {"metadata": {"name": "gang-wl", "namespace": "ns1"}, "spec": {"podGroups": GROUPS}}
BASIC = {
    "metadata": {"name": "basic-wl", "namespace": "ns1"},
    "spec": {"podGroups": [{"name": "pg1", "policy": {"basic": {}}}]},
}


def member(
    name: str,
    workload: str = "gang-wl",
    group: str = "pg1",
    replica: str = "",
    namespace: str = "ns1",
) -> PodInfo:
    reference = {"name": workload, "podGroup": group, "podGroupReplicaKey": replica}
    spec = {"workloadRef": reference} if workload else {}
    metadata = {"name": name, "namespace": namespace, "uid": name}
    return PodInfo(api_object(Pod, {"metadata": metadata, "spec": spec}))


P1, P2, P3 = member("p1"), member("p2"), member("p3")
P4, P5 = member("p4", group="pg2"), member("p5", replica="2")


class World:
    def __init__(self, *pods: PodInfo, workloads: tuple[dict[str, object], ...] = (GANGS,)) -> None:
        lister = FakeLister(api_object(Workload, each) for each in workloads)
        self.handle = FakeHandle(listers={Workload: lister}, version=SchedulerVersion.V1_35)
        self.plugin = make_plugin(GangScheduling, handle=self.handle)
        for pod in pods:
            group = self.handle.pod_groups.setdefault(pod.pod_group_key, PodGroupState())
            group.set_pod(pod)

    def permit(self, pod: PodInfo) -> Status | None:
        if pod.pod_group_key:
            self.handle.pod_groups[pod.pod_group_key].assume_pod(pod)
        return self.plugin.permit(CycleState(), pod, "node")


@pytest.mark.parametrize("pod", [member("alone", ""), member("basic", "basic-wl")])
def test_a_pod_without_a_gang_waits_for_nothing(pod: PodInfo) -> None:
    world = World(pod, workloads=(GANGS, BASIC))
    assert world.plugin.pre_enqueue(pod) is None
    assert world.permit(pod) is None


@pytest.mark.parametrize(
    ("pod", "pods", "workloads", "reason"),
    [
        (
            P1, (P1, P2, P3), (),
            'waiting for pods\'s workload "gang-wl" to appear in scheduling queue',
        ),
        (
            P1, (P1, P2, P4, P5), (GANGS,),
            "waiting for minCount pods from a gang to appear in scheduling queue",
        ),
        (
            member("p", group="pg3"), (), (GANGS,),
            'pod group "pg3" doesn\'t exist for a workload "gang-wl"',
        ),
    ],
)  # fmt: skip
def test_a_member_is_not_queued_before_its_gang_is_complete(
    pod: PodInfo, pods: tuple[PodInfo, ...], workloads: tuple[dict[str, object], ...], reason: str
) -> None:
    status = World(*pods, workloads=workloads).plugin.pre_enqueue(pod)
    assert status is not None
    assert status.reasons == (reason,)


def test_members_wait_at_permit_until_the_same_moment_and_are_allowed_together() -> None:
    world = World(P1, P2, P3, P4, P5)
    assert world.plugin.pre_enqueue(P1) is None
    first = world.permit(P1)
    assert first is not None
    assert first.reasons == ("waiting for minCount pods from a gang to be waiting on permit",)
    assert first.timeout_seconds == 300
    assert {pod.name for pod in world.handle.activated.values()} == {"p2", "p3"}
    world.handle.clock.advance_nowait(100)
    second = world.permit(P2)
    assert second is not None
    assert second.timeout_seconds == 200
    assert world.permit(P5) is not None, "a replica is a gang of its own"
    assert world.permit(P3) is None


@pytest.mark.parametrize(
    ("added", "helps"),
    [
        (P2, True),
        (member("p", namespace="foo"), False),
        (member("p", "w2"), False),
        (P4, False),
        (P5, False),
    ],
)
def test_a_member_that_comes_retries_its_gang_alone(added: PodInfo, *, helps: bool) -> None:
    hint = World().plugin.is_schedulable_after_pod_added(P1, None, added.pod)
    assert hint == QueueingHint(helps)


@pytest.mark.parametrize(("name", "namespace", "helps"), [
    ("gang-wl", "ns1", True), ("w2", "ns1", False), ("gang-wl", "ns2", False),
])  # fmt: skip
def test_the_workload_retries_its_pods(name: str, namespace: str, *, helps: bool) -> None:
    added = api_object(Workload, {"metadata": {"name": name, "namespace": namespace}})
    hint = World().plugin.is_schedulable_after_group_added(P1, None, added)
    assert hint == QueueingHint(helps)
