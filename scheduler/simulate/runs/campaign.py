"""Carry out many runs on an executor, and keep each result as soon as it is there.

Tasks and results are JSON, so that they can be sent anywhere. A file has one line for each result;
a campaign that resumes it carries out the other tasks only.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.runs.executors import executor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Without a terminal, a line of progress is printed for each of so many parts of the whole.
_LINES: Final = 10


class Campaign(NamedTuple):
    """The options of a campaign: where the runs are carried out, and where their results are kept.

    `executor` is a reference `module:factory`; without a reference there are `workers` processes.
    """

    output: Path
    executor: str = ""
    workers: int = 0
    resume: bool = False


def campaign_options(
    *, machines_need: str, files: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options, and gives a command their value `campaign`."""
    options = (
        click.option(
            "--workers",
            metavar="N",
            type=click.IntRange(min=0),
            default=os.cpu_count() or 1,
            help="Worker processes, by default one for each core; 0 is this process.",
        ),
        click.option(
            "--executor",
            metavar="MODULE:FACTORY",
            default="",
            help="A function that returns a concurrent.futures.Executor, such as that of a Dask "
            f"cluster. Its machines need the same {machines_need}.",
        ),
        click.option("--resume", is_flag=True, help="Keep the runs that the output directory has."),
        click.option(
            "-o",
            "--output",
            required=True,
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            help=f"The directory for {files}.",
        ),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_campaign(
            *, output: Path, executor: str, workers: int, resume: bool, **others: object
        ) -> None:
            command(campaign=Campaign(output, executor, workers, resume), **others)

        decorated: Callable[..., None] = with_campaign
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


class _Line(msgspec.Struct, frozen=True):
    """One finished run. A run with another task of the same name is not this run."""

    name: str
    task: msgspec.Raw
    result: msgspec.Raw


def carry_out(
    work: Callable[[bytes], bytes],
    tasks: Mapping[str, bytes],
    campaign: Campaign,
) -> dict[str, bytes]:
    """Return the results by name, in the order of the tasks; after Ctrl-C the results so far.

    Raises `click.ClickException` for a task that fails, once the others have ended.
    """
    journal, resume = campaign.output / "runs.jsonl", campaign.resume
    finished = _read(journal, tasks) if resume and journal.exists() else {}
    left = {name: task for name, task in tasks.items() if name not in finished}
    failures: list[str] = []
    with (
        journal.open("ab" if resume else "wb") as file,
        _progress(len(tasks), len(finished)) as advance,
        _interruptible(),
    ):
        for name, future in _futures(work, left, campaign):
            try:
                result = future.result()
            except Exception as error:  # noqa: BLE001 - a worker may fail in any way
                failures.append(f"{name}: {type(error).__name__}: {error}")
                continue
            line = _Line(name, msgspec.Raw(tasks[name]), msgspec.Raw(result))
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            finished[name] = result
            advance(name)
    if failures:
        raise click.ClickException("; ".join(failures))
    return {name: finished[name] for name in tasks if name in finished}


def _read(journal: Path, tasks: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the results of an earlier campaign that are results of these tasks."""
    finished = {}
    lines = journal.read_bytes().splitlines(keepends=True)
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            break  # written by a process that was killed in the midst of it
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError as error:
            raise InputFileError(journal, f"not a result: {error}", line=number) from error
        if tasks.get(line.name) == bytes(line.task):
            finished[line.name] = bytes(line.result)
    return finished


def _futures(
    work: Callable[[bytes], bytes], tasks: Mapping[str, bytes], campaign: Campaign
) -> Iterator[tuple[str, concurrent.futures.Future[bytes]]]:
    """Yield the names of the tasks with their futures, each as soon as it is done."""
    with executor_of(campaign.executor, campaign.workers) as pool:
        futures = {}
        for name, task in tasks.items():
            future = pool.submit(work, task)
            if future.done():
                yield name, future
            else:
                futures[future] = name
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """End the block at Ctrl-C, without an error."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted; --resume goes on", err=True)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _progress(total: int, finished: int) -> Iterator[Callable[[str], None]]:
    """Show a bar with an estimate on a terminal, and some lines elsewhere."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        row = bar.add_task("runs", total=total, completed=finished)

        def advance(name: str) -> None:
            nonlocal finished
            finished += 1
            bar.update(row, completed=finished, description=name)
            step = max(1, total // _LINES)
            if not console.is_terminal and (finished % step == 0 or finished == total):
                sys.stderr.write(f"{finished} of {total} runs, last {name}\n")

        yield advance
