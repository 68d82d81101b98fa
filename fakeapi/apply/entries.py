"""metadata.managedFields: read and write its entries, and limit their number.

An entry is `{manager, operation, apiVersion, time, fieldsType, fieldsV1, subresource}`. Entries are
ordered by operation, time, manager, apiVersion and subresource. At most ten entries belong to
updaters; older entries are merged into one `ancient-changes` entry for each API version. `kind`,
`apiVersion` and the metadata that the server sets have no owner.

Source: apimachinery pkg/util/managedfields/internal of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.apply import paths, sets
from fakeapi.apply.updater import Manager, Owned
from fakeapi.types.client_text import cached

if TYPE_CHECKING:
    from fakeapi.apply.sets import FieldSet
    from fakeapi.types.objects import Json

UPDATE: Final = "Update"
APPLY: Final = "Apply"
_FIELDS_TYPE: Final = "FieldsV1"
_UPDATERS_MAX: Final = 10
_ANCIENT: Final = "ancient-changes"
UNKNOWN_MANAGER: Final = "unknown"
MANAGER_BYTES_MAX: Final = 128
_STRIPPED_METADATA: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
    "managedFields", "resourceVersion",
)  # fmt: skip
#: Fields without an owner.
_STRIPPED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in _STRIPPED_METADATA}},
}


class EntryError(ValueError):
    """An entry of managedFields is invalid."""


@dataclasses.dataclass(slots=True)
class Managed:
    """The owners of an object's fields, and the time at which each last changed one."""

    owned: dict[Manager, Owned] = dataclasses.field(default_factory=dict)
    times: dict[Manager, str] = dataclasses.field(default_factory=dict)


@cached(512)
def manager_of(user_agent: str) -> str:
    """Return the default manager of a client: its user agent up to the first slash."""
    name = "".join(letter for letter in user_agent.partition("/")[0] if letter.isprintable())
    cut = name.encode()[:MANAGER_BYTES_MAX]
    return cut.decode(errors="ignore")


def is_reset(entries: object) -> bool:
    """Return True if a client removes all managers: by an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def is_ours(entries: list[object]) -> bool:
    """Return True if `rendered` made all entries of a list, and no client did."""
    return all(
        isinstance(entry, dict) and sets.is_canonical(entry.get("fieldsV1")) for entry in entries
    )


def parse(entries: object) -> Managed:
    """Return the owners in a list of entries. Raises EntryError."""
    managed = Managed()
    if not isinstance(entries, list):
        return managed
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise EntryError(f"managed fields entry {index} is not an object")
        manager, owned = _parsed_entry(entry, index)
        managed.owned[manager] = owned
        time = entry.get("time")
        if isinstance(time, str):
            managed.times[manager] = time
        else:
            managed.times.pop(manager, None)
    return managed


def parse_stored(entries: object) -> Managed:
    """Return the owners in a list of entries, none if the list is invalid."""
    try:
        return parse(entries)
    except EntryError:
        return Managed()


def _parsed_entry(entry: Json, index: int) -> tuple[Manager, Owned]:
    operation, version = entry.get("operation"), entry.get("apiVersion")
    if operation not in (UPDATE, APPLY):
        raise EntryError("operation must be `Apply` or `Update`")
    if not isinstance(version, str) or not version:
        raise EntryError("apiVersion must not be empty")
    if entry.get("fieldsType") != _FIELDS_TYPE:
        raise EntryError(f"missing or invalid fieldsType in managed fields entry {index}")
    try:
        fields = sets.parse_cached(entry.get("fieldsV1"))
    except paths.PathError as error:
        raise EntryError(f"error decoding set: {error}") from error
    applied = operation == APPLY
    name, subresource = entry.get("manager", ""), entry.get("subresource", "")
    manager = Manager(str(name), str(operation), "" if applied else version, str(subresource))
    return manager, Owned(fields, version, applied)


def rendered(managed: Managed) -> list[Json]:
    """Return the entries in wire form and order. Their sets are shared; do not change them."""
    ordered = sorted(managed.owned.items(), key=lambda item: _order(managed, *item))
    return [_entry(manager, owned, managed.times.get(manager, "")) for manager, owned in ordered]


def _order(managed: Managed, manager: Manager, owned: Owned) -> tuple[str, ...]:
    time = managed.times.get(manager, "")
    return (manager.operation, time, manager.name, owned.api_version, manager.subresource)


def _entry(manager: Manager, owned: Owned, time: str) -> Json:
    entry: Json = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    entry["apiVersion"] = owned.api_version
    if time:
        entry["time"] = time
    entry["fieldsType"] = _FIELDS_TYPE
    entry["fieldsV1"] = sets.canonical(owned.fields)
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def stripped(fields: FieldSet) -> FieldSet:
    """Return the set without the fields that the server sets."""
    if "f:metadata" not in fields and "f:kind" not in fields and "f:apiVersion" not in fields:
        return fields
    return sets.difference(fields, _STRIPPED)


def strip(managed: Managed, manager: Manager) -> None:
    """Remove the fields that the server sets from a manager's set. Drop an empty set."""
    owned = managed.owned.get(manager)
    if owned is None:
        return
    fields = stripped(owned.fields)
    if not fields:
        del managed.owned[manager]
    elif fields is not owned.fields:
        managed.owned[manager] = dataclasses.replace(owned, fields=fields)


def cap_updaters(managed: Managed) -> None:
    """Merge the oldest entries of updaters until there are at most ten."""
    updaters = [manager for manager, owned in managed.owned.items() if not owned.applied]
    surplus = len(updaters) - _UPDATERS_MAX
    if surplus <= 0:
        return
    updaters.sort(key=lambda manager: (managed.times.get(manager, ""), manager))
    first_of: dict[str, Manager] = {}
    for manager in updaters:
        if surplus <= 0:
            break
        owned = managed.owned[manager]
        first = first_of.setdefault(owned.api_version, manager)
        if first is manager:
            continue
        bucket = Manager(_ANCIENT, UPDATE, owned.api_version, "")
        if bucket not in managed.owned:
            managed.owned[bucket] = managed.owned.pop(first)
        fields = sets.union(owned.fields, managed.owned[bucket].fields)
        managed.owned[bucket] = Owned(fields, owned.api_version, applied=False)
        if manager != bucket:
            del managed.owned[manager]
        surplus -= 1
        if manager in managed.times:
            managed.times[bucket] = managed.times[manager]
