"""The command `kubesched-conformance replay`.

Exit status: 0 if every pod was bound or reported unschedulable and every rule held; 1 otherwise, or
if the run broke off; 2 for invalid input, with one line that names the place.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from rich.console import Console

from ..clock import RealClock
from ..errors import InputError, ReplayError, RequestFailed
from ..options import PATH, Failure, SuiteCommand, options_of, takes
from ..reports.json_file import write_json
from ..reports.terminal import output_console, progress_bar
from ..targets.quiet import run_quietly
from ..targets.target import OUR_SCHEDULER_AS, read_configuration
from .driver import KUBESCHED, Counts, Settings
from .driver import replay as run_replay
from .history import read_history
from .report import Report, render, summarise, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .driver import Run
    from .history import History


#: The bar's CPU time slows down the replay.
_REFRESHES_PER_SECOND: Final = 4

_option = options_of("Options")


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    history: Path = _option(
        "--history",
        metavar="FILE",
        required=True,
        type=PATH,
        help="The history: JSON lines, as of `kubesched-simulate record` or `import`.",
    )
    limit: int | None = _option(
        "--limit", metavar="N", type=click.IntRange(min=1), help="Only the first N pods."
    )
    target_command: str = _option(
        "--target-command",
        metavar="COMMAND",
        default="",
        help="The scheduler to start: a command with {kubeconfig} or {config} in it, which stand "
        "for files; kubesched@1.35 is ours as it decides in that version. Our own scheduler if not "
        "given.",
    )
    time: str = _option(
        "--time",
        type=click.Choice(["none", "history"]),
        default="none",
        show_default=True,
        help="none: create all pods as fast as possible. history: create, patch and delete all "
        "objects at the history's times, gaps cut to 30 s.",
    )
    config: Path | None = _option(
        "--config",
        metavar="FILE",
        type=PATH,
        help="A KubeSchedulerConfiguration for the scheduler.",
    )
    json_file: Path | None = _option("--json", metavar="FILE", help="Write all numbers here.")
    timeout_seconds: float = _option(
        "--timeout",
        metavar="SECONDS",
        default=600.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Give up after this time, and list the missing pods.",
    )
    settle_seconds: float = _option(
        "--settle",
        metavar="SECONDS",
        default=2.0,
        show_default=True,
        type=click.FloatRange(min=0),
        help="End when every pod is decided on and no pod has changed for this time.",
    )
    concurrency: int = _option(
        "--concurrency",
        metavar="N",
        default=16,
        show_default=True,
        type=click.IntRange(min=1),
        help="Creates under way at once.",
    )


@click.command(cls=SuiteCommand)
@takes(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Replay a history: create its objects, let a scheduler place the pods, and verify all."""
    history = read_history(options.history, limit=options.limit)
    settings = Settings(
        target_command=_command(options.target_command),
        config=read_configuration(options.config, option="--config") if options.config else {},
        concurrency=options.concurrency,
        timeout_seconds=options.timeout_seconds,
        settle_seconds=options.settle_seconds,
        in_time=options.time == "history",
    )
    numbers = None if options.json_file is None else _output(options.json_file)
    try:
        report = summarise(_run(history, settings))
    except (ReplayError, RequestFailed) as error:
        raise Failure(str(error)) from error
    render(report, output_console())
    if numbers is not None:
        _write(report, numbers)
    if not report.passed:
        click.get_current_context().exit(1)


def _run(history: History, settings: Settings) -> Run:
    """Run the replay with a progress bar on standard error."""

    async def run(show: Callable[[Counts], None]) -> Run:
        task = asyncio.current_task()
        assert task is not None
        # The processes must not outlive the replay, however it ends.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run_replay(history, settings, clock=RealClock(), show=show)

    with _progress(Console(stderr=True), len(history.pods)) as show:
        try:
            return run_quietly(run(show))
        except asyncio.CancelledError:
            raise click.Abort from None


@contextlib.contextmanager
def _progress(console: Console, pods: int) -> Iterator[Callable[[Counts], None]]:
    """Show a bar for each of `Counts` on a terminal; the yielded function updates them."""
    with progress_bar(console, refreshes_per_second=_REFRESHES_PER_SECOND) as progress:
        bars = [progress.add_task(name, total=pods) for name in Counts._fields]

        def show(counts: Counts) -> None:
            for bar, completed in zip(bars, counts, strict=True):
                progress.update(bar, completed=completed)

        yield show


def _command(text: str) -> tuple[str, ...]:
    """Return the words of a command; `kubesched@1.35` is ours as it decides in that version."""
    if not text:
        return KUBESCHED
    if text.startswith(OUR_SCHEDULER_AS):
        return (*KUBESCHED, f"--scheduler-version={text.removeprefix(OUR_SCHEDULER_AS)}")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"--target-command: {error}: {text}") from error


def _output(path: Path) -> Path:
    """Return the file's path, creating its folder before the run. Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: {error.strerror}") from error
    return path


def _write(report: Report, path: Path) -> None:
    """Write the numbers, and print the name of the file."""
    try:
        write_json(path, to_json(report))
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    click.echo(f"Numbers: {path}")
