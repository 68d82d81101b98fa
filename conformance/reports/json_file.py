"""Files of indented JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


def write_json(path: Path, content: object, *, indent: int = 2) -> None:
    """Write an object as indented JSON. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=indent) + b"\n")
