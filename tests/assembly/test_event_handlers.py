"""Watch events become steps of cache and queue, and cluster events for the waiting pods."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.cache import Cache, CacheCorruptedError
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework.events import ActionType, ClusterEventWithHint, on
from scheduler.framework.registrations import events_of
from scheduler.framework.status import unschedulable
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.runtime import WaitingPods
from scheduler.snapshot import PodInfo
from scheduler.stories import PodStories
from scheduler.testing import VirtualClock, make_node, make_pod
from tests.queue.pools import pods_of


class World(NamedTuple):
    """Both handlers, and what they act upon."""

    cache: Cache
    queue: PriorityQueue
    waiting_pods: WaitingPods
    pods: PodEventHandler
    nodes: NodeEventHandler
    corrupted: list[CacheCorruptedError]

    def wait_for_an_event(self, pod: Pod) -> None:
        """Have a pod turned down once, so that it waits."""
        self.pods.on_add(pod, is_initial=False)
        self.turn_down_the_next()

    def turn_down_the_next(self) -> None:
        """Give the most urgent pod an attempt that fails."""
        queued, _ = self.queue.pop_nowait(0.0)
        assert queued is not None
        queued.unschedulable_plugins = {"Picky"}
        self.queue.add_unschedulable_if_not_present(queued, 0.0)

    @property
    def events(self) -> list[str]:
        """The cluster events that have brought pods back to a queue, in order."""
        return [
            event
            for (_, event), count in self.queue.incoming_pods.items()
            if count and event not in ("UnschedulablePodAdd", "ScheduleAttemptFailure")
        ]


class Picky:
    """Registers for all events; each of them moves its pods."""

    name = "Picky"


class WaitsForRoom(Picky):
    """Registers for deletions of pods only."""

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [on(Pod, ActionType.DELETE)]


def _by_priority(first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
    return first.pod_info.priority > second.pod_info.priority


@pytest.fixture
def world() -> World:
    return _world()


def _world(plugin: type[Picky] = Picky, *, frees_assumed: bool = True) -> World:
    clock, cache, corrupted = VirtualClock(), Cache(), []
    waiting_pods = WaitingPods(clock, SchedulerMetrics())
    metrics = SchedulerMetrics()
    waiting_pods = WaitingPods(clock, SchedulerMetrics())
    queue = PriorityQueue(
        _by_priority,
        pre_enqueue_plugins={},
        queueing_hint_map={"default-scheduler": build_queueing_hint_map([events_of(plugin())])},
        nominator=Nominator(lambda namespace, name: make_pod(name, namespace=namespace)),
        metrics=metrics,
    )
    scheduling_queue = SchedulingQueue(queue, clock=clock, stories=PodStories())
    pods = PodEventHandler(
        cache=cache,
        queue=scheduling_queue,
        waiting_pods=waiting_pods,
        scheduler_names={"default-scheduler"},
        feature_gates=frozenset(),
        on_corrupted=corrupted.append,
        metrics=metrics,
        frees_assumed=frees_assumed,
    )
    nodes = NodeEventHandler(cache=cache, queue=scheduling_queue, metrics=metrics)
    return World(cache, queue, waiting_pods, pods, nodes, corrupted)


def _waiting(world: World) -> list[str]:
    return [pod.metadata.name for pod in pods_of(world.queue.unschedulable_pods)]


def _bound(pod: Pod, node_name: str = "node") -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node_name))


def test_a_confirmed_binding_replaces_the_assumption(world: World) -> None:
    pod = make_pod("pod")
    world.cache.assume_pod(PodInfo(pod).assigned_to("node"))
    world.pods.on_update(pod, _bound(pod))
    assert not world.cache.is_assumed_pod(pod)
    assert world.cache.statistics().pods == 1


def test_the_same_state_once_more_is_no_event(world: World) -> None:
    pod = make_pod("pod")
    world.wait_for_an_event(pod)
    world.pods.on_update(pod, pod)
    assert _waiting(world) == ["pod"]


def test_a_change_of_a_waiting_pod_brings_it_back(world: World) -> None:
    pod = make_pod("pod")
    world.wait_for_an_event(pod)
    labelled = replace(pod, metadata=replace(pod.metadata, labels={"a": "b"}, resource_version="2"))
    world.pods.on_update(pod, labelled)
    assert world.events == ["UnschedulablePodUpdatePodLabel"]


def test_deleting_a_pod_that_is_being_bound_frees_its_room_at_once(world: World) -> None:
    pod = make_pod("going")
    world.wait_for_an_event(make_pod("other"))
    world.cache.assume_pod(PodInfo(pod).assigned_to("node"))
    world.pods.on_delete(pod, final_state_unknown=False)
    assert world.cache.statistics().pods == 0
    assert world.events == ["AssignedPodDelete"]


def test_marking_a_pod_that_is_being_bound_for_deletion_frees_its_room_too(world: World) -> None:
    pod = make_pod("going")
    world.cache.assume_pod(PodInfo(pod).assigned_to("node"))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = replace(pod.metadata, deletion_timestamp=now, resource_version="2")
    world.pods.on_update(pod, replace(pod, metadata=metadata))
    assert world.cache.statistics().pods == 0


def test_in_1_34_a_pod_that_is_being_bound_keeps_its_room_until_that_fails() -> None:
    world, pod = _world(frees_assumed=False), make_pod("going")
    world.wait_for_an_event(make_pod("other"))
    world.cache.assume_pod(PodInfo(pod).assigned_to("node"))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = replace(pod.metadata, deletion_timestamp=now, resource_version="2")
    world.pods.on_update(pod, replace(pod, metadata=metadata))
    world.pods.on_delete(pod, final_state_unknown=False)
    assert world.cache.statistics().pods == 1
    assert world.events == []


@pytest.mark.parametrize(
    ("frees_assumed", "waiting"), [(True, ["minor", "major"]), (False, ["major"])]
)
def test_in_1_34_a_nominated_pod_that_is_bound_helps_pods_that_had_to_yield(
    *, frees_assumed: bool, waiting: list[str]
) -> None:
    world = _world(WaitsForRoom, frees_assumed=frees_assumed)
    important = make_pod("important", priority=10, nominated_node_name="node")
    world.wait_for_an_event(make_pod("minor", priority=1))
    world.wait_for_an_event(make_pod("major", priority=20))
    world.pods.on_add(important, is_initial=False)
    world.pods.on_update(important, _bound(important))
    assert sorted(_waiting(world), reverse=True) == waiting


async def test_a_pod_held_at_permit_is_rejected_when_it_goes(world: World) -> None:
    pod = make_pod("held")
    assumed = PodInfo(pod).assigned_to("node")
    world.cache.assume_pod(assumed)
    world.waiting_pods.add(assumed, {"Patience": 60.0})
    world.pods.on_delete(pod, final_state_unknown=False)
    status = await world.waiting_pods.wait_on_permit(pod.metadata.uid)
    assert status == unschedulable("removed")
    # Its binding cycle forgets it later, and then sends another event to the other pods.
    assert world.cache.is_assumed_pod(pod)


def test_a_bound_pod_that_moves_means_that_nothing_can_be_trusted(world: World) -> None:
    pod = make_pod("pod", node_name="a")
    world.pods.on_add(pod, is_initial=False)
    world.pods.on_update(pod, _bound(pod, "b"))
    (error,) = world.corrupted
    assert str(error) == (
        "pod uid-default-pod(default/pod) was updated on node b, but was added to a"
    )


def test_events_that_contradict_the_cache_are_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    bound = make_pod("web", node_name="n")
    world.nodes.on_delete(make_node("gone"), final_state_unknown=False)
    world.pods.on_delete(bound, final_state_unknown=False)
    world.pods.on_add(bound, is_initial=False)
    world.pods.on_add(bound, is_initial=False)
    changed = replace(bound, metadata=replace(bound.metadata, labels={"a": "b"}))
    other = replace(changed, metadata=replace(changed.metadata, name="other", uid="other"))
    world.pods.on_update(other, replace(other, status=replace(other.status, phase="Running")))
    texts = [record.message.partition(" failed")[0] for record in caplog.records]
    assert texts == [
        "Removing a node from the cache",
        "Removing pod default/web from the cache",
        "Adding pod default/web to the cache",
        "Updating pod default/other in the cache",
    ]


def test_a_new_node_and_each_change_of_one_is_an_event(world: World) -> None:
    node = make_node("node")
    world.wait_for_an_event(make_pod("pod"))
    world.nodes.on_add(node, is_initial=False)
    assert world.events == ["NodeAdd"]
    world.turn_down_the_next()
    world.nodes.on_update(node, make_node("node", labels={"a": "b"}))
    assert world.events == ["NodeAdd", "NodeUpdateNodeLabel"]


def test_a_heartbeat_is_no_event(world: World) -> None:
    world.wait_for_an_event(make_pod("pod"))
    node = make_node("node")
    world.cache.add_node(node)
    world.nodes.on_update(node, make_node("node", resource_version="2"))
    assert world.events == []


def test_the_event_of_a_deleted_node_is_handled_while_the_node_is_in_the_cache(
    world: World,
) -> None:
    world.wait_for_an_event(make_pod("pod"))
    node = make_node("node")
    world.nodes.on_add(node, is_initial=True)
    world.turn_down_the_next()
    world.nodes.on_delete(node, final_state_unknown=False)
    assert world.cache.nodes == {}
    assert world.events == ["NodeAdd", "NodeDelete"]
