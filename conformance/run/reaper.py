"""A process that outlives a run that is killed: it ends the run's processes, removes its folder.

    python reaper.py FOLDER

Its standard input is a pipe whose other end only the run holds. At the end of the input it kills
the process group of each file `*.pid` in the folder, and removes the folder. After a run that has
cleaned up there is nothing left to do. The module imports nothing of the suite: it starts quickly.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Processes that were killed can write for a moment.
_TRIES = 20
_PAUSE_SECONDS = 0.1


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Make a temporary folder for a run. It goes with the run, however the run ends.

    A process group that must end with the run has a file `*.pid` in the folder or below it, with
    the id of its first process.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-I", "-S", __file__, folder]
        # In a session of its own it does not get the signals of the terminal.
        reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        with reaper:
            yield Path(folder)


def main(folder: Path) -> None:
    """Wait for the end of the input, and clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clean_up(folder)


def clean_up(folder: Path) -> None:
    """End the processes of a run, and remove its folder."""
    for _ in range(_TRIES):
        for file in folder.rglob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.killpg(int(file.read_text(encoding="utf-8")), signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        select.select([], [], [], _PAUSE_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
