"""Clusters in which pods preempt, from upstream's cases in short form.

A pod is `{name, node, priority, size, labels, started, terminating, preempted, policy, nominated,
spread, anti_affinity, group}`, a budget `{labels, allowed, disrupted}`, an extender `{keeps,
nobody, fails, ignorable, unsupported, uninterested}`; all but names may be left out.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec.structs import replace

from scheduler.api.core import (
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSchedulingGroup,
)
from scheduler.api.pod_groups import PodGroup
from scheduler.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.framework import CycleState, NodeInfo, NodeToStatus, Plugin, Status, unschedulable
from scheduler.framework.status import Code
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from tests.runtime.profiles import framework_of
from tests.upstream.extenders import FakeExtender
from tests.upstream.loading import Case, api_object, feature_gates

SIZES = {
    "small": {"cpu": "100m", "memory": "100"},
    "medium": {"cpu": "200m", "memory": "200"},
    "large": {"cpu": "300m", "memory": "300"},
    "very_large": {"cpu": "500m", "memory": "500"},
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def pod_of(fields: Mapping[str, Any]) -> Pod:
    """A pod from its short form."""
    names = {"topologyKey": "hostname", "labelSelector": {}}
    term = {**names, "labelSelector": _exists(fields.get("anti_affinity", ""))}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    selector = _exists(fields.get("spread", ""))
    spread = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        | {"labelSelector": selector}
        for key in ("zone", "hostname")
    ]
    pod = make_pod(
        fields.get("name", "p"),
        namespace=fields.get("namespace", "default"),
        node_name=fields.get("node", ""),
        priority=fields.get("priority"),
        requests=SIZES[fields["size"]] if "size" in fields else None,
        labels=fields.get("labels"),
        preemption_policy=fields.get("policy"),
        nominated_node_name=fields.get("nominated", ""),
        deletion_timestamp=LONG_AGO if fields.get("terminating") else None,
        affinity=affinity if "anti_affinity" in fields else None,
        spread=spread if "spread" in fields else (),
    )
    status = pod.status
    if "started" in fields:
        status = replace(status, start_time=EPOCH + timedelta(seconds=fields["started"]))
    if fields.get("preempted"):
        reason = "PreemptionByScheduler"
        status = replace(
            status, conditions=(PodCondition("DisruptionTarget", "True", reason=reason),)
        )
    if "group" in fields:
        group = PodSchedulingGroup(pod_group_name=fields["group"])
        pod = replace(pod, spec=replace(pod.spec, scheduling_group=group))
    return replace(pod, status=status)


def _exists(key: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def budget_of(fields: Mapping[str, Any], namespace: str = "default") -> PodDisruptionBudget:
    """A budget from its short form."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=fields["labels"])),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=fields["allowed"],
            disrupted_pods=dict.fromkeys(fields.get("disrupted", ()), LONG_AGO),
        ),
    )


class Always(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


class Never(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("never")


class Named(Plugin):
    """Accepts a pod only on the node of its own name."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if pod.name == node.name else unschedulable("another name")


class ErrorProne(Plugin):
    """Fails in AddPod and RemovePod on nodes with the label."""

    name = "test-plugin"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: object) -> None:
        """Accept the pod."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        if node.labels.get("error") == "true":
            raise ValueError(f"failed to add pod: {pod.name}")

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        if node.labels.get("error") == "true":
            raise ValueError(f"failed to remove pod: {pod.name}")


_FILTERS: dict[str, type[Plugin]] = {
    "always": Always,
    "never": Never,
    "named": Named,
    "affinity": InterPodAffinity,
    "spread": PodTopologySpread,
}


def _nodes(case: Case) -> list[Node]:
    if "cluster" in case.fields:
        return [_node_like(name, fields) for name, fields in case["cluster"].items()]
    zones = case.get("nodes_in_zones")
    if zones:
        return [
            make_node(name, allocatable=_VERY_LARGE, labels={"hostname": name, "zone": zone})
            for name, zone in zones.items()
        ]
    names = {pod["node"] for pod in case["running"]} | set(case.get("nodes", ()))
    return [
        make_node(name, allocatable=_VERY_LARGE, labels={"hostname": name})
        for name in sorted(names)
    ]


_VERY_LARGE = {**SIZES["very_large"], "pods": "32"}


def _node_like(name: str, fields: Mapping[str, Any]) -> Node:
    capacity = fields["capacity"]
    if capacity == "one_pod":
        capacity = {"pods": "1"}
    elif isinstance(capacity, str):
        capacity = SIZES[capacity]
    return make_node(name, allocatable={"pods": "32", **capacity}, labels=fields.get("labels"))


def _pod_group(name: str, spec: Mapping[str, Any]) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return api_object(PodGroup, {"metadata": metadata, "spec": spec})


class Preempting:
    """A cluster with our plugin, and the results of preemptions in it.

    The case's `groups` are the specs of pod groups, by name.
    """

    def __init__(
        self,
        case: Case,
        preemptors: Sequence[Pod],
        *,
        plugin: type[DefaultPreemption] = DefaultPreemption,
    ) -> None:
        running = [pod_of(fields) for fields in case["running"]]
        self.snapshot = snapshot_of(_nodes(case), running)
        budgets = [budget_of(fields) for fields in case.get("budgets", ())]
        self.pod_groups = {
            name: _pod_group(name, spec) for name, spec in case.get("groups", {}).items()
        }
        self.handle = FakeHandle(
            self.snapshot,
            listers={
                "pods": FakeLister([*running, *preemptors]),
                "poddisruptionbudgets": _Listed(budgets),
                "namespaces": FakeLister(),
                PodGroup: FakeLister(self.pod_groups.values()),
            },
            feature_gates=feature_gates(case),
        )
        self.handle.extenders = [FakeExtender(fields) for fields in case.get("extenders", ())]
        beside = case.get("filter") or {}
        classes = [NodeResourcesFit, ErrorProne]
        if "plugin" in beside:
            classes.append(_FILTERS[beside["plugin"]])
        if "beside" in beside:
            classes.append(Never)
        self.framework = framework_of(*classes, handle=self.handle)
        registry = Registry([plugin])
        created = registry.create(plugin.name, case.get("args"), self.handle)
        self.plugin = cast("DefaultPreemption", created)

    def state_of(self, pod: PodInfo) -> CycleState:
        """The state after PreFilter."""
        state = CycleState()
        outcome = self.framework.pre_filters.run(state, pod, self.snapshot.nodes)
        assert outcome.status is None
        return state

    def failed(self, statuses: Mapping[str, str] | None = None) -> NodeToStatus:
        """Return the statuses of the filters; by default preemption may help on all nodes."""
        found = NodeToStatus(self.snapshot.table.names, self.snapshot.table.row_of)
        if statuses is None:
            statuses = dict.fromkeys(self.snapshot.names, "Unschedulable")
        for name, code in statuses.items():
            found.set(name, Status(next(c for c in Code if str(c) == code)))
        return found


class _Listed:
    """A lister of objects whose names do not matter."""

    def __init__(self, objects: Sequence[object]) -> None:
        self._objects = objects

    def get(self, name: str, namespace: str = "") -> object | None:
        return None

    def list(self, namespace: str = "") -> Sequence[object]:
        return self._objects
