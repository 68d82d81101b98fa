"""Carry out many runs on an executor, and keep each result as soon as it is there.

Tasks and results are JSON, so that they can be sent anywhere. A file has one line for each result;
a campaign that resumes it carries out the other tasks only.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.runs.executors import executor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: Without a terminal, a line of progress is printed for each of so many parts of the whole.
_LINES: Final = 10


class Workers(NamedTuple):
    """The executor of a campaign: a reference `module:factory`, or a number of processes."""

    executor: str = ""
    processes: int = 0


class _Line(msgspec.Struct, frozen=True):
    """One finished run. A run with another task of the same name is not this run."""

    name: str
    task: msgspec.Raw
    result: msgspec.Raw


def carry_out(
    work: Callable[[bytes], bytes],
    tasks: Mapping[str, bytes],
    journal: Path,
    *,
    workers: Workers,
    resume: bool,
) -> dict[str, bytes]:
    """Return the results by name, in the order of the tasks; after Ctrl-C the results so far.

    Raises `click.ClickException` for a task that fails, once the others have ended.
    """
    finished = _read(journal, tasks) if resume and journal.exists() else {}
    left = {name: task for name, task in tasks.items() if name not in finished}
    failures: list[str] = []
    with (
        journal.open("ab" if resume else "wb") as file,
        _progress(len(tasks), len(finished)) as advance,
        _interruptible(),
    ):
        for name, future in _futures(work, left, workers):
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
    work: Callable[[bytes], bytes], tasks: Mapping[str, bytes], workers: Workers
) -> Iterator[tuple[str, concurrent.futures.Future[bytes]]]:
    """Yield the names of the tasks with their futures, each as soon as it is done."""
    with executor_of(workers.executor, workers.processes) as pool:
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
