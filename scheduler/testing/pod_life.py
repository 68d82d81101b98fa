"""Check a plugin after the decision: Reserve to PostBind, Unreserve after a failure at each point.

reserve --> permit --> pre_bind_pre_flight --> pre_bind --> bind --> post_bind
   |          |                                   |           |
   +----------+------------- unreserve -----------+-----------+
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.framework.status import Status
from scheduler.framework.types import PostFilterResult, PreBindPreFlightResult
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing.virtual_clock import run_on_clock

if TYPE_CHECKING:
    from scheduler.testing.trial import Results, Trial

#: So many further pods are reserved and undone: what a plugin forgets to undo adds up.
_OTHERS: Final = 4
#: The points at which a pod can fail.
_POINTS: Final = ("reserve", "permit", "pre_bind", "bind")


def check_life(trial: Trial, pod: PodInfo, results: Results) -> None:
    """Run a pod that fits from Reserve to the end, several times; fail for a broken rule.

    Each run fails after another point, and the plugin must decide afterwards as before the run,
    for this pod and for others. In the last run the pod is bound.
    """
    row = results.first_feasible()
    if row is None:
        return
    node_name = trial.node_name(row)
    assumed = pod.assigned_to(node_name)
    points = [point for point in _POINTS if hasattr(trial.plugin, point)]
    others = [_copy_of(pod, number) for number in range(_OTHERS if points else 0)]
    for last in points:
        trial.results(pod)
        _run_and_undo(trial, assumed, node_name, last)
        claim = f"decides differently after {last} has been undone by unreserve"
        trial.expect_same(results, trial.results(pod), claim)
    if points:
        *further, last_one = others
        expected = trial.on_cluster(trial.cluster).results(last_one)
        for other in further:
            if node_name in trial.fitting_nodes(other):
                _run_and_undo(trial, other.assigned_to(node_name), node_name, points[-1])
        claim = f"decides differently about another pod after {points[-1]} has been undone"
        trial.expect_same(expected, trial.results(last_one), claim)
    trial.results(pod)
    _run(trial, assumed, node_name, "post_bind")
    for work in trial.handle.spawned:
        run_on_clock(work, trial.handle.clock)
    trial.handle.spawned.clear()


def check_deletion(trial: Trial, pod: PodInfo, results: Results) -> None:
    """Delete the pod that `check_life` has bound; fail if another pod is decided differently."""
    row = results.first_feasible()
    if row is None or not any(hasattr(trial.plugin, point) for point in _POINTS):
        return
    assumed, other = pod.assigned_to(trial.node_name(row)), _copy_of(pod, _OTHERS)
    waiting = [each for each in trial.cluster.incoming if each is not pod.pod]
    without = trial.on_cluster(trial.cluster._replace(incoming=waiting))
    trial.arrive(pod, assumed)
    trial.results(other)  # what the plugin remembers until it sees the pod on its node
    trial.leave(assumed)
    claim = "decides differently about another pod after a bound pod was deleted"
    trial.expect_same(without.results(other), trial.results(other), claim)


def check_post_filter(trial: Trial, pod: PodInfo, results: Results) -> None:
    """Run PostFilter as if no node fitted the pod; fail for a broken rule.

    Nodes that the plugin itself accepts count as rejected by another plugin.
    """
    if not hasattr(trial.plugin, "post_filter"):
        return
    answer = trial.call_async("post_filter", trial.state, pod, trial.node_statuses(results))
    good = isinstance(answer, tuple) and len(answer) == 2
    if good and isinstance(answer, tuple):
        result, status = answer
        good = isinstance(result, PostFilterResult | None) and isinstance(status, Status | None)
    if not good:
        trial.wrong("post_filter", answer, "a PostFilterResult or None, and a Status or None")


def _copy_of(pod: PodInfo, number: int) -> PodInfo:
    """Return an equal pod with a name and a uid of its own."""
    name = f"{pod.name}-{number}"
    metadata = replace(pod.pod.metadata, name=name, uid=f"{pod.uid}-{number}")
    return PodInfo(replace(pod.pod, metadata=metadata))


def _run_and_undo(trial: Trial, pod: PodInfo, node_name: str, last: str) -> None:
    """Run the points up to the last one, then Unreserve twice: it must be idempotent."""
    _run(trial, pod, node_name, last)
    for _ in range(2 if hasattr(trial.plugin, "unreserve") else 0):
        answer = trial.call("unreserve", trial.state, pod, node_name)
        if answer is not None:
            trial.wrong("unreserve", answer, "None")


def _run(trial: Trial, pod: PodInfo, node_name: str, last: str) -> None:
    """Run the points up to the last one, or to the first that fails."""
    arguments = trial.state, pod, node_name
    for point in (*_POINTS, "post_bind"):
        if not hasattr(trial.plugin, point):
            pass
        elif point in ("reserve", "permit"):
            if _fails(trial, point, trial.call(point, *arguments)):
                return
        elif point == "pre_bind" and _skips_pre_bind(trial, pod, node_name):
            pass
        elif point == "post_bind":
            answer = trial.call_async(point, *arguments)
            if answer is not None:
                trial.wrong(point, answer, "None")
        elif _fails(trial, point, trial.call_async(point, *arguments)):
            return
        if point == last:
            return


def _skips_pre_bind(trial: Trial, pod: PodInfo, node_name: str) -> bool:
    answer = trial.call("pre_bind_pre_flight", trial.state, pod, node_name)
    if answer is None or isinstance(answer, PreBindPreFlightResult):
        return answer is not None and answer.skip
    if isinstance(answer, Status) and (answer.is_skip or answer.is_success):
        return answer.is_skip
    trial.wrong("pre_bind_pre_flight", answer, "a PreBindPreFlightResult, Skip or None")


def _fails(trial: Trial, point: str, answer: object) -> bool:
    """Return True if the answer ends the attempt."""
    if answer is None:
        return False
    if not isinstance(answer, Status):
        trial.wrong(point, answer, "a Status or None")
    if answer.is_wait and point != "permit":
        trial.wrong(point, answer, "another status: only permit may let a pod wait")
    if answer.is_skip and point != "bind":
        trial.wrong(point, answer, "another status: only bind may skip")
    if point in ("reserve", "permit") and (answer.is_rejected or answer.is_wait):
        trial.note_rejection()
    return not (answer.is_success or answer.is_wait or answer.is_skip)
