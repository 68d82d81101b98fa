"""Objects by key and by index, as the informers keep them.

A `Store` is read by anyone and written by one informer. It is plain memory on the event loop's
thread: whoever reads without awaiting in between sees one state of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Generic, TypeVar

from scheduler.client.resources import ApiObject, object_key

T = TypeVar("T", bound=ApiObject)

#: Changes that a store remembers, for those who ask what has changed since they last asked.
CHANGES_MAX: Final = 4096

#: From an object to the values it is to be found under.
IndexFunction = Callable[[T], Iterable[str]]

#: The index that listing one namespace uses.
NAMESPACE_INDEX: Final = "namespace"


def by_namespace(obj: ApiObject) -> Iterable[str]:
    """The index function behind NAMESPACE_INDEX."""
    return (obj.metadata.namespace,)


def _is_same(before: ApiObject | None, after: ApiObject | None) -> bool:
    """Whether an object is in the state it was in; one without a version never is."""
    if before is None or after is None or not after.metadata.resource_version:
        return before is after
    return before.metadata.resource_version == after.metadata.resource_version


class Store(Generic[T]):
    """Objects of one kind. Keys are `namespace/name`, or `name` for kinds without a namespace."""

    def __init__(self, indexers: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self._indexers = dict(indexers or {})
        # index -> value -> keys, in the order in which they came (a set that remembers)
        self._indices: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._indexers}
        self._changed_keys: list[str] = []
        self._forgotten_changes = 0

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> T | None:
        """The object under a key."""
        return self._objects.get(key)

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects under one value of an index. Raises KeyError for an index there is not."""
        objects = self._objects
        return [objects[key] for key in self._indices[index].get(value, ())]

    def index_values(self, index: str) -> list[str]:
        """The values of an index under which there is something. Raises KeyError likewise."""
        return [*self._indices[index]]

    def has_index(self, index: str) -> bool:
        """Whether there is such an index."""
        return index in self._indexers

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """The keys under which something has changed, and the cursor to ask with next time.

        None instead of keys means that anything may have: to a new reader, who asks with -1, and to
        one who has missed too much.
        """
        now = self._forgotten_changes + len(self._changed_keys)
        if cursor < self._forgotten_changes:
            return now, None
        return now, self._changed_keys[cursor - self._forgotten_changes :]

    def _note_change(self, key: str) -> None:
        self._changed_keys.append(key)
        if len(self._changed_keys) > CHANGES_MAX:
            half = CHANGES_MAX // 2
            del self._changed_keys[:half]
            self._forgotten_changes += half

    def _note_changes(self, before: Mapping[str, T]) -> None:
        """Note where the objects are not the ones they were, unless there are too many."""
        changed = [
            key
            for key in before.keys() | self._objects.keys()
            if not _is_same(before.get(key), self._objects.get(key))
        ]
        if len(changed) > CHANGES_MAX // 2:
            # More than all changes there are: whoever asks next has missed too much.
            self._forgotten_changes += len(self._changed_keys) + 1
            self._changed_keys.clear()
        else:
            for key in changed:
                self._note_change(key)

    def put(self, obj: T) -> T | None:
        """Add or replace an object; returns the one it replaces."""
        key = object_key(obj)
        self._note_change(key)
        old = self._objects.get(key)
        self._objects[key] = obj
        if self._indexers:
            self._reindex(key, old, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Take an object out; returns it."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._note_change(key)
            if self._indexers:
                self._reindex(key, old, None)
        return old

    def replace(self, objects: Iterable[T]) -> dict[str, T]:
        """Hold exactly these objects from now on; returns what was held before, by key."""
        before = self._objects
        self._objects = {object_key(obj): obj for obj in objects}
        self._note_changes(before)
        self._indices = {name: {} for name in self._indexers}
        if self._indexers:
            for key, obj in self._objects.items():
                self._reindex(key, None, obj)
        return before

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        for name, function in self._indexers.items():
            before = tuple(function(old)) if old is not None else ()
            after = tuple(function(new)) if new is not None else ()
            if before == after:
                continue
            index = self._indices[name]
            for value in before:
                keys = index.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del index[value]
            for value in after:
                index.setdefault(value, {})[key] = None

    def list(self) -> list[T]:
        """All objects, as a list that is the caller's own."""
        return [*self._objects.values()]


class Lister(Generic[T]):
    """The reading side of a store."""

    def __init__(self, store: Store[T]) -> None:
        self._store = store

    def get(self, name: str, namespace: str = "") -> T | None:
        """One object, None if there is none."""
        return self._store.get(f"{namespace}/{name}" if namespace else name)

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects under one value of an index. Raises KeyError for an index there is not."""
        return self._store.by_index(index, value)

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """The keys under which something has changed; see `Store.changes_since`."""
        return self._store.changes_since(cursor)

    def list(self, namespace: str = "") -> list[T]:
        """All objects, or those of one namespace."""
        if not namespace:
            return self._store.list()
        if self._store.has_index(NAMESPACE_INDEX):
            return self._store.by_index(NAMESPACE_INDEX, namespace)
        return [obj for obj in self._store.list() if obj.metadata.namespace == namespace]
