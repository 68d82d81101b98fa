"""A whole core with SchedulerQueueingHints on and off: which changes retry a waiting pod."""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from scheduler.api.core import Namespace, ObjectMeta, Pod
from scheduler.api.storage import StorageClass
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.in_memory_api import InMemoryApi
from scheduler.assembly.informers import Informers
from scheduler.client import NODES, PODS, ApiObject, Informer, Resource
from scheduler.client.kinds import resource_named
from scheduler.config import DEFAULT_FEATURE_GATES, DEFAULT_SCHEDULER_VERSION, FeatureGates
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.reports.decision import result_of
from scheduler.testing import make_node, make_pod
from scheduler.virtual_clock import VirtualClock
from tests.assembly.test_core import core_of

HINTS = frozenset({"SchedulerQueueingHints"})
SMALL = make_node("small", allocatable={"cpu": "1", "pods": "9"})
RUNNING = make_pod("running", node_name="small")
HOLDER = make_pod("holder", node_name="small", host_ports=[80])
T = TypeVar("T", bound=ApiObject)
Change = Callable[[InMemoryApi, Pod], None]


def _add_node(**spec: object) -> Change:
    return lambda api, _: api.put(NODES.plural, make_node("new", **spec))  # type: ignore[arg-type]


def _add_node_that_gets_ready(api: InMemoryApi, pod: Pod) -> None:
    _add_node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])(api, pod)
    _add_node()(api, pod)


def _label_node(api: InMemoryApi, _: Pod) -> None:
    api.put(NODES.plural, make_node("small", labels={"a": "b"}, allocatable={"cpu": "1"}))


def _delete_running(api: InMemoryApi, _: Pod) -> None:
    api.remove(PODS.plural, RUNNING.key)


def _add_running(api: InMemoryApi, _: Pod) -> None:
    more = make_pod("more", node_name="small", labels={"app": "web"})
    api.put(PODS.plural, more)


def _label_itself(api: InMemoryApi, pod: Pod) -> None:
    labelled = replace(pod.metadata, labels={"a": "b"}, resource_version="2")
    api.put(PODS.plural, replace(pod, metadata=labelled))


def _write_json(text: str) -> Change:
    """Change a field that only the JSON of the pod has."""
    return lambda api, pod: api.put(PODS.plural, replace(pod, json=text.encode()))


def _add_class(mode: str) -> Change:
    added = StorageClass(metadata=ObjectMeta(name="fast"), volume_binding_mode=mode)
    return lambda api, _: api.put(resource_named(StorageClass).plural, added)


class _Kinds(InMemoryApi):
    """Remembers the kinds whose objects keep their JSON."""

    def __init__(self) -> None:
        super().__init__(VirtualClock())
        self.with_json: list[str] = []

    def informer(self, resource: Resource[T], **options: Any) -> Informer[T]:
        if resource.keeps_json:
            self.with_json.append(resource.plural)
        return super().informer(resource, **options)


@pytest.mark.parametrize(
    ("gates", "kinds"), [(DEFAULT_FEATURE_GATES, []), (DEFAULT_FEATURE_GATES - HINTS, ["pods"])]
)
def test_pods_keep_their_json_only_without_hints(gates: FeatureGates, kinds: list[str]) -> None:
    api = _Kinds()
    Informers(api, [], gates, DEFAULT_SCHEDULER_VERSION)
    assert api.with_json == kinds


LARGE = {"requests": {"cpu": "2"}}
PORT = {"host_ports": [80]}
NEAR_WEB = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("pod", "change", "with_hints", "without_hints"),
    [
        pytest.param(LARGE, _label_itself, False, True, id="the pod itself changes"),
        pytest.param(
            LARGE,
            _write_json('{"spec":{"activeDeadlineSeconds":9}}'),
            False,
            True,
            id="it gets a deadline",
        ),
        pytest.param(
            LARGE,
            _write_json('{"spec":{"ephemeralContainers":[{"name":"debugger"}]}}'),
            False,
            True,
            id="it gets a container for debugging",
        ),
        pytest.param(
            LARGE,
            _write_json('{"metadata":{"ownerReferences":[{"blockOwnerDeletion":true}]}}'),
            False,
            True,
            id="its owner waits for its deletion",
        ),
        pytest.param(
            LARGE,
            _write_json('{"metadata":{"managedFields":[{}]},"spec":{},"status":{}}'),
            False,
            False,
            id="its managed fields change",
        ),
        pytest.param(PORT, _delete_running, False, True, id="a pod without the port is gone"),
        pytest.param(LARGE, _add_node(), True, True, id="a node with room is new"),
        pytest.param(LARGE, _add_node_that_gets_ready, True, True, id="it gets ready later"),
        pytest.param(
            LARGE, _add_node(allocatable={"cpu": "1"}), False, False, id="a node is too small"
        ),
        pytest.param(LARGE, _label_node, False, False, id="a node without room has a new label"),
        pytest.param(LARGE, _add_running, False, False, id="another pod runs"),
        pytest.param(NEAR_WEB, _add_running, True, True, id="the pod to be near runs"),
        pytest.param(LARGE, _add_class("Immediate"), False, False, id="a class is new"),
    ],
)
def test_changes_retry_a_pod(
    pod: dict[str, object], change: Change, *, with_hints: bool, without_hints: bool
) -> None:
    for gates, expected in (
        (DEFAULT_FEATURE_GATES, with_hints),
        (DEFAULT_FEATURE_GATES - HINTS, without_hints),
    ):
        api, core = core_of(SchedulerOptions(feature_gates=gates))
        waiting = replace(make_pod("waiting", **pod), json=b"{}")  # type: ignore[arg-type]
        default = Namespace(metadata=ObjectMeta(name="default"))
        api.load(
            {
                "namespaces": [default],
                NODES.plural: [SMALL],
                PODS.plural: [RUNNING, HOLDER, waiting],
            }
        )
        queued = core.cycle.queue.pop_nowait()
        assert queued is not None
        result_of(schedule_one(core.cycle, queued))
        assert len(core.queue.unschedulable_pods) == 1
        found = api.objects(PODS.plural).get("waiting", "default")
        change(api, found)
        assert (len(core.queue.unschedulable_pods) == 0) == expected, sorted(gates & HINTS)
        core.queue.check()


def _spreading(name: str, key: str, min_domains: int | None = None, node: str = "") -> Pod:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "key1", "operator": "Exists"}]},
    }
    if min_domains:
        constraint["minDomains"] = min_domains
    labels = {"key1": "val"}
    return make_pod(name, node_name=node, labels=labels, spread=[constraint])


@pytest.mark.parametrize(
    ("gates", "requeued"),
    [(DEFAULT_FEATURE_GATES, ["pod4"]), (DEFAULT_FEATURE_GATES - HINTS, ["pod3", "pod4"])],
)
def test_pods_that_spread_are_retried_when_a_node_with_a_topology_label_is_deleted(
    gates: FeatureGates, requeued: list[str]
) -> None:
    """Upstream's CoreResourceEnqueueTestCases[41] and, without hints, [42]."""
    api, core = core_of(SchedulerOptions(feature_gates=gates))
    zoned = make_node("fake-node2", labels={"zone": "fake-node"})
    placed = [
        _spreading("pod1", "node", node="fake-node1"),
        _spreading("pod2", "zone", node="fake-node2"),
    ]
    waiting = [_spreading("pod3", "node", 3), _spreading("pod4", "zone", 3)]
    api.load(
        {
            "namespaces": [Namespace(metadata=ObjectMeta(name="default"))],
            NODES.plural: [make_node("fake-node1", labels={"node": "fake-node"}), zoned],
            PODS.plural: placed + waiting,
        }
    )
    for _ in waiting:
        queued = core.cycle.queue.pop_nowait()
        assert queued is not None
        result_of(schedule_one(core.cycle, queued))
    assert len(core.queue.unschedulable_pods) == len(waiting)
    api.remove(NODES.plural, "fake-node2")
    left = {waits.pod_info.pod.metadata.name for waits in core.queue.unschedulable_pods}
    assert sorted({"pod3", "pod4"} - left) == requeued
    core.queue.check()
