"""The command `kubesched-conformance`: test a scheduler.

Exit status: 0 if at least one case ran and all passed; 1 if not; 2 for invalid input, with one line
that describes the mistake.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from .clock import RealClock
from .errors import InputError
from .format.case import BUILT_IN, Case, load_cases
from .format.selection import select
from .outcome import all_passed
from .reports.junit import write_junit
from .reports.results import results_at, write_results
from .reports.terminal import print_case_list, print_report, progress
from .run.runner import Settings, run_cases
from .targets.target import OUR_SCHEDULER, TargetOptions

if TYPE_CHECKING:
    from .outcome import Outcome

__all__ = ["main"]

#: Subcommands that are imported on use: name, module, one line of help.
_ELSEWHERE = {
    "clean": ("conformance.targets.cli", "Remove from a cluster what runs have left."),
    "matrix": ("conformance.reports.cli", "Print the results of all versions as a table."),
    "capture": ("conformance.capture.cli", "Save the part of a cluster that matters as a case."),
    "diff": ("conformance.differential.cli", "Compare two schedulers in the same scenarios."),
    "shrink": ("conformance.capture.cli", "Make a case smaller, with the same outcome."),
    "report": ("conformance.reports.cli", "Convert, merge or compare reports."),
    "replay": ("conformance.replay.cli", "Schedule a production cluster's trace."),
}


class _BadInput(click.ClickException):
    """Invalid input of the caller."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        del file
        click.echo(f"kubesched-conformance: {self.message}", err=True)


class _Commands(click.Group):
    """The group of subcommands. Those with heavy imports are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = [name for name, (module, _) in _ELSEWHERE.items() if _exists(module)]
        return sorted([*super().list_commands(ctx), *found])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE or not _exists(_ELSEWHERE[cmd_name][0]):
            return super().get_command(ctx, cmd_name)
        command: object = getattr(importlib.import_module(_ELSEWHERE[cmd_name][0]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the subcommands' help without importing them."""
        own = {
            name: command.get_short_help_str(limit=80) for name, command in self.commands.items()
        }
        helps = own | {name: text for name, (_, text) in _ELSEWHERE.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, helps[name]) for name in self.list_commands(ctx)])


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", message="kubesched-conformance %(version)s")
def main() -> None:
    """Test a scheduler by its behaviour over HTTP."""


@main.command()
@click.option(
    "-k",
    "pattern",
    metavar="PATTERN",
    default="",
    help="Only cases whose area/name contains this, or matches it if it has wildcards.",
)
@click.option(
    "--list",
    "list_only",
    is_flag=True,
    help="Show name, area and source of the cases, and run none.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the outcomes as JUnit XML.",
)
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the verdicts to a file named SCHEDULER-VERSION.json; other cases in it are kept.",
)
@click.option(
    "--event-log",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write everything that happens on the API servers, as lines of JSON.",
)
@click.option(
    "--target-command",
    metavar="CMD",
    default="",
    help="The scheduler to judge: a "
    "command with {kubeconfig} and, for cases that configure it, {config} in it, and for cases "
    "that read its metrics {port}, that set feature gates {feature-gates}. Our own scheduler if "
    "not given.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    default="",
    help="Judge the scheduler of a running cluster, in namespaces and on nodes of the suite's own.",
)
@click.option("--context", default="", help="The kubeconfig's context; the current one by default.")
@click.option(
    "--metrics-url",
    metavar="TEMPLATE",
    default=TargetOptions().metrics_url,
    show_default=True,
    help="Where a command serves its metrics. A certificate is not verified on loopback.",
)
@click.option(
    "--in-process",
    metavar="MODULE:FUNCTION",
    default=OUR_SCHEDULER,
    show_default=True,
    help="A scheduler to run in this process, in virtual time.",
)
@click.option(
    "--plugin",
    "plugins",
    metavar="MODULE:CLASS",
    multiple=True,
    help="A plugin to add to every profile of our scheduler that does not mention it. May be given "
    "more than once. For --target-command write the command's own flag.",
)
@click.option(
    "--cases",
    "paths",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Directories or files of cases, instead of the built-in ones.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(min=0),
    help="How many cases to run at "
    "once; by default as the machine allows. 0 runs them one by one in this process.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Makes chance repeatable.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failure.")
@click.option(
    "--timeout",
    "timeout_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    help="How long one case may take.",
)
@click.option(
    "--quiet-period",
    "quiet_seconds",
    metavar="SECONDS",
    default=0.5,
    show_default=True,
    type=click.FloatRange(min=0.05),
    help="A command has settled if it has written nothing for so long.",
)
@click.option(
    "--real-time-max",
    "real_seconds_max",
    metavar="SECONDS",
    default=20,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Skip cases that need more waiting than this from a command.",
)
def run(
    *,
    pattern: str,
    list_only: bool,
    junit: Path | None,
    results: Path | None,
    event_log: Path | None,
    target_command: str,
    kubeconfig: str,
    context: str,
    metrics_url: str,
    in_process: str,
    plugins: tuple[str, ...],
    paths: tuple[Path, ...],
    workers: int | None,
    seed: int,
    fail_fast: bool,
    timeout_seconds: float,
    quiet_seconds: float,
    real_seconds_max: float,
) -> None:
    """Run conformance cases against a scheduler and print a table of the results."""
    target = TargetOptions(
        command=target_command,
        kubeconfig=kubeconfig,
        context=context,
        metrics_url=metrics_url,
        in_process=in_process,
        plugins=plugins,
        quiet_seconds=quiet_seconds,
        real_seconds_max=real_seconds_max,
    )
    settings = Settings(
        target=target,
        seed=seed,
        timeout_seconds=max(timeout_seconds, real_seconds_max if target.in_real_time else 0.0),
        workers=workers,
        fail_fast=fail_fast,
        event_log=event_log,
    )
    try:
        loaded = load_cases(paths or (BUILT_IN,))
        cases = _chosen(loaded, pattern)
        if list_only:
            print_case_list(cases, _console())
            return
        if junit is not None:
            _check_writable(junit)
        earlier = None if results is None else results_at(results)
        outcomes = _run(cases, settings, junit)
        if results is not None and earlier is not None:
            write_results(results, earlier.updated(outcomes, [case.id for case in loaded]))
    except InputError as error:
        raise _BadInput(str(error)) from error
    if not all_passed(outcomes):
        raise SystemExit(1)


def _chosen(loaded: list[Case], pattern: str) -> list[Case]:
    cases = select(loaded, pattern)
    if not cases:
        raise InputError(f"no case matches {pattern!r}")
    return cases


def _check_writable(junit: Path) -> None:
    """Raise InputError before the cases run if the report cannot be written after them."""
    try:
        with junit.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise InputError(f"--junit: {junit}: {error.strerror or error}") from error


def _run(cases: list[Case], settings: Settings, junit: Path | None) -> list[Outcome]:
    """Run the cases, print the report, and return the outcomes."""
    clock = RealClock()
    started = clock.monotonic()
    with progress(len(cases), Console(stderr=True)) as on_outcome:
        outcomes = run_cases(cases, settings, on_outcome)
    print_report(outcomes, _console(), seconds=clock.monotonic() - started)
    if junit is not None:
        try:
            write_junit(junit, outcomes)
        except OSError as error:
            raise InputError(f"--junit: {junit}: {error.strerror or error}") from error
    return outcomes


def _console() -> Console:
    """Return a console for standard output: as wide as the terminal, or 200 columns without one."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    return console
