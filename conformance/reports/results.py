"""Results of whole runs as files, one for each version of a scheduler, and a table of all results.

    conformance/results/kube-scheduler-1.36.3.json  <--  run --results
    conformance/README.md, conformance/versions.md  <--  matrix

A file holds the verdict on each case, without times and logs, so that two runs with the same
verdicts make the same file. A run of some cases replaces their verdicts and keeps the others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..outcome import Verdict
from .json_file import write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..outcome import Outcome

#: The results of the suite's own cases, a file for each version of a scheduler.
RESULTS: Final = Path(__file__).parent.parent / "results"
_REAL_TIME: Final = re.compile(r"needs \S+ of real time, --real-time-max is (\S+)")
_OTHER_VERSION: Final = re.compile(r"(holds (since|until) \S+), the scheduler has .*")
#: The level, time and process of a line of klog, and uids: no two runs have the same.
_OF_ONE_RUN: Final = re.compile(
    r"(?<![^ ])[IWEF]\d{4} [\d:.]+ +\d+ |\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
)
_NAME: Final = re.compile(r"(?P<scheduler>.+)-(?P<version>\d+\.\d+(\.\d+)?)\.json")


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on a version of a scheduler, by the cases' ids.

    `failed`, `known` (a known bug) and `skipped` have reasons. A case in none of the four was never
    run.
    """

    scheduler: str
    version: str
    passed: list[str] = []
    failed: dict[str, str] = {}
    known: dict[str, str] = {}
    skipped: dict[str, str] = {}

    @classmethod
    def from_file(cls, path: Path) -> Results:
        """Read a file. Raises InputError."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"{path}: not a file of results: {error}") from error

    @property
    def title(self) -> str:
        """The scheduler and its version."""
        return f"{self.scheduler} {self.version}"

    def verdict(self, case_id: str) -> Verdict | None:
        """Return the verdict on a case; None if it was never run."""
        if case_id in self.skipped:
            return Verdict.SKIPPED
        if case_id in self.failed:
            return Verdict.FAILED
        if case_id in self.known:
            return Verdict.KNOWN
        return Verdict.PASSED if case_id in self.passed else None

    def counts(self, cases: Sequence[str]) -> str:
        """Return the number of cases that passed, and numbers above 0 of failed ones and so on."""
        verdicts = [self.verdict(case_id) for case_id in cases]
        words = (
            (Verdict.FAILED, "failed"),
            (Verdict.KNOWN, "known to fail"),
            (Verdict.SKIPPED, "skipped"),
            (None, "not run"),
        )
        counts = [str(verdicts.count(Verdict.PASSED))]
        counts += [
            f"{count} {word}" for verdict, word in words if (count := verdicts.count(verdict))
        ]
        return ", ".join(counts)

    def updated(self, outcomes: Iterable[Outcome], case_ids: Iterable[str]) -> Results:
        """Return the results with a further run added, without cases outside of `case_ids`.

        A case that this run left out because of its length keeps an earlier verdict.
        """
        judged = {*self.passed, *self.failed, *self.known}
        new = {
            outcome.id: outcome
            for outcome in outcomes
            if outcome.id not in judged or not _REAL_TIME.fullmatch(outcome.reason)
        }
        kept = {*case_ids} - {*new}
        passed = [case_id for case_id in self.passed if case_id in kept]
        failed = {name: reason for name, reason in self.failed.items() if name in kept}
        known = {name: reason for name, reason in self.known.items() if name in kept}
        skipped = {name: reason for name, reason in self.skipped.items() if name in kept}
        for case_id, outcome in new.items():
            if outcome.verdict is Verdict.PASSED:
                passed.append(case_id)
            elif outcome.verdict is Verdict.SKIPPED:
                skipped[case_id] = outcome.reason
            elif outcome.verdict is Verdict.KNOWN:
                known[case_id] = _OF_ONE_RUN.sub("", outcome.reason)
            else:
                failed[case_id] = _OF_ONE_RUN.sub("", outcome.reason)
        return msgspec.structs.replace(
            self,
            passed=sorted(passed),
            failed=dict(sorted(failed.items())),
            known=dict(sorted(known.items())),
            skipped=dict(sorted(skipped.items())),
        )


def results_at(path: Path) -> Results:
    """Return the results in a file; empty results for a new file with a name to parse.

    The name is `SCHEDULER-VERSION.json`. Raises InputError.
    """
    parts = _NAME.fullmatch(path.name)
    if parts is None:
        raise InputError(f"--results: expected a file SCHEDULER-VERSION.json, got {path.name}")
    if not path.exists():
        return Results(scheduler=parts["scheduler"], version=parts["version"])
    return Results.from_file(path)


def results_in(folder: Path) -> list[Results]:
    """Return the results in a folder, ordered by scheduler and version. Raises InputError."""
    results = [Results.from_file(file) for file in folder.glob("*.json")]
    return sorted(results, key=lambda each: (each.scheduler, [*map(int, each.version.split("."))]))


def write_results(path: Path, results: Results) -> None:
    """Write a file. Raises OSError."""
    write_json(path, results, indent=1)


def matrix_of(results: Sequence[Results], cases: Iterable[str]) -> list[str]:
    """Return a table in Markdown: a row for each area, a column for each version.

    A cell has the number of cases that passed; then, if there are any, failed and skipped ones.
    """
    areas = by_area(cases)
    everything = [case_id for members in areas.values() for case_id in members]
    rows = [*areas.items(), ("**all**", everything)]
    lines = [
        "| area | cases | " + " | ".join(result.title for result in results) + " |",
        "|---|--:|" + "--:|" * len(results),
    ]
    for area, members in rows:
        cells = " | ".join(result.counts(members) for result in results)
        lines.append(f"| {area} | {len(members)} | {cells} |")
    return lines


def by_area(cases: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of cases by area, sorted by area."""
    areas: dict[str, list[str]] = {}
    for case_id in cases:
        areas.setdefault(case_id.rpartition("/")[0], []).append(case_id)
    return dict(sorted(areas.items()))


def skips_of(results: Sequence[Results]) -> list[str]:
    """Return a table in Markdown: each reason to skip, the schedulers, and the cases.

    Cases that hold for other versions only are counted, not named.
    """
    rows: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for reason, names in _skipped_by_reason(result).items():
            cell = str(len(names)) if reason.startswith("holds ") else ", ".join(names)
            rows.setdefault((reason, cell), []).append(result.title)
    if not rows:
        return []
    lines = ["| skipped because a case | on | cases |", "|---|---|---|"]
    for (reason, cell), titles in sorted(rows.items()):
        lines.append(f"| {reason} | {', '.join(titles)} | {cell} |")
    return lines


def _skipped_by_reason(results: Results) -> dict[str, list[str]]:
    """Return the ids of skipped cases by reason."""
    names: dict[str, list[str]] = {}
    for case_id, why in results.skipped.items():
        reason = _REAL_TIME.sub(r"needs more than \1 of real time", why)
        names.setdefault(_OTHER_VERSION.sub(r"\1", reason), []).append(case_id)
    return names
