"""A worker process: runs cases for the runner, one at a time, and returns outcomes.

Input and output are one JSON document per line, on standard input and output:

    -> {"options": ..., "timeout_seconds": 60, ...}             first, once
    <- {"error": null}                                          or a mistake in the options
    -> {"area": "filter", "origin": "...", ...}                 then a case; "log_path" is the
                                                                file of its event log, if any
    <- {"area": "filter", "name": "...", "verdict": "passed"}   its outcome

Everything else that the process prints goes to standard error. The process ends with its input.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from ..api import Json
from ..errors import InputError
from ..format.case import case_of
from ..outcome import Aspect
from ..targets import target_kind
from ..targets.quiet import run_quietly
from ..targets.target import TargetOptions
from .execution import run_case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..outcome import Outcome

#: The interpreter's default of 700 would scan all imported modules again and again.
_GARBAGE_THRESHOLD: Final = 50_000


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The options that hold for all cases of a worker."""

    options: TargetOptions
    timeout_seconds: float
    aspects: frozenset[Aspect]
    folder: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A validated case to run, in the form of its file."""

    area: str
    origin: str
    line: int
    case: Json
    seed: int
    log_path: str = ""


def main() -> None:
    """Run cases until the input ends."""
    answers = _private_output()
    for answer in answered(iter(sys.stdin.buffer.readline, b"")):
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def answered(lines: Iterator[bytes]) -> Iterator[Outcome | Json]:
    """Yield the answer to each line of the input."""
    setup = msgspec.json.decode(next(lines), type=Setup)
    gc.set_threshold(_GARBAGE_THRESHOLD)  # before the scheduler is imported
    try:
        kind = target_kind(setup.options)
    except InputError as error:
        yield {"error": str(error)}
        return
    yield {"error": None}
    gc.freeze()
    for line in lines:
        order = msgspec.json.decode(line, type=Order)
        case = case_of(order.case, area=order.area, origin=order.origin, line=order.line)
        running = run_case(
            case,
            kind,
            seed=order.seed,
            timeout_seconds=setup.timeout_seconds,
            aspects=setup.aspects,
            log_path=Path(order.log_path) if order.log_path else None,
            folder=Path(setup.folder),
        )
        yield run_quietly(running)


def _private_output() -> BinaryIO:
    """Keep the standard output for outcomes, and redirect prints to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # A scheduler that kills the process does not flush: its output must be written at once.
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    return answers


if __name__ == "__main__":
    main()
