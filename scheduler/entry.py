"""The first steps of the commands: a signal, or an output that is closed or full, is no traceback.

The rest of a command is imported afterwards, which takes half a second.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from scheduler.collector import paused_collection

if TYPE_CHECKING:
    from types import ModuleType

#: Errors of the standard output; those of files have a file name.
_OUTPUT_ERRORS: Final = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def kubesched() -> None:
    """Run `kubesched`; ends by SystemExit."""
    _run("kubesched", "scheduler.cli")


def kubesched_explain() -> None:
    """Run `kubesched-explain`; ends by SystemExit."""
    _run("kubesched-explain", "scheduler.explain.cli")


def kubesched_simulate() -> None:
    """Run `kubesched-simulate`; ends by SystemExit."""
    _run("kubesched-simulate", "scheduler.simulate.cli")


def _run(name: str, module: str) -> None:
    # Ctrl-C ends the process without words, as SIGTERM does, until `kubesched` has handlers.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv[0] = name
    try:
        try:
            _imported(module).main()
        finally:
            # An output that is buffered fails here, not in the last moments of the interpreter.
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"{name}: standard output: {error.strerror}\n")
        # The rest of the output is discarded, also at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from error


def _imported(module: str) -> ModuleType:
    """Import a module out of the garbage collector's sight.

    Modules live until the end. With the collector their import, and the end, take a quarter longer.
    """
    with paused_collection():
        imported = importlib.import_module(module)
        gc.freeze()
    return imported
