"""Hypothesis strategies for small clusters with few names and values, so that rules often apply.

Everything is drawn from short lists on purpose. Two nodes should often have the same taint, and a
pod often ask for just what a node has left; random texts would never meet. What a test does not ask
for stays as `make_node` and `make_pod` have it: drawing takes far longer than judging.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from scheduler.api import core
from scheduler.snapshot import Snapshot
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.reference.cluster import Cluster
from tests.thoroughness import examples

T = TypeVar("T")

#: The same examples in every run: a failure in one place is a failure everywhere. Explaining a
#: failure takes minutes with objects of this size.
repeatable = settings(
    max_examples=examples(100),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)

#: What can be made to vary, on nodes and on pods.
RESOURCES, TAINTS, LABELS, PORTS, IMAGES = "resources", "taints", "labels", "ports", "images"
EVERYTHING = (RESOURCES, TAINTS, LABELS, PORTS, IMAGES)

NODE_NAMES = ("node-0", "node-1", "node-2", "node-3", "node-4", "node-5")
LABEL_KEYS = ("disk", "gen", "arch")
LABEL_VALUES = ("ssd", "hdd", "3", "7", "12", "")
TAINT_KEYS = ("gpu", "spot", "node.kubernetes.io/unschedulable")
TAINT_VALUES = ("", "a", "b")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
#: The last but one has a port, not a tag.
IMAGE_NAMES = ("app", "app:v1", "registry/db", "registry:5000/db", "registry:5000/db:v2")
REPORTED_IMAGES = ("app:latest", "app:v1", "registry/db:latest", "registry:5000/db:latest")
MIB = 1024 * 1024

#: Requests and capacities by resource; some sizes lie beyond what a float divides exactly.
REQUESTS = {
    "cpu": ("0", "1m", "100m", "0.5", "1", "1500m", "2"),
    "memory": ("0", "1", "64Mi", "512Mi", "1Gi", "1500M", "3Gi", "50Ti", "40Pi"),
    "ephemeral-storage": ("1Gi", "20Gi"),
    "example.com/gpu": ("0", "1", "2"),
    "vendor.io/fpga": ("1",),
    "hugepages-2Mi": ("4Mi", "8Mi"),
}
CAPACITIES = {
    "cpu": ("0", "1", "2", "3900m", "16"),
    "memory": ("0", "1Gi", "2Gi", "7777777777", "81Ti", "83Ti", "100Pi"),
    "ephemeral-storage": ("10Gi", "40Gi"),
    "example.com/gpu": ("0", "2", "4"),
    "vendor.io/fpga": ("1",),
    "hugepages-2Mi": ("8Mi",),
}


def up_to(count: int, values: Sequence[T]) -> SearchStrategy[tuple[T, ...]]:
    """A few of these values, one of them maybe more than once."""
    return st.lists(st.sampled_from(values), max_size=count).map(tuple)


def subset(options: Mapping[str, Sequence[str]]) -> SearchStrategy[dict[str, str]]:
    """Some of the keys, each with one of its values."""
    named = {name: st.sampled_from(values) for name, values in options.items()}
    return st.fixed_dictionaries({}, optional=named)


def all_of(kind: type[T], **parts: Sequence[object]) -> list[T]:
    """Return every object with a combination of these values in its fields."""
    combinations = itertools.product(*parts.values())
    return [kind(**dict(zip(parts, values, strict=True))) for values in combinations]


labels = subset(dict.fromkeys(LABEL_KEYS, LABEL_VALUES))

taints = up_to(3, all_of(core.Taint, key=TAINT_KEYS, value=TAINT_VALUES, effect=EFFECTS))

tolerations = up_to(
    3,
    all_of(
        core.Toleration,
        key=("", *TAINT_KEYS),
        operator=("", "Equal", "Exists", "Exists", "Gt"),
        value=TAINT_VALUES,
        effect=("", *EFFECTS),
    ),
)

ports = up_to(
    2,
    all_of(
        core.ContainerPort,
        host_port=(0, 80, 443),
        protocol=("", "TCP", "UDP"),
        host_ip=("", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
    ),
)

GOOD_EXPRESSIONS = [
    *all_of(
        core.NodeSelectorRequirement,
        key=LABEL_KEYS,
        operator=("In", "NotIn"),
        values=[(v,) for v in LABEL_VALUES] + list(itertools.combinations(LABEL_VALUES, 2)),
    ),
    *all_of(core.NodeSelectorRequirement, key=LABEL_KEYS, operator=("Exists", "DoesNotExist")) * 3,
    *all_of(
        core.NodeSelectorRequirement,
        key=("gen",),
        operator=("Gt", "Lt"),
        values=[("0",), ("5",), ("10",)],
    )
    * 3,
]
MALFORMED_EXPRESSIONS = [
    core.NodeSelectorRequirement(key="disk", operator="Has", values=("ssd",)),
    core.NodeSelectorRequirement(key="disk", operator="In", values=()),
    core.NodeSelectorRequirement(key="gen", operator="Gt", values=("many",)),
    core.NodeSelectorRequirement(key="disk", operator="Exists", values=("ssd",)),
]
FIELDS = all_of(
    core.NodeSelectorRequirement,
    key=("metadata.name", "metadata.name", "metadata.uid"),
    operator=("In", "In", "NotIn"),
    values=[(name,) for name in ("", *NODE_NAMES[:3])],
)


def terms(expressions: Sequence[core.NodeSelectorRequirement]) -> SearchStrategy[object]:
    """Terms of a node selector; some are empty."""
    return st.builds(
        core.NodeSelectorTerm,
        match_expressions=up_to(2, expressions),
        match_fields=up_to(2, FIELDS) | st.just(()),
    )


good_terms = terms(GOOD_EXPRESSIONS)
any_terms = good_terms | terms([*GOOD_EXPRESSIONS, *MALFORMED_EXPRESSIONS * 10])

preferences = st.lists(
    st.builds(
        core.PreferredSchedulingTerm,
        weight=st.sampled_from((0, 1, 2, 30, 100)),
        preference=good_terms,
    ),
    max_size=3,
).map(tuple)


def node_affinities(required: SearchStrategy[object]) -> SearchStrategy[core.NodeAffinity]:
    """Node affinity with these terms in its required part."""
    selector = st.builds(
        core.NodeSelector, node_selector_terms=st.lists(required, max_size=3).map(tuple)
    )
    return st.builds(
        core.NodeAffinity,
        required_during_scheduling_ignored_during_execution=st.none() | selector,
        preferred_during_scheduling_ignored_during_execution=preferences,
    )


affinities = st.none() | st.builds(core.Affinity, node_affinity=node_affinities(any_terms))

requests = subset(REQUESTS)

whole_pods = st.builds(
    core.ResourceRequirements,
    requests=subset({name: REQUESTS[name] for name in ("cpu", "memory", "hugepages-2Mi")}),
)

#: What a kubelet reports of a container that is being resized.
reports = st.builds(
    core.ContainerStatus,
    name=st.sampled_from(("c0", "i0")),
    resources=st.none() | st.builds(core.ResourceRequirements, requests=requests),
    allocated_resources=requests,
)
resizes = st.sampled_from(
    [(), *((core.PodCondition("PodResizePending", "True", r),) for r in ("Deferred", "Infeasible"))]
)


@st.composite
def containers(draw: DrawFn, name: str, vary: Sequence[str]) -> core.Container:
    """A container; an init container (`i0`) may be a sidecar."""
    return core.Container(
        name=name,
        image=draw(st.sampled_from(IMAGE_NAMES)) if IMAGES in vary else "",
        resources=core.ResourceRequirements(requests=draw(requests) if RESOURCES in vary else {}),
        ports=draw(ports) if PORTS in vary else (),
        restart_policy=draw(st.sampled_from((None, "Always"))) if name[0] == "i" else None,
    )


@st.composite
def pods(
    draw: DrawFn, vary: Sequence[str] = EVERYTHING, *, name: str = "pod", node_name: str = ""
) -> core.Pod:
    """A pod; one with a node may have been resized there."""
    has_containers = {RESOURCES, PORTS, IMAGES}.intersection(vary)
    counts = draw(st.sampled_from(((1, 0), (2, 0), (1, 1), (1, 2)))) if has_containers else (1, 0)
    images = draw(up_to(1, IMAGE_NAMES)) if IMAGES in vary else ()
    pod = make_pod(
        name,
        node_name=node_name,
        containers=[draw(containers(f"c{i}", vary)) for i in range(counts[0])],
        init_containers=[draw(containers(f"i{i}", vary)) for i in range(counts[1])],
        overhead={"cpu": "10m", "memory": "1Mi"} if RESOURCES in vary and draw(_rarely) else {},
        resources=draw(whole_pods) if RESOURCES in vary and draw(_rarely) else None,
        tolerations=draw(tolerations) if TAINTS in vary else (),
        node_selector=draw(labels) if LABELS in vary and draw(_rarely) else {},
        affinity=draw(affinities) if LABELS in vary else None,
        volumes=[core.Volume(image=core.ImageVolumeSource(reference=image)) for image in images],
    )
    if not node_name or RESOURCES not in vary or not draw(_rarely):
        return pod
    status = core.PodStatus(container_statuses=(draw(reports),), conditions=draw(resizes))
    return core.Pod(metadata=pod.metadata, spec=pod.spec, status=status)


_rarely = st.sampled_from((False, False, True))

_images = st.dictionaries(
    st.sampled_from(REPORTED_IMAGES),
    st.sampled_from((1, 22 * MIB, 24 * MIB, 300 * MIB, 999 * MIB, 5000 * MIB)),
    max_size=3,
)


@st.composite
def nodes(draw: DrawFn, name: str, vary: Sequence[str] = EVERYTHING) -> core.Node:
    """Draw a node; any allocatable resource may be missing."""
    allocatable = None
    if RESOURCES in vary:
        pods_allowed = draw(st.sampled_from(("0", "1", "3", "110")))
        allocatable = {"pods": pods_allowed, **draw(subset(CAPACITIES))}
    return make_node(
        name,
        labels=draw(labels) if LABELS in vary else {},
        allocatable=allocatable,
        taints=draw(taints) if TAINTS in vary else (),
        unschedulable=draw(_rarely) if TAINTS in vary else False,
        images=draw(_images) if IMAGES in vary else {},
    )


@st.composite
def clusters(draw: DrawFn, vary: Sequence[str] = EVERYTHING) -> Cluster:
    """One to six nodes, with up to six pods on them, whether they fit or not."""
    members = tuple(draw(nodes(name, vary)) for name in NODE_NAMES[: draw(st.integers(1, 6))])
    homes: tuple[str, ...] = ()
    if {RESOURCES, PORTS}.intersection(vary):
        homes = draw(up_to(6, [node.metadata.name for node in members]))
    running = (
        draw(pods(vary, name=f"running-{i}", node_name=home)) for i, home in enumerate(homes)
    )
    return Cluster(members, tuple(running))


def snapshot(cluster: Cluster) -> Snapshot:
    """Return the same cluster as a snapshot."""
    return snapshot_of(cluster.nodes, cluster.pods)
