"""The executors of runs: this process, worker processes, or one of the user's own.

Any `concurrent.futures.Executor` will do, such as the one of a Dask cluster.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")


@contextlib.contextmanager
def executor_of(reference: str, workers: int) -> Iterator[concurrent.futures.Executor]:
    """Return the executor of `module:factory`, or worker processes; 0 workers is this process.

    Raises `click.UsageError` if the reference does not lead to an executor.
    """
    if reference:
        with _made_by(reference) as executor:
            yield executor
    elif workers == 0:
        yield _Here()
    else:
        with _processes(workers) as pool:
            yield pool


def _made_by(reference: str) -> concurrent.futures.Executor:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise click.UsageError(f"--executor: expected MODULE:FACTORY, got {reference!r}")
    # An installed command does not search the working directory by itself, as `python -m` does.
    if "" not in sys.path:
        sys.path.append("")
    try:
        executor = getattr(importlib.import_module(module), name)()
    except Exception as error:
        # A factory may raise anything.
        problem = f"{type(error).__name__}: {error}"
        raise click.UsageError(f"--executor: {reference}: {problem}") from error
    if not isinstance(executor, concurrent.futures.Executor):
        raise click.UsageError(f"--executor: {reference}: expected a concurrent.futures.Executor")
    return executor


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
