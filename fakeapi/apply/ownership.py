"""managedFields in the write pipeline.

Owners are computed from the client's object and the stored one, before admission and the server's
own rules change it: the fields that the server fills in have no owner. Binding, eviction and
deletion leave the owners as they are.

Source: apiserver pkg/endpoints/handlers/{create,update,patch}.go and fieldmanager/equality.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.apply import is_ours, manager_for
from fakeapi.types.objects import Json, child, mappings, metadata_of

if TYPE_CHECKING:
    from fakeapi.store.registry import Target
    from fakeapi.types.kind import Kind, KindTable

_FIELD: Final = "managedFields"


def split_entries(value: Json) -> tuple[Json, list[Json] | None]:
    """Split `metadata.managedFields` off the body if this server made the entries.

    The entries are then not decoded again. An empty list, which decoding would drop, removes all
    managers.
    """
    metadata = value.get("metadata")
    entries = metadata.get(_FIELD) if isinstance(metadata, dict) else None
    if not isinstance(entries, list) or not isinstance(metadata, dict) or not is_ours(entries):
        return value, None
    rest = {name: item for name, item in metadata.items() if name != _FIELD}
    return {**value, "metadata": rest}, entries


def on_create(kinds: KindTable, target: Target, obj: Json, now: str, *, tracks: bool) -> None:
    """Set the owners of a new object. Without `tracks` the first apply sets them."""
    metadata = child(obj, "metadata")
    if target.manager is None:
        return
    metadata.pop(_FIELD, None)
    if tracks:
        shown = _shown(target.kind, obj)
        manager = manager_for(kinds, target.kind, target.subresource)
        _set(metadata, manager.created(shown, target.manager, now))


def on_update(kinds: KindTable, target: Target, obj: Json, old: Json, now: str) -> None:
    """Set the owners of an object that replaces `old`."""
    if target.manager is None:
        return
    metadata = child(obj, "metadata")
    manager = manager_for(kinds, target.kind, target.subresource)
    live, new = _shown(target.kind, old), _shown(target.kind, obj)
    entries = manager.updated(live, new, target.manager, now)
    metadata.pop(_FIELD, None)
    _set(metadata, entries)


def keep_times(obj: Json, old: Json) -> None:
    """Restore the old entries if only their times have changed: the write is then a no-op."""
    metadata = child(obj, "metadata")
    entries, before = metadata.get(_FIELD), metadata_of(old).get(_FIELD)
    if not entries or entries is before or not isinstance(entries, list) or before is None:
        return
    if [_timeless(entry) for entry in mappings(entries)] == [
        _timeless(entry) for entry in mappings(before)
    ]:
        metadata[_FIELD] = before
        if obj != old:
            metadata[_FIELD] = entries


def _timeless(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name != "time"}


def _shown(kind: Kind, obj: Json) -> Json:
    return kind.from_stored(obj) if kind.from_stored else obj


def _set(metadata: Json, entries: list[Json]) -> None:
    if entries:
        metadata[_FIELD] = entries
