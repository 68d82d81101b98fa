"""From watch events to queue and cache, against upstream's own cases."""

import msgspec
import pytest

from scheduler.api.core import Pod
from scheduler.assembly.event_handlers import PodEventHandler
from scheduler.assembly.watched_kinds import kinds_to_watch
from scheduler.cache import Cache
from scheduler.config import KubeSchedulerProfile, Plugins, PluginSet
from scheduler.config import Plugin as PluginEntry
from scheduler.config.types import RESIZE_PREEMPTION
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Plugin,
    PodInfo,
    QueueingHint,
)
from scheduler.framework.events import as_kind
from scheduler.framework.registrations import events_of
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import IN_TREE
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.queue.without_hints import is_admitted
from scheduler.runtime import Framework, Registry, WaitingPods
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, VirtualClock, make_pod
from tests.queue.pools import pods_of
from tests.runtime.profiles import plugin
from tests.upstream.loading import Case, cases, feature_gates, pod, snapshot
from tests.upstream.running import actions

TOPIC = "event_handlers"
OURS = "supported-scheduler"


class _HelpedByNominated(Plugin):
    """The hint returns Queue only if a nominated pod is deleted."""

    name = "fooPlugin1"

    def events_to_register(self) -> list[ClusterEventWithHint]:
        event = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        return [ClusterEventWithHint(event, self._hint)]

    def _hint(self, waiting: PodInfo, old: object, new: object) -> QueueingHint:
        gone, _ = as_kind(Pod, old, new)
        assert gone is not None
        return QueueingHint(bool(gone.status.nominated_node_name))


class World:
    """The handler of pods, and what it acts upon."""

    def __init__(self, *, resize_preemption: bool = False) -> None:
        self.cache, clock = Cache(), VirtualClock()
        self.known: dict[str, Pod] = {}
        self.queue = PriorityQueue(
            lambda first, second: first.pod_info.priority > second.pod_info.priority,
            pre_enqueue_plugins={},
            queueing_hint_map={OURS: build_queueing_hint_map([events_of(_HelpedByNominated())])},
            nominator=Nominator(lambda namespace, name: self.known.get(f"{namespace}/{name}")),
            initial_backoff_seconds=0.0,
            max_backoff_seconds=0.0,
            metrics=SchedulerMetrics(),
        )
        self.pods = PodEventHandler(
            cache=self.cache,
            queue=SchedulingQueue(self.queue, clock=clock, stories=PodStories()),
            waiting_pods=WaitingPods(clock, SchedulerMetrics()),
            scheduler_names={OURS},
            feature_gates=frozenset({RESIZE_PREEMPTION} if resize_preemption else ()),
            on_corrupted=lambda error: None,
            metrics=SchedulerMetrics(),
        )

    def queued(self, pod: Pod) -> Pod | None:
        found = self.queue.find(pod.key)
        return None if found is None else found.pod_info.pod

    def cached(self, pod: Pod) -> Pod | None:
        found = self.cache.get_pod(pod)
        return None if found is None else found.pod


@pytest.mark.parametrize("case", cases(TOPIC, "add_pod"))
def test_add_pod(case: Case) -> None:
    world, new = World(), pod(case["pod"])
    world.pods.on_add(new, is_initial=False)
    assert (world.queued(new) is not None) == case["in_queue"]
    assert (world.cached(new) is not None) == case["in_cache"]


@pytest.mark.parametrize("case", cases(TOPIC, "update_pod"))
def test_update_pod(case: Case) -> None:
    world, old, new = World(), pod(case["old"]), pod(case["new"])
    if "assumed" in case.fields:
        world.cache.assume_pod(PodInfo(pod(case["assumed"])))
    else:
        world.pods.on_add(old, is_initial=False)
    world.pods.on_update(old, new)
    wanted = [pod(case[name]) if name in case.fields else None for name in ("in_queue", "in_cache")]
    assert [world.queued(new), world.cached(new)] == wanted


@pytest.mark.parametrize("case", cases(TOPIC, "delete_pod"))
def test_delete_pod(case: Case) -> None:
    world, there, gone = World(), pod(case["pod"]), pod(case["deleted"])
    if case.get("assumed"):
        world.cache.assume_pod(PodInfo(there))
    else:
        world.pods.on_add(there, is_initial=False)
    world.pods.on_delete(gone, final_state_unknown=case.get("final_state_unknown", False))
    assert [world.queued(there), world.cached(there)] == [None, None]


@pytest.mark.parametrize("case", cases(TOPIC, "update_assigned_pod"))
def test_update_assigned_pod(case: Case) -> None:
    world, old, new = World(), pod(case["old"]), pod(case["new"])
    world.pods.on_add(old, is_initial=False)
    world.pods.on_update(old, new)
    assert world.cached(new) == new
    if old.metadata.uid != new.metadata.uid:
        assert world.cached(old) is None


def _waiting_pods() -> dict[str, Pod]:
    """Upstream's four pods by name: priorities 1000, 100 (nominated), 100 and 0."""
    named = {"high": 1000, "medium-nominated": 100, "medium": 100, "low": 0}
    return {
        name: make_pod(
            name,
            priority=priority,
            scheduler_name=OURS,
            nominated_node_name="node1" if name == "medium-nominated" else "",
        )
        for name, priority in named.items()
    }


@pytest.mark.parametrize("case", cases(TOPIC, "nominated_node"))
def test_nominated_node(case: Case) -> None:
    world, pods = World(), _waiting_pods()
    for each in pods.values():
        world.known[each.key] = each
        world.pods.on_add(each, is_initial=False)
        queued, _ = world.queue.pop_nowait(0.0)
        assert queued is not None
        queued.unschedulable_plugins = {"fooPlugin1"}
        world.queue.add_unschedulable_if_not_present(queued, 0.0)
    assert pods_of(world.queue.active_q.in_order()) == []
    old = pods[case["changed"]]
    if "nominated" in case.fields:
        replace = msgspec.structs.replace
        status = replace(old.status, nominated_node_name=case["nominated"])
        metadata = replace(old.metadata, resource_version="2")
        world.pods.on_update(old, replace(old, metadata=metadata, status=status))
    else:
        world.pods.on_delete(old, final_state_unknown=False)
    tried = [*pods_of(world.queue.active_q.in_order()), *pods_of(world.queue.backoff_q.in_order())]
    assert sorted(each.metadata.name for each in tried) == case["tried"]


@pytest.mark.parametrize("case", cases(TOPIC, "watched_kinds"))
def test_watched_kinds(case: Case) -> None:
    registered = [
        ClusterEventWithHint(ClusterEvent(resource, actions(names)))
        for resource, names in case["events"].items()
    ]

    def events_to_register(self: Plugin) -> list[ClusterEventWithHint]:
        return registered

    picky = plugin(
        "Picky",
        filter=lambda self, *_: None,
        events_to_register=events_to_register,
        reads=case.get("reads", ()),
    )
    enabled = tuple(map(PluginEntry, ("PrioritySort", "Picky", "DefaultBinder")))
    profile = KubeSchedulerProfile(plugins=Plugins(multi_point=PluginSet(enabled=enabled)))
    registry = Registry([*IN_TREE.values(), picky])
    handle = FakeHandle(feature_gates=feature_gates(case))
    framework = Framework(profile, registry=registry, make_handle=handle.make)
    watched = kinds_to_watch({"default-scheduler": framework})
    assert {kind.resource.plural: list(kind.events) for kind in watched} == case["watched"]
    for kind in watched:
        for resource, changes in kind.events.items():
            assert changes == next(
                e.event.action_type for e in registered if e.event[0] == resource
            )


@pytest.mark.parametrize("case", cases(TOPIC, "pre_check_for_node"))
def test_pre_check_for_node(case: Case) -> None:
    (node,) = snapshot(case).nodes
    found = [is_admitted(PodInfo(pod({"spec": one["spec"]})), node) for one in case["waiting"]]
    assert found == [one["is_admitted"] for one in case["waiting"]]
