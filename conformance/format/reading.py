"""Read API objects: their names, and the places and states of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .resources import part

if TYPE_CHECKING:
    from ..api import Json

_OVER: Final = frozenset({"Succeeded", "Failed"})


def text_in(obj: Json, name: str) -> str:
    """Return a text within an object; empty if it is missing."""
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """Return the items of a list as texts; empty for any other value."""
    return [str(item) for item in value] if isinstance(value, list) else []


def present(**fields: object) -> Json:
    """Return the fields that are neither None nor empty."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def short_name_of(obj: Json) -> str:
    """Return an object's name without its namespace."""
    return text_in(part(obj, "metadata"), "name")


def name_of(obj: Json) -> str:
    """Return an object's name as cases have it: `namespace/name` outside of `default`."""
    return name_in(text_in(part(obj, "metadata"), "namespace"), short_name_of(obj))


def name_in(namespace: str, name: str) -> str:
    """Return the name in a namespace as cases have it."""
    return name if namespace in ("", "default") else f"{namespace}/{name}"


def reasons_in(message: str) -> str:
    """Return a message up to the text of PostFilter, which differs between versions and choices."""
    return message.partition(". ")[0].rstrip(".")


def node_of(pod: Json) -> str:
    """Return the name of a pod's node; empty without one."""
    return text_in(part(pod, "spec"), "nodeName")


def is_over(pod: Json) -> bool:
    """Return True if a pod has ended."""
    return part(pod, "status").get("phase") in _OVER
