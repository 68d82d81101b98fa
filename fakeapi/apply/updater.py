"""The owners of fields after a write, and the object after an apply.

An update takes ownership of the fields that it changes. An apply conflicts with other owners of
the fields that it would change, unless it is forced. The apply also removes fields that it does not
repeat from the manager's last apply and that no other manager owns.

Managers may have written in different API versions. A set of fields is only compared with the
object in the version of the set; a `Versions` converts it.

Source: structured-merge-diff merge/update.go and typed/reconcile_schema.go of v6.3.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fakeapi.apply import paths, sets, typed
from fakeapi.apply.merging import merge
from fakeapi.apply.sets import LEAF, FieldSet
from fakeapi.apply.types import UNTYPED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.apply.typed import Comparison
    from fakeapi.apply.types import Type


class Versions(Protocol):
    """The API versions of one kind."""

    def type_in(self, api_version: str) -> Type | None:
        """Return the type of objects in that version, None if the version is not served."""

    def convert(self, value: object, source: str, target: str) -> object:
        """Return an object of one version in another; both are served."""

    @property
    def may_change(self) -> bool:
        """Return True if types may change between two writes, as for custom resources."""


class Manager(NamedTuple):
    """The identity of an entry of managedFields.

    `api_version` is empty for appliers, whose entry stays the same when they change versions.
    """

    name: str
    operation: str
    api_version: str
    subresource: str


@dataclasses.dataclass(frozen=True, slots=True)
class Owned:
    """The fields of one manager, in the API version it last wrote in."""

    fields: FieldSet
    api_version: str
    applied: bool


class Conflicts(Exception):
    """Fields that the applier would change, by the other managers that own them."""

    def __init__(self, owners: Mapping[Manager, FieldSet]) -> None:
        super().__init__("apply conflicts")
        self.owners = dict(owners)

    def without(self, allowed: FieldSet) -> Conflicts:
        """Return the conflicts without conflicts about the `allowed` fields."""
        left = {owner: sets.difference(fields, allowed) for owner, fields in self.owners.items()}
        return Conflicts({owner: fields for owner, fields in left.items() if fields})


class Updater:
    """The rules for one kind; `resets` are the fields that the endpoint resets, by API version."""

    def __init__(self, versions: Versions, resets: Mapping[str, FieldSet] | None = None) -> None:
        self._versions = versions
        self._resets = resets or {}

    def update(
        self,
        live: object,
        new: object,
        api_version: str,
        owned: dict[Manager, Owned],
        manager: Manager,
    ) -> dict[Manager, Owned]:
        """Return the owners after a write of a whole object. Raises TypedError."""
        owned = self._reconciled(live, owned, api_version)
        owned, comparison = self._take(live, new, api_version, owned, manager, force=True)
        fields = owned[manager].fields if manager in owned else LEAF
        fields = sets.difference(fields, comparison.removed)
        fields = sets.union(sets.union(fields, comparison.modified), comparison.added)
        fields = sets.recursive_difference(fields, self._resets.get(api_version, LEAF))
        if fields:
            owned[manager] = Owned(fields, api_version, applied=False)
        else:
            owned.pop(manager, None)
        return owned

    def apply(
        self,
        live: object,
        config: object,
        api_version: str,
        owned: dict[Manager, Owned],
        manager: Manager,
        *,
        force: bool,
    ) -> tuple[object, dict[Manager, Owned]]:
        """Return the object and its owners after an apply. Raises Conflicts, TypedError."""
        owned = self._reconciled(live, owned, api_version)
        kind = self._type(api_version)
        new = merge(kind, live, config)
        last = owned.get(manager)
        fields = typed.to_set(kind, config)
        fields = sets.recursive_difference(fields, self._resets.get(api_version, LEAF))
        owned[manager] = Owned(fields, api_version, applied=True)
        if last is not None and _abandons(last, owned[manager]):
            new = self._pruned(new, api_version, owned, last)
        owned, _ = self._take(live, new, api_version, owned, manager, force=force)
        return new, owned

    def _type(self, api_version: str) -> Type:
        kind_type = self._versions.type_in(api_version)
        assert kind_type is not None, f"writes come in served versions, not in {api_version}"
        return kind_type

    def _take(
        self,
        live: object,
        new: object,
        api_version: str,
        owned: dict[Manager, Owned],
        manager: Manager,
        *,
        force: bool,
    ) -> tuple[dict[Manager, Owned], Comparison]:
        """Take the ownership of changed fields from all other managers."""
        comparison = self._compare(live, new, api_version, api_version)
        comparisons = {api_version: comparison}
        result: dict[Manager, Owned] = {}
        conflicts: dict[Manager, FieldSet] = {}
        for other, part in owned.items():
            if other == manager:
                result[other] = part
                continue
            version = part.api_version
            if version not in comparisons:
                if self._versions.type_in(version) is None:
                    continue  # a set in a version that is not served cannot be compared
                comparisons[version] = self._compare(live, new, api_version, version)
            changes = comparisons[version]
            changed = sets.union(changes.modified, changes.added)
            taken = sets.intersection(part.fields, changed) if changed else LEAF
            if taken:
                conflicts[other] = taken
            result[other] = _without_fields(part, taken, changes.removed)
        if conflicts and not force:
            raise Conflicts(conflicts)
        # The comparison in the written version, without the fields that the endpoint resets.
        return {other: part for other, part in result.items() if part.fields}, comparison

    def _compare(self, live: object, new: object, source: str, target: str) -> Comparison:
        kind = self._type(target)
        if source != target:
            live = self._versions.convert(live, source, target)
            new = self._versions.convert(new, source, target)
        return typed.compare(kind, live, new).without(self._resets.get(target, LEAF))

    def _pruned(
        self, merged: object, api_version: str, owned: dict[Manager, Owned], last: Owned
    ) -> object:
        """Remove the fields that only this applier owned and does not apply any more."""
        version = last.api_version
        kind = self._versions.type_in(version)
        if kind is None:
            return merged
        merged = self._converted(merged, api_version, version)
        pruned = typed.without(kind, merged, sets.with_named_fields(last.fields, kind))
        pruned = self._with_owned(merged, pruned, version, owned)
        pruned = _with_dangling(kind, merged, pruned, last.fields)
        return self._converted(pruned, version, api_version)

    def _converted(self, value: object, source: str, target: str) -> object:
        return value if source == target else self._versions.convert(value, source, target)

    def _with_owned(
        self, merged: object, pruned: object, version: str, owned: dict[Manager, Owned]
    ) -> object:
        """Restore pruned fields that another manager owns, version by version."""
        managed: dict[str, FieldSet] = {version: LEAF}
        for part in owned.values():
            before = managed.get(part.api_version, LEAF)
            managed[part.api_version] = sets.union(before, part.fields)
        current = version
        for target, fields in managed.items():
            kind = self._versions.type_in(target)
            if kind is None:
                continue
            merged = self._converted(merged, current, target)
            pruned = self._converted(pruned, current, target)
            current = target
            all_fields = sets.with_named_fields(typed.to_set(kind, merged), kind)
            kept = sets.with_named_fields(typed.to_set(kind, pruned), kind)
            kept = sets.union(kept, sets.with_named_fields(fields, kind))
            pruned = typed.without(kind, merged, sets.difference(all_fields, kept))
        return self._converted(pruned, current, version)

    def _reconciled(
        self, live: object, owned: dict[Manager, Owned], api_version: str
    ) -> dict[Manager, Owned]:
        """Return the owners, their sets fitted to types that have become atomic since."""
        if not self._versions.may_change:
            return dict(owned)
        result = {}
        for manager, part in owned.items():
            kind = self._versions.type_in(part.api_version)
            if kind is not None:
                fields = reconciled(kind, part.fields)
                result[manager] = dataclasses.replace(part, fields=fields)
        return result


def _abandons(last: Owned, now: Owned) -> bool:
    """Return True if an applier may not own all fields any more that it owned."""
    if last.api_version != now.api_version:
        return bool(last.fields)
    return bool(sets.difference(last.fields, now.fields))


def _without_fields(owned: Owned, taken: FieldSet, removed: FieldSet) -> Owned:
    if not taken and not removed:
        return owned
    fields = sets.difference(sets.difference(owned.fields, taken), removed)
    return dataclasses.replace(owned, fields=fields)


def _with_dangling(kind: Type, merged: object, pruned: object, last: FieldSet) -> object:
    """Restore items removed with their parent that the applier's last set did not own.

    Structured-merge-diff calls them dangling items.
    """
    kept = sets.with_named_fields(typed.to_set(kind, pruned), kind)
    everything = sets.with_named_fields(typed.to_set(kind, merged), kind)
    gone = sets.difference(everything, kept)
    last = sets.with_named_fields(last, kind)
    return typed.without(kind, merged, sets.intersection(gone, last))


def reconciled(kind: Type, fields: FieldSet) -> FieldSet:
    """Widen the ownership of any field inside an atomic value to the whole value."""
    result: FieldSet = {}
    for element, node in fields.items():
        if element == paths.SELF:
            result[element] = node
            continue
        inner = _type_below(kind, element)
        result[element] = node if inner is None else _reconciled_node(inner, node)
    return result


def _type_below(kind: Type, element: str) -> Type | None:
    if element[:2] == paths.FIELD and kind.map is not None:
        if kind.map.element is UNTYPED and not kind.map.fields:
            return None
        return kind.map.type_of(element[2:])
    return kind.list.element if kind.list is not None else None


def _reconciled_node(kind: Type, node: FieldSet) -> FieldSet:
    if not node:
        return node
    if kind.map is not None:
        is_atomic = kind.map.is_atomic
    else:
        is_atomic = kind.list is not None and kind.list.is_atomic and not kind.scalar
    return LEAF if is_atomic else reconciled(kind, node)
