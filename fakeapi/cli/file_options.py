"""Which files the command line names, and that none of them is written over by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["refuse_overwriting"]

#: The standard input, which is no file of that name.
_STANDARD_INPUT = Path("-")


def refuse_overwriting(
    written: Iterable[tuple[str, Path | None]], read: Iterable[tuple[str, Path | None]]
) -> None:
    """Refuse to write a file that another flag names, before anything is opened.

    Both are pairs of a flag and the file that it names, None without one. Raises click.UsageError.
    """
    names: dict[Path, str] = {}
    for flag, path in read:
        if path is not None and path != _STANDARD_INPUT:
            names.setdefault(path.resolve(), flag)
    for flag, path in written:
        if path is None or (path.exists() and not path.is_file()):
            continue  # /dev/stderr and the like may be written to by several
        other = names.setdefault(path.resolve(), flag)
        if other != flag:
            raise click.UsageError(f"{flag} would write over {path}, which is the file of {other}")
