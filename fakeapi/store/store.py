"""The store: objects by kind and key, one counter of versions, a bounded log of changes per kind.

Every write takes the next resourceVersion of the global counter and appends exactly one `Change` to
the log of its collection. Watches read the log by position; lists at an old version undo its
changes:

    Collection.revisions     key -> Revision             the state now
    Collection.log           Change, Change, Change ...  the newest changes before that state

A `Revision` is an object as of one resourceVersion and is never changed. Nothing here waits or does
I/O, so a write is atomic for the event loop.
"""

from __future__ import annotations

import bisect
import logging
from typing import TYPE_CHECKING, Final, TypeVar, cast

from fakeapi.types.kind import PODS
from fakeapi.types.objects import encode, metadata_of, with_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.objects import Json

_log = logging.getLogger("fakeapi")

T = TypeVar("T")

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
#: The default limit of the changes of a log, as JSON.
LOG_BYTES: Final = 128 * 1024 * 1024
#: Encoded events are cached for so many of the newest changes.
_ENCODINGS_KEPT: Final = 1024
#: The number of specs of pods that are cached, and the size of the largest.
_SPECS_MAX: Final = 1024
_SPEC_BYTES_MAX: Final = 16 * 1024


class Compacted(Exception):
    """The log begins after `oldest`, which is newer than the wanted resourceVersion."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"resourceVersion {wanted} is older than {oldest}")
        self.wanted = wanted
        self.oldest = oldest


class _Interner:
    """Cache of specs: equal specs become one object, to save memory.

    The pods of a workload have equal specs. Stored objects are never changed, so they may share
    parts. Larger specs are too rare to cache.
    """

    def __init__(self) -> None:
        self._by_text: dict[bytes, Json] = {}

    def interned(self, spec: Json) -> Json:
        """Return an equal cached spec, or this one."""
        text = encode(spec)
        if len(text) > _SPEC_BYTES_MAX:
            return spec
        stored = self._by_text.get(text)
        if stored is not None:
            return stored
        if len(self._by_text) >= _SPECS_MAX:
            self._by_text.clear()
        self._by_text[text] = spec
        return spec


class Revision:
    """One object as of one resourceVersion."""

    __slots__ = ("_json", "is_first", "key", "object", "resource_version")

    def __init__(
        self, key: str, obj: Json, resource_version: int, *, is_first: bool = False
    ) -> None:
        self.key = key
        self.object = obj
        self.resource_version = resource_version
        #: True if the object is as it was created.
        self.is_first = is_first
        self._json: bytes | None = None

    def json(self) -> bytes:
        """Return the stored form as JSON, without kind and apiVersion. It is encoded once."""
        if self._json is None:
            self._json = encode(self.object)
        return self._json

    def size(self) -> int:
        """Return the length of the stored form as JSON, without keeping this form."""
        return len(self._json if self._json is not None else encode(self.object))

    def forget_json(self) -> None:
        """Free the encoded form; `json` makes it anew."""
        self._json = None


class Change:
    """One entry of a log: the change of one key at one resourceVersion.

    `revision` is the object after the change, or as deleted with the version of the deletion;
    `current` is the same, but None after a deletion. `encoded` caches the events for watchers, by
    keys of their choice.
    """

    __slots__ = (
        "_size", "current", "encoded", "key", "previous", "resource_version", "revision", "type",
    )  # fmt: skip

    def __init__(self, change_type: str, revision: Revision, previous: Revision | None) -> None:
        self.type = change_type
        self.key = revision.key
        self.resource_version = revision.resource_version
        self.revision = revision
        self.current = None if change_type == DELETED else revision
        self.previous = previous
        self.encoded: dict[object, bytes] = {}
        self._size = 0

    def size(self) -> int:
        """Return the length of the object as JSON."""
        if not self._size:
            self._size = self.revision.size()
        return self._size

    def forget_encodings(self) -> None:
        """Free the encoded events, which most watchers have sent by now."""
        self.encoded.clear()
        if self.previous is not None:
            self.previous.forget_json()
        if self.current is None:
            self.revision.forget_json()


class ChangeLog:
    """The newest changes of a collection, at most `size` and about `size_bytes`.

    Positions count all changes ever made.
    """

    def __init__(self, size: int, size_bytes: int, resource_version: int) -> None:
        self._size = size
        self._size_bytes = size_bytes
        self._bytes = 0
        self._changes: list[Change] = []
        self._start = 0  # the position of _changes[0]
        self._forgotten_version = resource_version  # of the newest change that was dropped

    @property
    def end(self) -> int:
        """Return the position of the next change."""
        return self._start + len(self._changes)

    @property
    def first(self) -> int:
        """Return the position of the oldest change in the log."""
        return max(self._start, self.end - self._size)

    @property
    def compacted_version(self) -> int:
        """Return the resourceVersion after which the log begins; older versions are expired."""
        oldest = self.first - self._start
        return self._changes[oldest - 1].resource_version if oldest else self._forgotten_version

    def append(self, change: Change) -> None:
        """Add a change and drop the oldest beyond the limit."""
        changes = self._changes
        if changes:  # its answer has encoded it by now
            self._bytes += changes[-1].size()
        changes.append(change)
        if len(changes) > _ENCODINGS_KEPT:
            changes[-_ENCODINGS_KEPT - 1].forget_encodings()
        if len(changes) >= 2 * self._size + 16:  # trimmed in bulk, so that appending stays cheap
            self._drop(len(changes) - self._size)
        elif self._bytes > self._size_bytes and len(changes) > 1:
            self._drop((len(changes) + 1) // 2)

    def _drop(self, surplus: int) -> None:
        changes = self._changes
        self._forgotten_version = changes[surplus - 1].resource_version
        self._bytes -= sum(change.size() for change in changes[:surplus])
        del changes[:surplus]
        self._start += surplus

    def at(self, position: int) -> Change:
        """Return the change at a position between `first` and `end`."""
        return self._changes[position - self._start]

    def position_after(self, resource_version: int) -> int:
        """Return the position of the first change newer than a version. Raises Compacted."""
        if resource_version < self.compacted_version:
            raise Compacted(resource_version, self.compacted_version)
        index = bisect.bisect_right(
            self._changes, resource_version, key=lambda change: change.resource_version
        )
        return self._start + index

    def newer_than(self, resource_version: int) -> Iterator[Change]:
        """Yield the changes after a version, newest first. Raises Compacted."""
        position = self.position_after(resource_version)
        for index in range(len(self._changes) - 1, position - self._start - 1, -1):
            yield self._changes[index]

    def compact(self) -> None:
        """Drop all changes, as etcd does every five minutes."""
        if self._changes:
            self.restart(self._changes[-1].resource_version)

    def restart(self, resource_version: int) -> None:
        """Drop all changes; the log begins after `resource_version`."""
        self._forgotten_version = resource_version
        self._start = self.end
        self._changes.clear()
        self._bytes = 0


class Collection:
    """The objects of one resource, by `namespace/name`, or by name if cluster-scoped."""

    def __init__(
        self, resource: ResourceKey, log_size: int, log_bytes: int, resource_version: int
    ) -> None:
        self.resource = resource
        self.revisions: dict[str, Revision] = {}
        self.log = ChangeLog(log_size, log_bytes, resource_version)
        self.listeners: dict[object, Callable[[], None]] = {}
        self._sorted: list[str] = []
        self._is_sorted = True
        #: A counter of changes and restarts, for caches of derived values.
        self.changes = 0
        self._derived: dict[object, tuple[int, object]] = {}

    def record(self, change: Change) -> None:
        """Apply a change to the state, log it, and call the listeners."""
        key = change.key
        self.changes += 1
        if change.current is None:
            del self.revisions[key]
            self._is_sorted = False
        else:
            if change.previous is None:
                self._is_sorted = False
            self.revisions[key] = change.current
        self.log.append(change)
        call_all(tuple(self.listeners.values()))  # one may remove itself

    def follow(self, callback: Callable[[], None]) -> None:
        """Call back now and during each write from now on, but for the callback's own writes."""
        is_busy = False

        def changed() -> None:
            nonlocal is_busy
            if is_busy:
                return
            is_busy = True
            try:
                call_all((callback,))
            finally:
                is_busy = False

        self.listeners[callback] = changed
        changed()

    def sorted_keys(self, prefix: str = "") -> list[str]:
        """Return the keys with the prefix, in order. Only the first list after a write sorts."""
        if not self._is_sorted:
            self._sorted = sorted(self.revisions)
            self._is_sorted = True
        return with_prefix(self._sorted, prefix)

    def derived(self, rule: Callable[[Iterable[Json]], T]) -> T:
        """Return the result of a rule for all objects; it is computed once after each change."""
        changes, result = self._derived.get(rule, (-1, None))
        if changes != self.changes:
            result = rule(revision.object for revision in self.revisions.values())
            self._derived[rule] = self.changes, result
        # The result of this rule, so of its type.
        return cast("T", result)

    def at_version(self, resource_version: int) -> dict[str, Revision]:
        """Return the state as of an older version, to read. Raises Compacted."""
        if self.log.position_after(resource_version) == self.log.end:
            return self.revisions
        state = dict(self.revisions)
        for change in self.log.newer_than(resource_version):
            if change.previous is None:
                del state[change.key]
            else:
                state[change.key] = change.previous
        return state

    def rewind(self, resource_version: int) -> None:
        """Return to the state of an older version and drop the log. Raises Compacted."""
        self.begin(resource_version, dict(self.at_version(resource_version)))

    def begin(self, resource_version: int, revisions: dict[str, Revision]) -> None:
        """Replace the objects by the revisions of a version and drop the log."""
        self.revisions = revisions
        self.changes += 1
        self._is_sorted = False
        self.log.restart(resource_version)


def call_all(listeners: Iterable[Callable[[], None]]) -> None:
    """Call the listeners. An exception is logged: neither the others nor the write fail by it."""
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001 - any part of the server may listen
            _log.exception("a change is stored, but %r could not follow it", listener)


def with_prefix(keys: list[str], prefix: str) -> list[str]:
    """Return the keys of a sorted list that begin with the prefix."""
    if not prefix:
        return keys
    start = bisect.bisect_left(keys, prefix)
    return keys[start : bisect.bisect_left(keys, prefix + "\U0010ffff", lo=start)]


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object within its collection."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    """All collections and the counter of versions, which never decreases."""

    def __init__(self, *, resource_version: int, log_size: int, log_bytes: int = LOG_BYTES) -> None:
        self.resource_version = resource_version
        #: The version before the first write; the logs of unused collections begin after it.
        self.started_at = resource_version
        self._log_size = log_size
        self._log_bytes = log_bytes
        self._collections: dict[ResourceKey, Collection] = {}
        self._specs = _Interner()
        #: Called after every write.
        self.listeners: dict[object, Callable[[], None]] = {}
        #: Called with every change before it is applied.
        self.observers: list[Callable[[Collection, Change], None]] = []

    def collection(self, resource: ResourceKey) -> Collection:
        """Return the objects of one resource, at first an empty collection."""
        collection = self._collections.get(resource)
        if collection is None:
            collection = Collection(resource, self._log_size, self._log_bytes, self.started_at)
            self._collections[resource] = collection
        return collection

    def collections(self) -> list[Collection]:
        """Return all collections in use."""
        return list(self._collections.values())

    def get(self, resource: ResourceKey, namespace: str, name: str) -> Revision | None:
        """Return the newest revision of one object, None if there is none."""
        return self.collection(resource).revisions.get(object_key(namespace, name))

    def in_namespace(self, resource: ResourceKey, namespace: str) -> list[Json]:
        """Return the objects of one namespace in key order."""
        collection = self.collection(resource)
        keys = collection.sorted_keys(f"{namespace}/")
        return [collection.revisions[key].object for key in keys]

    def put(self, resource: ResourceKey, key: str, obj: Json) -> Revision:
        """Store a new object, or a new state of an object, and set its resourceVersion."""
        collection = self.collection(resource)
        previous = collection.revisions.get(key)
        self.resource_version += 1
        version = self.resource_version
        # Not with_metadata, which is slower because it can remove fields.
        metadata = {**metadata_of(obj), "resourceVersion": str(version)}
        stored = {**obj, "metadata": metadata}
        spec = obj.get("spec")
        if resource == PODS and isinstance(spec, dict):
            stored["spec"] = self._specs.interned(spec)
        current = Revision(key, stored, version, is_first=previous is None)
        change_type = ADDED if previous is None else MODIFIED
        self._record(collection, Change(change_type, current, previous))
        return current

    def remove(self, resource: ResourceKey, key: str) -> Revision:
        """Delete an object; return it with the version of the deletion."""
        collection = self.collection(resource)
        previous = collection.revisions[key]
        self.resource_version += 1
        version = self.resource_version
        gone = with_metadata(previous.object, resourceVersion=str(version))
        final = Revision(key, gone, version)
        self._record(collection, Change(DELETED, final, previous))
        return final

    def compact(self) -> None:
        """Drop all logs: watches and lists of earlier versions are expired."""
        for collection in self._collections.values():
            collection.log.compact()

    def forget(self, resource: ResourceKey) -> None:
        """Drop the log of a resource without objects, which is served no more.

        Watches that are about to end keep it for themselves. If the resource comes back, its log
        begins after the present version.
        """
        if resource in self._collections and not self._collections[resource].revisions:
            self._collections[resource] = Collection(
                resource, self._log_size, self._log_bytes, self.resource_version
            )

    def continue_from(self, resource_version: int, *, started_at: int) -> None:
        """Set the counter to the version of another store with the same contents."""
        self.resource_version = max(self.resource_version, resource_version)
        self.started_at = started_at

    def rewind(self, versions: int) -> None:
        """Undo the newest versions, as far as the logs go back; their numbers are used again.

        A careless restore of a backup does the same. A server must not do it.
        """
        logs = [collection.log for collection in self._collections.values()]
        oldest = max((log.compacted_version for log in logs), default=self.started_at)
        version = max(oldest, self.resource_version - versions)
        for collection in self._collections.values():
            collection.rewind(version)
        self.resource_version = version

    def _record(self, collection: Collection, change: Change) -> None:
        for observer in self.observers:
            observer(collection, change)
        collection.record(change)
        call_all(self.listeners.values())
