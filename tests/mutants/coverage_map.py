"""The lines of the scheduler that each conformance case executes, from a traced run of all."""

import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import coverage

from conformance.format.case import Case
from conformance.outcome import Verdict
from tests.mutants.faults import ROOMS, ROOT, Fault
from tests.mutants.trial import all_cases, run_one, warm_up


@dataclass(frozen=True, slots=True)
class CoverageMap:
    """The cases that execute each line, by file and line. `passed` are those that pass."""

    passed: frozenset[str]
    lines: Mapping[str, Mapping[int, frozenset[str]]]

    def cases_for(self, fault: Fault, cases: Iterable[Case]) -> list[Case]:
        """Return the cases that meet the fault, the most promising first.

        First those of the file's own area, then one of each file of cases in turn, because cases of
        one file are similar; those that execute more of the faulty file before others. A fault
        outside of functions is met by all cases that use the file.
        """
        lines = self.lines.get(fault.file, {})
        if not fault.function:
            met = frozenset().union(*lines.values())
        else:
            met = frozenset().union(*(lines.get(line, ()) for line in fault.lines))
            met = met or frozenset().union(*(lines.get(line, ()) for line in fault.around))
        uses = Counter(itertools.chain.from_iterable(lines.values()))
        found = [case for case in cases if case.id in met & self.passed]
        turns: Counter[str] = Counter()
        ranks = {}
        for case in sorted(found, key=lambda case: (-uses[case.id], case.id)):
            turns[case.origin] += 1
            ranks[case.id] = (not _is_own(fault, case), turns[case.origin], -uses[case.id])
        return sorted(found, key=lambda case: (ranks[case.id], case.id))


def _is_own(fault: Fault, case: Case) -> bool:
    """True if the names of the module and of the case's file have a part in common."""
    own = set(Path(fault.file).with_suffix("").parts[1:])
    return bool(own & {case.area, Path(case.origin).stem})


def recorded_map() -> CoverageMap:
    """Return the map of this source; it is kept in the temporary directory between runs."""
    file = Path(tempfile.gettempdir()) / f"kubesched-mutants-{_digest()}.json"
    if not file.exists():
        part = file.with_suffix(f".{os.getpid()}")
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                part.write_text(json.dumps(_record()), encoding="utf-8")
                part.rename(file)
            os._exit(0)
        os.waitpid(child, 0)
    content = json.loads(file.read_text(encoding="utf-8"))
    return CoverageMap(
        passed=frozenset(content["passed"]),
        lines={
            name: {int(line): frozenset(cases) for line, cases in lines.items()}
            for name, lines in content["lines"].items()
        },
    )


def _digest() -> str:
    digest = hashlib.sha256()
    cases = (ROOT / "conformance" / "cases").rglob("*.yaml")
    for path in sorted([*cases, *(ROOT / "scheduler").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _record() -> dict[str, object]:
    """Run all cases with a tracer. The scheduler is not imported yet."""
    include = [str(ROOT / room / "*") for room in ROOMS]
    tracer = coverage.Coverage(data_file=None, include=include, config_file=False)
    tracer.start()
    kind = warm_up()
    passed = []
    for case in all_cases():
        tracer.switch_context(case.id)
        if run_one(case, kind).verdict is Verdict.PASSED:
            passed.append(case.id)
    tracer.stop()
    data = tracer.get_data()
    return {
        "passed": passed,
        "lines": {
            Path(file).relative_to(ROOT).as_posix(): {
                line: [name for name in names if name]
                for line, names in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        },
    }
