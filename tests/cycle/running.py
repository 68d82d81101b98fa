"""Runs `schedule_pod` of plugins that wait for nothing, without an event loop."""

from scheduler.cycle import schedule_pod as module
from scheduler.cycle.schedule_pod import ScheduleResult, SchedulingAlgorithm
from scheduler.framework import CycleState, PodInfo
from scheduler.reports.decision import result_of
from scheduler.runtime import Framework


def schedule_pod(
    algorithm: SchedulingAlgorithm, framework: Framework, state: CycleState, pod: PodInfo
) -> ScheduleResult:
    """Run `scheduler.cycle.schedule_pod.schedule_pod`."""
    return result_of(module.schedule_pod(algorithm, framework, state, pod))
