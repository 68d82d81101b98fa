"""The fields of a configuration that a message refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A place in the document, an unknown field there, or an invalid field with its whole path.
_PARTS: Final = re.compile(
    r'decoding \.(?P<place>[\w.\[\]]+): |(?P<text>unknown field "(?P<unknown>[^"]+)")'
    r"|(?P<invalid>[a-z][\w.\[\]]*): (?:Invalid value|Forbidden|Required value|Unsupported value)"
)
_KEYS: Final = re.compile(r"(?P<key>\w+)|\[(?P<index>\d+)\]")


def refused_fields(message: str) -> Iterator[tuple[str, str]]:
    """Yield the paths of the fields that a message names, each with its part of the message."""
    place = ""
    for part in _PARTS.finditer(message):
        if part["place"]:
            place = f"{part['place']}.args."
        elif part["unknown"]:
            yield place + part["unknown"], part["text"]
        else:
            yield part["invalid"], message


def remove_field(document: Any, path: str) -> bool:
    """Remove a field of a configuration. Return False if there is none at this path."""
    *parents, last = [
        int(key["index"]) if key["index"] else key["key"] for key in _KEYS.finditer(path)
    ]
    try:
        for key in parents:
            document = document[key]
        document.pop(str(last))
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    return True
