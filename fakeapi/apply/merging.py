"""Merge an applied configuration into an object, by their type.

Scalars and atomic parts of the configuration win; maps merge entry by entry. An associative list
has the elements of both: the configuration's elements in its order, other elements in their places.

Source: structured-merge-diff typed/merge.go of v6.3.3.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from fakeapi.apply.typed import (
    ABSENT,
    Branch,
    TypedError,
    branch_of,
    element_of,
    fields_of,
    items_of,
)

if TYPE_CHECKING:
    from fakeapi.apply.types import ListType, MapType, Type
    from fakeapi.types.objects import Json


def merge(kind: Type, live: object, applied: object) -> object:
    """Return the live value with the applied one merged in. Raises TypedError.

    ABSENT if nothing is left. Neither value is changed.
    """
    if applied is ABSENT:
        return live
    if live is ABSENT:
        return applied
    branch = branch_of(kind, applied)
    if branch is not branch_of(kind, live):
        return applied
    if branch is Branch.MAP:
        assert kind.map is not None
        return _merge_maps(kind.map, live, applied)
    if branch is Branch.LIST:
        assert kind.list is not None
        return _merge_lists(kind.list, live, applied)
    return applied


def _merge_maps(kind: MapType, live: object, applied: object) -> object:
    old, new = fields_of(live), fields_of(applied)
    if kind.is_atomic or not (old or new):
        return applied
    merged: Json = {}
    fields, element = kind.fields, kind.element
    for name in {**old, **new}:
        inner = fields.get(name, element)
        if inner is None:
            raise TypedError(f".{name}: field not declared in schema")
        value = merge(inner, old.get(name, ABSENT), new.get(name, ABSENT))
        if value is not ABSENT:
            merged[name] = value
    return merged or ABSENT


def _merge_lists(kind: ListType, live: object, applied: object) -> object:
    old, new = items_of(live), items_of(applied)
    if kind.is_atomic or not (old or new):
        return applied
    return _ListMerge(kind, old, new).run() or ABSENT


class _ListMerge:
    """Merges two associative lists, as two sorted sequences are merged."""

    def __init__(self, kind: ListType, live: list[object], applied: list[object]) -> None:
        self._kind = kind
        self._live = live
        self._old = [element_of(kind, item) for item in live]
        self._new, self._wanted = self._index(applied)
        self._present: dict[str, object] = {}
        for element, item in zip(self._old, live, strict=True):
            # Duplicates are not merged.
            self._present[element] = ABSENT if element in self._present else item
        self._shared = collections.deque(e for e in self._new if e in self._present)
        self._merged: set[str] = set()
        self._result: list[object] = []

    def _index(self, applied: list[object]) -> tuple[list[str], dict[str, object]]:
        wanted: dict[str, object] = {}
        for item in applied:
            element = element_of(self._kind, item)
            if element in wanted:
                raise TypedError(f"duplicate entries for key {element}")
            wanted[element] = item
        return list(wanted), wanted

    def run(self) -> list[object]:
        left = right = 0
        while left < len(self._old) or right < len(self._new):
            if left < len(self._old) and right < len(self._new):
                element = self._old[left]
                if element == self._new[right]:
                    self._take(element)
                    left, right = left + 1, right + 1
                    self._shared.popleft()
                    continue
                if element in self._wanted and self._shared and self._shared[0] != element:
                    left += 1  # shared, but not the next of the shared ones
                    continue
            if left < len(self._old):
                element = self._old[left]
                if element not in self._wanted:
                    self._result.append(self._live[left])
                    left += 1
                    continue
                if element in self._merged:
                    left += 1
            if right < len(self._new):
                element = self._new[right]
                self._take(element)
                right += 1
                if self._shared and self._shared[0] == element:
                    self._shared.popleft()
        return self._result

    def _take(self, element: str) -> None:
        self._merged.add(element)
        live = self._present.get(element, ABSENT)
        value = merge(self._kind.element, live, self._wanted[element])
        if value is not ABSENT:
            self._result.append(value)
