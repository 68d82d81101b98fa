"""Load manifests into the store: written by hand, or the output of `kubectl get -o yaml`.

The order of files and objects is free: definitions of custom resources, namespaces, priority
classes and owners are stored first. A missing namespace is created. Fields that the server sets are
removed, and uids are replaced in all references. A status is stored: a dump of a cluster keeps its
state, such as the nodes of pods and the claims of volumes.

An object with a uid was admitted in another cluster: admission is skipped, and it replaces an
object of the same name, because a server makes some objects by itself.

On a running server loading is atomic: a copy of the store is tried first.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.admission import AdmissionChain
from fakeapi.decoding import bodies
from fakeapi.decoding.options import WriteOptions
from fakeapi.loading.dumps import FixedUid, NewUids, cleaned, in_order, is_dumped
from fakeapi.loading.manifests import LoadError, Manifest, manifests_of, read_all
from fakeapi.store.registry import Registry, Target
from fakeapi.store.store import Store, object_key
from fakeapi.types.errors import AlreadyExists, ApiError
from fakeapi.types.kind import KindTable
from fakeapi.types.objects import Json, metadata_of, name_of, namespace_of, text
from fakeapi.types.schema import DecodeError
from fakeapi.writes import pipeline
from fakeapi.writes.completion import complete

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fakeapi.types.kind import Kind, ResourceKey

_DEFINITION: Final = "CustomResourceDefinition"
#: Kinds with objects that each server makes at its start; manifests replace them.
_FROM_THE_START: Final = frozenset({"Namespace", "PriorityClass"})
_OPTIONS: Final = WriteOptions(field_validation="Strict")
_MANAGER: Final = "kubesched-fakeapi"
_ADMITTED: Final = AdmissionChain(())


def load(
    state: Registry,
    objects: Iterable[Json | str | Path],
    *,
    keeps_uids: bool = False,
    rehearses: bool,
) -> int:
    """Store objects, from files and directories too; return their number.

    With `keeps_uids` objects keep their uids. With `rehearses` a refused object means that nothing
    is stored; else the objects before it are. Raises LoadError at the first refused object.
    """
    listed = list(objects)
    manifests = manifests_of(value for value in listed if isinstance(value, dict))
    manifests += read_all(value for value in listed if not isinstance(value, dict))
    everything = in_order(manifests)
    defining = [m for m in everything if m.value.get("kind") == _DEFINITION]
    others = [m for m in everything if m.value.get("kind") != _DEFINITION]
    new_uids = NewUids(
        [*defining, *others],
        state.ids.uid,
        lambda value: _uid_of_existing(state, value),
        keeps_uids=keeps_uids,
    )
    for where in (_copy(state), state) if rehearses and everything else (state,):
        loader = _Loader(where, new_uids)
        loader.load(defining)  # the others may be of their kinds
        loader.load(others)
    return len(everything)


def _copy(state: Registry) -> Registry:
    """Return a copy of the state, which shares the objects."""
    store = Store(resource_version=state.store.resource_version, log_size=1)
    for collection in state.store.collections():
        copied = store.collection(collection.resource)
        copied.begin(store.resource_version, dict(collection.revisions))
    kinds, admission = KindTable(tuple(state.kinds)), state.admission.for_another_store()
    copy = dataclasses.replace(
        state, kinds=kinds, store=store, admission=admission, views={}, numbers={}
    )
    for follow in copy.controllers:
        follow(copy)
    admission.follow(copy)
    return copy


def _uid_of_existing(state: Registry, value: Json) -> str:
    kind = state.kinds.find_kind(text(value.get("apiVersion")), text(value.get("kind")))
    if kind is None:
        return ""
    stored = state.store.get(kind.storage_key, _namespace(kind, value), name_of(value))
    return "" if stored is None else text(metadata_of(stored.object).get("uid"))


def _namespace(kind: Kind, value: Json) -> str:
    return (namespace_of(value) or "default") if kind.namespaced else ""


class _Loader:
    """Stores manifests one after another and remembers them."""

    def __init__(self, state: Registry, new_uids: NewUids) -> None:
        self._state = state
        self._new_uids = new_uids
        self._loaded: set[tuple[ResourceKey, str]] = set()

    def load(self, manifests: list[Manifest]) -> None:
        """Store objects of kinds that are served now. Raises LoadError."""
        with_kinds = [(manifest, _kind_of(self._state, manifest)) for manifest in manifests]
        for manifest, kind in with_kinds:
            try:
                self._store(kind, manifest.value)
            except DecodeError as error:
                raise LoadError(f"{_title(manifest)}: {error}") from error
            except ApiError as error:
                raise LoadError(f"{_title(manifest)}: {error.message}") from error

    def _store(self, kind: Kind, value: Json) -> None:
        state, uid = self._state, self._new_uids.uid(value)
        state = dataclasses.replace(state, ids=FixedUid(state.ids, uid))
        if is_dumped(value):
            state.admission, state.keeps_service_addresses = _ADMITTED, True
        namespace = _namespace(kind, value)
        if namespace and state.store.get(("", "namespaces"), "", namespace) is None:
            _create_namespace(self._state, namespace)
        whole = cleaned(self._new_uids.replaced_in(value))
        dropped: list[str] = []
        obj = complete(kind, whole, dropped)
        if dropped:
            raise DecodeError("; ".join(bodies.unknown_in(kind, whole)))
        target = Target(kind, namespace, name_of(obj), _OPTIONS, manager=_MANAGER)
        status = obj.get("status")
        if self._replaces(target, value):
            written = pipeline.replace(state, target, obj)
        else:
            written = pipeline.create(state, target, obj)
        name = name_of(written.object)
        self._loaded.add((kind.storage_key, object_key(namespace, name)))
        if "status" in whole and kind.has_status and written.object.get("status") != status:
            _store_status(state, kind, namespace, name, status)

    def _replaces(self, target: Target, value: Json) -> bool:
        """Return True if the object replaces a stored one. Raises AlreadyExists if it must not."""
        kind = target.kind
        if self._state.store.get(kind.storage_key, target.namespace, target.name) is None:
            return False
        if (kind.storage_key, target.key) in self._loaded:
            raise AlreadyExists(kind.plural, kind.group, target.name)
        return kind.kind in _FROM_THE_START or is_dumped(value)


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
    kind = state.kinds.find_kind(text(value["apiVersion"]), text(value["kind"]))
    if kind is None:
        raise LoadError(
            f"{manifest.origin}: kind: no {value['kind']} in {value['apiVersion']} is served"
        )
    return kind


def _store_status(state: Registry, kind: Kind, namespace: str, name: str, status: object) -> None:
    existing = state.find(kind, namespace, name)
    target = Target(kind, namespace, name, _OPTIONS, "status", _MANAGER)
    whole = state.view(kind).whole(existing.object)
    obj = complete(kind, {**whole, "status": status})
    pipeline.update(state, target, existing, obj)


def _create_namespace(state: Registry, name: str) -> None:
    kind = state.kinds.find("", "v1", "namespaces")
    assert kind is not None
    obj = complete(kind, {"metadata": {"name": name}})
    pipeline.create(state, Target(kind, "", name, _OPTIONS, manager=_MANAGER), obj)
