"""Strategies for whole clusters, histories, configurations and cases.

A case is a cluster, a configuration and a history: the objects at the start of the scheduler, and
the changes after it, as steps of the case format. A case has no expectations: invariants judge it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from ..api import ref_of
from ..format.case import case_of
from ..format.objects import HOSTNAME_LABEL, priority_class_of
from ..format.reading import name_of, present, short_name_of
from ..format.resources import part
from ..format.short_forms import entries_of
from .objects import GPU, PodValues, Volume, budgets, nodes, pods, volumes
from .rules import (
    NAMESPACE_LABELS,
    NODE_LABELS,
    POD_LABELS,
    TAINTS,
    one_of_these,
    optionally,
    subsets,
    taints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from ..api import Json
    from ..format.case import Case
    from .rules import Values

#: No further labels.
_NO_LABELS: Final[Values] = MappingProxyType({})
_NODE_NAMES: Final = "abcdefghijklmno"
_SECOND_NAMESPACE: Final = "team"
#: The priorities of one cluster: without different ones no pod preempts another.
_PRIORITIES: Final = ((0,), (0, 10), (0, 10, 100))


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The objects of a cluster, in an order in which they can be created."""

    objects: tuple[Json, ...]

    def of_kind(self, kind: str) -> list[Json]:
        """Return the objects of one kind."""
        return [obj for obj in self.objects if obj["kind"] == kind]

    @property
    def nodes(self) -> list[Json]:
        return self.of_kind("Node")

    @property
    def pods(self) -> list[Json]:
        return self.of_kind("Pod")


@st.composite
def clusters(
    draw: DrawFn,
    *,
    nodes_max: int = 4,
    pods_max: int = 4,
    features_max: int = 3,
    labels: Values = _NO_LABELS,
    objects: Sequence[Json] = (),
) -> Cluster:
    """Draw a cluster with nodes `a`, `b`... and pods `p1`, `p2`..., most of them waiting.

    A pod with a node was put there by something else and may not fit. `labels` are further labels
    of nodes and pods with their values. Each of `objects` is in the cluster or not. The cluster
    shrinks to one node and no pods.
    """
    some_nodes = nodes(labels={**NODE_LABELS, **labels})
    drawn = draw(st.lists(some_nodes, min_size=1, max_size=nodes_max))
    names = _NODE_NAMES[: len(drawn)]
    claimed = draw(optionally(_claims(names), one_in=3)) or []
    second = draw(optionally(subsets(NAMESPACE_LABELS), one_in=5))
    namespaces = ["default", *([] if second is None else [_SECOND_NAMESPACE])]
    values = PodValues(
        node_names=names,
        namespaces=namespaces,
        claims=[volume.claim for volume in claimed],
        priorities=draw(st.sampled_from(_PRIORITIES)),
        features_max=features_max,
        labels={**POD_LABELS, **labels},
        node_labels={**NODE_LABELS, **labels},
    )
    found = draw(optionally(st.lists(budgets(), min_size=1, max_size=2), one_in=3)) or []
    placed = draw(st.lists(_placed_pods(values), max_size=pods_max))
    return Cluster(
        objects=(
            *([] if second is None else [_namespace(_SECOND_NAMESPACE, second)]),
            *(priority_class_of(value) for value in values.priorities if value),
            *(_named(node, name) for node, name in zip(drawn, names, strict=True)),
            *_objects_behind(claimed),
            *(_named(budget, f"b{number}") for number, budget in enumerate(found, 1)),
            *(obj for obj in objects if draw(st.booleans())),
            *(_named(pod, f"p{number}") for number, pod in enumerate(placed, 1)),
        )
    )


@st.composite
def _claims(draw: DrawFn, node_names: str) -> list[Volume]:
    return [
        draw(volumes(name=f"v{number}", node_names=node_names))
        for number in range(1, draw(st.integers(1, 2)) + 1)
    ]


def _named(obj: Json, name: str) -> Json:
    """Return an object under another name; a node's label of its name changes too."""
    metadata = {**part(obj, "metadata"), "name": name}
    if HOSTNAME_LABEL in part(metadata, "labels"):
        metadata["labels"] = {**part(metadata, "labels"), HOSTNAME_LABEL: name}
    return {**obj, "metadata": metadata}


def _namespace(name: str, labels: dict[str, str]) -> Json:
    metadata = {"name": name, **present(labels=labels)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _objects_behind(claimed: Iterable[Volume]) -> list[Json]:
    """Return the volumes' objects; their storage class only once."""
    objects = [obj for volume in claimed for obj in volume.objects]
    return [*{ref_of(obj): obj for obj in objects}.values()]


@st.composite
def _some_pods(draw: DrawFn, values: PodValues) -> Json:
    """Draw a pod in one of the namespaces."""
    return draw(pods(namespace=draw(one_of_these(values.namespaces)), values=values))


@st.composite
def _placed_pods(draw: DrawFn, values: PodValues) -> Json:
    """Draw a pod that may be on a node; with gates it is on none."""
    pod = draw(_some_pods(values))
    spec = part(pod, "spec")
    node_name = draw(optionally(one_of_these(values.node_names), one_in=3))
    if node_name is None or "schedulingGates" in spec:
        return pod
    return {**pod, "spec": {**spec, "nodeName": node_name}}


@st.composite
def histories(
    draw: DrawFn,
    cluster: Cluster,
    *,
    steps_max: int = 6,
    features_max: int = 3,
    restarts: bool = True,
    advances: Sequence[str] = ("1s", "12s", "6m"),
    labels: Values = _NO_LABELS,
    objects: Sequence[Json] = (),
) -> list[Json]:
    """Draw changes in a cluster, as steps of a case that can be carried out with any scheduler.

    `labels` and `objects` are as of `clusters`; the objects are created and deleted.
    A step about a pod names no pod that the scheduler may have deleted: the pod has the highest
    priority so far, so no other pod can have preempted it. Shrinks to one new pod.
    """
    life = _Life(cluster, features_max=features_max, labels=labels, objects=objects)
    actions: list[Callable[[DrawFn], Json | None]] = [
        *(life.create_pod,) * 3,
        *(life.delete_pod, life.label_pod, life.tolerate, life.ungate),
        *(life.create_node, life.label_node, life.taint_node, life.cordon),
        *(life.resize_node, life.delete_node, life.label_namespace),
    ]
    if objects:
        actions += (life.create_or_delete_object,) * 3
    if advances:
        actions.append(lambda draw: {"advance": draw(st.sampled_from(advances))})
    if restarts:
        actions.append(lambda _: {"restart": None})
    first = life.create_pod(draw)
    more = draw(st.lists(_steps(actions), max_size=steps_max - 1))
    return [first, *(step for step in more if step is not None)]


@st.composite
def _steps(draw: DrawFn, actions: Sequence[Callable[[DrawFn], Json | None]]) -> Json | None:
    return draw(st.sampled_from(actions))(draw)


class _Life:
    """The objects of a cluster while its history is drawn. Each method draws one step, or None."""

    def __init__(
        self, cluster: Cluster, *, features_max: int, labels: Values, objects: Sequence[Json]
    ) -> None:
        self._further_objects = objects
        self._existing = [obj for obj in objects if obj in cluster.objects]
        self._nodes = {short_name_of(node): node for node in cluster.nodes}
        self._nodes_so_far = len(self._nodes)
        self._pods = {name_of(pod): copy.deepcopy(pod) for pod in cluster.pods}
        self._pods_so_far = len(self._pods)
        self._namespaces = [short_name_of(obj) for obj in cluster.of_kind("Namespace")]
        priorities = [_value(obj) for obj in cluster.of_kind("PriorityClass")]
        self._highest = max([0, *(_priority(pod) for pod in cluster.pods)])
        self._values = PodValues(
            node_names=[*self._nodes],
            namespaces=["default", *self._namespaces],
            claims=[short_name_of(claim) for claim in cluster.of_kind("PersistentVolumeClaim")],
            priorities=[0, *priorities],
            features_max=features_max,
            labels={**POD_LABELS, **labels},
            node_labels={**NODE_LABELS, **labels},
        )

    def create_pod(self, draw: DrawFn) -> Json:
        self._pods_so_far += 1
        pod = _named(draw(_some_pods(self._values)), f"p{self._pods_so_far}")
        self._pods[name_of(pod)] = copy.deepcopy(pod)
        self._highest = max(self._highest, _priority(pod))
        return {"create": entries_of([pod])}

    def create_node(self, draw: DrawFn) -> Json | None:
        if self._nodes_so_far == len(_NODE_NAMES):
            return None
        name = _NODE_NAMES[self._nodes_so_far]
        self._nodes_so_far += 1
        self._nodes[name] = _named(draw(nodes()), name)
        return {"create": entries_of([self._nodes[name]])}

    def create_or_delete_object(self, draw: DrawFn) -> Json:
        """Create one of the further objects, or delete it if it exists."""
        obj = draw(st.sampled_from(self._further_objects))
        if obj not in self._existing:
            self._existing.append(obj)
            return {"create": [{"object": obj}]}
        self._existing.remove(obj)
        metadata = part(obj, "metadata")
        names: Json = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        subject = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **names}
        return {"delete": {"object": subject}}

    def delete_pod(self, draw: DrawFn) -> Json | None:
        name = self._some_pod(draw)
        if name is None:
            return None
        del self._pods[name]
        return {"delete": {"pod": name}}

    def label_pod(self, draw: DrawFn) -> Json | None:
        return self._patch_pod(draw, {"metadata": {"labels": _relabelled(draw, self._values)}})

    def tolerate(self, draw: DrawFn) -> Json | None:
        """Add a toleration for all taints: the API allows additions only.

        The API server has added tolerations of its own, so there is a list to add to.
        """
        name = self._some_pod(draw)
        if name is None:
            return None
        add = {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}
        return {"patch": {"pod": name, "type": "json", "patch": [add]}}

    def ungate(self, draw: DrawFn) -> Json | None:
        gated = [name for name, pod in self._pods.items() if "schedulingGates" in part(pod, "spec")]
        if not gated:
            return None
        name = draw(one_of_these(gated))
        del part(self._pods[name], "spec")["schedulingGates"]
        return {"patch": {"pod": name, "patch": {"spec": {"schedulingGates": None}}}}

    def label_node(self, draw: DrawFn) -> Json | None:
        labels = self._values.node_labels
        key = draw(st.sampled_from([*labels]))
        value = draw(st.sampled_from([None, *labels[key]]))
        return self._patch_node(draw, {"metadata": {"labels": {key: value}}})

    def taint_node(self, draw: DrawFn) -> Json | None:
        taint = draw(st.none() | taints(TAINTS))
        return self._patch_node(draw, {"spec": {"taints": taint and [taint]}})

    def cordon(self, draw: DrawFn) -> Json | None:
        unschedulable = draw(st.sampled_from([None, True]))
        return self._patch_node(draw, {"spec": {"unschedulable": unschedulable}})

    def resize_node(self, draw: DrawFn) -> Json | None:
        name = self._some_node(draw)
        amounts = st.sampled_from([{"cpu": "8"}, {"cpu": "1"}, {"pods": "1"}, {GPU: "2"}])
        status = {"allocatable": draw(amounts)}
        return None if name is None else {"update_status": {"node": name, "status": status}}

    def delete_node(self, draw: DrawFn) -> Json | None:
        name = self._some_node(draw)
        if name is None:
            return None
        del self._nodes[name]
        return {"delete": {"node": name}}

    def label_namespace(self, draw: DrawFn) -> Json | None:
        labels = {key: draw(st.sampled_from(some)) for key, some in NAMESPACE_LABELS.items()}
        name = draw(one_of_these(["default", *self._namespaces]))
        subject = {"apiVersion": "v1", "kind": "Namespace", "name": name}
        return {"patch": {"object": subject, "patch": {"metadata": {"labels": labels}}}}

    def _some_pod(self, draw: DrawFn) -> str | None:
        """Draw a pod that no other can have preempted."""
        safe = [name for name, pod in self._pods.items() if _priority(pod) == self._highest]
        return draw(one_of_these(safe)) if safe else None

    def _some_node(self, draw: DrawFn) -> str | None:
        return draw(one_of_these([*self._nodes])) if self._nodes else None

    def _patch_pod(self, draw: DrawFn, patch: Json) -> Json | None:
        name = self._some_pod(draw)
        return None if name is None else {"patch": {"pod": name, "patch": patch}}

    def _patch_node(self, draw: DrawFn, patch: Json) -> Json | None:
        name = self._some_node(draw)
        return None if name is None else {"patch": {"node": name, "patch": patch}}


def _relabelled(draw: DrawFn, values: PodValues) -> dict[str, str | None]:
    key = draw(st.sampled_from([*values.labels]))
    return {key: draw(st.sampled_from([None, *values.labels[key]]))}


def _value(priority_class: Json) -> int:
    return int(str(priority_class["value"]))


def _priority(pod: Json) -> int:
    """Return the priority of a drawn pod, which its class's name has."""
    return int(str(part(pod, "spec").get("priorityClassName", "priority-0")).split("-")[1])


@st.composite
def configurations(draw: DrawFn) -> Json:
    """Draw a KubeSchedulerConfiguration that changes scores, backoff and parallelism.

    No filter is changed or disabled, so the invariants hold for all of them. The fields that a case
    completes (`apiVersion`, `kind`, the connection) are left out. Shrinks to the default.
    """
    config: Json = {}
    if draw(st.integers(1, 4)) == 4:
        config["podInitialBackoffSeconds"] = draw(st.sampled_from([1, 2]))
        config["podMaxBackoffSeconds"] = draw(st.sampled_from([10, 5]))
    if draw(st.integers(1, 4)) == 4:
        config["percentageOfNodesToScore"] = draw(st.sampled_from([100, 1, 50]))
    if draw(st.integers(1, 4)) == 4:
        config["parallelism"] = draw(st.sampled_from([16, 1]))
    profile: Json = {}
    scores = st.sampled_from(
        ["NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"]
    )
    disabled = draw(st.lists(scores, max_size=2, unique=True))
    if disabled:
        off = [{"name": name} for name in disabled]
        profile["plugins"] = {"score": {"disabled": off}}
    args = draw(st.lists(st.sampled_from([*_PLUGIN_ARGS]), max_size=2, unique=True))
    if args:
        profile["pluginConfig"] = [
            {"name": name, "args": draw(st.sampled_from(_PLUGIN_ARGS[name]))} for name in args
        ]
    if profile:
        config["profiles"] = [{"schedulerName": "default-scheduler", **profile}]
    return config


_CPU: Final = [{"name": "cpu", "weight": 1}]
_SHAPE: Final = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
_PLUGIN_ARGS: Final[dict[str, list[Json]]] = {
    "NodeResourcesFit": [
        {"scoringStrategy": {"type": "MostAllocated", "resources": _CPU}},
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _CPU,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            }
        },
    ],
    "InterPodAffinity": [
        {"hardPodAffinityWeight": 50},
        {"ignorePreferredTermsOfExistingPods": True},
    ],
    "PodTopologySpread": [{"defaultingType": "List", "defaultConstraints": []}],
}


@st.composite
def cases(
    draw: DrawFn,
    *,
    nodes_max: int = 4,
    pods_max: int = 4,
    steps_max: int = 6,
    features_max: int = 3,
    restarts: bool = True,
    advances: Sequence[str] = ("1s", "12s", "6m"),
    rest: str = "15s",
    config: SearchStrategy[Json] | None = None,
    labels: Values = _NO_LABELS,
    objects: Sequence[Json] = (),
) -> Case:
    """Draw a case without expectations: a cluster, a configuration, a history.

    `labels` and `objects` are what a plugin is about: further labels of nodes and pods with their
    values, and objects that come and go.

    The case ends with a pause, `rest`, in which a scheduler can try each pod again after its
    backoff. A third of the cases have a configuration of `configurations()`, or all of `config`.
    Shrinks to one node, one pod, and the default configuration.
    """
    cluster = draw(
        clusters(
            nodes_max=nodes_max,
            pods_max=pods_max,
            features_max=features_max,
            labels=labels,
            objects=objects,
        )
    )
    steps = draw(
        histories(
            cluster,
            steps_max=steps_max,
            features_max=features_max,
            restarts=restarts,
            advances=advances,
            labels=labels,
            objects=objects,
        )
    )
    if config is None:
        chosen = draw(configurations()) if draw(st.integers(1, 3)) == 3 else {}
    else:
        chosen = draw(config)
    raw: Json = {
        "name": "drawn",
        "source": "conformance.strategies.cases",
        **present(config=chosen),
        # Pods in the short form create their priority class.
        "cluster": entries_of(obj for obj in cluster.objects if obj["kind"] != "PriorityClass"),
        "steps": [*steps, {"advance": rest}],
    }
    return case_of(raw, area="fuzz", origin="conformance.strategies")
