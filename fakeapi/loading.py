"""Manifests into the store: files, directories, Lists and the output of `kubectl get -o yaml`.

    LoadError        a file that cannot be read, or a manifest that is refused; `str()` is one line
                     that names the file, the number of the document in it, and the field

Fields that the server sets are taken out first. Namespaces come before all else, then priority
classes, so that the order of the files does not matter; a namespace that objects are in and nobody
defines is created. A status in a manifest is stored, too: a dump of a cluster keeps its state.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import bodies, registry
from .errors import ApiError
from .objects import Json, child, mapping, metadata_of, name_of, text
from .options import WriteOptions
from .registry import Registry, Target
from .schema import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .kinds import Kind

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
)
_FIRST: Final = {"Namespace": 0, "PriorityClass": 1}
_DEFINITION: Final = "CustomResourceDefinition"
_ALL_OTHERS: Final = 2
_OPTIONS: Final = WriteOptions(field_validation="Strict")
_MANAGER: Final = "kubesched-fakeapi"


class LoadError(Exception):
    """A manifest cannot be loaded; the message is one line for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """One object to load and where it comes from, for messages."""

    value: Json
    origin: str


def read_manifests(path: Path) -> list[Manifest]:
    """The objects in a file, or in all manifests below a directory. Raises LoadError."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
        return [manifest for file in files for manifest in read_manifests(file)]
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror or error}") from error
    try:
        documents = bodies.load_yaml_documents(raw)  # JSON is YAML
    except ValueError as error:
        raise LoadError(f"{path}: {error}") from error
    return [
        manifest
        for number, document in enumerate(documents, 1)
        if document is not None
        for manifest in _flattened(document, f"{path}: document {number}")
    ]


def _flattened(document: object, origin: str) -> Iterator[Manifest]:
    """A document as single objects; a List of any kind is taken apart."""
    if not isinstance(document, dict):
        raise LoadError(f"{origin}: expected an object with kind and apiVersion")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        version = document.get("apiVersion")
        for index, item in enumerate(mapping_items(document, origin)):
            # Items of a typed list, as the API sends it, do not say what they are.
            typed = {"kind": kind.removesuffix("List"), "apiVersion": version, **item}
            yield from _flattened(item if kind == "List" else typed, f"{origin}: items[{index}]")
        return
    yield Manifest(document, origin)


def mapping_items(document: Json, origin: str) -> list[Json]:
    """The items of a List, all of which must be objects. Raises LoadError."""
    items = document["items"]
    assert isinstance(items, list)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise LoadError(f"{origin}: items[{index}]: expected an object")
    return items


def manifests_of(objects: Iterable[Json]) -> list[Manifest]:
    """Objects from a program as manifests, named by their position."""
    return [
        manifest
        for index, value in enumerate(objects)
        for manifest in _flattened(value, f"object {index}")
    ]


def load(state: Registry, manifests: Iterable[Manifest]) -> int:
    """Store the objects and say how many there were. Raises LoadError at the first that fails."""
    everything = list(manifests)
    defining = [m for m in everything if m.value.get("kind") == _DEFINITION]
    others = [m for m in everything if m.value.get("kind") != _DEFINITION]
    return _load(state, defining) + _load(state, others)  # definitions make more kinds known


def _load(state: Registry, manifests: list[Manifest]) -> int:
    known = [(manifest, _kind_of(state, manifest)) for manifest in manifests]
    known.sort(key=lambda pair: _FIRST.get(pair[1].kind, _ALL_OTHERS))
    for manifest, kind in known:
        try:
            _store(state, kind, manifest.value)
        except DecodeError as error:
            raise LoadError(f"{_title(manifest)}: {error}") from error
        except ApiError as error:
            raise LoadError(f"{_title(manifest)}: {error.message}") from error
    return len(known)


def _title(manifest: Manifest) -> str:
    kind, name = text(manifest.value.get("kind")), name_of(manifest.value)
    return f"{manifest.origin}: {kind} {name}" if name else f"{manifest.origin}: {kind}"


def _kind_of(state: Registry, manifest: Manifest) -> Kind:
    value = manifest.value
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise LoadError(f"{manifest.origin}: {field}: expected a string")
    if not isinstance(value.get("metadata"), dict):
        raise LoadError(f"{manifest.origin}: metadata: expected an object")
    found = state.kinds.find_kind(text(value["apiVersion"]), text(value["kind"]))
    if found is None:
        raise LoadError(
            f"{manifest.origin}: kind: no {value['kind']} in {value['apiVersion']} is served"
        )
    return found


def _store(state: Registry, kind: Kind, value: Json) -> None:
    cleaned = _cleaned(value)
    namespace = text(metadata_of(cleaned).get("namespace")) or "default"
    if not kind.namespaced:
        namespace = ""
    elif state.store.get(("", "namespaces"), "", namespace) is None:
        _create_namespace(state, namespace)
    dropped: list[str] = []
    obj = registry.complete(kind, cleaned, dropped)
    if dropped:
        raise DecodeError("; ".join(bodies.unknown_in(kind, cleaned)))
    target = Target(kind, namespace, name_of(obj), _OPTIONS, manager=_MANAGER)
    existing = state.store.get(kind.storage_key, namespace, target.name)
    if existing is not None and kind.kind in _FIRST:  # default, kube-system... exist from the start
        registry.replace(state, target, obj)
        return
    status = obj.get("status")
    written = registry.create(state, target, obj)
    if "status" in value and kind.has_status and written.object.get("status") != status:
        _store_status(state, kind, namespace, name_of(written.object), status)


def _store_status(state: Registry, kind: Kind, namespace: str, name: str, status: object) -> None:
    existing = state.find(kind, namespace, name)
    target = Target(kind, namespace, name, _OPTIONS, "status", _MANAGER)
    whole = state.view(kind).whole(existing.object)
    obj = registry.complete(kind, {**whole, "status": status})
    registry.update(state, target, existing, obj)


def _create_namespace(state: Registry, name: str) -> None:
    kind = state.kinds.find("", "v1", "namespaces")
    assert kind is not None
    obj = registry.complete(kind, {"metadata": {"name": name}})
    registry.create(state, Target(kind, "", name, _OPTIONS, manager=_MANAGER), obj)


def _cleaned(value: Json) -> Json:
    """The object without what only a server may say."""
    metadata = {
        name: item
        for name, item in mapping(value.get("metadata")).items()
        if name not in _SERVER_FIELDS
    }
    cleaned = {**value, "metadata": metadata}
    if value.get("kind") == "Namespace":
        child(cleaned, "metadata")
        cleaned.pop("status", None)
    return cleaned


def read_all(paths: Iterable[str | Path]) -> list[Manifest]:
    """The objects of several files and directories. Raises LoadError."""
    return [manifest for path in paths for manifest in read_manifests(Path(path))]
