"""Strategies for whole API objects: nodes, pods, volumes, budgets, priority classes.

The caller names a drawn object; so names stay short however many objects are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from ..format.objects import DEFAULT_IMAGE, HOSTNAME_LABEL, priority_class_of
from ..format.reading import present, short_name_of
from ..format.resources import part
from .rules import (
    NODE_LABELS,
    POD_LABELS,
    TAINTS,
    label_selectors,
    node_affinities,
    node_selector_terms,
    one_of_these,
    optionally,
    pod_affinities,
    subsets,
    taints,
    tolerations,
    topology_spreads,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from ..api import Json
    from .rules import Values

    Feature = Callable[[DrawFn, Json, "PodValues"], None]

GPU: Final = "example.com/gpu"
IMAGES: Final = (DEFAULT_IMAGE, "registry.example/db:v2")
PORTS: Final = (80, 443)
PRIORITIES: Final = (0, 10, 100)
_MIB: Final = 1024 * 1024
_CLASS: Final = "standard"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


@st.composite
def nodes(
    draw: DrawFn, *, name: str = "a", labels: Values = NODE_LABELS, taint_values: Values = TAINTS
) -> Json:
    """Draw a node. Shrinks to 4 CPUs and 32 GiB, without labels and taints."""
    amounts: Json = {
        "cpu": draw(st.sampled_from(["4", "1", "2"])),
        "memory": draw(st.sampled_from(["32Gi", "1Gi", "2Gi"])),
        "pods": draw(st.sampled_from(["110", "110", "110", "2", "1"])),
        **present(
            **{
                GPU: draw(optionally(st.sampled_from(["1", "2"]))),
                "ephemeral-storage": draw(optionally(st.just("10Gi"), one_in=6)),
            }
        ),
    }
    some_taints = st.lists(taints(taint_values), min_size=1, max_size=2, unique_by=_taint_key)
    spec = present(
        taints=draw(optionally(some_taints, one_in=3)),
        unschedulable=draw(optionally(st.just(True), one_in=10)),
    )
    images = draw(st.lists(st.sampled_from(IMAGES), max_size=1))
    reported = [{"names": [image], "sizeBytes": 300 * _MIB} for image in images]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME_LABEL: name, **draw(subsets(labels))}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, **present(images=reported)},
    }


def _taint_key(taint: Json) -> tuple[object, object]:
    return taint["key"], taint["effect"]


@dataclass(frozen=True, kw_only=True)
class PodValues:
    """The values from which pods are drawn, and the objects that they may name."""

    labels: Values = field(default_factory=lambda: POD_LABELS)
    node_labels: Values = field(default_factory=lambda: NODE_LABELS)
    taints: Values = field(default_factory=lambda: TAINTS)
    namespaces: Sequence[str] = ("default",)
    node_names: Sequence[str] = ()
    claims: Sequence[str] = ()
    priorities: Sequence[int] = PRIORITIES
    features_max: int = 3
    """The number of features (affinity, ports, tolerations...) that one pod has at most."""


@st.composite
def pods(
    draw: DrawFn,
    *,
    name: str = "p",
    namespace: str = "default",
    values: PodValues = PodValues(),
) -> Json:
    """Draw a pod without a node. Shrinks to one container without requests.

    A pod with a priority names the class `priority-N`, which `priority_classes` draws and clusters
    contain.
    """
    container: Json = {"name": "main", "image": DEFAULT_IMAGE}
    spec: Json = {"containers": [container]}
    cpu = draw(st.sampled_from([None, "500m", "1", "2"]))
    container |= present(resources=present(requests=present(cpu=cpu)))
    priority = draw(one_of_these(values.priorities))
    if priority:
        spec["priorityClassName"] = short_name_of(priority_class_of(priority))
    # Each feature is added as it is drawn, so that shrinking removes it with all that it draws.
    draw(st.lists(_features(spec, values), max_size=values.features_max))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            **present(labels=draw(subsets(values.labels))),
        },
        "spec": spec,
    }


@st.composite
def _features(draw: DrawFn, spec: Json, values: PodValues) -> str:
    """Draw a feature, add it to a pod's spec, and return its name."""
    name = draw(st.sampled_from([*_FEATURES]))
    _FEATURES[name](draw, spec, values)
    return name


def _main(spec: Json) -> Json:
    containers = spec["containers"]
    assert isinstance(containers, list)
    main: Json = containers[0]
    return main


def _request(container: Json, resource: str, amount: str) -> None:
    """Add a request; of an extended resource also the limit that the API demands."""
    resources = container.setdefault("resources", {})
    assert isinstance(resources, dict)
    for kind in ("requests", "limits") if "/" in resource else ("requests",):
        resources.setdefault(kind, {})[resource] = amount


def _resources(draw: DrawFn, spec: Json, values: PodValues) -> None:
    del values
    resource, amounts = draw(
        st.sampled_from(
            [("memory", ("512Mi", "1Gi")), (GPU, ("1", "2")), ("ephemeral-storage", ("5Gi",))]
        )
    )
    _request(_main(spec), resource, draw(st.sampled_from(amounts)))


def _init_container(draw: DrawFn, spec: Json, values: PodValues) -> None:
    """Add an init container, which may be a sidecar."""
    del values
    init: Json = {"name": "init-0", "image": DEFAULT_IMAGE}
    if draw(st.booleans()):
        init["restartPolicy"] = "Always"
    _request(init, "cpu", draw(st.sampled_from(["500m", "1", "2"])))
    spec["initContainers"] = [init]


def _host_ports(draw: DrawFn, spec: Json, values: PodValues) -> None:
    del values
    number = draw(st.sampled_from(PORTS))
    port: Json = {"containerPort": number, "hostPort": number}
    protocol = draw(st.sampled_from(["", "", "UDP"]))
    address = draw(st.sampled_from(["", "", "10.0.0.1", "10.0.0.2"]))
    _main(spec)["ports"] = [{**port, **present(protocol=protocol, hostIP=address)}]


def _node_selector(draw: DrawFn, spec: Json, values: PodValues) -> None:
    key = draw(st.sampled_from([*values.node_labels]))
    spec["nodeSelector"] = {key: draw(st.sampled_from(values.node_labels[key]))}


def _affinity_of(kind: str, strategy: Callable[[PodValues], SearchStrategy[Json]]) -> Feature:
    def add(draw: DrawFn, spec: Json, values: PodValues) -> None:
        affinity = spec.setdefault("affinity", {})
        assert isinstance(affinity, dict)
        affinity[kind] = draw(strategy(values))

    return add


def _of_pods(values: PodValues) -> SearchStrategy[Json]:
    return pod_affinities(values.labels, namespaces=values.namespaces)


def _of_nodes(values: PodValues) -> SearchStrategy[Json]:
    return node_affinities(values.node_labels, node_names=values.node_names)


def _spread(draw: DrawFn, spec: Json, values: PodValues) -> None:
    constraints = st.lists(
        topology_spreads(values.labels), min_size=1, max_size=2, unique_by=_spread_key
    )
    spec["topologySpreadConstraints"] = draw(constraints)


def _spread_key(spread: Json) -> tuple[object, object]:
    return spread["topologyKey"], spread["whenUnsatisfiable"]


def _tolerations(draw: DrawFn, spec: Json, values: PodValues) -> None:
    spec["tolerations"] = draw(st.lists(tolerations(values.taints), min_size=1, max_size=2))


def _gates(draw: DrawFn, spec: Json, values: PodValues) -> None:
    del draw, values
    spec["schedulingGates"] = [{"name": "example.com/quota"}]


def _image(draw: DrawFn, spec: Json, values: PodValues) -> None:
    del values
    _main(spec)["image"] = draw(st.sampled_from(IMAGES[1:]))


def _claim(draw: DrawFn, spec: Json, values: PodValues) -> None:
    if values.claims:
        claim = draw(one_of_these(values.claims))
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]


_FEATURES: Final[dict[str, Feature]] = {
    "resources": _resources,
    "tolerations": _tolerations,
    "host_ports": _host_ports,
    "node_selector": _node_selector,
    "pod_anti_affinity": _affinity_of("podAntiAffinity", _of_pods),
    "pod_affinity": _affinity_of("podAffinity", _of_pods),
    "node_affinity": _affinity_of("nodeAffinity", _of_nodes),
    "spread": _spread,
    "init_container": _init_container,
    "claim": _claim,
    "image": _image,
    "gates": _gates,
}


def priority_classes(values: Sequence[int] = PRIORITIES) -> SearchStrategy[Json]:
    """Return a strategy for PriorityClasses, named `priority-N`."""
    return st.sampled_from([value for value in values if value] or [1]).map(priority_class_of)


@st.composite
def budgets(
    draw: DrawFn, *, name: str = "b", namespace: str = "default", labels: Values = POD_LABELS
) -> Json:
    """Draw a PodDisruptionBudget with its status, which no controller computes.

    No selector is empty: upstream ignores such a budget, which is a known bug.
    """
    bound = draw(st.sampled_from(["maxUnavailable", "minAvailable"]))
    allowed = draw(st.sampled_from([0, 1]))
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {bound: allowed, "selector": draw(label_selectors(labels).filter(bool))},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        },
    }


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A persistent volume claim with the objects behind it, in the order of creation."""

    claim: str
    objects: tuple[Json, ...]

    @property
    def mount(self) -> Json:
        """The entry in `spec.volumes` of a pod that uses the claim."""
        return {"name": "v", "persistentVolumeClaim": {"claimName": self.claim}}


@st.composite
def volumes(
    draw: DrawFn,
    *,
    name: str = "v",
    namespace: str = "default",
    labels: Values = NODE_LABELS,
    node_names: Sequence[str] = (),
) -> Volume:
    """Draw a claim: bound to a volume that some nodes reach, or still unbound.

    No controller binds claims, so an unbound claim has the mode Immediate: its pods have to wait.
    """
    mode = draw(st.sampled_from(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]))
    storage: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _CLASS},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "Immediate",
    }
    metadata: Json = {"name": name, "namespace": namespace}
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "accessModes": [mode],
            "storageClassName": _CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    if draw(st.integers(1, 4)) == 4:
        return Volume(claim=name, objects=(storage, {**claim, "status": {"phase": "Pending"}}))
    terms = node_selector_terms(labels, node_names=node_names)
    reach = draw(optionally(st.lists(terms, min_size=1, max_size=1), one_in=2))
    volume = _persistent_volume(claim, mode, reach)
    bound = {
        **claim,
        "metadata": {**metadata, "annotations": {_BIND_COMPLETED: "yes"}},
        "spec": {**part(claim, "spec"), "volumeName": f"pv-{name}"},
        "status": {"phase": "Bound"},
    }
    return Volume(claim=name, objects=(storage, volume, bound))


def _persistent_volume(claim: Json, mode: str, reach: Sequence[Json] | None) -> Json:
    """Return the volume that a claim is bound to; `reach` are the terms of its node affinity."""
    metadata = part(claim, "metadata")
    affinity: Json = {"required": {"nodeSelectorTerms": reach}} if reach else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{metadata['name']}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "storageClassName": _CLASS,
            "csi": {"driver": "disks.example.com", "volumeHandle": metadata["name"]},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **metadata},
            **present(nodeAffinity=affinity),
        },
        "status": {"phase": "Bound"},
    }
