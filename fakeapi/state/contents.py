"""The content of a store, as values that can be written to a file and put into a new store.

Each collection has its objects as of the start of its log, and the changes since, the oldest first.
The changes, applied one after another, make the present state and the log. So an object is saved
once for each of its versions that a watch or list may still request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fakeapi.store.store import ADDED, DELETED, MODIFIED, Change, Revision, object_key
from fakeapi.types.objects import Json, metadata_of, name_of, namespace_of, text

if TYPE_CHECKING:
    from fakeapi.store.store import Collection, Store


class StateError(Exception):
    """A file of state cannot be used; the text is one line: the file, the place, the reason."""


def file_error(path: object, error: OSError) -> StateError:
    """Return the error of the operating system for a file, as one line."""
    return StateError(f"{path}: {error.strerror or error}")


class SavedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object after one change, with the version of the change; or before its deletion."""

    object: Json
    deleted: bool = False


class SavedCollection(msgspec.Struct, frozen=True, rename="camel"):
    """The objects of a resource as of `start`, and the newer changes."""

    group: str
    resource: str
    start: int
    objects: list[Json]
    changes: list[SavedChange]


class Contents(msgspec.Struct, frozen=True, rename="camel"):
    """All of a store. Resources without a collection never had an object.

    `resource_version` is the newest version, `start` the version before the first.
    """

    resource_version: int
    start: int
    collections: list[SavedCollection]


def contents_of(store: Store) -> Contents:
    """Return the content of the store; the objects are the store's own and must not be changed."""
    start = store.started_at
    saved = [_saved(collection) for collection in store.collections()]
    written = [one for one in saved if one.objects or one.changes or one.start != start]
    return Contents(store.resource_version, start, written)


def _saved(collection: Collection) -> SavedCollection:
    group, resource = collection.resource
    start = collection.log.compacted_version
    newest_first = list(collection.log.newer_than(start))
    changes = [
        SavedChange(change.revision.object, change.current is None)
        for change in reversed(newest_first)
    ]
    before = collection.at_version(start)
    objects = [before[key].object for key in sorted(before)]
    return SavedCollection(group, resource, start, objects, changes)


def put_into(store: Store, contents: Contents) -> None:
    """Fill a new store with the contents. Raises StateError if they contradict one another.

    The message has the place, as a path from the root of the contents.
    """
    resources: set[tuple[str, str]] = set()
    versions: set[int] = set()
    for index, saved in enumerate(contents.collections):
        where = f"collections[{index}]"
        if saved.start > contents.resource_version:
            raise StateError(f"{where}.start: {saved.start} is newer than the whole")
        resource = (saved.group, saved.resource)
        if resource in resources:
            raise StateError(f"{where}: {saved.resource} of group {saved.group!r} are there twice")
        resources.add(resource)
        collection = store.collection(resource)
        collection.begin(saved.start, _objects(saved, where))
        newest = saved.start
        for number, entry in enumerate(saved.changes):
            at = f"{where}.changes[{number}]"
            change = _change(collection, entry, at)
            version = change.resource_version
            if not newest < version <= contents.resource_version or version in versions:
                raise StateError(f"{at}.object.metadata.resourceVersion: {version} is out of order")
            newest = version
            versions.add(version)
            collection.record(change)
    store.continue_from(contents.resource_version, started_at=contents.start)


def _objects(saved: SavedCollection, where: str) -> dict[str, Revision]:
    revisions: dict[str, Revision] = {}
    for number, obj in enumerate(saved.objects):
        at = f"{where}.objects[{number}]"
        revision = _revision(obj, at)
        if revision.resource_version > saved.start:
            raise StateError(
                f"{at}.metadata.resourceVersion: {revision.resource_version} is newer than "
                f"the start of the log, {saved.start}"
            )
        if revision.key in revisions:
            raise StateError(f"{at}: {revision.key} is there twice")
        revisions[revision.key] = revision
    return revisions


def _revision(obj: Json, at: str) -> Revision:
    name, version = name_of(obj), text(metadata_of(obj).get("resourceVersion"))
    if not name:
        raise StateError(f"{at}.metadata.name: expected a string")
    if not (version.isascii() and version.isdecimal()):
        raise StateError(f"{at}.metadata.resourceVersion: expected digits")
    return Revision(object_key(namespace_of(obj), name), obj, int(version))


def _change(collection: Collection, entry: SavedChange, at: str) -> Change:
    revision = _revision(entry.object, f"{at}.object")
    previous = collection.revisions.get(revision.key)
    if previous is None and entry.deleted:
        raise StateError(f"{at}: {revision.key} is deleted before it exists")
    kind = DELETED if entry.deleted else ADDED if previous is None else MODIFIED
    return Change(kind, revision, previous)
