"""Carry out many runs on an executor, and keep each result as soon as it is there.

Tasks and results are JSON, so that they can be sent anywhere. A file has one line for each result;
a campaign that resumes it carries out the other tasks only.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler.assembly.profiles import find_plugins_in_working_directory
from scheduler.explain.input_files import line_of_errors
from scheduler.explain.options import gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

T = TypeVar("T")
Work: TypeAlias = "Callable[..., bytes]"


class Campaign(NamedTuple):
    """The options of a campaign: where the runs are carried out, and where their results are kept.

    `executor` is a reference `module:factory`; without a reference there are `workers` processes.
    """

    output: Path
    executor: str = ""
    workers: int = 0
    resume: bool = False


campaign_options: Final = gathered(
    "campaign",
    Campaign,
    workers=click.option(
        "--workers",
        metavar="N",
        type=click.IntRange(min=0),
        default=os.cpu_count() or 1,
        help="Worker processes, by default one for each core; 0 is this process.",
    ),
    executor=click.option(
        "--executor",
        metavar="MODULE:FACTORY",
        default="",
        help="A function that returns a concurrent.futures.Executor, such as that of a Dask "
        "cluster. Its machines need the same files and plugins.",
    ),
    resume=click.option(
        "--resume", is_flag=True, help="Keep the runs that the output directory has."
    ),
    output=click.option(
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="The directory for the results, and for runs.jsonl with a line for each run.",
    ),
)


class _Line(msgspec.Struct, frozen=True):
    """One finished run. A run with another task of the same name is not this run."""

    name: str
    task: msgspec.Raw
    result: msgspec.Raw


def carry_out(
    work: Work, tasks: Mapping[str, object], campaign: Campaign, kind: type[T]
) -> dict[str, T]:
    """Return the results by name, in the order of the tasks; after Ctrl-C the results so far.

    `work` carries out a task, and may be given a function for the finished part, from 0 to 1.
    Raises `click.ClickException` for tasks that fail, once the others have ended.
    """
    campaign.output.mkdir(parents=True, exist_ok=True)
    journal = campaign.output / "runs.jsonl"
    encoded = {name: msgspec.json.encode(task) for name, task in tasks.items()}
    finished = _read(journal, encoded) if campaign.resume and journal.exists() else {}
    left = {name: task for name, task in encoded.items() if name not in finished}
    failures: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            journal.open("ab" if campaign.resume else "wb") as file,
            _Progress(len(tasks), len(finished)) as progress,
            contextlib.closing(_results(work, left, campaign, progress)) as results,
        ):
            for name, result in results:
                if isinstance(result, Exception):
                    failures.append(f"{name}: {type(result).__name__}: {result}")
                    continue
                line = _Line(name, msgspec.Raw(encoded[name]), msgspec.Raw(result))
                file.write(msgspec.json.encode(line) + b"\n")
                file.flush()
                finished[name] = result
                progress.ended(name)
    except KeyboardInterrupt:
        click.echo("interrupted; --resume goes on", err=True)
    finally:
        signal.signal(signal.SIGINT, before)
    if failures:
        raise click.ClickException("; ".join(failures))
    ended = [name for name in tasks if name in finished]
    return {name: msgspec.json.decode(finished[name], type=kind) for name in ended}


def _read(journal: Path, tasks: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the results of an earlier campaign that are results of these tasks."""
    finished = {}
    for number, text in enumerate(journal.read_bytes().splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            break  # written by a process that was killed in the midst of it
        with line_of_errors(journal, number):
            line = msgspec.json.decode(text, type=_Line)
        if tasks.get(line.name) == bytes(line.task):
            finished[line.name] = bytes(line.result)
    return finished


def _results(
    work: Work, tasks: Mapping[str, bytes], campaign: Campaign, progress: _Progress
) -> Generator[tuple[str, bytes | Exception], None, None]:
    """Yield the names of the tasks with their results or errors, each as soon as it is there.

    A single task is carried out in this process, as its progress is seen here only.
    """
    if not campaign.executor and (not campaign.workers or len(tasks) == 1):
        for name, task in tasks.items():
            yield name, _result(work, task, progress.advanced)
        return
    with _executor(campaign) as pool:
        names = {pool.submit(work, task): name for name, task in tasks.items()}
        for future in as_completed(names):
            yield names[future], _result(future.result)


def _result(of: Work, *values: object) -> bytes | Exception:
    try:
        return of(*values)
    except Exception as error:  # noqa: BLE001 - a worker may fail in any way
        return error


@contextlib.contextmanager
def _executor(campaign: Campaign) -> Iterator[Executor]:
    """Yield the user's executor, or worker processes; these end at once if the block fails."""
    if campaign.executor:
        with _made_by(campaign.executor) as executor:
            yield executor
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(campaign.workers, mp_context=context, initializer=_follow_parent)
    try:
        yield pool
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _made_by(reference: str) -> Executor:
    """Return the executor of `module:factory`; raises `click.UsageError`."""
    find_plugins_in_working_directory()
    try:
        executor = pkgutil.resolve_name(reference)()
    except Exception as error:
        # A factory may raise anything.
        problem = f"{type(error).__name__}: {error}"
        text = f"--executor: expected MODULE:FACTORY, got {reference!r}: {problem}"
        raise click.UsageError(text) from error
    if not isinstance(executor, Executor):
        raise click.UsageError(f"--executor: {reference}: expected a concurrent.futures.Executor")
    return executor


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent process, and end as soon as it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class _Progress(Progress):
    """A bar with an estimate on a terminal, and a line for each run elsewhere."""

    def __init__(self, total: int, finished: int) -> None:
        console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        text = TextColumn("{task.description}")
        super().__init__(
            text, *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._ended = finished
        self._row = self.add_task("runs", total=total, completed=finished)

    def advanced(self, part: float) -> None:
        """Show the finished part of the run of this process."""
        self.update(self._row, completed=self._ended + part)

    def ended(self, name: str) -> None:
        """Count a run."""
        self._ended += 1
        self.update(self._row, completed=self._ended, description=name)
        if self.disable:
            sys.stderr.write(f"{self._ended} runs, last {name}\n")
