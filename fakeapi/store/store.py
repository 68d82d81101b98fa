"""The store: objects by kind and key, one counter of versions, per kind a bounded log of changes.

Every write takes the next resourceVersion of the one global counter and appends exactly one
`Change` to the log of its collection. Watches read the log by position, lists at an old version
undo it:

    Collection.revisions     key -> Revision             the state now
    Collection.log           Change, Change, Change ...  how it came to be, the oldest forgotten

A `Revision` is an object as of one resourceVersion and is never changed. Nothing here waits or does
I/O, so a write is atomic for everything else in the event loop.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types.objects import metadata_of, with_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.objects import Json

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
#: Changes whose encoded events are kept for watchers that are about to need them.
_ENCODINGS_KEPT: Final = 1024
_PODS: Final = ("", "pods")
#: Specs of pods that are kept for the pods to come, and the largest of them.
_SPECS_MAX: Final = 1024
_SPEC_BYTES_MAX: Final = 16 * 1024
_encode = msgspec.json.Encoder().encode


class Compacted(Exception):
    """The log does not reach back to that resourceVersion; it begins after `oldest`."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"resourceVersion {wanted} is older than {oldest}")
        self.wanted = wanted
        self.oldest = oldest


class _Interner:
    """Equal specs as one object: the pods of a workload have one spec.

    Stored objects are never changed, so they may share parts. The newest specs are kept; larger
    ones are too rare to be worth a place.
    """

    def __init__(self) -> None:
        self._by_text: dict[bytes, Json] = {}

    def interned(self, spec: Json) -> Json:
        """Return an equal spec that was stored before, or this one."""
        text = _encode(spec)
        if len(text) > _SPEC_BYTES_MAX:
            return spec
        found = self._by_text.get(text)
        if found is not None:
            return found
        if len(self._by_text) >= _SPECS_MAX:
            self._by_text.clear()
        self._by_text[text] = spec
        return spec


class Revision:
    """One object as of one resourceVersion."""

    __slots__ = ("_json", "key", "object", "resource_version")

    def __init__(self, key: str, obj: Json, resource_version: int) -> None:
        self.key = key
        self.object = obj
        self.resource_version = resource_version
        self._json: bytes | None = None

    def json(self) -> bytes:
        """The stored form as JSON, encoded once; without kind and apiVersion."""
        if self._json is None:
            self._json = _encode(self.object)
        return self._json

    def forget_json(self) -> None:
        """Give the memory of the encoded form back; it is made anew if it is asked for."""
        self._json = None


class Change:
    """One entry of a log: what became of one key at one resourceVersion.

    `current` is None after a deletion; `final` is then the object as deleted, with the version of
    the deletion. `encoded` holds the events watchers were sent, by whatever key they choose.
    """

    __slots__ = ("current", "encoded", "final", "previous", "resource_version", "type")

    def __init__(
        self,
        change_type: str,
        resource_version: int,
        current: Revision | None,
        previous: Revision | None,
        final: Revision | None = None,
    ) -> None:
        self.type = change_type
        self.resource_version = resource_version
        self.current = current
        self.previous = previous
        self.final = final
        self.encoded: dict[object, bytes] = {}

    @property
    def key(self) -> str:
        """The key of the object that changed."""
        revision = self.current or self.previous
        assert revision is not None
        return revision.key

    def forget_encodings(self) -> None:
        """Give memory back once every watcher has most likely passed."""
        self.encoded.clear()
        if self.previous is not None:
            self.previous.forget_json()


class ChangeLog:
    """The newest changes of a collection, at most `size`; positions count all changes ever made."""

    def __init__(self, size: int, resource_version: int) -> None:
        self._size = size
        self._changes: list[Change] = []
        self._start = 0  # the position of _changes[0]
        self._forgotten_version = resource_version  # of the newest change that is no longer there

    @property
    def end(self) -> int:
        """The position the next change will have."""
        return self._start + len(self._changes)

    @property
    def first(self) -> int:
        """The position of the oldest change that is still remembered."""
        return max(self._start, self.end - self._size)

    @property
    def compacted_version(self) -> int:
        """The resourceVersion the log begins after; anything older has expired."""
        oldest = self.first - self._start
        return self._changes[oldest - 1].resource_version if oldest else self._forgotten_version

    def append(self, change: Change) -> None:
        """Add a change and forget the oldest beyond the limit."""
        changes = self._changes
        changes.append(change)
        if len(changes) > _ENCODINGS_KEPT:
            changes[-_ENCODINGS_KEPT - 1].forget_encodings()
        if len(changes) >= 2 * self._size + 16:  # trimmed in bulk, so that appending stays cheap
            surplus = len(changes) - self._size
            self._forgotten_version = changes[surplus - 1].resource_version
            del changes[:surplus]
            self._start += surplus

    def at(self, position: int) -> Change:
        """The change at a position between `first` and `end`."""
        return self._changes[position - self._start]

    def position_after(self, resource_version: int) -> int:
        """Where the changes newer than that version begin. Raises Compacted."""
        if resource_version < self.compacted_version:
            raise Compacted(resource_version, self.compacted_version)
        index = bisect.bisect_right(
            self._changes, resource_version, key=lambda change: change.resource_version
        )
        return self._start + index

    def newer_than(self, resource_version: int) -> Iterator[Change]:
        """The changes after a version, newest first. Raises Compacted."""
        position = self.position_after(resource_version)
        for index in range(len(self._changes) - 1, position - self._start - 1, -1):
            yield self._changes[index]

    def compact(self) -> None:
        """Forget everything that happened so far, as etcd does every five minutes."""
        if self._changes:
            self.restart(self._changes[-1].resource_version)

    def restart(self, resource_version: int) -> None:
        """Go on after that version, knowing nothing of what was before."""
        self._forgotten_version = resource_version
        self._start = self.end
        self._changes.clear()


class Collection:
    """The objects of one resource, by `namespace/name`, or the name of cluster-scoped ones."""

    def __init__(self, resource: ResourceKey, log_size: int, resource_version: int) -> None:
        self.resource = resource
        self.revisions: dict[str, Revision] = {}
        self.log = ChangeLog(log_size, resource_version)
        self.listeners: dict[object, Callable[[], None]] = {}
        self._sorted: list[str] = []
        self._is_sorted = True
        #: Counts whatever befalls the objects; for those who remember what follows from them.
        self.changes = 0

    def record(self, change: Change) -> None:
        """Apply a change to the state, log it, and tell the listeners."""
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
        for listener in self.listeners.values():
            listener()

    def sorted_keys(self, prefix: str = "") -> list[str]:
        """The keys in order, those with a prefix if one is given; lists sort, writes do not."""
        if not self._is_sorted:
            self._sorted = sorted(self.revisions)
            self._is_sorted = True
        return with_prefix(self._sorted, prefix)

    def at_version(self, resource_version: int) -> dict[str, Revision]:
        """The state as of an older version, to read. Raises Compacted."""
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
        """Be as it was at an older version, and remember nothing. Raises Compacted."""
        self.begin(resource_version, dict(self.at_version(resource_version)))

    def begin(self, resource_version: int, revisions: dict[str, Revision]) -> None:
        """Hold these objects as of that version, and know nothing of what was before."""
        self.revisions = revisions
        self.changes += 1
        self._is_sorted = False
        self.log.restart(resource_version)


def with_prefix(keys: list[str], prefix: str) -> list[str]:
    """Those of a sorted list of keys that begin with the prefix."""
    if not prefix:
        return keys
    start = bisect.bisect_left(keys, prefix)
    return keys[start : bisect.bisect_left(keys, prefix + "\U0010ffff", lo=start)]


def object_key(namespace: str, name: str) -> str:
    """The key of an object within its collection."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    """All collections and the one counter of versions, which never goes back."""

    def __init__(self, *, resource_version: int, log_size: int) -> None:
        self.resource_version = resource_version
        #: The version before the first; what was never written to knows of all that came later.
        self.started_at = resource_version
        self._log_size = log_size
        self._collections: dict[ResourceKey, Collection] = {}
        self._specs = _Interner()
        #: Called after every write, whatever it is to; for those who wait for a version.
        self.listeners: dict[object, Callable[[], None]] = {}
        #: Called with every change before anybody else hears of it.
        self.observers: list[Callable[[Collection, Change], None]] = []

    def collection(self, resource: ResourceKey) -> Collection:
        """The objects of one resource; an empty collection if nothing was ever stored."""
        found = self._collections.get(resource)
        if found is None:
            found = Collection(resource, self._log_size, self.started_at)
            self._collections[resource] = found
        return found

    def collections(self) -> list[Collection]:
        """All collections that were ever asked for."""
        return list(self._collections.values())

    def get(self, resource: ResourceKey, namespace: str, name: str) -> Revision | None:
        """The newest revision of one object, None if there is none."""
        return self.collection(resource).revisions.get(object_key(namespace, name))

    def in_namespace(self, resource: ResourceKey, namespace: str) -> list[Json]:
        """The objects of one namespace in key order."""
        collection = self.collection(resource)
        keys = collection.sorted_keys(f"{namespace}/")
        return [collection.revisions[key].object for key in keys]

    def put(self, resource: ResourceKey, key: str, obj: Json) -> Revision:
        """Store a new object, or a new state of one; the resourceVersion is written into it."""
        collection = self.collection(resource)
        previous = collection.revisions.get(key)
        self.resource_version += 1
        version = self.resource_version
        # with_metadata without what it takes to remove fields: every write comes here.
        metadata = {**metadata_of(obj), "resourceVersion": str(version)}
        stored = {**obj, "metadata": metadata}
        spec = obj.get("spec")
        if resource == _PODS and isinstance(spec, dict):
            stored["spec"] = self._specs.interned(spec)
        current = Revision(key, stored, version)
        change_type = ADDED if previous is None else MODIFIED
        self._record(collection, Change(change_type, version, current, previous))
        return current

    def remove(self, resource: ResourceKey, key: str) -> Revision:
        """Delete an object that is there; answers it with the version of the deletion."""
        collection = self.collection(resource)
        previous = collection.revisions[key]
        self.resource_version += 1
        version = self.resource_version
        gone = with_metadata(previous.object, resourceVersion=str(version))
        final = Revision(key, gone, version)
        self._record(collection, Change(DELETED, version, None, previous, final))
        return final

    def compact(self) -> None:
        """Forget all past changes: watches and lists of earlier versions have expired."""
        for collection in self._collections.values():
            collection.log.compact()

    def go_on(self, resource_version: int, *, started_at: int) -> None:
        """Count on from a version that another store with the same contents has reached."""
        self.resource_version = max(self.resource_version, resource_version)
        self.started_at = started_at

    def rewind(self, versions: int) -> None:
        """Lose the newest versions, as far as the logs go back; others will take their numbers.

        It is what restoring a backup does if nobody takes care, and what no server may do.
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
        for listener in self.listeners.values():
            listener()
