"""The error of files that are read here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


class InputFileError(Exception):
    """A file has bad content. The text names the file, and where known line and field."""

    def __init__(self, path: Path, problem: str, *, line: int = 0, field: str = "") -> None:
        place = f":{line}" if line else ""
        about = f"{field}: " if field else ""
        super().__init__(f"{path}{place}: {about}{problem}")
        self.path: Final = path
