"""Victims are rejected, deleted or cancelled, in the background or not."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectReference, Pod
from scheduler.config import DEFAULT_FEATURE_GATES, SchedulerVersion
from scheduler.framework import Code, NominatingInfo, NominatingMode, Status
from scheduler.preemption.executor import ASYNC_PREEMPTION, Executor, Preemptor
from scheduler.preemption.importance import Candidate, Victims
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from scheduler.testing.fake_api import RecordedEvents
from tests.preemption.builders import Scene, running

PREEMPTOR = Preemptor.from_pod(PodInfo(make_pod("p")))
VICTIMS = [running(f"v{i}", "x", priority=i, cpu="1") for i in range(4)]


def gate_of(scene: Scene) -> Status | None:
    return scene.plugin.pre_enqueue(scene.pod)


async def test_the_preemptor_stays_out_of_the_queue_until_the_victims_are_on_their_way() -> None:
    scene = Scene(*VICTIMS)
    assert gate_of(scene) is None
    await scene.plugin.post_filter(scene.state, scene.pod, scene.statuses())
    status = gate_of(scene)
    assert status is not None
    assert status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for the preemption for this pod to be finished"
    (work,) = scene.handle.spawned
    await work
    assert gate_of(scene) is None
    assert scene.handle.api.deleted == [f"default/v{i}" for i in (3, 2, 1, 0)]
    assert not scene.handle.activated


async def test_the_event_names_the_victim_and_the_preemptor() -> None:
    scene = Scene(VICTIMS[0], preemptor=make_pod("p", priority=10, requests={"cpu": "4"}))
    await scene.post_filter()
    (event,) = scene.handle.event_recorder.recorded
    assert event == (
        "default/v0",
        "Normal",
        "Preempted",
        "Preempting",
        "Preempted by pod uid-default-p on node x",
    )


class _References(RecordedEvents):
    """Keeps the names of the objects that events refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def event(self, regarding: Pod, *, related: ObjectReference | None = None, **text: str) -> None:
        self.names.append(related.name if related else "")


@pytest.mark.parametrize(("version", "name"), [("1.35", "p"), ("1.36", "")])
async def test_the_event_refers_to_the_preemptor_until_1_35(version: str, name: str) -> None:
    handle = _handle(version)
    handle.event_recorder = events = _References()
    await _evict(handle, VICTIMS[0])
    assert events.names == [name]


def _handle(version: str, gates: Iterable[str] = ()) -> FakeHandle:
    return FakeHandle(version=SchedulerVersion.parse(version), feature_gates=frozenset(gates))


def _terminating(pod: Pod) -> Pod:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))


async def _evict(handle: FakeHandle, *victims: Pod) -> None:
    candidate = Candidate("x", Victims([PodInfo(victim) for victim in victims], 0))
    assert await Executor("test", handle).actuate(candidate, PREEMPTOR) is None
    for work in handle.spawned:
        await work


@pytest.mark.parametrize(
    ("version", "deleted"), [("1.34", ["default/v1", "default/v0"]), ("1.35", [])]
)
async def test_victims_that_are_terminating_are_deleted_again_in_1_34(
    version: str, deleted: list[str]
) -> None:
    handle = _handle(version, [ASYNC_PREEMPTION])
    await _evict(handle, *map(_terminating, VICTIMS[1::-1]))
    assert handle.api.deleted == deleted
    assert handle.metrics.preemption_victims.sum == 2


@pytest.mark.parametrize(
    ("version", "end"), [("1.35", ""), ("1.36", " (in kube-scheduler memory).")]
)
async def test_a_victim_at_permit_is_not_deleted(version: str, end: str) -> None:
    handle = _handle(version, [ASYNC_PREEMPTION])
    handle.waiting_pods.add(PodInfo(VICTIMS[0]), {"Holder": 10})
    await _evict(handle, VICTIMS[0])
    (event,) = handle.event_recorder.recorded
    assert event.note == f"Preempted by pod uid-default-p on node x{end}"
    assert not handle.api.deleted


async def test_a_victim_that_has_gone_on_from_permit_is_not_deleted_until_1_35() -> None:
    handle = _handle("1.35")
    handle.waiting_pods.add(PodInfo(VICTIMS[0]), {"Holder": 10})
    handle.waiting_pods.get("uid-default-v0").allow("Holder")
    await _evict(handle, VICTIMS[0])
    assert handle.api.deleted == []


@pytest.mark.parametrize("still_there", [True, False])
async def test_a_victim_at_permit_is_deleted_only_if_it_has_gone_on(*, still_there: bool) -> None:
    scene = Scene(VICTIMS[0])
    waiting_pods = scene.handle.waiting_pods
    waiting_pods.add(PodInfo(VICTIMS[0]), {"Holder": 10})
    waiting = waiting_pods.get("uid-default-v0")
    assert waiting is not None
    if not still_there:
        waiting.allow("Holder")
    await scene.post_filter()
    status = await waiting_pods.wait_on_permit("uid-default-v0")
    if still_there:
        assert status == Status(
            Code.ERROR, "waiting on permit for pod: preempted", plugin="DefaultPreemption"
        )
    assert bool(scene.handle.api.deleted) != still_there


async def test_a_victim_that_is_gone_is_no_failure_and_no_event() -> None:
    scene = Scene(*VICTIMS[:2])
    scene.handle.api.gone.add("default/v0")
    await scene.post_filter()
    assert [event.regarding for event in scene.handle.event_recorder.recorded] == ["default/v1"]
    assert scene.handle.api.deleted == ["default/v1"]
    assert not scene.handle.activated


async def test_a_failure_opens_the_gate_and_has_the_preemptor_tried_again() -> None:
    scene = Scene(*VICTIMS)
    scene.handle.api.failures["default/v3"] = ValueError("no")
    result, status = await scene.post_filter()
    assert status is None
    assert result is not None
    assert gate_of(scene) is None
    assert list(scene.handle.activated) == ["default/preemptor"]
    assert "default/v0" not in scene.handle.api.deleted


async def test_a_nomination_that_cannot_be_taken_back_has_the_preemptor_tried_again() -> None:
    scene = Scene(*VICTIMS)
    lower = make_pod("lower", priority=1, nominated_node_name="x")
    scene.handle.nominator.add_nominated_pod(
        PodInfo(lower), NominatingInfo("x", NominatingMode.OVERRIDE)
    )
    scene.handle.api.failures["default/lower"] = ValueError("no")
    await scene.post_filter()
    assert len(scene.handle.api.deleted) == len(VICTIMS)
    assert list(scene.handle.activated) == ["default/preemptor"]


async def test_without_the_feature_all_is_done_at_once_and_a_failure_is_the_answer() -> None:
    scene = Scene(*VICTIMS)
    scene.handle.feature_gates = DEFAULT_FEATURE_GATES - {ASYNC_PREEMPTION}
    scene.handle.api.failures["default/v3"] = ValueError("no")
    result, status = await scene.plugin.post_filter(scene.state, scene.pod, scene.statuses())
    assert result is None
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "preemption: no")
    assert not scene.handle.spawned
    assert scene.plugin.events_to_register() == []
