"""Remedies are true: after the change the pod fits on the node, and one unit less is not enough."""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec import convert

from scheduler.api.core import Node, Pod
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.client import ApiObject
from scheduler.config import default_config
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.reports.build import pod_report
from scheduler.reports.decision import result_of
from scheduler.reports.model import PodReport
from scheduler.testing import make_node, make_pod

Objects = dict[str, Any]

SEEDS = range(12)
UNITS = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "m": 1, "": 1}


class Cluster(NamedTuple):
    """The arguments of nodes, of the pods on them, and of the pod that waits; each by name."""

    nodes: dict[str, Objects]
    pods: dict[str, Objects]
    pod: Objects
    others: Mapping[str, Sequence[ApiObject]] = {}

    def report(self) -> PodReport:
        nodes: list[Node] = [make_node(name, **node) for name, node in self.nodes.items()]
        pods: list[Pod] = [make_pod(name, **pod) for name, pod in self.pods.items()]
        world = World(default_config(SCHEME), nodes=nodes, pods=pods, others=self.others)
        decision = result_of(world.decide(make_pod("new", **self.pod)))
        return pod_report(decision, world.profiles["default-scheduler"], world.snapshot)

    def fits(self, node: str) -> bool:
        return node in {each.name for each in self.report().nodes if each.is_feasible}

    def with_pod(self, **changes: object) -> "Cluster":
        return self._replace(pod={**self.pod, **changes})

    def without(self, pods: Iterable[str]) -> "Cluster":
        gone = set(pods)
        return self._replace(pods={name: p for name, p in self.pods.items() if name not in gone})


def _changes(cluster: Cluster, plugin: str) -> list[tuple[str, str, str, str]]:
    """Return the node, the text, and both ways of each change that only one plugin needs."""
    found = [
        (node.name, change.text, change.on_pod, change.on_nodes)
        for node in cluster.report().nearest
        for change in node.changes
        if len(node.changes) == 1 and change.plugin == plugin
    ]
    assert found
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_missing_amount_is_exact(seed: int) -> None:
    rng = random.Random(seed)
    resource = rng.choice(["cpu", "memory"])
    unit = "m" if resource == "cpu" else "Mi"
    offered = rng.randrange(2_000, 9_000)
    wanted = offered + rng.randrange(1, 90_000)
    nodes = {
        "n": {
            "allocatable": {"cpu": "1k", "memory": "1Ti", resource: f"{offered}{unit}", "pods": "9"}
        }
    }
    cluster = Cluster(nodes, {}, {"requests": {resource: f"{wanted}{unit}"}})
    ((node, text, on_pod, on_nodes),) = _changes(cluster, "NodeResourcesFit")
    match = re.fullmatch(rf"request (([\d.]+)(\w*)) less {resource}", on_pod)
    assert match is not None
    assert on_nodes == f"add {match[1]} {resource}"
    assert text == f"needs {match[1]} more {resource}"
    number, suffix = float(match[2]), match[3]
    # One unit of the last digit: 1m or 1 of cpu, a tenth of a Gi.
    step = 0.1 if "." in match[2] or (suffix == "Gi") else 1.0
    scale = 1000 if resource == "cpu" and not suffix else UNITS[suffix]
    base = 1 if resource == "cpu" else 1024**2
    for amount, fits in ((number, True), (number - step, False)):
        less = wanted * base - round(amount * scale)
        request = f"{less}m" if resource == "cpu" else str(less)
        assert cluster.with_pod(requests={resource: request}).fits(node) is fits


@pytest.mark.parametrize("seed", SEEDS)
def test_every_toleration_named_is_needed_and_all_suffice(seed: int) -> None:
    rng = random.Random(seed)
    taints = [
        {
            "key": f"k{i}",
            "value": rng.choice(["", "a"]),
            "effect": rng.choice(["NoSchedule", "NoExecute"]),
        }
        for i in range(rng.randrange(1, 4))
    ]
    cluster = Cluster({"n": {"taints": taints}}, {}, {})
    (node,) = cluster.report().nearest
    tolerations = []
    for change in node.changes:
        match = re.fullmatch(r"tolerate (\w+)(?:=(\w*))?:(\w+)", change.on_pod)
        assert match is not None
        assert change.on_nodes == f"remove the taint {change.on_pod.removeprefix('tolerate ')}"
        tolerations.append({"key": match[1], "value": match[2] or "", "effect": match[3]})
    assert cluster.with_pod(tolerations=tolerations).fits("n")
    for index in range(len(tolerations)):
        fewer = [*tolerations[:index], *tolerations[index + 1 :]]
        assert not cluster.with_pod(tolerations=fewer).fits("n")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_label_named_is_needed_and_all_suffice(seed: int) -> None:
    rng = random.Random(seed)
    selector = {f"k{i}": rng.choice("ab") for i in range(rng.randrange(1, 4))}
    cluster = Cluster({"n": {"labels": {"k0": "other"}}}, {}, {"node_selector": selector})
    (node,) = cluster.report().nearest
    texts = [change.on_nodes for change in node.changes]
    labels = dict(text.removeprefix("label ").split("=") for text in texts)
    for lacking in (None, *labels):
        given = {key: value for key, value in labels.items() if key != lacking}
        assert cluster._replace(nodes={"n": {"labels": given}}).fits("n") is (lacking is None)


def _spread(max_skew: int, **others: object) -> list[Objects]:
    selector = {"matchLabels": {"app": "x"}}
    common = {
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return [{"maxSkew": max_skew, **common, **others}]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_skew_and_the_pods_too_many_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    # The zone with the fewest pods is full, so that only the other zones could take the pod.
    counts = {"a": 0, "b": rng.randrange(2, 6), "c": rng.randrange(2, 6)}
    nodes: dict[str, Objects] = {zone: {"labels": {"zone": zone}} for zone in counts}
    nodes["a"]["unschedulable"] = True
    pods: dict[str, Objects] = {
        f"{zone}{i}": {"node_name": zone, "labels": {"app": "x"}}
        for zone, number in counts.items()
        for i in range(number)
    }
    new = {"labels": {"app": rng.choice(["x", "y"])}, "spread": _spread(1)}
    cluster = Cluster(nodes, pods, new)
    for node, text, on_pod, on_nodes in _changes(cluster, "PodTopologySpread"):
        assert text == f"zone={node} has {counts[node]} matching pods, minimum 0: maxSkew 1"
        skew = re.fullmatch(r"maxSkew (\d+) over zone", on_pod)
        moved = re.fullmatch(rf"move (\d+) of the (\d+) matching pods out of zone={node}", on_nodes)
        assert skew is not None
        assert moved is not None
        for less, fits in ((0, True), (1, False)):
            wider = cluster.with_pod(spread=_spread(int(skew[1]) - less))
            assert wider.fits(node) is fits
            gone = [f"{node}{i}" for i in range(int(moved[1]) - less)]
            assert cluster.without(gone).fits(node) is fits


def test_too_few_domains_are_named() -> None:
    nodes: dict[str, Objects] = {zone: {"labels": {"zone": zone}} for zone in "abc"}
    pods = {f"{z}{i}": {"node_name": z, "labels": {"app": "x"}} for z in "abc" for i in range(10)}
    new = {"labels": {"app": "x"}, "spread": _spread(1, minDomains=5)}
    texts = [text for _, text, _, _ in _changes(Cluster(nodes, pods, new), "PodTopologySpread")]
    assert texts[1] == "zone=b has 10 matching pods, minimum 0: minDomains 5 of 3"


def _anti(app: str) -> Objects:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("seed", SEEDS)
def test_all_blocking_pods_are_named_and_each_one_blocks(seed: int) -> None:
    rng = random.Random(seed)
    is_own = rng.random() < 0.5
    other = {"labels": {"app": "y"}} | ({} if is_own else {"affinity": _anti("x")})
    nodes = {f"{zone}{i}": {"labels": {"zone": zone}} for zone in "ab" for i in range(2)}
    pods = {
        f"p{i}": {"node_name": f"{zone}{rng.randrange(2)}", **other}
        for i, zone in enumerate("ab" + rng.choice("ab"))
    }
    new = {"labels": {"app": "x"}} | ({"affinity": _anti("y")} if is_own else {})
    cluster = Cluster(nodes, pods, new)
    for node, _, on_pod, on_nodes in _changes(cluster, "InterPodAffinity"):
        match = re.fullmatch(r"move (.*) out of zone=(\w)", on_nodes)
        assert match is not None
        assert on_pod == ("drop the anti-affinity over zone" if is_own else "")
        named = [name.removeprefix("default/") for name in match[1].split(", ")]
        assert cluster.without(named).fits(node)
        for name in named:
            assert not cluster.without(set(named) - {name}).fits(node)


def test_a_missing_partner_is_described() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = Cluster({"n": {"labels": {"zone": "a"}}, "bare": {}}, {}, {"affinity": affinity})
    by_node = {node: on_nodes for node, _, _, on_nodes in _changes(cluster, "InterPodAffinity")}
    assert by_node == {"n": "a pod with app=db in zone=a", "bare": "label zone"}
    partner = {"db": {"node_name": "n", "labels": {"app": "db"}}}
    assert cluster._replace(pods=partner).fits("n")


def _claim(**spec: object) -> PersistentVolumeClaim:
    metadata = {"name": "data", "namespace": "default", "uid": "c"}
    if "volumeName" in spec:
        metadata |= {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}  # type: ignore[dict-item]
    size = {"resources": {"requests": {"storage": "10Gi"}}}
    return convert({"metadata": metadata, "spec": {**size, **spec}}, PersistentVolumeClaim)


def _storage(claim: PersistentVolumeClaim, **objects: ApiObject) -> Cluster:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    others = {"persistentvolumeclaims": [claim]} | {key: [each] for key, each in objects.items()}
    nodes = {"n1": {"zone": "a"}, "n2": {"zone": "b", "unschedulable": True}}
    return Cluster(nodes, {}, {"volumes": [volume]}, others)


def _volume(zone: str, *, by_label: bool) -> PersistentVolume:
    key = "topology.kubernetes.io/zone"
    expression = {"key": key, "operator": "In", "values": [zone]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    metadata = {"name": "pv", "uid": "v", "labels": {key: zone} if by_label else {}}
    spec = {} if by_label else {"nodeAffinity": affinity}
    return convert({"metadata": metadata, "spec": spec}, PersistentVolume)


@pytest.mark.parametrize(
    ("by_label", "plugin", "text"),
    [
        (True, "VolumeZone", "volume pv is in zone b, the node is in a"),
        (
            False,
            "VolumeBinding",
            "volume pv of claim default/data is at topology.kubernetes.io/zone=b",
        ),
    ],
)
def test_a_volume_elsewhere_is_named_with_its_place(
    by_label: bool,
    plugin: str,
    text: str,
) -> None:
    claim = _claim(volumeName="pv")
    cluster = _storage(claim, persistentvolumes=_volume("b", by_label=by_label))
    assert ("n1", text, "", "") in _changes(cluster, plugin)
    there = _storage(claim, persistentvolumes=_volume("a", by_label=by_label))
    assert there.fits("n1")


def test_a_class_without_a_free_volume_is_named() -> None:
    fields = {
        "metadata": {"name": "fast"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster = _storage(
        _claim(storageClassName="fast"), storageclasses=convert(fields, StorageClass)
    )
    assert _changes(cluster, "VolumeBinding")[0][:2] == (
        "n1",
        "class fast has no free volume of 10Gi for claim default/data, and provisions none here",
    )
