"""After any history, cache and snapshot agree with the objects that exist.

A history is a list of numbers; each is one call, or a look at the snapshot. Calls that do not fit
the state must be refused and change nothing. The model is plain dictionaries of objects.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api import resources
from scheduler.api.core import Node
from scheduler.cache import Cache, CacheError
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.snapshot.nodes import zone_key
from scheduler.snapshot.pod_kind import PodKind
from scheduler.testing import make_node, make_pod
from tests.thoroughness import examples

GPU = "example.com/gpu"
RESOURCES = ("cpu", "memory", "pods", GPU)
ZONE = "topology.kubernetes.io/zone"
IMAGES = {"app:1": 500, "db:1": 20}
#: How many kinds of steps there are.
KINDS = 12
SETTINGS = settings(max_examples=examples(80))


def _node(number: int, variant: int) -> Node:
    """One of a few nodes, in one of some shapes."""
    return make_node(
        f"n{number}",
        zone=f"z{variant % 3}",
        labels={"disk": "ssd"} if variant & 4 else {},
        allocatable={"cpu": "4", GPU: "2"} if variant & 8 else {"cpu": "8", "pods": "9"},
        taints=[{"key": "k", "effect": "NoSchedule"}] if variant & 16 else [],
        unschedulable=bool(variant & 32),
        images={name: IMAGES[name] for name in ("app:1", "db:1")[: variant % 3]},
    )


def _pod(number: int, node: str, variant: int) -> PodInfo:
    requests = ({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, {GPU: "1"}, {})[variant % 4]
    ports = [80, 81][: variant % 3]
    labels = {"app": "ab"[variant % 2]}
    pod = make_pod(f"p{number}", node_name=node, requests=requests, host_ports=ports, labels=labels)
    return PodInfo(pod)


class CountsA(NamedTuple):
    """Counts the pods labelled `app=a`."""

    namespaces: None = None
    needs_affinity_terms: bool = False

    def __call__(self, kind: PodKind) -> int:
        """Return 1 for a pod that is counted."""
        return int(kind.labels["app"] == "a")


class History:
    """A cache, its snapshot, and their expected content."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.snapshot = Snapshot()
        self.nodes: dict[str, Node] = {}
        self.zones: dict[str, list[str]] = {}
        self.pods: dict[str, PodInfo] = {}
        self.assumed: set[str] = set()

    def step(self, number: int) -> None:
        """Make one call."""
        number, kind = divmod(number, KINDS)
        variant, which = divmod(number, 4)
        calls: tuple[Callable[[int, int], None], ...] = (
            self._set_node, self._set_node, self._remove_node, self._assume, self._add, self._add,
            self._update, self._remove, self._forget, self._look, self._look, self._look,
        )  # fmt: skip
        calls[kind](which, variant)
        self.cache.check()

    def _set_node(self, which: int, variant: int) -> None:
        node = _node(which, variant)
        name = node.metadata.name
        known = self.nodes.get(name)
        self.cache.add_node(node)
        if known is None or zone_key(known) != zone_key(node):
            self._leave_zone(known)
            self.zones.setdefault(zone_key(node), []).append(name)
        self.nodes[name] = node

    def _leave_zone(self, node: Node | None) -> None:
        if node is not None:
            names = self.zones[zone_key(node)]
            names.remove(node.metadata.name)
            if not names:
                del self.zones[zone_key(node)]

    def _remove_node(self, which: int, variant: int) -> None:
        node = _node(which, variant)
        known = self.nodes.pop(node.metadata.name, None)
        self._leave_zone(known)
        self._call(self.cache.remove_node, node, fits=known is not None)

    def _assume(self, which: int, variant: int) -> None:
        pod = _pod(which, f"n{variant % 4}", variant)
        if self._call(self.cache.assume_pod, pod, fits=pod.uid not in self.pods):
            self.pods[pod.uid] = pod
            self.assumed.add(pod.uid)

    def _add(self, which: int, variant: int) -> None:
        pod = _pod(which, f"n{variant % 4}", variant)
        fits = pod.uid not in self.pods or pod.uid in self.assumed
        if self._call(self.cache.add_pod, pod, fits=fits):
            self.pods[pod.uid] = pod
            self.assumed.discard(pod.uid)

    def _update(self, which: int, variant: int) -> None:
        pod = _pod(which, f"n{variant % 4}", variant)
        known = self.pods.get(pod.uid)
        fits = (
            known is not None
            and pod.uid not in self.assumed
            and known.spec.node_name == pod.spec.node_name
        )
        if self._call(self.cache.update_pod, pod.pod, pod, fits=fits):
            self.pods[pod.uid] = pod

    def _remove(self, which: int, variant: int) -> None:
        node = ("", "n0", "n1", "n2", "n3")[variant % 5]
        pod = _pod(which, node, variant)
        known = self.pods.get(pod.uid)
        fits = known is not None and node in ("", known.spec.node_name)
        if self._call(self.cache.remove_pod, pod.pod, fits=fits):
            del self.pods[pod.uid]
            self.assumed.discard(pod.uid)

    def _forget(self, which: int, variant: int) -> None:
        pod = _pod(which, f"n{variant % 4}", variant)
        known = self.pods.get(pod.uid)
        fits = known is None or (
            pod.uid in self.assumed and known.spec.node_name == pod.spec.node_name
        )
        if self._call(self.cache.forget_pod, pod, fits=fits):
            self.pods.pop(pod.uid, None)
            self.assumed.discard(pod.uid)

    def _look(self, which: int, variant: int) -> None:
        """Update the snapshot; compare it, which makes columns that it must then keep up to date.

        Not every time, lest columns be made only where there is nothing yet to keep up to date.
        """
        self.cache.update_snapshot(self.snapshot)
        self.snapshot.pod_index.check()
        if variant & 1:
            counts = self.snapshot.count_pods(CountsA()).tolist()
            assert dict(zip(self.snapshot.names, counts, strict=True)) == {
                name: sum(
                    pod.labels["app"] == "a"
                    for pod in self.pods.values()
                    if pod.spec.node_name == name
                )
                for name in self.nodes
            }
            assert seen(self.snapshot) == {name: self.expected(name) for name in self.nodes}

    def _call(self, method: Callable[..., None], *arguments: object, fits: bool) -> bool:
        if fits:
            method(*arguments)
        else:
            before = (self.cache.pods, self.cache.nodes, self.cache.statistics())
            with pytest.raises(CacheError):
                method(*arguments)
            assert (self.cache.pods, self.cache.nodes, self.cache.statistics()) == before
        return fits

    def expected(self, name: str) -> dict[str, Any]:
        """Return the state of a node for plugins, computed from its object and its pods' only."""
        node = self.nodes[name]
        pods = [pod for pod in self.pods.values() if pod.spec.node_name == name]
        offered = resources.node_allocatable(node.status.allocatable)
        return {
            "node": node,
            "zone": node.metadata.labels.get(ZONE),
            "disk": node.metadata.labels.get("disk"),
            "taints": node.spec.taints,
            "cordoned": node.spec.unschedulable,
            "offered": {resource: offered.get(resource, 0) for resource in RESOURCES},
            "requested": {r: sum(pod.requests[r] for pod in pods) for r in RESOURCES},
            "non-zero cpu": sum(pod.requests.non_zero_cpu for pod in pods),
            "non-zero memory": sum(pod.requests.non_zero_memory for pod in pods),
            "pods": {pod.uid: pod.pod for pod in pods},
            "pod count": len(pods),
            "ports": {port for pod in pods for port in pod.host_ports} or None,
            "images": {image.names[0] for image in node.status.images},
        }

    @property
    def order(self) -> list[str]:
        """The nodes' names, zones in turn."""
        turns = itertools.zip_longest(*self.zones.values())
        return [name for turn in turns for name in turn if name is not None]


def seen(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the state of each node that plugins see, read for all nodes at once."""
    nodes = snapshot.nodes
    images = {name: found for name in IMAGES if (found := nodes.image(name)) is not None}
    zones, disks, taints, ports = (
        nodes.labels(ZONE), nodes.labels("disk"), nodes.taints, nodes.host_ports,
    )  # fmt: skip
    return {
        node.name: {
            "node": node.node,
            "zone": zones[row],
            "disk": disks[row],
            "taints": taints[row],
            "cordoned": bool(nodes.unschedulable[row]),
            "offered": {resource: nodes.allocatable(resource)[row] for resource in RESOURCES},
            "requested": {resource: nodes.requested(resource)[row] for resource in RESOURCES},
            "non-zero cpu": nodes.non_zero_requested("cpu")[row],
            "non-zero memory": nodes.non_zero_requested("memory")[row],
            "pods": {pod.uid: pod.pod for pod in node.pods},
            "pod count": nodes.pod_count[row],
            "ports": ports[row],
            "images": {name for name, image in images.items() if image.present[row]},
        }
        for row, node in enumerate(nodes)
    }


@pytest.mark.slow
@SETTINGS
@given(st.lists(st.integers(0, KINDS * 4 * 64 - 1), min_size=20, max_size=60))
def test_after_any_history_cache_and_snapshot_agree_with_the_objects(numbers: list[int]) -> None:
    history = History()
    for number in numbers:
        history.step(number)
    cache, snapshot = history.cache, history.snapshot
    assert cache.nodes == history.nodes
    assert cache.pods == history.pods
    assumed = {uid for uid, pod in cache.pods.items() if cache.is_assumed_pod(pod.pod)}
    assert assumed == history.assumed
    history._look(0, 1)
    snapshot.table.check()
    assert set(snapshot.images.names()) == {
        image.names[0] for node in history.nodes.values() for image in node.status.images
    }
    # A node more, so that the order is worked out anew even if only zones have changed.
    cache.add_node(make_node("last", zone="z9"))
    cache.update_snapshot(snapshot)
    history.zones[zone_key(make_node(zone="z9"))] = ["last"]
    assert snapshot.names == history.order
