"""The field manager of each endpoint of a kind, and the fields that each endpoint resets.

Source: GetResetFields in pkg/registry/*/strategy.go of Kubernetes v1.36.3 and, for custom
resources, in apiextensions-apiserver pkg/registry/customresource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.apply import scaled, sets, types
from fakeapi.apply.field_manager import FieldManager
from fakeapi.types import schema
from fakeapi.types.kind import CLIENT_METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.apply.sets import FieldSet
    from fakeapi.apply.types import Type
    from fakeapi.types.kind import Kind, KindTable
    from fakeapi.types.objects import Json

_STATUS: Final = ("f:status",)
_SPEC: Final = ("f:spec",)
_METADATA: Final = ("f:metadata",)


class _Served:
    """The API versions of one collection: the two views of events, the versions of a CRD."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = {kind.api_version: kind for kind in kinds}
        self._types: dict[str, Type] = {}
        self._may_change = any(kind.structure is not None for kind in self._kinds.values())

    @property
    def may_change(self) -> bool:
        """Return True if types may change between two writes, as custom resources' do."""
        return self._may_change

    def type_in(self, api_version: str) -> Type | None:
        """Return the type of objects in that version, None if the version is not served."""
        kind = self._kinds.get(api_version)
        if kind is None:
            return None
        merge_type = self._types.get(api_version)
        if merge_type is None:
            merge_type = self._types[api_version] = type_of(kind)
        return merge_type

    def convert(self, value: object, source: str, target: str) -> object:
        """Return an object of one served version in another.

        None, an object of which nothing is left, becomes an empty object. Custom resources are
        returned as they are: upstream's strategy None changes the apiVersion only, and reads prune.
        """
        before, after = self._kinds[source], self._kinds[target]
        if not isinstance(value, dict):
            return {}
        if after.structure is not None:
            return value
        stored: Json = before.to_stored(value) if before.to_stored else value
        return after.from_stored(stored) if after.from_stored else stored


def type_of(kind: Kind) -> Type:
    """Return the type by which server-side apply merges objects of a kind."""
    if kind.schema:
        return types.built_in(kind.schema)
    return types.structural(kind.structure.open_api()) if kind.structure else types.UNTYPED


def manager_for(table: KindTable, kind: Kind, subresource: str = "") -> FieldManager:
    """Return the field manager of an endpoint, cached until the table of kinds changes."""
    key = f"field manager of {kind.api_version} {kind.plural}/{subresource}"
    return table.derived(key, lambda: _new_manager(table, kind, subresource))


def _new_manager(table: KindTable, kind: Kind, subresource: str) -> FieldManager:
    if subresource == "scale":
        return scaled.field_manager()
    # Entries of managers that wrote through another group are dropped, as upstream's of events are.
    siblings = [
        other
        for other in table
        if other.storage_key == kind.storage_key and other.group == kind.group
    ]
    empty = schema.decode(kind.schema, {}) if kind.schema else {}
    return FieldManager(
        _Served([*siblings, kind]),
        api_version=kind.api_version,
        kind=kind.kind,
        subresource=subresource,
        empty=empty,
        resets={kind.api_version: _resets(kind, subresource)},
    )


def _resets(kind: Kind, subresource: str) -> FieldSet:
    if not kind.has_status or not kind.declares_resets:
        return sets.LEAF
    if subresource == "ephemeralcontainers":  # resets the status, but upstream does not declare it
        return sets.LEAF
    if subresource != "status":
        return sets.of_path(_STATUS)
    resets = sets.of_path(_SPEC)
    if kind.status_keeps == CLIENT_METADATA:
        return sets.union(resets, sets.of_path(_METADATA))
    for field in kind.status_keeps:
        resets = sets.union(resets, sets.of_path((*_METADATA, f"f:{field}")))
    return resets
