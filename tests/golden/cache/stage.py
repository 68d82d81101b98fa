"""The commands of the cache's golden files, and how a cache answers them.

What happens:

    node n1 zone=a region=r cpu=4 label=k:v images=app:1/500,db:1/20    added, or updated if known
    remove-node n1
    assume p1 n1 cpu=1 ports=80,81       add p1 n1 ...       update p1 n1 ...
    forget p1 n1                         remove p1 [n1]

What can be seen: a call that is refused prints why; after each call the invariants are checked.

    show           nodes by name, ghosts too, and the pods on them (assumed ones with a ~)
    snapshot       bring the snapshot up to date, and print it: nodes in order, what they offer,
                   what their pods ask for, ports, images
    peek           print the snapshot as it is
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.api.core import Node
from scheduler.cache import Cache, CacheCorruptedError, CacheError
from scheduler.snapshot import NodeInfo, PodInfo, Snapshot
from scheduler.testing import make_node, make_pod


class Stage:
    """A cache and the one snapshot it fills."""

    def __init__(self) -> None:
        self._cache: Final = Cache()
        self._seen: Final = Snapshot()

    def run(self, command: str) -> str:
        """Carry out one command; returns what it prints."""
        verb, *words = command.split()
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        action = getattr(self, f"_{verb.replace('-', '_')}")
        try:
            printed: str | None = action(*names, **options)
        except CacheCorruptedError as refusal:
            printed = f"corrupted: {refusal}"
        except CacheError as refusal:
            printed = f"refused: {refusal}"
        self._cache.check()
        return printed or ""

    def _node(self, name: str, **options: str) -> None:
        known = name in self._cache.nodes
        act = self._cache.update_node if known else self._cache.add_node
        act(_node(name, **options))

    def _remove_node(self, name: str) -> None:
        self._cache.remove_node(self._cache.nodes.get(name) or make_node(name))

    def _assume(self, name: str, node: str, **options: str) -> None:
        self._cache.assume_pod(_pod(name, node, **options))

    def _add(self, name: str, node: str, **options: str) -> None:
        self._cache.add_pod(_pod(name, node, **options))

    def _update(self, name: str, node: str, **options: str) -> None:
        pod = _pod(name, node, **options)
        self._cache.update_pod(pod.pod, pod)

    def _forget(self, name: str, node: str) -> None:
        self._cache.forget_pod(_pod(name, node))

    def _remove(self, name: str, node: str = "") -> None:
        self._cache.remove_pod(_pod(name, node).pod)

    def _show(self) -> str:
        on_node: dict[str, list[str]] = {name: [] for name in self._cache.nodes}
        for pod in self._cache.pods.values():
            mark = "~" if self._cache.is_assumed_pod(pod.pod) else ""
            on_node.setdefault(pod.spec.node_name, []).append(mark + pod.name)
        lines = []
        for name, pods in sorted(on_node.items()):
            ghost = "" if name in self._cache.nodes else " (ghost)"
            lines.append(f"{name}{ghost}: {' '.join(sorted(pods)) or '-'}")
        nodes, pods_total, assumed = self._cache.statistics()
        return "\n".join([*lines, f"{nodes} nodes, {pods_total} pods, {assumed} assumed"])

    def _snapshot(self) -> str:
        self._cache.update_snapshot(self._seen)
        return self._peek()

    def _peek(self) -> str:
        nodes = self._seen.nodes
        lines = [", ".join(_facts(node)) for node in nodes]
        for name in sorted(self._seen.images.names()):
            image = nodes.image(name)
            assert image is not None
            rows = nodes.take(image.present).names
            lines.append(f"image {name}: {image.size_bytes} bytes on {' '.join(rows)}")
        return "\n".join(lines) or "empty"


def _facts(node: NodeInfo) -> Iterator[str]:
    yield f"{node.name}: cpu {node.requested.get('cpu', 0)} of {node.allocatable.get('cpu', 0)}"
    if node.pods:
        yield f"pods {' '.join(pod.name for pod in node.pods)}"
    if node.host_ports:
        yield f"ports {' '.join(str(port.port) for port in sorted(node.host_ports))}"
    labels = {k: v for k, v in node.labels.items() if not k.endswith("hostname")}
    if labels:
        yield " ".join(f"{key.split('/')[-1]}={value}" for key, value in sorted(labels.items()))


def _node(
    name: str,
    *,
    zone: str = "",
    region: str = "",
    cpu: str = "4",
    label: str = "",
    images: str = "",
) -> Node:
    labels = dict([label.split(":")]) if label else {}
    sizes = dict(image.rsplit("/", 1) for image in images.split(",")) if images else {}
    return make_node(
        name,
        zone=zone,
        region=region,
        allocatable={"cpu": cpu},
        labels=labels,
        images={image: int(size) for image, size in sizes.items()},
    )


def _pod(name: str, node: str, *, cpu: str = "1", ports: str = "") -> PodInfo:
    host_ports = [int(port) for port in ports.split(",")] if ports else []
    requests = {"cpu": cpu}
    return PodInfo(make_pod(name, node_name=node, requests=requests, host_ports=host_ports))
