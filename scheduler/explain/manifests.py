"""Read a cluster from YAML or JSON manifests, as strictly as an API server.

`fields.json` has all fields of every kind that the scheduler reads, also the fields that it skips;
`tests/explain/manifest_fields.py` writes this file from Kubernetes' OpenAPI document.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Struct
from scheduler.api.unstructured import Unstructured
from scheduler.client import NODES, PODS, object_key
from scheduler.client.kinds import (
    KINDS_BY_NAME,
    WORKLOADS,
    GroupVersionResource,
    Resource,
    read_versions,
)
from scheduler.collector import paused_collection
from scheduler.explain.cluster import (
    ENDED,
    Cluster,
    ClusterError,
    with_api_defaults,
    with_node_defaults,
)
from scheduler.explain.yaml_reader import YamlError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from scheduler.api.core import Pod
    from scheduler.client import ApiObject

_STANDARD_INPUT: Final = Path("-")
_FIELDS: Final = Path(__file__).with_name("fields.json")
_DNS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_MAX: Final = 253
_SUGGESTION_CUTOFF: Final = 0.7


class Document(NamedTuple):
    """An object of a file; `number` counts the documents, `item` the items of a List, from 1.

    `within` is the object whose template this document is, with the path of the template.
    """

    path: Path
    number: int
    item: int
    value: Mapping[str, Any]
    within: str = ""

    @property
    def place(self) -> str:
        item = f", item {self.item}" if self.item else ""
        return f"{self.path}, document {self.number}{item}"

    @property
    def name(self) -> str:
        """The name of the object; empty if there is none."""
        metadata = self.value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def namespace(self) -> str:
        """The namespace of the object, `default` without one."""
        metadata = self.value.get("metadata")
        namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
        return namespace if isinstance(namespace, str) and namespace else "default"

    @property
    def title(self) -> str:
        """The kind and the name, as far as there are any."""
        kind = self.value.get("kind")
        return " ".join(filter(None, (kind if isinstance(kind, str) else "", self.name)))

    def error(self, text: str) -> ClusterError:
        """Return an error that names the place, the object and the mistake."""
        title = self.within or self.title
        return ClusterError(": ".join(part for part in (self.place, title, text) if part))


class Manifests(NamedTuple):
    """The cluster of some files, and the numbers of objects without influence, by file and kind."""

    cluster: Cluster
    ignored: Mapping[Path, Counter[str]]


def read_manifests(
    paths: Iterable[Path],
    kinds: Collection[GroupVersionResource] = (),
    *,
    keeps_json: bool = False,
    expand: Callable[[Document], Iterable[Document]] | None = None,
    known: Cluster | None = None,
) -> Manifests:
    """Read manifests, with the objects of further `kinds` that plugins read.

    With `keeps_json` nodes and pods keep their JSON, for extenders. Pods that have ended are left
    out: they occupy nothing. `expand` returns the documents in the place of a document. `known`
    has the nodes and the priority classes that pods may name beside those of the manifests. Raises
    `ClusterError`, which names file, document and field, or `OSError`.
    """
    reading = _Reading(kinds, keeps_json=keeps_json, known=known)
    with paused_collection():
        for path in paths:
            for document in _documents(path):
                for each in (document,) if expand is None else expand(document):
                    reading.add(each)
    return reading.result()


class _Reading:
    """Collects objects, and checks them against each other."""

    def __init__(
        self,
        kinds: Collection[GroupVersionResource],
        *,
        keeps_json: bool,
        known: Cluster | None = None,
    ) -> None:
        self._kinds: Final = kinds
        self._known: Final = known or Cluster([], [], {})
        self._keeps_json: Final = keeps_json
        self._objects: Final[dict[str, list[Any]]] = {NODES.plural: [], PODS.plural: []}
        self._ignored: Final[dict[Path, Counter[str]]] = {}
        self._documents: Final[dict[tuple[str, str], Document]] = {}

    def add(self, document: Document) -> None:
        resource = _resource(document)
        if resource is None and (name := _api_name(document)) in self._kinds:
            self._objects.setdefault(name.key, []).append(_unstructured(document))
            return
        if resource is None:
            counts = self._ignored.setdefault(document.path, Counter())
            counts[str(document.value["kind"])] += 1
            return
        check_fields(document)
        try:
            decoded: ApiObject = msgspec.convert(document.value, resource.type)
        except msgspec.ValidationError as error:
            raise document.error(_readable(error)) from error
        if self._keeps_json and resource in (NODES, PODS):
            whole = {k: v for k, v in document.value.items() if k not in ("kind", "apiVersion")}
            decoded = replace(decoded, json=msgspec.json.encode(whole))  # type: ignore[type-var]
        _check_name(document, decoded.metadata.name)
        decoded = _completed(decoded, resource)
        key = (resource.kind, object_key(decoded))
        if (earlier := self._documents.setdefault(key, document)) is not document:
            raise document.error(f"is there already: {earlier.place}")
        self._objects.setdefault(resource.plural, []).append(decoded)

    def result(self) -> Manifests:
        objects = dict(self._objects)
        nodes = [with_node_defaults(node) for node in objects.pop(NODES.plural)]
        pods: list[Pod] = objects.pop(PODS.plural)
        classes = objects.get(PRIORITY_CLASSES.plural, [])
        known: list[Any] = self._known.others.get(PRIORITY_CLASSES.plural, [])
        priorities = _Priorities([*known, *classes])
        names = {node.metadata.name for node in (*self._known.nodes, *nodes)}
        running = []
        for pod in pods:
            if pod.status.phase in ENDED:
                continue
            document = self._documents[PODS.kind, pod.key]
            if pod.spec.node_name and pod.spec.node_name not in names:
                raise document.error(f'spec.nodeName: there is no node "{pod.spec.node_name}"')
            running.append(with_api_defaults(priorities.fill_in(pod, document)))
        return Manifests(Cluster(nodes, running, objects), self._ignored)


class _PriorityClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


#: No decision depends on priority classes: an API server fills in the priorities of pods.
PRIORITY_CLASSES: Final = Resource(
    *("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", _PriorityClass),
    namespaced=False,
)
_KINDS: Final[Mapping[str, Resource[Any]]] = {
    **KINDS_BY_NAME,
    PRIORITY_CLASSES.kind: PRIORITY_CLASSES,
}
#: The classes that every cluster has.
_SYSTEM_CLASSES: Final = (
    _PriorityClass(ObjectMeta(name="system-cluster-critical"), value=2_000_000_000),
    _PriorityClass(ObjectMeta(name="system-node-critical"), value=2_000_001_000),
)


class _Priorities:
    """Fills in the priorities of pods, as the admission plugin `Priority` does."""

    def __init__(self, classes: Iterable[_PriorityClass]) -> None:
        self._by_name: Final = {c.metadata.name: c for c in (*_SYSTEM_CLASSES, *classes)}
        defaults = (c for c in self._by_name.values() if c.global_default)
        self._default: Final = min(defaults, key=lambda c: c.value, default=None)

    def fill_in(self, pod: Pod, document: Document) -> Pod:
        """Return the pod with a priority; raises `ClusterError` for an unknown class."""
        if pod.spec.priority is not None:
            return pod
        name = (document.value.get("spec") or {}).get("priorityClassName")
        chosen = self._by_name.get(name) if name else self._default
        if chosen is None:
            if not name:
                return pod
            raise document.error(f"spec: no PriorityClass with name {name} was found")
        policy = pod.spec.preemption_policy or chosen.preemption_policy
        spec = replace(pod.spec, priority=chosen.value, preemption_policy=policy)
        return replace(pod, spec=spec)


def _documents(path: Path) -> Iterator[Document]:
    """Yield each object in a file, and each item of a List."""
    raw = sys.stdin.buffer.read() if path == _STANDARD_INPUT else path.read_bytes()
    read = _read_json if raw.lstrip()[:1] in (b"{", b"[") else read_yaml
    try:
        for number, value in enumerate(read(raw), 1):
            if value is not None:
                yield from _flattened(path, number, value)
    except (YamlError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClusterError(f"{path}: {error}") from error


def _flattened(path: Path, number: int, value: object) -> Iterator[Document]:
    if not isinstance(value, dict):
        what = type(value).__name__
        raise ClusterError(f"{path}, document {number}: expected an object, got {what}")
    document = Document(path, number, 0, value)
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        raise document.error("kind: expected the name of a kind")
    if not kind.endswith("List") or not isinstance(value.get("items"), (list, type(None))):
        yield document
        return
    # The items of a typed list, as an API server sends it, have no kind.
    common = {} if kind == "List" else {"kind": kind.removesuffix("List")}
    for position, item in enumerate(value.get("items") or [], 1):
        if not isinstance(item, dict):
            raise document.error(f"items[{position - 1}]: expected an object")
        found = Document(path, number, position, {**common, **item} if common else item)
        if not isinstance(found.value.get("kind"), str):
            raise found.error("kind: expected the name of a kind")
        yield found


def _read_json(raw: bytes) -> Iterator[object]:
    """Yield the values of a stream of JSON; YAML that begins like JSON is read as YAML."""
    text, position = raw.decode(), 0
    decoder = json.JSONDecoder(object_pairs_hook=_unrepeated)
    end = len(text.rstrip())
    try:
        values = []
        while position < end:
            position += len(text[position:end]) - len(text[position:end].lstrip())
            value, position = decoder.raw_decode(text, position)
            values.append(value)
    except json.JSONDecodeError as error:
        with contextlib.suppress(YamlError):
            values = list(read_yaml(raw))
            yield from values
            return
        raise error
    yield from values


def _unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(
            key for key, number in Counter(key for key, _ in pairs).items() if number > 1
        )
        raise YamlError(f"the key {repeated!r} is there twice in one object")
    return found


def _resource(document: Document) -> Resource[Any] | None:
    """Return the kind of a document; None for a kind that no decision depends on.

    A missing apiVersion is accepted: the kind alone is unambiguous here. Workloads are read in the
    version of 1.35 only; in later ones only controllers read them.
    """
    resource = _KINDS.get(str(document.value["kind"]))
    version = document.value.get("apiVersion", "")
    if resource is None or not version or version in read_versions(resource):
        return resource
    if str(version).rpartition("/")[0] != resource.group or resource is WORKLOADS:
        return None
    raise document.error(f'apiVersion: expected "{resource.api_version}", got "{version}"')


def _api_name(document: Document) -> GroupVersionResource:
    """Return the name of a kind without a type of ours; the plural is guessed from the kind.

    Source: `UnsafeGuessKindToResource` in apimachinery.
    """
    group, _, version = str(document.value.get("apiVersion", "")).rpartition("/")
    singular = str(document.value["kind"]).lower()
    if singular.endswith("y"):
        plural = f"{singular[:-1]}ies"
    else:
        plural = f"{singular}{'es' if singular.endswith('s') else 's'}"
    return GroupVersionResource(group, version, plural)


def _unstructured(document: Document) -> Unstructured:
    """Return the object; one of the core group without a namespace is in `default`."""
    fields = dict(document.value)
    if "/" not in str(fields.get("apiVersion", "")):
        fields["metadata"] = {"namespace": "default", **(fields.get("metadata") or {})}
    try:
        found = Unstructured(fields)
    except msgspec.ValidationError as error:
        raise document.error(f"metadata: {_readable(error)}") from error
    _check_name(document, found.metadata.name)
    return found


def _readable(error: msgspec.ValidationError) -> str:
    """Return the text of an error, with a hint for a text that YAML reads as something else."""
    text = str(error)
    is_unquoted = re.match(r"Expected `str(ing)?`, got `(bool|int|float)`", text) is not None
    return f"{text}: quote it, as YAML reads it as another type" if is_unquoted else text


def _check_name(document: Document, name: str) -> None:
    if not name:
        raise document.error("metadata.name: expected a name")
    if len(name) > _NAME_MAX or not _DNS_NAME.fullmatch(name):
        raise document.error(
            f'metadata.name: "{name}": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character"
        )


def _completed(decoded: ApiObject, resource: Resource[Any]) -> ApiObject:
    """Fill in the namespace and the uid, which the cache needs."""
    metadata = decoded.metadata
    namespace = (metadata.namespace or "default") if resource.namespaced else ""
    if metadata.uid and metadata.namespace == namespace:
        return decoded
    uid = metadata.uid or f"{namespace}/{metadata.name}"
    completed: ApiObject = replace(
        decoded,  # type: ignore[type-var]
        metadata=replace(metadata, namespace=namespace, uid=uid),
    )
    return completed


class _Fields(msgspec.Struct, frozen=True):
    """The types of the kinds, and the fields of each type with the types of their values."""

    kinds: dict[str, str]
    types: dict[str, dict[str, str]]


@functools.cache
def _fields() -> _Fields:
    return msgspec.json.decode(_FIELDS.read_bytes(), type=_Fields)


def check_fields(document: Document) -> None:
    """Raise `ClusterError` for an unknown field of an object."""
    fields = _fields()
    value = document.value
    found = _unknown_field(fields.types, value, fields.kinds[value["kind"]])
    if found is None:
        return
    path, known = found
    name = path.rpartition(".")[2]
    close = difflib.get_close_matches(name, known, n=1, cutoff=_SUGGESTION_CUTOFF)
    suggestion = f'; did you mean "{close[0]}"?' if close else ""
    raise document.error(f'unknown field "{path}"{suggestion}')


def _unknown_field(
    types: Mapping[str, Mapping[str, str]], value: Mapping[str, Any], type_name: str
) -> tuple[str, Iterable[str]] | None:
    """Return the path of the first unknown field, and the fields that are known there."""
    fields = types[type_name]
    for name, item in value.items():
        kind = fields.get(name)
        if kind is None:
            return name, fields
        if not kind or not item:
            continue
        for step, part, part_type in _parts(item, kind):
            found = _unknown_field(types, part, part_type)
            if found is not None:
                return f"{name}{step}.{found[0]}", found[1]
    return None


def _parts(item: object, kind: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the objects in a value, with their step of the path and their type."""
    if kind[0] == "[":
        if kind != "[]" and isinstance(item, list):
            for index, element in enumerate(item):
                if isinstance(element, dict):
                    yield f"[{index}]", element, kind[2:]
    elif kind[0] == "{":
        if kind != "{}" and isinstance(item, dict):
            for key, element in item.items():
                if isinstance(element, dict):
                    yield f"[{key}]", element, kind[2:]
    elif isinstance(item, dict):
        yield "", item, kind
