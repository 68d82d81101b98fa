"""The core with ports of a test: what its options and ports change."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.core import (
    NodePodPreemptionPolicy,
    ObjectMeta,
    Pod,
    PodSchedulingGroup,
    Taint,
)
from scheduler.api.storage import StorageClass
from scheduler.assembly.core import Core, SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import AtOnce, InMemoryApi
from scheduler.cache import Cache
from scheduler.client import NODES, PODS
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GENERIC_WORKLOAD,
    EffectiveVersion,
    SchedulerVersion,
    default_config,
    default_feature_gates,
)
from scheduler.cycle.schedule_pod import FirstInOrder
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.framework import Plugin, PodInfo, Status, unschedulable
from scheduler.plugins import SCHEME
from scheduler.reports.decision import result_of
from scheduler.testing import VirtualClock, make_node, make_pod

V1_35, V1_36 = SchedulerVersion.V1_35, SchedulerVersion.V1_36
CLASS = "storage.k8s.io/StorageClass"
GROUPS = DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD}


class ZGate(Plugin):
    """Gates every pod."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unschedulable("not yet")


class AGate(ZGate):
    """Gates every pod too."""


class TickingClock(VirtualClock):
    """A clock on which a second passes between two measurements."""

    def monotonic(self) -> float:
        self.advance_nowait(1.0)
        return super().monotonic()


def options_of(version: SchedulerVersion) -> SchedulerOptions:
    return SchedulerOptions(
        effective_version=EffectiveVersion.of(version), feature_gates=default_feature_gates(version)
    )


def core_of(
    options: SchedulerOptions, clock: VirtualClock | None = None, **parts: Any
) -> tuple[InMemoryApi, Core]:
    api = InMemoryApi(clock or VirtualClock())
    ports = api.ports(rng=random.Random(0), tie_break=FirstInOrder(), tasks=AtOnce())
    config = default_config(SCHEME._replace(gates=options.feature_gates))
    return api, build_core(config, ports, options, **parts)


def test_a_pod_is_bound_by_the_writes_of_the_core() -> None:
    api, core = core_of(SchedulerOptions())
    api.load({PODS.plural: [make_pod("p")], NODES.plural: [make_node("b"), make_node("a")]})
    queued = core.cycle.queue.pop_nowait()
    assert queued is not None
    result_of(schedule_one(core.cycle, queued))
    assert [pod.spec.node_name for pod in api.objects(PODS.plural).list()] == ["a"]
    assert [pod.key for pod in core.cache.pods.values()] == ["default/p"]
    core.cache.check()
    core.queue.check()


def test_of_several_gating_plugins_the_first_by_name_counts() -> None:
    api, core = core_of(SchedulerOptions(plugins=[ZGate, AGate]))
    api.put(PODS.plural, make_pod("p"))
    (waiting,) = core.queue.unschedulable_pods.in_order()
    assert waiting.gating_plugin == "AGate"


@pytest.mark.parametrize("members_back_off", [True, False])
def test_members_of_a_group_back_off_unless_that_is_off(*, members_back_off: bool) -> None:
    options = SchedulerOptions(feature_gates=GROUPS, members_back_off=members_back_off)
    api, core = core_of(options)
    api.put(NODES.plural, make_node("n", allocatable={"cpu": "1", "pods": "9"}))
    pod = make_pod("p", requests={"cpu": "2"})
    api.put(PODS.plural, _in_group(pod))
    queued = core.cycle.queue.pop_nowait()
    assert queued is not None
    result_of(schedule_one(core.cycle, queued))
    # A node is new: the pod backs off before it is tried again.
    api.put(NODES.plural, make_node("large"))
    popped = core.cycle.queue.pop_nowait()
    assert (popped is None) == members_back_off


def test_without_pods_the_queue_stays_empty_and_the_cache_is_kept_up_to_date() -> None:
    cache = Cache()
    api, core = core_of(SchedulerOptions(), queues_pods=False, cache=cache)
    api.load({NODES.plural: [make_node("n")], PODS.plural: [make_pod("p", node_name="n")]})
    api.put(PODS.plural, make_pod("waits"))
    assert core.cycle.queue.pop_nowait() is None
    assert [pod.key for pod in cache.pods.values()] == ["default/p"]


@pytest.mark.parametrize(
    ("off", "events"),
    [((), {"NodeUpdateNodeDeclaredFeature"}), (("NodeDeclaredFeatures",), set())],
)
def test_a_node_that_declares_other_features_is_an_event_with_the_gate_only(
    off: tuple[str, ...], events: set[str]
) -> None:
    """As 1.36: a preemption policy, which 1.37 has, is none either."""
    api, core = core_of(SchedulerOptions(feature_gates=DEFAULT_FEATURE_GATES - set(off)))
    node = make_node("n")
    api.put(NODES.plural, node)
    status = replace(node.status, declared_features=("GuaranteedQoSPodCPUResize",))
    policy = NodePodPreemptionPolicy(disable_resize_preemption=True)
    spec = replace(node.spec, pod_preemption_policy=policy)
    api.put(NODES.plural, replace(node, status=status, spec=spec))
    handled = core.ports.metrics.event_handling_duration.by_labels
    assert {label for (label,) in handled if label.startswith("NodeUpdate")} == events


@pytest.mark.parametrize(
    ("version", "measured"),
    [
        (V1_35, {"NodeUpdateNodeTaint", f"{CLASS}Update"}),
        (V1_36, {"NodeAdd", "NodeUpdateNodeTaint", f"{CLASS}Add", f"{CLASS}Update"}),
    ],
)
def test_up_to_1_35_the_handling_of_most_events_is_not_measured(
    version: SchedulerVersion, measured: set[str]
) -> None:
    api, core = core_of(options_of(version), TickingClock())
    for taints in ([], [Taint(key="k", effect="NoSchedule")]):
        api.put(NODES.plural, make_node("n", taints=taints))
    for provisioner in ("a", "b"):
        storage_class = StorageClass(ObjectMeta(name="c"), provisioner=provisioner)
        api.put("storageclasses", storage_class)
    handled = core.ports.metrics.event_handling_duration.by_labels
    assert {label for (label,), times in handled.items() if times.sum} == measured


def test_a_plugin_takes_part_in_the_extension_points_of_its_version() -> None:
    looked_for = [("DynamicResources", "score"), ("NodeName", "pre_filter")]
    found = []
    for version in SchedulerVersion:
        _, core = core_of(options_of(version))
        points = core.profiles["default-scheduler"].plugins
        found.append([name in {plugin.name for plugin in points[at]} for name, at in looked_for])
    assert found == [[False, False], [True, False], [True, False], [True, True]]


def _in_group(pod: Pod) -> Pod:
    group = PodSchedulingGroup(pod_group_name="g")
    return replace(pod, spec=replace(pod.spec, scheduling_group=group))
