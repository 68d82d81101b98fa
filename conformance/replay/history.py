"""A history: timed changes of a cluster's objects, of which the replay creates the objects anew.

    {"at":30.0,"change":"ADDED","resource":"pods","object":{...}}

One JSON document per line, in the order of time; `docs/histories.md` has the format. The scheduler
of the history is left out: a pod that gets a node on the way is created without a node. What a
server writes by itself is left out too. Fields that a server refuses are replaced: a priority
becomes a class, and a container without an image gets one. Of several pods of one name the first is
taken. Changes of objects that exist are not carried out. The only error is `InputError`; its text
is one line that names the file and the line.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from ..api import Json
from ..errors import InputError
from ..format.resources import objects, part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "GAP_SECONDS_MAX",
    "Change",
    "History",
    "HistoryNode",
    "HistoryPod",
    "Json",
    "changes_of",
    "created_objects",
    "key_of",
    "read_history",
]

#: A longer gap of a history is cut: nothing happens after the longest backoff of a pod (10 s).
GAP_SECONDS_MAX: Final = 30.0
_RUN_SECONDS: Final = "kubesched.dev/run-seconds"
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_OWN_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
#: Other metadata is the server's.
_METADATA: Final = ("name", "namespace", "labels", "annotations", "ownerReferences")
#: Objects that a server makes itself, or that belong to one run.
_LEFT_OUT: Final = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
#: The items of a list have neither version nor kind.
_KINDS: Final = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "namespaces": ("v1", "Namespace"),
    "services": ("v1", "Service"),
    "persistentvolumes": ("v1", "PersistentVolume"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "replicationcontrollers": ("v1", "ReplicationController"),
    "replicasets.apps": ("apps/v1", "ReplicaSet"),
    "statefulsets.apps": ("apps/v1", "StatefulSet"),
    "poddisruptionbudgets.policy": ("policy/v1", "PodDisruptionBudget"),
    "priorityclasses.scheduling.k8s.io": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageclasses.storage.k8s.io": ("storage.k8s.io/v1", "StorageClass"),
    "csinodes.storage.k8s.io": ("storage.k8s.io/v1", "CSINode"),
    "csidrivers.storage.k8s.io": ("storage.k8s.io/v1", "CSIDriver"),
}


class HistoryNode(NamedTuple):
    """A node, as it is created."""

    name: str
    object: Json


class HistoryPod(NamedTuple):
    """A pod, as it is created. `key_of` makes the `name`.

    Times are in seconds since the start of the history; `run_seconds` begin when the pod gets a
    node.
    """

    name: str
    object: Json
    created_seconds: float = 0.0
    ended_seconds: float | None = None
    run_seconds: float | None = None


class History(NamedTuple):
    """The objects of a history; nodes and pods need the `others`, which are in order."""

    nodes: tuple[HistoryNode, ...]
    pods: tuple[HistoryPod, ...]
    others: tuple[Json, ...] = ()


class Change(NamedTuple):
    """The creation or the end of a pod."""

    seconds: float
    is_creation: bool
    pod: HistoryPod


class _Line(msgspec.Struct, frozen=True):
    at: float = 0.0
    change: Literal["", "ADDED", "MODIFIED", "DELETED"] = ""
    resource: str = ""
    object: Json = {}


def key_of(name: str, namespace: str) -> str:
    """Return the name of a pod for people: with its namespace, unless that is `default`."""
    return name if namespace in ("", "default") else f"{namespace}/{name}"


def changes_of(history: History) -> list[Change]:
    """Return creations and ends up to the last creation.

    Ends of a moment come first, except for a pod that is created and ends in one moment. A pod with
    `run_seconds` counts as if it had got its node at once.
    """
    created = [Change(pod.created_seconds, True, pod) for pod in history.pods]
    ended = [Change(end, False, pod) for pod in history.pods if (end := _end(pod)) is not None]
    last = max((change.seconds for change in created), default=0.0)
    brief = {pod.name for pod in history.pods if pod.created_seconds == _end(pod)}
    return sorted(
        (change for change in created + ended if change.seconds <= last),
        key=lambda change: (
            change.seconds,
            change.is_creation or change.pod.name in brief,
            not change.is_creation,
        ),
    )


def _end(pod: HistoryPod) -> float | None:
    if pod.ended_seconds is None and pod.run_seconds is not None:
        return pod.created_seconds + pod.run_seconds
    return pod.ended_seconds


def read_history(path: Path, *, limit: int | None = None) -> History:
    """Read a history with its first `limit` pods. Raises InputError."""
    reader = _Reader()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    reader.add(msgspec.json.decode(text, type=_Line), limit=limit)
                except (msgspec.MsgspecError, ValueError) as error:
                    raise InputError(f"{path}:{number}: {error}") from error
    except (OSError, EOFError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not reader.nodes or not reader.pods:
        raise InputError(f"{path}: expected lines that add nodes and pods")
    return reader.history()


class _Reader:
    """Collects the objects of a history."""

    def __init__(self) -> None:
        self.nodes: Final[dict[str, HistoryNode]] = {}
        self.pods: Final[dict[str, HistoryPod]] = {}
        self._others: Final[dict[tuple[str, str, str], Json]] = {}
        self._priorities: Final[dict[str, object]] = {}

    def add(self, line: _Line, *, limit: int | None) -> None:
        """Add a line. Raises ValueError for an object without a name or a kind."""
        if not line.change or line.resource in _LEFT_OUT:
            return
        metadata = part(line.object, "metadata")
        name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        if not name:
            raise ValueError("object.metadata.name: missing")
        if line.resource == "pods":
            self._add_pod(line, key_of(name, namespace), limit)
        elif line.change == "ADDED" and line.resource == "nodes":
            self.nodes.setdefault(name, HistoryNode(name, _node(_created(line))))
        elif line.change == "ADDED":
            self._others.setdefault((line.resource, namespace, name), _created(line))

    def _add_pod(self, line: _Line, key: str, limit: int | None) -> None:
        pod = self.pods.get(key)
        phase = part(line.object, "status").get("phase")
        if pod is None:
            if line.change == "ADDED" and phase not in _ENDED and len(self.pods) != limit:
                run = part(part(line.object, "metadata"), "annotations").get(_RUN_SECONDS)
                run_seconds = None if run is None else float(str(run))
                self.pods[key] = HistoryPod(key, self._pod(line), line.at, None, run_seconds)
        elif pod.ended_seconds is None and (line.change == "DELETED" or phase in _ENDED):
            self.pods[key] = pod._replace(ended_seconds=line.at)

    def _pod(self, line: _Line) -> Json:
        pod = _created(line)
        spec = pod["spec"] = dict(part(pod, "spec"))
        pod.pop("status", None)
        containers = [{"image": _IMAGE, **each} for each in objects(spec.get("containers"))]
        spec["containers"] = containers
        priority = spec.pop("priority", None)
        if priority:
            name = str(spec.setdefault("priorityClassName", f"priority-{priority}"))
            self._priorities.setdefault(name, priority)
        return pod

    def history(self) -> History:
        """Return the objects, with the namespaces and priority classes that they need."""
        used = {str(part(pod.object, "metadata").get("namespace")) for pod in self.pods.values()}
        named = {(resource, name): obj for (resource, _, name), obj in self._others.items()}
        made = [
            _made("v1", "Namespace", name)
            for name in sorted(used - _OWN_NAMESPACES)
            if ("namespaces", name) not in named
        ]
        made += [
            {**_made("scheduling.k8s.io/v1", "PriorityClass", name), "value": value}
            for name, value in self._priorities.items()
            if ("priorityclasses.scheduling.k8s.io", name) not in named
            and not name.startswith("system-")
        ]
        others = (
            obj
            for (resource, _, name), obj in self._others.items()
            if not (resource == "namespaces" and name in _OWN_NAMESPACES)
            and not name.startswith("system-")
        )
        # Namespaces and classes first: the other objects need them.
        first = sorted(others, key=lambda obj: obj["kind"] not in ("Namespace", "PriorityClass"))
        return History((*self.nodes.values(),), (*self.pods.values(),), (*made, *first))


def _created(line: _Line) -> Json:
    """Return an object without what the server writes. Raises ValueError without a kind."""
    obj = _without_nulls(line.object)
    if "apiVersion" not in obj or "kind" not in obj:
        if line.resource not in _KINDS:
            raise ValueError(f"object.kind: missing for {line.resource!r}")
        obj["apiVersion"], obj["kind"] = _KINDS[line.resource]
    metadata = part(obj, "metadata")
    kept = {name: metadata[name] for name in _METADATA if name in metadata}
    if line.resource == "pods":
        kept.setdefault("namespace", "default")
    return {**obj, "metadata": kept}


def _without_nulls(obj: Json) -> Json:
    return dict(_items(obj))


def _items(obj: Json) -> Iterator[tuple[str, object]]:
    for name, value in obj.items():
        if value is not None:
            yield name, _without_nulls(value) if isinstance(value, dict) else value


def _node(node: Json) -> Json:
    """Return a ready node, unless it has conditions of its own."""
    status = part(node, "status")
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    allocatable = part(status, "allocatable")
    kept = {"capacity": part(status, "capacity") or allocatable, "allocatable": allocatable}
    return {**node, "status": {**kept, "conditions": status.get("conditions") or ready}}


def _made(api_version: str, kind: str, name: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def created_objects(history: History) -> Iterator[Json]:
    """Return all objects in the order in which a server takes them."""
    yield from history.others
    yield from (node.object for node in history.nodes)
    yield from (pod.object for pod in history.pods)
