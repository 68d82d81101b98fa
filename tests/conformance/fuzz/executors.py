"""Factories for `--executor`: threads, executors that lose their tasks, and no executor at all."""

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any


def threads() -> Executor:
    return ThreadPoolExecutor(1)


class _Losing(Executor):
    """Loses every second task, as a machine does that is switched off."""

    def __init__(self) -> None:
        self._count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._count += 1
        future: Future[Any] = concurrent.futures.Future()
        if self._count % 2:
            future.set_exception(concurrent.futures.BrokenExecutor("machine 7 is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def losing() -> Executor:
    return _Losing()


def no_executor() -> int:
    return 7


def refused() -> Executor:
    raise ConnectionError("no scheduler at tcp://127.0.0.1:1")
