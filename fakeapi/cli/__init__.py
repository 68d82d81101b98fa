"""The command line `kubesched-fakeapi`."""

from __future__ import annotations

import gc
import signal
from typing import Final

#: Thresholds of Python's garbage collector: modules and stored objects live long and have no
#: cycles.
_GARBAGE_THRESHOLDS: Final = (200_000, 50)


def main() -> None:
    """Run `kubesched-fakeapi`."""
    # Ctrl-C ends the process without words, as SIGTERM does, until the server has handlers.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*_GARBAGE_THRESHOLDS)  # before the imports, which would be a tenth slower
    from fakeapi.cli.command import run

    gc.freeze()  # or the end of the process would take a tenth of a second longer
    run()
