"""The command `kubesched-conformance fuzz`."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from ..clock import RealClock
from ..errors import InputError
from ..invariants import INVARIANTS
from ..invariants.with_plugins import left_out_for
from ..options import SuiteCommand, given_by, options_of, takes
from ..reports.terminal import progress_bar
from ..targets import target_kind
from ..targets.options import seed_option, target_options, timeout_option
from ..targets.target import TargetOptions
from .campaign import Interrupted, executor_of, search
from .counterexample import fails, report_of, write
from .search import Task, invariant_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .campaign import Result

#: The pause between two lines of progress without a terminal; in real time each case has one.
_LINE_SECONDS = 10.0


_option = options_of("Options")


class FuzzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    target: TargetOptions = given_by(target_options)
    examples: int = _option(
        "--examples",
        metavar="N",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="The number of cases to draw.",
    )
    seed: int = given_by(seed_option)
    names: str = _option(
        "--invariants",
        metavar="A,B",
        default="",
        help="The invariants to check; by default all but those that a --plugin may break.",
    )
    lists: bool = _option("--list", help="Print the invariants, and run nothing.")
    output: Path = _option(
        "--output",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("counterexamples"),
        show_default=True,
        help="The directory for the cases that break an invariant.",
    )
    workers: int = _option(
        "--workers",
        metavar="N",
        type=click.IntRange(min=0),
        default=os.cpu_count() or 1,
        help="The number of worker processes, by default one per core; 0 means this process.",
    )
    executor: str = _option(
        "--executor",
        metavar="MODULE:FACTORY",
        default="",
        help="A function that returns a concurrent.futures.Executor, which runs the search.",
    )
    nodes: int = _option(
        "--nodes",
        type=click.IntRange(1, 15),
        default=4,
        show_default=True,
        help="Nodes at the start.",
    )
    pods: int = _option(
        "--pods",
        type=click.IntRange(min=0),
        default=4,
        show_default=True,
        help="Pods at the start.",
    )
    steps: int = _option(
        "--steps", type=click.IntRange(min=1), default=6, show_default=True, help="Steps of a case."
    )
    timeout_seconds: float = given_by(timeout_option(60, "How long one run may take."))


@click.command(cls=SuiteCommand)
@takes(FuzzOptions)
def fuzz(options: FuzzOptions) -> None:
    """Search for cases in which a scheduler breaks an invariant, and write them as case files.

    Exit status: 0 if all invariants held, 1 if one was broken or a worker was lost, 2 for invalid
    input, 130 after Ctrl-C.
    """
    if options.lists:
        _print_invariants()
        return
    target_kind(options.target)
    left_out = {} if options.names else left_out_for(options.target.plugins)
    for name, method in left_out.items():
        click.echo(f"{name} is left out: {method} may break it")
    task = Task(
        target=options.target,
        seed=options.seed,
        examples=options.examples,
        invariants=tuple(n for n in invariant_names(options.names) if n not in left_out),
        nodes_max=options.nodes,
        pods_max=options.pods,
        steps_max=options.steps,
        timeout_seconds=options.timeout_seconds,
    )
    clock = RealClock()
    started = clock.monotonic()
    shares_scheduler = bool(options.target.kubeconfig)
    if shares_scheduler and options.executor:
        raise InputError("--kubeconfig: no --executor: cases share the cluster's scheduler")
    workers = 0 if shares_scheduler else options.workers
    is_interrupted = False
    try:
        with (
            executor_of(options.executor, workers) as pool,
            _progress(
                options.examples,
                line_seconds=0.0 if options.target.in_real_time else _LINE_SECONDS,
            ) as on_progress,
        ):
            result = search(task, pool, on_progress)
    except Interrupted as interrupted:
        result, is_interrupted = interrupted.result, True
    is_good = _report(result, task, options.output, seconds=clock.monotonic() - started)
    if is_interrupted:
        click.echo(f"interrupted after {result.examples} of {options.examples} cases")
        raise SystemExit(128 + signal.SIGINT)
    if not is_good:
        raise SystemExit(1)


def _print_invariants() -> None:
    for invariant in INVARIANTS.values():
        click.echo(f"{invariant.name}: {invariant.sentence}\n    {invariant.source}")


@contextlib.contextmanager
def _progress(total: int, *, line_seconds: float) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, and a line now and then elsewhere."""
    console, clock = Console(stderr=True), RealClock()
    shown_at = clock.monotonic()
    with progress_bar(console) as bar:
        row = bar.add_task("drawing", total=total)

        def show(examples: int, broken: int) -> None:
            nonlocal shown_at
            words = f"{broken} broken" if broken else "drawing"
            bar.update(row, completed=examples, description=words)
            now = clock.monotonic()
            if not console.is_terminal and now - shown_at >= line_seconds:
                shown_at = now
                click.echo(f"{examples} of {total} cases, {broken} invariants broken", err=True)
            if examples >= total and broken:
                # Hypothesis' own limit for one of them.
                click.echo("looking for the smallest cases, for up to 5 minutes each", err=True)

        yield show


def _report(result: Result, task: Task, output: Path, *, seconds: float) -> bool:
    """Write the counterexamples, print the summary, and return True if all is well."""
    for name, counterexample in sorted(result.found.items()):
        path = write(counterexample, output)
        click.echo(f"{name}: {counterexample.text}")
        again = fails(path, task.target, timeout_seconds=task.timeout_seconds)
        click.echo(f"    {path}" + ("" if again else " (passed when it was run again)"))
        click.echo(f"\n{report_of(counterexample)}")
    for error in result.errors:
        click.echo(f"error: {error}")
    if result.refused:
        count = len(result.refused)
        click.echo(f"{count} cases could not be run, first: {result.refused[0]}")
    click.echo(
        f"{result.examples} cases, {len(task.invariants)} invariants, {len(result.found)} broken, "
        f"seed {task.seed}, {seconds:.1f}s"
    )
    ran = result.examples - len(result.refused)
    if not ran:
        click.echo("error: no case was run")
    return bool(ran) and not result.found and not result.errors
