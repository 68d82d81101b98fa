"""What a printer is made of: columns, and a function that fills one row of cells for an object."""

from __future__ import annotations

from typing import Final

from fakeapi.printing.durations import age, human_duration
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
from fakeapi.types.printer import Column

NONE: Final = "<none>"
UNSET: Final = "<unset>"
UNKNOWN: Final = "<unknown>"


NAME: Final = Column("Name", format="name")
AGE: Final = Column("Age")


def texts_columns(*names: str) -> tuple[Column, ...]:
    """Columns of plain text."""
    return tuple(Column(name) for name in names)


def integers(*names: str) -> tuple[Column, ...]:
    """Columns of whole numbers."""
    return tuple(Column(name, "integer") for name in names)


def wide(*names: str) -> tuple[Column, ...]:
    """Columns of plain text that only `-o wide` shows."""
    return tuple(Column(name, priority=1) for name in names)


def age_of(obj: Json, now_seconds: float) -> str:
    """How long ago the object was created."""
    return age(metadata_of(obj).get("creationTimestamp"), now_seconds)


def since(start: object, end: object, now_seconds: float) -> str:
    """How long something took, or has been going on; empty if it has not begun."""
    if not isinstance(start, str) or not start:
        return ""
    from fakeapi.types.times import epoch_seconds

    finish = epoch_seconds(end) if isinstance(end, str) and end else now_seconds
    return human_duration(finish - epoch_seconds(start))


def name_and_age(obj: Json, now_seconds: float) -> list[object]:
    """The cells of kinds that show nothing else."""
    return [name_of(obj), age_of(obj, now_seconds)]


def value_at(obj: Json, *path: str) -> object:
    """The value at a path, None if anything is missing."""
    value: object = obj
    for part in path:
        value = mapping(value).get(part)
    return value


def text_at(obj: Json, *path: str) -> str:
    """The string at a path, empty if there is none."""
    return text(value_at(obj, *path))


def count_at(obj: Json, *path: str) -> int:
    """The number at a path, 0 if there is none."""
    value = value_at(obj, *path)
    return value if isinstance(value, int) else 0


def texts_at(obj: Json, *path: str) -> list[str]:
    """The strings at a path."""
    return texts(value_at(obj, *path))


def mappings_at(obj: Json, *path: str) -> list[Json]:
    """The objects at a path."""
    return mappings(value_at(obj, *path))


def shown(value: object) -> str:
    """A string, number or flag as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def labels_text(labels: object) -> str:
    """Labels as `a=1,b=2`, sorted."""
    pairs = sorted((key, text(value)) for key, value in mapping(labels).items())
    return ",".join(f"{key}={value}" for key, value in pairs) or NONE


def selector_text(selector: object, *, nothing: str = NONE) -> str:
    """A metav1.LabelSelector as text, its requirements sorted by key."""
    asked = mapping(selector)
    parts = [
        (key, f"{key}={text(value)}") for key, value in mapping(asked.get("matchLabels")).items()
    ]
    for term in mappings(asked.get("matchExpressions")):
        key = text(term.get("key"))
        values = ",".join(sorted(texts(term.get("values"))))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms.get(text(term.get("operator")), "<error>")))
    return ",".join(part for _, part in sorted(parts, key=lambda pair: pair[0])) or nothing


def containers_cells(containers: list[Json]) -> tuple[str, str]:
    """Names and images of containers, each in one cell."""
    return (
        ",".join(text(container.get("name")) for container in containers),
        ",".join(text(container.get("image")) for container in containers),
    )


def limited(items: list[str], count: int, limit: int, *, nothing: str) -> str:
    """The first few items and how many more there are."""
    line = ",".join(items[:limit])
    if len(items) > limit:
        return f"{line} + {count - limit} more..."
    return line or nothing


def length_at(obj: Json, *path: str) -> int:
    """How many items or entries are at a path."""
    value = value_at(obj, *path)
    return len(mapping(value)) or len(sequence(value))
