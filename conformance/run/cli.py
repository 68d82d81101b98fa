"""The command `kubesched-conformance run`.

Exit status: 0 if at least one case ran and all passed; else 1; 2 for invalid input; 128 and the
number of the signal that ended the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from ..clock import RealClock
from ..errors import InputError
from ..format.case import BUILT_IN, load_cases
from ..format.selection import Requirements, Selection, features_in, parse_shard
from ..format.version import SUITE_VERSION, Version
from ..options import PATH, GroupedCommand, given_by, options_of, takes
from ..outcome import Aspect, all_passed
from ..reports.files import check_outputs, check_writable, write_report
from ..reports.junit import write_junit
from ..reports.report import Implementation, Report
from ..reports.results import results_at, write_results
from ..reports.terminal import output_console, print_case_list, print_report, progress
from ..targets.options import seed_option, target_options, timeout_option
from ..targets.target import OUR_SCHEDULER, OUR_SCHEDULER_AS, OUR_VERSIONS, TargetOptions
from .earlier import KnownFailures, LastFailed
from .runner import Interrupted, Settings, run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.case import Case


def _version(text: str) -> Version:
    try:
        return Version.parse(text)
    except InputError as error:
        raise InputError(f"--scheduler-version: {error}") from error


def _aspects(names: str) -> frozenset[Aspect]:
    try:
        return frozenset(Aspect(name.strip()) for name in names.split(","))
    except ValueError as error:
        known = ", ".join(aspect.value for aspect in Aspect)
        raise InputError(f"--aspects: {error}; there are {known}") from error


_cases = options_of("Cases")
_scheduler = options_of("Scheduler")
_verdicts = options_of("Verdicts")
_running = options_of("Running")
_reports = options_of("Reports")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    paths: tuple[Path, ...] = _cases(
        "--cases",
        metavar="PATH",
        type=PATH,
        help="Files or directories of cases, instead of the built-in ones.",
    )
    patterns: tuple[str, ...] = _cases(
        "-k",
        metavar="PATTERN",
        help="Only cases AREA/NAME, with a name that has a word beginning like this, or that "
        "matches wildcards. May be repeated.",
    )
    skipped: tuple[str, ...] = _cases("--skip", metavar="PATTERN", help="Skip cases; as -k.")
    expression: str | None = _cases(
        "-l",
        metavar="EXPR",
        help="Only cases with these labels, level, feature or area: 'preemption and not (slow "
        "or faults)'.",
    )
    last_failed: bool = _cases(
        "--last-failed", help="Only cases that failed when they were run last."
    )
    shard: tuple[int, int] = _cases(
        "--shard",
        metavar="I/N",
        default="1/1",
        type=parse_shard,
        help="Only the I-th of N parts.",
    )
    list_only: bool = _cases("--list", help="List the cases, and run none.")
    target: TargetOptions = given_by(target_options)
    scheduler_version: Version = _scheduler(
        "--scheduler-version",
        metavar="VERSION",
        default=str(SUITE_VERSION),
        show_default=True,
        type=_version,
        help="The scheduler behaves like this kube-scheduler; skip cases of other versions. Our "
        "scheduler decides as this version.",
    )
    supported_features: str | None = _scheduler(
        "--supported-features",
        metavar="A,B",
        help="Skip the extended cases of other features. All features if not given.",
    )
    aspects: frozenset[Aspect] = _verdicts(
        "--aspects",
        metavar="A,B",
        default=",".join(aspect.value for aspect in Aspect),
        type=_aspects,
        help=f"Judge only these aspects, of {', '.join(aspect.value for aspect in Aspect)}.",
    )
    known_failures: Path | None = _verdicts(
        "--known-failures",
        metavar="FILE",
        help="Cases that may fail, and must not pass: AREA/NAME, one a line, comments after #.",
    )
    reruns: int = _verdicts(
        "--reruns",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        help="Run a failed case again, up to N times; one pass is enough.",
    )
    repeat: int = _verdicts(
        "--repeat",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        help="Run each case N times, with other seeds.",
    )
    fail_fast: bool = _verdicts("--fail-fast", help="Stop at the first failure.")
    workers: int | None = _running(
        "--workers",
        metavar="N",
        type=click.IntRange(min=0),
        help="Cases that run at once; by default as the machine allows. 0: one by one in this "
        "process.",
    )
    seed: int = given_by(seed_option)
    timeout_seconds: float = given_by(timeout_option(60, "The time limit of a case."))
    junit: Path | None = _reports(
        "--junit", metavar="FILE", help="Write the outcomes as JUnit XML."
    )
    report_files: tuple[Path, ...] = _reports(
        "--report",
        metavar="FILE",
        help="Write a report; the suffix is the form: .json (the input of `report`), .md, "
        ".html, .xml (JUnit). May be repeated.",
    )
    implementation: str | None = _reports(
        "--implementation",
        metavar="NAME",
        help="The scheduler's name and version in reports, such as 'my-scheduler 2.3'.",
    )
    results: Path | None = _reports(
        "--results",
        metavar="FILE",
        help="Write the verdicts to a file named SCHEDULER-VERSION.json; other cases in it are "
        "kept.",
    )
    event_log: Path | None = _reports(
        "--event-log",
        metavar="FILE",
        help="Write everything that happens on the API servers, as lines of JSON.",
    )
    slowest: int = _reports(
        "--durations",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        help="List the N slowest cases.",
    )

    @property
    def selection(self) -> Selection:
        """The cases to run."""
        return Selection(
            patterns=self.patterns,
            skipped=self.skipped,
            expression=self.expression,
            only=LastFailed().read() if self.last_failed else None,
            shard=self.shard,
        )

    def settings(self, cases: Sequence[Case]) -> Settings:
        """Return the settings of a run of some of these cases."""
        target, version = self.target, self.scheduler_version
        if target.in_process == OUR_SCHEDULER and not target.in_real_time:
            if version.without_patch not in OUR_VERSIONS:
                expected = f"{', '.join(OUR_VERSIONS[:-1])} or {OUR_VERSIONS[-1]}"
                raise InputError(f"--scheduler-version: expected {expected}, got {version}")
            ours = f"{OUR_SCHEDULER_AS}{version.without_patch}"
            target = msgspec.structs.replace(target, in_process=ours)
        return Settings(
            target=target,
            requirements=Requirements(
                version=version, features=features_in(cases, self.supported_features)
            ),
            aspects=self.aspects,
            known_failures=KnownFailures.from_file(self.known_failures, cases),
            seed=self.seed,
            repeat=self.repeat,
            reruns=self.reruns,
            timeout_seconds=max(
                self.timeout_seconds, target.real_seconds_max * target.in_real_time
            ),
            workers=self.workers,
            fail_fast=self.fail_fast,
            event_log=self.event_log,
        )


@click.command(cls=GroupedCommand)
@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Run conformance cases against a scheduler and print a table of the results."""
    if options.reruns and options.repeat > 1:
        raise InputError("--reruns: not together with --repeat")
    cases = load_cases(options.paths or (BUILT_IN,))
    settings = options.settings(cases)
    chosen = options.selection.of(cases)
    if options.list_only:
        return print_case_list(chosen, output_console())
    ids = [case.id for case in cases]
    files = _Files(options.junit, options.report_files, options.results, ids)
    report = _empty_report(settings, options.implementation)
    raise SystemExit(_run(chosen, settings, files, report, slowest=options.slowest))


def _empty_report(settings: Settings, implementation: str | None) -> Report:
    """Return the report of a run without its outcomes."""
    return Report(
        implementation=_implementation(settings.target, implementation),
        suite_version=version_of("kubesched"),
        behaves_like=str(settings.requirements.version),
        seed=settings.seed,
        features=settings.requirements.features,
        aspects=tuple(aspect for aspect in Aspect if aspect in settings.aspects),
    )


def _implementation(options: TargetOptions, named: str | None) -> Implementation:
    """Return the scheduler of a run: with the user's name and version, or by its target."""
    target = options.command or options.kubeconfig or options.in_process
    if named is not None:
        name, _, version = named.strip().rpartition(" ")
        return Implementation(name=name or version, version=version if name else "", target=target)
    if options.command:
        return Implementation(name=Path(options.command.split()[0]).name, target=target)
    if options.kubeconfig:
        return Implementation(name="the scheduler of a cluster", target=target)
    if options.scheduler_version:
        version = version_of("kubesched")
        return Implementation(name="kubesched", version=version, target=target)
    return Implementation(name=options.in_process, target=target)


@dataclass(frozen=True)
class _Files:
    """The files that a run writes at its end."""

    junit: Path | None
    reports: tuple[Path, ...]
    results: Path | None
    case_ids: Sequence[str]

    def __post_init__(self) -> None:
        """Raise InputError if a file cannot be written, before the cases are run."""
        check_outputs(self.reports, option="--report")
        if self.junit is not None:
            check_writable(self.junit, option="--junit")
        if self.results is not None:
            results_at(self.results)

    def write(self, report: Report) -> None:
        """Write them. Raises OSError."""
        if self.junit is not None:
            write_junit(self.junit, report.outcomes)
        for path in self.reports:
            write_report(path, report)
        if self.results is not None:
            # Read again: another run may have written to it meanwhile.
            earlier = results_at(self.results)
            write_results(self.results, earlier.updated(report.outcomes, self.case_ids))


def _run(
    cases: Sequence[Case], settings: Settings, files: _Files, empty: Report, *, slowest: int
) -> int:
    """Run the cases, report the outcomes, and return the exit status."""
    clock, console = RealClock(), output_console()
    started, started_at = clock.monotonic(), datetime.fromtimestamp(int(clock.now()), UTC)
    ended_by = None
    with progress(len(cases), Console(stderr=True)) as on_outcome:
        try:
            outcomes = run_cases(cases, settings, on_outcome)
        except Interrupted as interrupted:
            outcomes, ended_by = interrupted.outcomes, interrupted.number
    seconds = clock.monotonic() - started
    print_report(outcomes, console, seconds=seconds, slowest=slowest)
    LastFailed().update(outcomes)
    try:
        files.write(
            msgspec.structs.replace(
                empty,
                started=started_at.isoformat().replace("+00:00", "Z"),
                seconds=round(seconds, 3),
                outcomes=tuple(outcomes),
            )
        )
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror or error}") from error
    if ended_by is not None:
        left = len(cases) - len(outcomes)
        console.print(f"ended by {ended_by.name}: {left} of {len(cases)} cases were not run")
        return 128 + ended_by
    return 0 if all_passed(outcomes) else 1
