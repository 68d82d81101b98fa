"""Columns of tables, as `kubectl get` shows them, as data.

A column has a name, a type and a source: a JSON path into the stored object, or a function for a
cell that upstream computes.
Source: pkg/printers/internalversion/printers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from fakeapi.types.durations import age
from fakeapi.types.json_path import JsonPath
from fakeapi.types.objects import (
    Json,
    mapping,
    mappings,
    metadata_of,
    name_of,
    sequence,
    text,
    texts,
)

NONE: Final = "<none>"
UNSET: Final = "<unset>"
UNKNOWN: Final = "<unknown>"
#: The number of addresses, ports or hosts in one cell.
ITEMS_SHOWN: Final = 3
_PATHS_CACHED_MAX: Final = 1024

_is_plain: Final = re.compile(r"(\.\w+)+").fullmatch
#: Computes a cell from an object in its stored form, at a time in epoch seconds.
Cell: TypeAlias = Callable[[Json, float], object]
#: Formats the value at a path, which is None if the object has none.
Form: TypeAlias = Callable[[object], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """One column.

    A path without a `form` is read as the type requires: text, number or flag, and the type's zero
    value if it is missing. `-o wide` alone shows columns with a priority above 0.
    """

    name: str
    source: str | Cell
    form: Form | None = None
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def cell(self, obj: Json, now_seconds: float) -> object:
        if callable(self.source):
            return self.source(obj, now_seconds)
        return (self.form or _FORMS[self.type])(find(obj, self.source))

    def definition(self) -> Json:
        """Return the metav1.TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@functools.lru_cache(_PATHS_CACHED_MAX)
def _parsed(path: str) -> tuple[str, ...] | JsonPath:
    """Return the names in a path of fields only, which are most of them, else the JSON path."""
    return tuple(path[1:].split(".")) if _is_plain(path) else JsonPath(path)


def find(obj: Json, path: str) -> object:
    """Return the first value at a JSON path, None if there is none."""
    parsed = _parsed(path)
    if isinstance(parsed, JsonPath):
        return next(iter(parsed.find(obj)), None)
    value: object = obj
    for name in parsed:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def number(value: object) -> int:
    """Return the integer, 0 for any other value."""
    return value if isinstance(value, int) else 0


def flag(value: object) -> bool:
    """Return True for the JSON value `true` only."""
    return value is True


def find_text(obj: Json, path: str) -> str:
    """Return the string at a JSON path, empty if there is none."""
    return text(find(obj, path))


def find_number(obj: Json, path: str) -> int:
    """Return the integer at a JSON path, 0 if there is none."""
    return number(find(obj, path))


def find_mappings(obj: Json, path: str) -> list[Json]:
    """Return the objects in the array at a JSON path."""
    return mappings(find(obj, path))


def size(value: object) -> int:
    """Return the number of entries of an object or items of an array."""
    return len(mapping(value)) or len(sequence(value))


def or_else(default: str) -> Form:
    """Return a form: the value as text, `default` if it is missing."""
    return lambda value: default if value is None else str(value)


def or_if_empty(default: str) -> Form:
    """Return a form: the value as text, `default` if it is missing or empty."""
    return lambda value: text(value) or default


def joined(field: str) -> Form:
    """Return a form: one string field of each object in an array, with commas between them."""
    return lambda value: ",".join(text(item.get(field)) for item in mappings(value))


def labels_text(labels: object) -> str:
    """Return labels as `a=1,b=2`, sorted."""
    pairs = sorted((key, text(value)) for key, value in mapping(labels).items())
    return ",".join(f"{key}={value}" for key, value in pairs) or NONE


def selector_text(selector: object) -> str:
    """Return a metav1.LabelSelector as text, its requirements sorted by key; empty for none."""
    wanted = mapping(selector)
    parts = [
        (key, f"{key}={text(value)}") for key, value in mapping(wanted.get("matchLabels")).items()
    ]
    for term in mappings(wanted.get("matchExpressions")):
        key = text(term.get("key"))
        values = ",".join(sorted(texts(term.get("values"))))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms.get(text(term.get("operator")), "<error>")))
    return ",".join(part for _, part in sorted(parts, key=lambda pair: pair[0]))


def selector_or_none(selector: object) -> str:
    """Return a metav1.LabelSelector as text, `<none>` for one without requirements."""
    return selector_text(selector) or NONE


def first_items(items: list[str], *, nothing: str) -> str:
    """Return the first three items and the number of the others, `nothing` for no items."""
    line = ",".join(items[:ITEMS_SHOWN])
    more = len(items) - ITEMS_SHOWN
    return f"{line} + {more} more..." if more > 0 else line or nothing


def load_balancers(ingress: object) -> str:
    """Return the addresses in the status of a load balancer, sorted."""
    hosts = {text(entry.get("ip")) or text(entry.get("hostname")) for entry in mappings(ingress)}
    return ",".join(sorted(hosts - {""}))


def kind_and_name(reference: object) -> str:
    """Return a reference as text: `Kind/name`."""
    return f"{text(mapping(reference).get('kind'))}/{text(mapping(reference).get('name'))}"


def ready_replicas(obj: Json, _now_seconds: float) -> str:
    """Return the ready and the desired number of replicas of a workload."""
    return f"{find_number(obj, '.status.readyReplicas')}/{find_number(obj, '.spec.replicas')}"


def name_with_default(*annotations: str) -> Cell:
    """Return a cell: the name, with ` (default)` if one of the annotations is true."""

    def cell(obj: Json, _now_seconds: float) -> str:
        marks = mapping(metadata_of(obj).get("annotations"))
        is_default = any(marks.get(annotation) == "true" for annotation in annotations)
        return name_of(obj) + (" (default)" if is_default else "")

    return cell


_FORMS: Final[dict[str, Form]] = {"string": text, "integer": number, "boolean": flag}


def age_at(path: str) -> Cell:
    """Return a cell: the time since the timestamp at a path."""
    return lambda obj, now_seconds: age(find(obj, path), now_seconds)


def wide(name: str, source: str | Cell, form: Form | None = None) -> Column:
    """Return a column of text that `-o wide` alone shows."""
    return Column(name, source, form, priority=1)


def containers_columns(template: str = ".spec.template") -> tuple[Column, Column]:
    """Return the columns of names and images of the containers of a pod template."""
    containers = f"{template}.spec.containers"
    return (
        wide("Containers", containers, joined("name")),
        wide("Images", containers, joined("image")),
    )


NAME: Final = Column("Name", ".metadata.name", format="name")
AGE: Final = Column("Age", age_at(".metadata.creationTimestamp"))
NAME_AND_AGE: Final = (NAME, AGE)
