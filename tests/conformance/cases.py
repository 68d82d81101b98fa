"""Cases for the tests of the suite itself, and a way to run them here and now."""

import asyncio
import textwrap
from collections.abc import Callable
from pathlib import Path

from conformance.format.case import Case, load_cases
from conformance.outcome import ALL_ASPECTS, Aspect, Outcome
from conformance.run.execution import run_case
from conformance.targets import target_kind
from conformance.targets.quiet import QuietLoop
from conformance.targets.target import TargetOptions

#: One case that a scheduler which binds everything to `a` passes.
BOUND = """
area: tiny
cases:
- name: bound
  source: nowhere
  cluster: [node: {name: a}]
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, bound_to: a}
"""


def in_process(function: Callable[..., object]) -> TargetOptions:
    """Options for one of the functions in `schedulers`."""
    return TargetOptions(in_process=f"{function.__module__}:{function.__qualname__}")


def write_cases(directory: Path, text: str) -> list[Case]:
    """Cases from a text, by way of a file."""
    file = directory / "cases.yaml"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return load_cases([file])


def run_one(
    case: Case,
    options: TargetOptions,
    *,
    timeout_seconds: float = 20.0,
    aspects: frozenset[Aspect] = ALL_ASPECTS,
) -> Outcome:
    """Run a case on an event loop of its own and return its outcome."""
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        kind = target_kind(options)
        running = run_case(case, kind, seed=0, timeout_seconds=timeout_seconds, aspects=aspects)
        return runner.run(running)
