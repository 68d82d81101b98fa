"""A file that one server at a time writes while it runs: a fault log or a recording.

`open_locked` keeps the content of the file; the server calls `truncate` once it has its port.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path


def open_locked(path: Path) -> FileIO:
    """Open the file for appending, unbuffered, and lock it until it is closed.

    Raises OSError; BlockingIOError if another server has locked it. Pipes and devices are not
    locked.
    """
    file = path.open("ab", buffering=0)
    if path.is_file():
        try:
            _lock(file)
        except OSError:
            file.close()
            raise
    return file


def truncate(file: FileIO) -> None:
    """Empty the file. Raises OSError."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)


def write_all(file: FileIO, data: bytes) -> None:
    """Write all of the data. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def _lock(file: FileIO) -> None:
    """Lock the file; a no-op where there are no such locks (Windows)."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
