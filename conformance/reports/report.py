"""The report of a run as one value, its JSON form, and the comparison of two reports.

The JSON form has the outcomes of all cases, and for readers without this module the counts by
verdict, level, feature, aspect and area, which are not read back.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..outcome import Aspect, Level, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: The name of the form, with its version.
FORMAT: Final = "kubesched-conformance/1"


class Implementation(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler that was judged. `target` is its command, function or cluster."""

    name: str
    version: str = ""
    target: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}".strip()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run: the judged scheduler, the suite's version, and the outcome of each case.

    `behaves_like` is the version of kube-scheduler by which the cases were chosen. `started` is in
    UTC, RFC 3339. `features` are the features with extended cases in the run; None: all. Only
    `aspects` were judged.
    """

    format: str = FORMAT
    implementation: Implementation
    suite_version: str
    behaves_like: str = ""
    started: str = ""
    seconds: float = 0.0
    seed: int = 0
    features: frozenset[str] | None = None
    aspects: tuple[Aspect, ...] = tuple(Aspect)
    outcomes: tuple[Outcome, ...] = ()

    @property
    def by_verdict(self) -> dict[str, int]:
        """The number of cases with each verdict."""
        return _verdicts(outcome.verdict for outcome in self.outcomes)

    @property
    def by_level(self) -> dict[str, dict[str, int]]:
        return _counts((outcome.level.value, outcome.verdict) for outcome in self.outcomes)

    @property
    def by_feature(self) -> dict[str, dict[str, int]]:
        """The counts of the extended cases of each feature."""
        extended = (item for item in self.outcomes if item.level is Level.EXTENDED)
        return _counts((outcome.feature, outcome.verdict) for outcome in extended)

    @property
    def by_area(self) -> dict[str, dict[str, int]]:
        return _counts((outcome.area, outcome.verdict) for outcome in self.outcomes)

    @property
    def by_aspect(self) -> dict[str, dict[str, int]]:
        """The verdicts on each aspect, of the cases that judge it."""
        return _counts(
            (aspect.value, verdict)
            for outcome in self.outcomes
            for aspect, verdict in outcome.aspects.items()
        )

    @property
    def known_failures(self) -> str:
        """A list for `run --known-failures`: the id of each case that failed, with the reason."""
        failed = [item for item in self.outcomes if item.is_bad or item.verdict is Verdict.KNOWN]
        return "".join(f"{item.id}  # {' '.join(item.reason.split())}\n" for item in failed)

    def to_json(self) -> bytes:
        """Return the report as JSON, with counts."""
        builtins = msgspec.to_builtins(self, str_keys=True, order="sorted")
        counts = {
            "verdicts": self.by_verdict,
            "levels": self.by_level,
            "features": self.by_feature,
            "aspects": self.by_aspect,
            "areas": self.by_area,
        }
        outcomes = builtins.pop("outcomes")
        return msgspec.json.format(
            msgspec.json.encode({**builtins, "counts": counts, "outcomes": outcomes}), indent=1
        )

    @classmethod
    def from_file(cls, path: Path) -> Report:
        """Read a report in its JSON form. Raises InputError."""
        try:
            report = msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        except msgspec.MsgspecError as error:
            raise InputError(f"{path}: expected a report as JSON: {error}") from error
        if report.format != FORMAT:
            raise InputError(f"{path}: expected the format {FORMAT}, got {report.format}")
        return report


def _verdicts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counted = Counter(verdicts)
    return {verdict.value: counted[verdict] for verdict in Verdict if counted[verdict]}


def _counts(verdicts: Iterable[tuple[str, Verdict]]) -> dict[str, dict[str, int]]:
    """Return the number of cases by group and verdict."""
    groups: dict[str, list[Verdict]] = {}
    for group, verdict in verdicts:
        groups.setdefault(group, []).append(verdict)
    return {name: _verdicts(verdicts) for name, verdicts in sorted(groups.items())}


def merged(reports: Sequence[Report]) -> Report:
    """Return the reports of a run's shards as one. Raises InputError for a case in two reports."""
    first = reports[0]
    seen: set[str] = set()
    for report in reports:
        if report.implementation != first.implementation:
            raise InputError(
                f"expected reports of one scheduler, got {first.implementation.title} and "
                f"{report.implementation.title}"
            )
        for outcome in report.outcomes:
            if outcome.id in seen:
                raise InputError(f"case {outcome.id} is in two of the reports")
            seen.add(outcome.id)
    return msgspec.structs.replace(
        first,
        started=min(report.started for report in reports),
        seconds=sum(report.seconds for report in reports),
        outcomes=tuple(
            sorted((item for report in reports for item in report.outcomes), key=lambda o: o.id)
        ),
    )


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A case of both reports whose verdict differs."""

    id: str
    before: Verdict
    after: Verdict
    reason: str = ""

    @property
    def is_worse(self) -> bool:
        """True if the case passed before and does not pass now."""
        return self.before is Verdict.PASSED and self.after is not Verdict.PASSED


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of two reports, in the order of the cases' ids.

    `missing` are the cases that only the first report has, `new` is the number of those that only
    the second has.
    """

    before: str
    after: str
    changes: tuple[Change, ...]
    same: int
    missing: tuple[str, ...] = ()
    new: int = 0

    @property
    def worse(self) -> list[Change]:
        """The cases that passed before and do not pass now."""
        return [change for change in self.changes if change.is_worse]

    @property
    def better(self) -> list[Change]:
        """The cases that pass now and did not before."""
        return [change for change in self.changes if change.after is Verdict.PASSED]

    @property
    def others(self) -> list[Change]:
        """The other differences, such as a failure that is now skipped."""
        listed = {change.id for change in (*self.worse, *self.better)}
        return [change for change in self.changes if change.id not in listed]


def compare(before: Report, after: Report) -> Comparison:
    """Return the differences of two reports, in the aspects that both have judged."""
    old, new = _by_id(before), _by_id(after)
    aspects = {*before.aspects} & {*after.aspects}
    changes = [
        Change(
            id=case_id,
            before=_verdict_on(aspects, old[case_id], before),
            after=_verdict_on(aspects, new[case_id], after),
            reason=new[case_id].reason,
        )
        for case_id in sorted(old.keys() & new.keys())
    ]
    different = tuple(change for change in changes if change.before is not change.after)
    return Comparison(
        before=before.implementation.title,
        after=after.implementation.title,
        changes=different,
        same=len(changes) - len(different),
        missing=tuple(sorted(old.keys() - new.keys())),
        new=len(new.keys() - old.keys()),
    )


def _verdict_on(aspects: set[Aspect], outcome: Outcome, report: Report) -> Verdict:
    """Return the verdict as if only these of the report's aspects had been judged."""
    if {*report.aspects} == aspects or outcome.verdict in (Verdict.ERROR, Verdict.SKIPPED):
        return outcome.verdict
    verdicts = {verdict for aspect, verdict in outcome.aspects.items() if aspect in aspects}
    if Verdict.FAILED in verdicts:
        return outcome.verdict
    # Skipped are the aspects that were not checked any more, after a failure in another one.
    return Verdict.PASSED if verdicts == {Verdict.PASSED} else Verdict.SKIPPED


def _by_id(report: Report) -> Mapping[str, Outcome]:
    return {outcome.id: outcome for outcome in report.outcomes}
