"""Why a pod waits: its group, its queue, the pods before it; and the arguments of the plugin."""

from typing import Any

import pytest

from scheduler.framework import CycleState, NodeToStatus
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.queues.plugin import Queues
from scheduler.runtime import PluginSetupError
from scheduler.snapshot import PodInfo
from scheduler.testing import make_plugin, make_pod
from tests.plugins.running import verdict_of
from tests.queues.cluster import GROUP, QUEUE, Cluster

UNRESOLVABLE = "UnschedulableAndUnresolvable"
NO_STATUSES = NodeToStatus((), {})


def queues_in(cluster: Cluster, **args: Any) -> Queues:
    return make_plugin(Queues, args=args, handle=cluster.handle)


def reasons_of(plugin: Queues, pod: Any) -> tuple[str, ...]:
    verdict = verdict_of(plugin.pre_enqueue(PodInfo(pod)))
    assert verdict is None or verdict[0] == UNRESOLVABLE
    return verdict[1] if verdict is not None else ()


def test_a_pod_waits_for_its_group_then_its_queue_then_its_turn(cluster: Cluster) -> None:
    plugin = queues_in(cluster)
    first = cluster.put("pods", cluster.member("p-1"))
    second = cluster.put("pods", cluster.member("p-2"))
    assert reasons_of(plugin, first) == ('waiting for the PodGroup "default/g" to exist',)
    cluster.put(GROUP, cluster.group())
    assert reasons_of(plugin, first) == ('waiting for the Queue "a" to exist',)
    cluster.put(QUEUE, cluster.queue())
    assert reasons_of(plugin, first) == ()
    behind = 'waiting behind the pod "default/p-1" of the same group'
    assert reasons_of(plugin, second) == (behind,)
    assert reasons_of(plugin, make_pod("no-task", scheduler_name="other")) == ()


@pytest.mark.parametrize(
    ("actions", "reasons"),
    [
        (["reclaim", "backfill"], ()),
        (["reclaim"], ('the pod requests nothing, and the action "backfill" is off',)),
    ],
)
def test_a_pod_without_requests_waits_for_backfill(
    cluster: Cluster, actions: list[str], reasons: tuple[str, ...]
) -> None:
    plugin = queues_in(cluster, actions=actions)
    for kind, obj in ((QUEUE, cluster.queue("default")), ("pods", make_pod())):
        cluster.put(kind, obj)
    assert reasons_of(plugin, make_pod()) == reasons


async def test_nothing_is_evicted_for_a_pod_that_is_no_task_or_not_the_next(
    cluster: Cluster,
) -> None:
    plugin = queues_in(cluster)
    cluster.put(QUEUE, cluster.queue())
    cluster.put(GROUP, cluster.group())
    _, second = (cluster.put("pods", cluster.member(name)) for name in ("p-1", "p-2"))
    for pod in (second, make_pod("no-task", scheduler_name="other")):
        found = await plugin.post_filter(CycleState(), PodInfo(pod), NO_STATUSES)
        assert (found[0], verdict_of(found[1])) == (None, ("Unschedulable", ()))


def test_a_pod_that_is_no_task_goes_after_all_tasks_by_priority(cluster: Cluster) -> None:
    plugin = queues_in(cluster)
    cluster.put(QUEUE, cluster.queue())
    cluster.put(GROUP, cluster.group())
    task = cluster.put("pods", cluster.member(priority=1))
    others = [make_pod(f"{n}", scheduler_name="other", priority=n) for n in (7, 9)]
    queued = [QueuedPodInfo(PodInfo(pod), timestamp=0.0) for pod in (*others, task)]
    assert [each.pod_info.name for each in sorted(queued, key=plugin.sort_key)] == ["p", "9", "7"]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"gangTimeoutSeconds": -1}, "gangTimeoutSeconds: Invalid value: -1.0: must not be neg"),
        (
            {"reclaimRules": ["priority"]},
            'reclaimRules: Invalid value: "priority": expected one of conformance, gang, propor',
        ),
    ],
)
def test_arguments_are_checked(cluster: Cluster, args: dict[str, object], problem: str) -> None:
    with pytest.raises(PluginSetupError) as refusal:
        queues_in(cluster, **args)
    assert problem in str(refusal.value)
