"""The command `kubesched-conformance run`.

Exit status: 0 if at least one case ran and all passed; 1 if not; 2 for invalid input; 128 and the
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
from ..options import GroupedCommand, options_of
from ..outcome import Aspect, all_passed
from ..reports.files import check_outputs, check_writable, write_report
from ..reports.junit import write_junit
from ..reports.report import Implementation, Report
from ..reports.results import results_at, write_results
from ..reports.terminal import output_console, print_case_list, print_report, progress
from ..targets.options import seed_option, target_options
from ..targets.target import OUR_SCHEDULER
from .earlier import KnownFailures, LastFailed
from .runner import Interrupted, Settings, run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..format.case import Case
    from ..targets.target import TargetOptions


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

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=GroupedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@_cases(
    "--cases",
    "paths",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Files or directories of cases, instead of the built-in ones.",
)
@_cases(
    "-k",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Only these: AREA/NAME, or a part from the beginning of a word, or with wildcards. May be "
    "repeated.",
)
@_cases("--skip", "skipped", metavar="PATTERN", multiple=True, help="Not these; as -k.")
@_cases(
    "-l",
    "expression",
    metavar="EXPR",
    help="Only cases with these labels, level, feature or area: 'preemption and not (slow or "
    "faults)'.",
)
@_cases("--last-failed", is_flag=True, help="Only cases that failed when they were run last.")
@_cases("--shard", metavar="I/N", default="1/1", type=parse_shard, help="Only the I-th of N parts.")
@_cases("--list", "list_only", is_flag=True, help="List the cases, and run none.")
@target_options
@_scheduler(
    "--scheduler-version",
    metavar="VERSION",
    default=str(SUITE_VERSION),
    show_default=True,
    type=_version,
    help="The version of kube-scheduler that it behaves like; cases of others are skipped.",
)
@_scheduler(
    "--supported-features",
    metavar="A,B",
    help="Skip the extended cases of other features. All features if not given.",
)
@_verdicts(
    "--aspects",
    metavar="A,B",
    default=",".join(aspect.value for aspect in Aspect),
    type=_aspects,
    help=f"Judge only these of: {', '.join(aspect.value for aspect in Aspect)}.",
)
@_verdicts(
    "--known-failures",
    metavar="FILE",
    type=_FILE,
    help="Cases that may fail, and must not pass: AREA/NAME, one a line, comments after #.",
)
@_verdicts("--reruns", metavar="N", type=click.IntRange(min=0), default=0, help="Run a failed case "
    "again, up to N times; one pass is enough.")  # fmt: skip
@_verdicts("--repeat", metavar="N", type=click.IntRange(min=1), default=1, help="Run each case N "
    "times, with other seeds.")  # fmt: skip
@_verdicts("--fail-fast", is_flag=True, help="Stop at the first failure.")
@_running(
    "--workers",
    metavar="N",
    type=click.IntRange(min=0),
    help="Cases that run at once; by default as the machine allows. 0: one by one in this process.",
)
@seed_option
@_running(
    "--timeout",
    "timeout_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    help="The time limit of a case.",
)
@_reports("--junit", metavar="FILE", type=_FILE, help="Write the outcomes as JUnit XML.")
@_reports(
    "--report",
    "report_files",
    metavar="FILE",
    multiple=True,
    type=_FILE,
    help="Write a report; the suffix is the form: .json (the input of `report`), .md, .html, .xml "
    "(JUnit). May be repeated.",
)
@_reports(
    "--implementation",
    metavar="NAME",
    help="The scheduler's name and version in reports, such as 'my-scheduler 2.3'.",
)
@_reports(
    "--results",
    metavar="FILE",
    type=_FILE,
    help="Write the verdicts to a file named SCHEDULER-VERSION.json; other cases in it are kept.",
)
@_reports(
    "--event-log",
    metavar="FILE",
    type=_FILE,
    help="Write everything that happens on the API servers, as lines of JSON.",
)
@_reports("--durations", "slowest", metavar="N", type=click.IntRange(min=0), default=0, help="List "
    "the N slowest cases.")  # fmt: skip
def run(
    *,
    paths: tuple[Path, ...],
    patterns: tuple[str, ...],
    skipped: tuple[str, ...],
    expression: str | None,
    last_failed: bool,
    shard: tuple[int, int],
    list_only: bool,
    scheduler_version: Version,
    supported_features: str | None,
    aspects: frozenset[Aspect],
    known_failures: Path | None,
    reruns: int,
    repeat: int,
    fail_fast: bool,
    workers: int | None,
    seed: int,
    timeout_seconds: float,
    junit: Path | None,
    report_files: tuple[Path, ...],
    implementation: str | None,
    results: Path | None,
    event_log: Path | None,
    slowest: int,
    target: TargetOptions,
) -> None:
    """Run conformance cases against a scheduler and print a table of the results."""
    if reruns and repeat > 1:
        raise InputError("--reruns: not together with --repeat")
    cases = load_cases(paths or (BUILT_IN,))
    selection = Selection(
        patterns=patterns,
        skipped=skipped,
        expression=expression,
        only=LastFailed().read() if last_failed else None,
        shard=shard,
    )
    settings = Settings(
        target=target,
        requirements=Requirements(
            version=scheduler_version, features=features_in(cases, supported_features)
        ),
        aspects=aspects,
        known_failures=KnownFailures.from_file(known_failures, cases),
        seed=seed,
        repeat=repeat,
        reruns=reruns,
        timeout_seconds=max(timeout_seconds, target.real_seconds_max * target.in_real_time),
        workers=workers,
        fail_fast=fail_fast,
        event_log=event_log,
    )
    chosen = selection.of(cases)
    if list_only:
        return print_case_list(chosen, output_console())
    files = _Files(junit, report_files, results, [case.id for case in cases])
    report = _empty_report(settings, implementation)
    raise SystemExit(_run(chosen, settings, files, report, slowest=slowest))


def _empty_report(settings: Settings, implementation: str | None) -> Report:
    """Return the report of a run without its outcomes."""
    return Report(
        implementation=_implementation(settings.target, implementation),
        suite_version=version_of("kubesched"),
        behaves_like=str(settings.requirements.version),
        seed=settings.seed,
        features=settings.requirements.features,
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
    if options.in_process == OUR_SCHEDULER:
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
