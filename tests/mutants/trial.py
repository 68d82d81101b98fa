"""Plant one fault in a forked copy of this process, and run cases there until one notices it.

The fork has all other packages imported; the scheduler is imported anew, with the faulty module.
Nothing in the checkout is written.
"""

import asyncio
import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

from conformance.format.case import BUILT_IN, Case, load_cases
from conformance.outcome import Outcome
from conformance.run.execution import run_case
from conformance.targets import target_kind
from conformance.targets.quiet import QuietLoop
from conformance.targets.target import TargetKind, TargetOptions
from tests.mutants.faults import ROOT, Fault, planted

#: Limits of one case: its processor time, its real time, and the memory of the process.
_CPU_SECONDS = 10.0
_REAL_SECONDS = 60.0
_MEMORY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of one fault. `result` is "noticed", "survived", "unmet" or "broken".

    A fault is unmet if no case executes its line, and broken if the scheduler cannot be imported
    with it. `case` noticed the fault, for `reason`; `ran` is the number of cases that ran.
    """

    fault: Fault
    result: str
    ran: int
    case: str = ""
    reason: str = ""


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Return the cases of the suite."""
    return tuple(load_cases([BUILT_IN]))


def warm_up() -> TargetKind:
    """Import the scheduler and return it as a target of the suite."""
    return target_kind(TargetOptions())


def forget_scheduler() -> None:
    """Remove the scheduler's modules, but not those of other packages that it imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "scheduler"]:
        del sys.modules[name]


def run_one(case: Case, kind: TargetKind) -> Outcome:
    """Run a case in this process."""
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(run_case(case, kind, seed=0, timeout_seconds=_REAL_SECONDS))


def attempt(fault: Fault, cases: Sequence[Case]) -> Trial:
    """Run the cases one after another against a scheduler with the fault, until one fails."""
    if not cases:
        return Trial(fault=fault, result="unmet", ran=0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _run_in_child(fault, cases, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        answers = [json.loads(line) for line in lines]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    started = [answer["starts"] for answer in answers if "starts" in answer]
    last = answers[-1] if answers else {}
    if "result" in last:
        case = started[-1] if started and last["result"] == "noticed" else ""
        return Trial(
            fault=fault, result=last["result"], ran=len(started), case=case, reason=last["reason"]
        )
    how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
    case = started[-1] if started else ""
    return Trial(fault=fault, result="noticed", ran=len(started), case=case, reason=how)


def _run_in_child(fault: Fault, cases: Sequence[Case], writer: int) -> None:
    """Write one line of JSON when a case starts, and one at the end."""

    def report(**answer: str) -> None:
        os.write(writer, json.dumps(answer).encode() + b"\n")

    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    forget_scheduler()
    try:
        plant(fault)
        kind = warm_up()
    except Exception as error:  # noqa: BLE001 - a mutant may break anything
        report(result="broken", reason=f"{type(error).__name__}: {error}")
        return
    for case in cases:
        report(starts=case.id)
        signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
        try:
            outcome = run_one(case, kind)
        except BaseException as error:  # noqa: BLE001 - a mutant that raises anything is noticed
            report(result="noticed", reason=f"{type(error).__name__}: {error}")
            return
        if outcome.is_bad:
            report(result="noticed", reason=outcome.reason.partition("\n")[0])
            return
    report(result="survived", reason="")


def plant(fault: Fault) -> None:
    """Let the next import of the fault's module have the fault."""
    path = ROOT / fault.file
    code = compile(planted(path.read_text(encoding="utf-8"), fault), str(path), "exec")
    sys.meta_path.insert(0, _Planter(fault.module, str(path), code))


class _Planter:
    """An import hook for one module."""

    def __init__(self, module: str, path: str, code: CodeType) -> None:
        self._module = module
        self._path = path
        self._code = code

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(
            name, self._path, loader=_Loader(name, self._path, self._code)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    """Executes code that is already compiled."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code
