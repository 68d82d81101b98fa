"""Nodes and pods to explain, from manifests or from an API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import yaml

from scheduler.api.core import Node, Pod
from scheduler.client import NODES, PODS, RestClient, connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scheduler.clock import Clock

__all__ = ["Cluster", "ClusterError", "read_api_server", "read_manifests"]

#: Pods that are over take no room.
_OVER = ("Succeeded", "Failed")


class ClusterError(ValueError):
    """Something that is no cluster; the text names the place and what is wrong."""


class Cluster(NamedTuple):
    """What the decisions depend on."""

    nodes: list[Node]
    pods: list[Pod]


async def read_api_server(kubeconfig: str, master: str, clock: Clock) -> Cluster:
    """All nodes and pods of an API server, read once; raises the client's errors."""
    connection = connect(kubeconfig=kubeconfig, master=master, clock=clock)
    async with RestClient(connection, clock=clock, user_agent="kubesched-explain") as client:
        nodes = await client.list_all(NODES)
        pods = await client.list_all(PODS)
    return Cluster(list(nodes.items), [pod for pod in pods.items if pod.status.phase not in _OVER])


def read_manifests(paths: Iterable[Path]) -> Cluster:
    """The nodes and pods among some manifests, other kinds left out.

    Raises `ClusterError` or `OSError`.
    """
    cluster = Cluster([], [])
    for path in paths:
        for place, document in _documents(path):
            kind = document.get("kind")
            try:
                if kind == "Node":
                    cluster.nodes.append(msgspec.convert(document, Node))
                elif kind == "Pod":
                    cluster.pods.append(_named(msgspec.convert(document, Pod)))
            except msgspec.ValidationError as error:
                raise ClusterError(f"{place}: {kind}: {error}") from error
    return cluster


def _documents(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Every object in a file, lists taken apart, with its place for error texts."""
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise ClusterError(f"{path}: {error}") from error
    except yaml.YAMLError as error:
        raise ClusterError(f"{path}: {' '.join(str(error).split())}") from error
    for number, document in enumerate(documents, 1):
        place = f"{path}, document {number}"
        if document is None:
            continue
        if not isinstance(document, dict):
            raise ClusterError(f"{place}: expected an object, got {type(document).__name__}")
        items = document.get("items") if str(document.get("kind")).endswith("List") else [document]
        for item in items or []:
            if not isinstance(item, dict):
                raise ClusterError(f"{place}: items: expected objects")
            yield place, item


def _named(pod: Pod) -> Pod:
    """A pod from a file has no uid, and maybe no namespace; the cache wants both."""
    metadata = pod.metadata
    namespace = metadata.namespace or "default"
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            metadata, namespace=namespace, uid=metadata.uid or f"{namespace}/{metadata.name}"
        ),
    )
