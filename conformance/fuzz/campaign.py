"""A search in many tasks on an executor: explore them all, then shrink one case per invariant.

Any `concurrent.futures.Executor` will do. A task that an executor loses is an error of the search,
never a pass.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import multiprocessing
import os
import random
import signal
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import msgspec

from ..errors import InputError
from .search import Exploration, Found, Task, explore, shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

#: The examples of one seed, and of one task: enough to make its start cheap, few enough to share
#: them out. In real time an example takes seconds, and so is a task.
_EXAMPLES_PER_SEED: Final = 50
_SLOW_EXAMPLES_PER_SEED: Final = 10


@dataclass(kw_only=True)
class Result:
    """The result of a search: the smallest case per invariant, and the errors.

    `errors` are tasks that were lost, `refused` the reasons of examples that could not be run.
    """

    examples: int = 0
    found: dict[str, Found] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Interrupted(Exception):
    """Ctrl-C has ended a search. `result` is the result until then."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def tasks_of(whole: Task) -> list[Task]:
    """Cut a search into tasks. The same seed makes the same tasks, however they are run."""
    in_real_time = whole.target.in_real_time
    size = _SLOW_EXAMPLES_PER_SEED if in_real_time else _EXAMPLES_PER_SEED
    tasks = []
    for start in range(0, whole.examples, size):
        seed = random.Random(f"{whole.seed}/{start}").getrandbits(63)
        examples = min(size, whole.examples - start)
        task = msgspec.structs.replace(whole, seed=seed, examples=examples)
        if in_real_time:
            tasks += [
                msgspec.structs.replace(task, examples=1, skipped=number)
                for number in range(examples)
            ]
        else:
            tasks.append(task)
    return tasks


def search(
    whole: Task, executor: concurrent.futures.Executor, on_progress: Callable[[int, int], None]
) -> Result:
    """Run a search. `on_progress` gets the examples that were run and the invariants broken.

    Raises InputError for a target that cannot be run at all, and Interrupted after Ctrl-C.

    Source of the shrunk case of an invariant: the first task, in order, in which it was broken.
    """
    tasks, result = tasks_of(whole), Result()
    first: dict[str, tuple[int, Found]] = {}
    try:
        for number, future in _explored(tasks, executor):
            try:
                done = msgspec.json.decode(future.result(), type=Exploration)
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001 - a worker's failure is part of the result
                result.errors.append(f"{_range(tasks, number)}: {_words(error)}")
                continue
            result.examples += done.examples
            result.refused += done.refused
            for found in done.found:
                if found.invariant not in first or number < first[found.invariant][0]:
                    first[found.invariant] = number, found
            on_progress(result.examples, len(first))
        _shrink_all(first, tasks, executor, result)
    except KeyboardInterrupt as interrupted:
        unshrunk = {invariant: found for invariant, (_, found) in first.items()}
        result.found = {**unshrunk, **result.found}
        raise Interrupted(result) from interrupted
    result.refused.sort()
    result.errors.sort()
    return result


def _explored(
    tasks: list[Task], executor: concurrent.futures.Executor
) -> Iterator[tuple[int, concurrent.futures.Future[bytes]]]:
    """Yield the tasks' numbers with their futures, each as soon as it is done."""
    futures: dict[concurrent.futures.Future[bytes], int] = {}
    for number, task in enumerate(tasks):
        future = executor.submit(explore, msgspec.json.encode(task))
        if future.done():
            yield number, future
        else:
            futures[future] = number
    for future in concurrent.futures.as_completed(futures):
        yield futures[future], future


def _shrink_all(
    first: dict[str, tuple[int, Found]],
    tasks: list[Task],
    executor: concurrent.futures.Executor,
    result: Result,
) -> None:
    """Shrink the first case of each invariant. A case that is not found again stays."""
    futures = {}
    for invariant, (number, _) in sorted(first.items()):
        task = msgspec.structs.replace(tasks[number], invariants=(invariant,))
        try:
            futures[invariant] = executor.submit(shrink, msgspec.json.encode(task))
        except RuntimeError as error:
            result.errors.append(f"shrinking {invariant}: {_words(error)}")
    for invariant, (_, found) in sorted(first.items()):
        result.found[invariant] = found
        if invariant not in futures:
            continue
        try:
            smallest = msgspec.json.decode(futures[invariant].result(), type=Found | None)
        except Exception as error:  # noqa: BLE001 - a worker's failure is part of the result
            result.errors.append(f"shrinking {invariant}: {_words(error)}")
            continue
        if smallest is not None and smallest.size < found.size:
            result.found[invariant] = smallest


def _range(tasks: list[Task], number: int) -> str:
    start = sum(task.examples for task in tasks[:number])
    return f"examples {start} to {start + tasks[number].examples - 1}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


class _Here(concurrent.futures.Executor):
    """Runs each task at once, in this process."""

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised by the future
            future.set_exception(error)
        return future


@contextlib.contextmanager
def executor_of(reference: str, workers: int) -> Iterator[concurrent.futures.Executor]:
    """Return the executor of `module:factory`, or worker processes; 0 workers is this process.

    Raises InputError if the reference does not lead to an executor.
    """
    if reference:
        with _made_by(reference) as executor:
            yield executor
    elif workers == 0:
        yield _Here()
    else:
        with _processes(workers) as pool:
            yield pool


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[concurrent.futures.Executor]:
    """Run worker processes. They end at once if the block fails, or if this process is killed."""
    context = multiprocessing.get_context("spawn")
    worker_end, ours = context.Pipe(duplex=False)
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_end_with, initargs=(worker_end,)
    )
    try:
        yield pool
        pool.shutdown()
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        worker_end.close()


def _end_with(parent: Connection) -> None:
    """End this process as soon as the other end of a pipe is closed, in the midst of a task."""
    # Ctrl-C is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            parent.recv_bytes()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _made_by(reference: str) -> concurrent.futures.Executor:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise InputError(f"--executor: expected MODULE:FACTORY, got {reference!r}")
    # An installed command does not search the working directory by itself, as `python -m` does.
    if "" not in sys.path:
        sys.path.append("")
    try:
        executor = getattr(importlib.import_module(module), name)()
    except Exception as error:
        # A factory may raise anything.
        raise InputError(f"--executor: {reference}: {_words(error)}") from error
    if not isinstance(executor, concurrent.futures.Executor):
        raise InputError(f"--executor: {reference}: expected a concurrent.futures.Executor")
    return executor
