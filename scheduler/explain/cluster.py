"""Nodes and pods to explain, from manifests or from an API server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import yaml

from scheduler.api.core import Node, Pod
from scheduler.client import NODES, PODS, ApiObject, NotFound, RestClient, connect
from scheduler.client.kinds import KINDS, KINDS_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scheduler.clock import Clock

#: Pods that are over take no room.
_OVER = ("Succeeded", "Failed")


class ClusterError(ValueError):
    """Something that is no cluster; the text names the place and what is wrong."""


class Cluster(NamedTuple):
    """What the decisions depend on; `others` are the objects of further kinds, by plural."""

    nodes: list[Node]
    pods: list[Pod]
    others: dict[str, list[ApiObject]]


async def read_api_server(kubeconfig: str, master: str, clock: Clock) -> Cluster:
    """All nodes and pods of an API server, read once; raises the client's errors."""
    connection = connect(kubeconfig=kubeconfig, master=master, clock=clock)
    async with RestClient(connection, clock=clock, user_agent="kubesched-explain") as client:
        nodes = await client.list_all(NODES)
        pods = await client.list_all(PODS)
        others: dict[str, list[ApiObject]] = {}
        for plural, resource in KINDS.items():
            if resource not in (NODES, PODS):
                # A kind that the server does not know has no objects.
                with contextlib.suppress(NotFound):
                    others[plural] = list((await client.list_all(resource)).items)
    running = [pod for pod in pods.items if pod.status.phase not in _OVER]
    return Cluster(list(nodes.items), running, others)


def read_manifests(paths: Iterable[Path]) -> Cluster:
    """What is in some manifests, kinds left out that no decision depends on.

    Raises `ClusterError` or `OSError`.
    """
    cluster = Cluster([], [], {})
    for path in paths:
        for place, document in _documents(path):
            kind = document.get("kind")
            try:
                if kind == "Node":
                    cluster.nodes.append(msgspec.convert(document, Node))
                elif kind == "Pod":
                    cluster.pods.append(_named(msgspec.convert(document, Pod)))
                elif (resource := KINDS_BY_NAME.get(str(kind))) is not None:
                    decoded: ApiObject = msgspec.convert(document, resource.type)
                    cluster.others.setdefault(resource.plural, []).append(decoded)
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
