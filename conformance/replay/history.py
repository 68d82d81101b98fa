"""A history: timed changes of a cluster's objects, which the replay makes anew.

    {"at":30.0,"change":"ADDED","resource":"pods","object":{...}}

One JSON document per line, in the order of time; `docs/histories.md` has the format. The scheduler
of the history is left out: a pod that gets a node on the way is created without a node. What a
server writes by itself is left out too. Fields that a server refuses are replaced: a priority
becomes a class, and a container without an image gets one. Of several pods of one name the first is
taken. The only error is `InputError`; its text is one line that names the file and the line.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from ..api import Json
from ..errors import InputError
from ..format.reading import name_in
from ..format.resources import objects, part

if TYPE_CHECKING:
    from pathlib import Path

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
#: The kinds whose status is not the server's own: nodes report it, and a controller.
_WITH_STATUS: Final = frozenset({"nodes", "poddisruptionbudgets.policy"})
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
    """A node, as it is created; the seconds are since the start of the history."""

    name: str
    object: Json
    created_seconds: float = 0.0


class HistoryPod(NamedTuple):
    """A pod, as it is created. `name_in` makes the `name`.

    Times are in seconds since the start of the history; `run_seconds` begin when the pod gets a
    node.
    """

    name: str
    object: Json
    created_seconds: float = 0.0
    ended_seconds: float | None = None
    run_seconds: float | None = None


class Write(NamedTuple):
    """A creation, a patch, or without a patch a deletion of an object.

    A patch is a JSON merge patch, of the status if `subresource` is `status`.
    """

    seconds: float
    object: Json
    is_creation: bool = False
    patch: Json | None = None
    subresource: str = ""


class History(NamedTuple):
    """The objects of a history, and what happens to them after their creation, in order.

    Nodes and pods need the `others`, which are in order. The ends of pods are no `writes`.
    """

    nodes: tuple[HistoryNode, ...]
    pods: tuple[HistoryPod, ...]
    others: tuple[Json, ...] = ()
    writes: tuple[Write, ...] = ()


class _Line(msgspec.Struct, frozen=True):
    at: float = 0.0
    change: Literal["", "ADDED", "MODIFIED", "DELETED"] = ""
    resource: str = ""
    object: Json = {}


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
        #: The last state of each object, by resource, namespace and name.
        self._states: Final[dict[tuple[str, str, str], Json]] = {}
        self._writes: Final[list[Write]] = []
        self._priorities: Final[dict[str, object]] = {}

    def add(self, line: _Line, *, limit: int | None) -> None:
        """Add a line. Raises ValueError for an object without a name or a kind."""
        if not line.change or line.resource in _LEFT_OUT:
            return
        metadata = part(line.object, "metadata")
        name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        if not name:
            raise ValueError("object.metadata.name: missing")
        key = (line.resource, namespace, name)
        if line.resource == "pods":
            self._add_pod(line, key, limit)
        elif line.change == "ADDED" and key not in self._states:
            created = self._states[key] = _created(line)
            if line.resource == "nodes":
                created = self._states[key] = _node(created)
                self.nodes[name] = HistoryNode(name, created, line.at)
            else:
                self._others[key] = created
        elif key in self._states:
            self._write(line, key, _node(_created(line)) if name in self.nodes else _created(line))

    def _add_pod(self, line: _Line, key: tuple[str, str, str], limit: int | None) -> None:
        name = name_in(key[1], key[2])
        pod = self.pods.get(name)
        phase = part(line.object, "status").get("phase")
        if pod is None:
            if line.change == "ADDED" and phase not in _ENDED and len(self.pods) != limit:
                run = part(part(line.object, "metadata"), "annotations").get(_RUN_SECONDS)
                run_seconds = None if run is None else float(str(run))
                created = self._states[key] = self._pod(line)
                self.pods[name] = HistoryPod(name, created, line.at, None, run_seconds)
        elif pod.ended_seconds is None:
            if line.change == "DELETED" or phase in _ENDED:
                self.pods[name] = pod._replace(ended_seconds=line.at)
            else:
                self._write(line, key, self._pod(line))

    def _write(self, line: _Line, key: tuple[str, str, str], state: Json) -> None:
        """Note the change of an object that exists, unless only the server has made it."""
        if line.change == "DELETED":
            del self._states[key]
            self._writes.append(Write(line.at, state))
            return
        before, self._states[key] = self._states[key], state
        patch = _merge_patch(before, state)
        status = patch.pop("status", None)
        part(patch, "spec").pop("nodeName", None)  # the decision of the history's scheduler
        if patch and patch != {"spec": {}}:
            self._writes.append(Write(line.at, state, patch=patch))
        if status is not None and line.resource in _WITH_STATUS:
            patch = {"status": status}
            self._writes.append(Write(line.at, state, patch=patch, subresource="status"))

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
        wanted = (
            obj
            for (resource, _, name), obj in self._others.items()
            if not (resource == "namespaces" and name in _OWN_NAMESPACES)
            and not name.startswith("system-")
        )
        # Namespaces and classes first: the other objects need them.
        first = sorted(wanted, key=lambda obj: obj["kind"] not in ("Namespace", "PriorityClass"))
        others = (*made, *first)
        return History((*self.nodes.values(),), (*self.pods.values(),), others, (*self._writes,))


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


def _merge_patch(before: Json, after: Json) -> Json:
    """Return the JSON merge patch from one state to another."""
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _merge_patch(old, value):
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch


def _without_nulls(obj: Json) -> Json:
    kept = ((name, value) for name, value in obj.items() if value is not None)
    return {n: _without_nulls(v) if isinstance(v, dict) else v for n, v in kept}


def _node(node: Json) -> Json:
    """Return a ready node, unless it has conditions of its own."""
    status = part(node, "status")
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    allocatable = part(status, "allocatable")
    told = objects(status.get("conditions"))
    # The times of heartbeats are left out: a node that only lives on does not change.
    conditions = [{k: c[k] for k in ("type", "status", "reason") if k in c} for c in told]
    kept = {"capacity": part(status, "capacity") or allocatable, "allocatable": allocatable}
    return {**node, "status": {**kept, "conditions": conditions or ready}}


def _made(api_version: str, kind: str, name: str) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
