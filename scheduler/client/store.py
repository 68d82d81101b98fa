"""The objects of one kind, by key and by namespace, as the informers keep them.

A `Store` is written by one informer and read by any part of the scheduler. It is plain memory on
the thread of the event loop: a reader that does not await in between sees one consistent state.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from scheduler.client.kinds import ApiObject, object_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

T = TypeVar("T", bound=ApiObject)

#: The most changes that a store remembers for `changes_since`.
CHANGES_MAX: Final = 4096


def _is_same(before: ApiObject | None, after: ApiObject) -> bool:
    """Return True if the versions are equal; an object without a version has always changed."""
    if before is None:
        return False
    version = after.metadata.resource_version
    return before.metadata.resource_version == version if version else before is after


class Store(Generic[T]):
    """Objects of one kind. Keys are `namespace/name`, or `name` for kinds without a namespace."""

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self._objects: dict[str, T] = {}
        # namespace -> keys, in the order in which they were added
        self._namespaces: dict[str, dict[str, None]] = {}
        self._changed_keys: list[str] = []
        self._forgotten_changes = 0
        self.replace(objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, None if it does not exist."""
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str = "") -> list[T]:
        """Return all objects, or the objects of one namespace, as a new list."""
        if not namespace:
            return [*self._objects.values()]
        objects = self._objects
        return [objects[key] for key in self._namespaces.get(namespace, ())]

    def changes_since(self, cursor: int) -> tuple[int, Collection[str] | None]:
        """Return the cursor for the next call, and the keys that have changed since `cursor`.

        None instead of keys means that any object may have changed: for the first call, whose
        cursor is -1, and after too many changes.
        """
        now = self._forgotten_changes + len(self._changed_keys)
        if cursor < self._forgotten_changes:
            return now, None
        return now, self._changed_keys[cursor - self._forgotten_changes :]

    def put(self, obj: T) -> T | None:
        """Add or replace an object; return the old one."""
        key = object_key(obj)
        self._note_change(key)
        old = self._objects.get(key)
        self._objects[key] = obj
        if old is None:
            self._index(key, obj)
        return old

    def remove(self, key: str) -> T | None:
        """Remove and return an object."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._note_change(key)
            namespace = old.metadata.namespace
            if namespace:
                keys = self._namespaces[namespace]
                del keys[key]
                if not keys:
                    del self._namespaces[namespace]
        return old

    def replace(self, objects: Iterable[T]) -> dict[str, T]:
        """Replace all objects; return the old ones by key."""
        before = self._objects
        self._objects = {object_key(obj): obj for obj in objects}
        self._note_changes(before)
        namespaces: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for key, obj in self._objects.items():
            if namespace := obj.metadata.namespace:
                namespaces[namespace][key] = None
        self._namespaces = dict(namespaces)
        return before

    def _index(self, key: str, obj: T) -> None:
        namespace = obj.metadata.namespace
        if namespace:
            self._namespaces.setdefault(namespace, {})[key] = None

    def _note_change(self, key: str) -> None:
        self._changed_keys.append(key)
        if len(self._changed_keys) > CHANGES_MAX:
            half = CHANGES_MAX // 2
            del self._changed_keys[:half]
            self._forgotten_changes += half

    def _note_changes(self, before: Mapping[str, T]) -> None:
        """Note the keys whose objects have changed, unless there are too many."""
        after = self._objects
        kept = (key for key, obj in after.items() if not _is_same(before.get(key), obj))
        gone = (key for key in before if key not in after)
        changed = list(itertools.islice(itertools.chain(kept, gone), CHANGES_MAX // 2 + 1))
        if len(changed) > CHANGES_MAX // 2:
            # Forget one change more than there are: every reader has missed too much.
            self._forgotten_changes += len(self._changed_keys) + 1
            self._changed_keys.clear()
        else:
            for key in changed:
                self._note_change(key)
