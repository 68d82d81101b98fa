"""Runs a coroutine that has nothing to wait for, without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from scheduler.cycle import schedule_pod as module
from scheduler.cycle.schedule_pod import ScheduleResult, SchedulingAlgorithm
from scheduler.framework import CycleState, PodInfo
from scheduler.runtime import Framework

R = TypeVar("R")


def result_of(work: Coroutine[Any, Any, R]) -> R:
    """Return the result of `work`; raises RuntimeError if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise RuntimeError("the coroutine waits")


def schedule_pod(
    algorithm: SchedulingAlgorithm, framework: Framework, state: CycleState, pod: PodInfo
) -> ScheduleResult:
    """Run `scheduler.cycle.schedule_pod.schedule_pod`."""
    return result_of(module.schedule_pod(algorithm, framework, state, pod))
