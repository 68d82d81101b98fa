"""A worker process: takes cases from the runner, one at a time, and answers with outcomes.

Both ways it is one JSON document a line, on standard input and output:

    -> {"options": ..., "seed": 0, "timeout_seconds": 60}       first, once
    <- {"ready": true}
    -> {"area": "filter", "origin": "...", "case": {...}}       then a case, and where its event
                                                                log goes, if anywhere: "log_path"
    <- {"area": "filter", "name": "...", "verdict": "passed"}   its outcome

Whatever else the process prints goes to standard error. It ends with its input.
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from .api import Json
from .case import case_of
from .errors import InputError
from .execution import run_case
from .quiet import QuietLoop
from .target import TargetOptions, target_kind

__all__ = ["Order", "Setup", "main"]

#: The interpreter's own 700 would look through everything imported again and again.
_GARBAGE_THRESHOLD: Final = 50_000


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all cases of a worker."""

    options: TargetOptions
    seed: int
    timeout_seconds: float


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A case to run, as its file has it; it has been validated."""

    area: str
    origin: str
    case: Json
    log_path: str = ""


def main() -> None:
    """Work until the input ends."""
    answers = _private_output()
    lines = iter(sys.stdin.buffer.readline, b"")
    setup = msgspec.json.decode(next(lines), type=Setup)
    try:
        kind = target_kind(setup.options)
    except InputError as error:
        raise SystemExit(str(error)) from error
    _write(answers, {"ready": True})
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    for line in lines:
        order = msgspec.json.decode(line, type=Order)
        case = case_of(order.case, area=order.area, origin=order.origin)
        running = run_case(
            case,
            kind,
            seed=setup.seed,
            timeout_seconds=setup.timeout_seconds,
            log_path=Path(order.log_path) if order.log_path else None,
        )
        # A loop of its own: what a case leaves behind ends with it.
        with asyncio.Runner(loop_factory=QuietLoop) as runner:
            outcome = runner.run(running)
        _write(answers, outcome)


def _private_output() -> BinaryIO:
    """The standard output, kept for answers; prints go to standard error from now on."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # A scheduler that takes the process down flushes nothing: what it printed must be out by then.
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    return answers


def _write(answers: BinaryIO, document: object) -> None:
    answers.write(msgspec.json.encode(document) + b"\n")
    answers.flush()


if __name__ == "__main__":
    main()
