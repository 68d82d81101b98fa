"""Changes of objects of any kind, for the check of a plugin's queueing hints."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.unstructured import Unstructured
from scheduler.client.kinds import resource_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.client import ApiObject

#: A number with a unit, such as a quantity.
_AMOUNT: Final = re.compile(r"(\d+)(\w*)")
#: The factor of a value that is raised.
_FACTOR: Final = 1000
#: So many changes of each object are tried.
_CHANGES_MAX: Final = 20
#: The fields that can change in an object's metadata.
_CHANGEABLE_METADATA: Final = ("labels", "annotations")

_Path = tuple[str | int, ...]


def object_changes(
    items: Sequence[ApiObject],
) -> Iterator[tuple[ApiObject, ApiObject | None, Sequence[ApiObject]]]:
    """Yield an object, what becomes of it (None if it is deleted), and the objects afterwards."""
    for index, obj in enumerate(items):
        others = [*items[:index], *items[index + 1 :]]
        yield obj, None, others
        for changed in itertools.islice(changes_of(obj, others), _CHANGES_MAX):
            yield obj, changed, [*items[:index], changed, *items[index + 1 :]]


def changes_of(obj: ApiObject, others: Sequence[ApiObject]) -> Iterator[ApiObject]:
    """Yield an object with one field changed, for each field.

    Numbers and quantities become 1 and 1000 times as large, booleans are negated, other texts
    become the texts of the same field of `others`; a label or an annotation is also removed.
    """
    fields = _json_of(obj)
    further = [dict(_leaves(_json_of(other))) for other in others]
    for path, value in _leaves(fields):
        texts = (other[path] for other in further if path in other)
        for changed in dict.fromkeys((*_amounts(value), *texts)):
            if changed != value:
                yield from _rebuilt(obj, _with(fields, path, changed))
        if path[0] == "metadata":
            yield from _rebuilt(obj, _with(fields, path, None))


def _json_of(obj: ApiObject) -> dict[str, object]:
    """Return a copy of an object's fields, as in JSON."""
    if isinstance(obj, Unstructured):
        encoded = msgspec.json.encode(obj, enc_hook=dict)
    else:
        encoded = resource_named(type(obj)).encode(obj)  # type: ignore[union-attr]
    fields: dict[str, object] = msgspec.json.decode(encoded)
    return fields


def _rebuilt(obj: ApiObject, fields: Mapping[str, object]) -> Iterator[ApiObject]:
    """Yield the object of these fields; nothing if its type does not allow them."""
    if isinstance(obj, Unstructured):
        yield Unstructured(fields)
        return
    try:
        yield msgspec.json.decode(msgspec.json.encode(fields), type=type(obj))
    except msgspec.ValidationError:
        return


def _leaves(value: object, path: _Path = ()) -> Iterator[tuple[_Path, object]]:
    """Yield the path and the value of each field that a change may set."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            identity = ("apiVersion", "kind") if not path else ()
            if path == ("metadata",) and key not in _CHANGEABLE_METADATA:
                continue
            if key not in identity:
                yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _amounts(value: object) -> tuple[object, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (1, value * _FACTOR)
    if isinstance(value, str) and (amount := _AMOUNT.fullmatch(value)):
        number, unit = amount.groups()
        return (f"1{unit}", f"{int(number) * _FACTOR}{unit}")
    return ()


def _with(fields: dict[str, object], path: _Path, value: object) -> dict[str, object]:
    """Return a copy of the fields in which one field has another value; None removes it."""
    copy: dict[str, object] = msgspec.json.decode(msgspec.json.encode(fields))
    place: object = copy
    for step in path[:-1]:
        place = place[step]  # type: ignore[index] # a mapping or a list
    if value is None:
        del place[path[-1]]  # type: ignore[attr-defined]
    else:
        place[path[-1]] = value  # type: ignore[index]
    return copy
