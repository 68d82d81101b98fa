"""Files that a server writes anew while it runs, which cost nothing if it never does.

`opened` takes hold of the file and leaves what is in it; `emptied` once the server has its port.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

__all__ = ["emptied", "opened", "write_whole"]


def opened(path: Path) -> FileIO:
    """The file, unbuffered and as it is, which no other server holds until it is closed.

    Raises OSError; BlockingIOError if another server holds it. Pipes and devices may be shared.
    """
    file = path.open("ab", buffering=0)
    if path.is_file():
        try:
            _lock(file)
        except OSError:
            file.close()
            raise
    return file


def emptied(file: FileIO) -> None:
    """Begin the file anew. Raises OSError."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.truncate(0)


def write_whole(file: FileIO, data: bytes) -> None:
    """Hand all of it to the operating system. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def _lock(file: FileIO) -> None:
    """Until the file is closed; where there is no such lock (Windows) nothing is done."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
