"""Independent questions about one cluster, each answered in a process that inherits the cluster."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

#: The questions, for the processes to inherit: they cannot be sent.
_questions: Final[list[Callable[[], Any]]] = []


def can_fork() -> bool:
    """True if processes inherit all objects safely, and there is more than one core."""
    return sys.platform == "linux" and (os.cpu_count() or 1) > 1


def answered(questions: Sequence[Callable[[], T]]) -> list[T]:
    """Return the answers, which can be sent between processes."""
    _questions[:] = questions
    workers = min(len(questions), os.cpu_count() or 1)
    context = multiprocessing.get_context("fork")
    try:
        with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
            return list(pool.map(_answer, range(len(questions))))
    finally:
        _questions.clear()


def _answer(number: int) -> Any:
    return _questions[number]()
