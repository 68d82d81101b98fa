"""The scenarios of a comparison as cases: case files, a cluster's objects, or a history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import yaml

from ..api import Json, ref_of
from ..errors import InputError
from ..format.case import Case
from ..format.objects import Item
from ..format.reading import node_of
from ..format.steps import Action, Advance, Create, Delete, Step
from ..format.validation import SAFE_LOADER
from ..replay.history import GAP_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ..replay.history import History, HistoryPod

#: Longer than the longest backoff of a pod (10 s), so that every pod is tried again.
_AFTERWARDS_SECONDS: Final = 15.0
#: Objects that a server makes itself, or that are of one run only.
_LEFT_OUT: Final = frozenset({"Event", "Lease", "Node", "Pod", "Namespace"})
_SYSTEM_NAMESPACES: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_SYSTEM_CLASSES: Final = "system-"


class Change(NamedTuple):
    """The creation or the end of a pod."""

    seconds: float
    is_creation: bool
    pod: HistoryPod


def case_of_snapshot(path: Path) -> Case:
    """Return a case with the objects of a file; pods without a node are created in its order.

    The file has API objects in YAML or JSON, as documents or Lists. Raises InputError.
    """
    objects = list(_objects_in(path))
    if not any(obj["kind"] == "Node" for obj in objects):
        raise InputError(f"{path}: no node in it")
    nodes = [obj for obj in objects if obj["kind"] == "Node"]
    pods = [obj for obj in objects if obj["kind"] == "Pod"]
    others = [obj for obj in objects if obj["kind"] not in _LEFT_OUT and not _is_system(obj)]
    names = {ref_of(obj).name for obj in objects if obj["kind"] == "Namespace"}
    namespaces = names | {ref_of(obj).namespace for obj in [*pods, *others]}
    cluster = [Item(namespace=name) for name in sorted(namespaces - _SYSTEM_NAMESPACES)]
    bound = [pod for pod in pods if node_of(pod)]
    waiting = [pod for pod in pods if not node_of(pod)]
    cluster += [Item(object=obj) for obj in [*others, *nodes, *bound]]
    return _case("snapshot", path.name, cluster, [_created(waiting)])


def case_of_history(history: History, name: str, *, with_times: bool = False) -> Case:
    """Return a case with a history's nodes, in which its pods are created one after another.

    With times they are also deleted, and time passes as in the history, `GAP_SECONDS_MAX` at once.
    """
    cluster = [Item(object=obj) for obj in history.others]
    cluster += [Item(object=node.object) for node in history.nodes]
    if with_times:
        return _case("history", name, cluster, _moments(history))
    return _case("history", name, cluster, [_created(pod.object for pod in history.pods)])


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


def _moments(history: History) -> Iterator[Action]:
    """Yield the steps of a history."""
    before = 0.0
    for change in changes_of(history):
        if change.seconds > before:
            yield Advance(seconds=min(change.seconds - before, GAP_SECONDS_MAX))
        before = change.seconds
        if change.is_creation:
            yield _created([change.pod.object])
        else:
            yield Delete(pod=change.pod.name)


def _created(pods: Iterable[Json]) -> Create:
    return Create(objects=[Item(object=pod) for pod in pods])


def _case(area: str, name: str, cluster: Iterable[Item], actions: Iterable[Action]) -> Case:
    all_actions = [*actions, Advance(seconds=_AFTERWARDS_SECONDS)]
    steps = tuple(Step(f"steps[{number}]", action) for number, action in enumerate(all_actions))
    return Case(name=name, area=area, source=name, origin=name, cluster=tuple(cluster), steps=steps)


def _objects_in(path: Path) -> Iterator[Json]:
    try:
        text = path.read_text(encoding="utf-8")
        documents = list(yaml.load_all(text, Loader=SAFE_LOADER))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    for document in documents:
        yield from _unfolded(document, path)


def _unfolded(document: object, path: Path) -> Iterator[Json]:
    """Yield the objects of a document: itself, or the items of a List."""
    if document is None:
        return
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected API objects, got {type(document).__name__}")
    items = document.get("items")
    if isinstance(items, list):
        for item in items:
            yield from _unfolded(item, path)
        return
    try:
        obj = msgspec.convert(document, Json)
        ref_of(obj)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: {error}") from error
    yield _as_created(obj)


def _as_created(obj: Json) -> Json:
    """Return an object without the fields that the server sets."""
    metadata = obj.get("metadata")
    kept = metadata if isinstance(metadata, dict) else {}
    dropped = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
    return {**obj, "metadata": {key: kept[key] for key in kept if key not in dropped}}


def _is_system(obj: Json) -> bool:
    return obj["kind"] == "PriorityClass" and ref_of(obj).name.startswith(_SYSTEM_CLASSES)
