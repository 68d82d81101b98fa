"""The decision for one pod: all nodes are filtered, and all that fit are scored.

The scheduler itself stops its search early in large clusters, and it takes a single feasible node
without scoring it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

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
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from scheduler.api.core import PodExtendedResourceClaimStatus
    from scheduler.api.dynamic_resources import ResourceClaim
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


class DeviceWrites(NamedTuple):
    """The writes of a pod's decision, and the claims as they are afterwards.

    A deleted claim is None. `created` are the keys of the claims that were created.
    """

    writes: Sequence[str]
    claims: Mapping[str, ResourceClaim | None]
    created: frozenset[str]
    extended_status: PodExtendedResourceClaimStatus | None


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
    #: The failure of PreBind; the pod is then not on its node.
    pre_bind: Status | None = None
    device_writes: DeviceWrites | None = None


#: Decides a pod, as `decide` does.
Decide: TypeAlias = "Callable[[Snapshot, Framework, CycleState, PodInfo], Decision]"


def decide(snapshot: Snapshot, framework: Framework, state: CycleState, pod: PodInfo) -> Decision:
    """Decide without extenders; see `decide_with_extenders`."""
    return result_of(decide_with_extenders(snapshot, framework, state, pod, extenders=()))


async def decide_with_extenders(
    snapshot: Snapshot,
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    *,
    extenders: Sequence[Extender],
) -> Decision:
    """Filter all nodes and score those that fit, even if it is a single one.

    PreEnqueue, PostFilter, Reserve and Permit are not called. Raises `FitError` if no node fits, so
    that the caller can go on with preemption; other failures are part of the decision.
    """
    algorithm = SchedulingAlgorithm(
        snapshot, tie_break=FirstByName(), exhaustive=True, extenders=extenders
    )
    try:
        feasible, diagnosis = await algorithm.find_nodes_that_fit_pod(framework, state, pod)
        if not len(feasible):
            raise FitError(pod, len(snapshot), diagnosis)
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
    """Return the decision after a failure; that of a plugin with the plugin's line."""
    message = str(error)
    if isinstance(error, PluginFailedError) and error.place:
        message = f"{message} ({error.place})"
    return Decision(pod, "error", status=Status(Code.ERROR, message), message=message)


def unschedulable(error: FitError, post_filter: PostFilterOutcome | None = None) -> Decision:
    """Return the decision for a pod that fits on no node."""
    return Decision(
        error.pod,
        "unschedulable",
        diagnosis=error.diagnosis,
        message=str(error),
        post_filter=post_filter,
    )
