"""The decision for one pod: all nodes are filtered, and all feasible nodes are scored.

The scheduler itself stops its search early in large clusters, and it takes a single feasible node
without scoring it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scheduler.cycle.schedule_pod import (
    NoNodesAvailableError,
    ScheduleResult,
    SchedulingAlgorithm,
    prioritize_nodes,
)
from scheduler.framework.extender import ExtenderError
from scheduler.framework.status import Code, Status
from scheduler.framework.types import FitError
from scheduler.runtime import FrameworkError, PluginFailedError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender
    from scheduler.framework.types import Diagnosis
    from scheduler.preemption import Preemption
    from scheduler.runtime import Framework
    from scheduler.snapshot import IntArray, Nodes, PodInfo, Snapshot


R = TypeVar("R")


class FirstByName:
    """Breaks ties: chooses the first by name among equal best nodes."""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        return int(min(best.tolist(), key=nodes.name))


class PostFilterOutcome(NamedTuple):
    """The result of preemption."""

    status: Status
    nominated_node: str
    #: The keys of the deleted pods.
    victims: Sequence[str]
    #: The candidates and the choice; None if no node was chosen.
    preemption: Preemption | None


class Decision(NamedTuple):
    """The decision for one pod.

    `result` is `scheduled`, `unschedulable`, `gated` (rejected by a PreEnqueue plugin), `ignored`
    (no profile has the pod's scheduler name) or `error`. `status` is the rejection by PreEnqueue or
    Reserve, or the failure.
    """

    pod: PodInfo
    result: str
    schedule_result: ScheduleResult | None = None
    diagnosis: Diagnosis | None = None
    status: Status | None = None
    message: str = ""
    #: The numbers of evaluated and of feasible nodes in the scheduler's own search, which stops
    #: early; the decision itself covers all nodes.
    counts: tuple[int, int] = (0, 0)
    #: The result of PostFilter for a pod that fits on no node.
    post_filter: PostFilterOutcome | None = None
    #: The notes of plugins in Reserve.
    reserved: Sequence[str] = ()

    @property
    def node(self) -> str:
        """The node of a scheduled pod; empty for any other pod."""
        if self.result != "scheduled" or self.schedule_result is None:
            return ""
        return self.schedule_result.suggested_host


async def decide(
    snapshot: Snapshot,
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    *,
    extenders: Sequence[Extender] = (),
) -> Decision:
    """Filter all nodes and score the feasible nodes, even a single one.

    PreEnqueue, PostFilter, Reserve and Permit are not called. Only extenders are awaited. The
    decision has a diagnosis unless there is no node, or a plugin or an extender fails.
    """
    algorithm = SchedulingAlgorithm(
        snapshot, tie_break=FirstByName(), exhaustive=True, extenders=extenders
    )
    try:
        feasible, diagnosis = await algorithm.find_nodes_that_fit_pod(framework, state, pod)
        if not len(feasible):
            return _unschedulable(FitError(pod, len(snapshot), diagnosis))
        scores = await prioritize_nodes(framework, state, pod, feasible, extenders=extenders)
    except NoNodesAvailableError as error:
        return Decision(pod, "unschedulable", message=str(error))
    except (FrameworkError, ExtenderError) as error:
        return failed(pod, error)
    result = algorithm.select_host(feasible, diagnosis, scores)
    return Decision(pod, "scheduled", result, diagnosis)


def result_of(work: Coroutine[Any, None, R]) -> R:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise PluginFailedError("a plugin waits for something that never happens here")


def failed(pod: PodInfo, error: FrameworkError | ExtenderError) -> Decision:
    """Return the decision after a failure; the failure of a plugin has the plugin's line."""
    message = str(error)
    if isinstance(error, PluginFailedError) and error.place:
        message = f"{message} ({error.place})"
    return Decision(pod, "error", status=Status(Code.ERROR, message), message=message)


def _unschedulable(error: FitError) -> Decision:
    """Return the decision for a pod that fits on no node."""
    return Decision(error.pod, "unschedulable", diagnosis=error.diagnosis, message=str(error))
