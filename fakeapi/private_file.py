"""Files that only this user may read, whatever their mode was before.

Such files hold Secrets and keys. A snapshot and a kubeconfig are replaced in one step. A fault
log or a recording is written by one server at a time: `open_locked` keeps the content of the file;
the server calls `truncate` once it has its port.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from io import FileIO

_MODE: Final = 0o600


def replace(path: Path, data: bytes, *, is_durable: bool = False) -> None:
    """Put the data in the place of the file. Raises OSError.

    A reader sees the old file or the new one. A durable file is there after a loss of power. A
    pipe or a device is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        descriptor = _opened(str(beside), os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if is_durable:
        _sync_directory(target.parent)


def create(path: Path) -> None:
    """Create the file unless it exists. Raises OSError."""
    os.close(_opened(str(path), os.O_RDWR))


def open_locked(path: Path) -> FileIO:
    """Open the file for appending, unbuffered, and lock it until it is closed.

    Raises OSError; BlockingIOError if another server has locked it. Pipes and devices are not
    locked.
    """
    file = os.fdopen(_opened(str(path), os.O_WRONLY | os.O_APPEND), "ab", buffering=0)
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


def _opened(path: str, flags: int) -> int:
    """Open or create a file; a regular file gets the mode. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CREAT, _MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        with contextlib.suppress(OSError):  # a file of another user keeps its mode
            Path(path).chmod(_MODE)
    return descriptor


def _sync_directory(path: Path) -> None:
    """Write the directory to the disk, so that the file's name survives a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(file: FileIO) -> None:
    """Lock the file; a no-op where there are no such locks (Windows)."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
