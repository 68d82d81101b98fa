"""Check a plugin after the decision: Reserve to PostBind, Unreserve after a failure at each point.

reserve --> permit --> pre_bind_pre_flight --> pre_bind --> bind --> post_bind
   |          |                                   |           |
   +----------+------------- unreserve -----------+-----------+
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.framework.status import Status
from scheduler.framework.types import PostFilterResult, PreBindPreFlightResult
from scheduler.testing.virtual_clock import run_on_clock

if TYPE_CHECKING:
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.testing.trial import Results, Trial

#: The points at which a pod can fail.
_POINTS: Final = ("reserve", "permit", "pre_bind", "bind")


def check_life(trial: Trial, pod: PodInfo, results: Results) -> None:
    """Run a pod that fits from Reserve to the end, several times; fail for a broken rule.

    Each run fails after another point, and the plugin must decide afterwards as before the run.
    In the last run the pod is bound.
    """
    row = results.first_feasible()
    if row is None:
        return
    node_name = trial.cluster.nodes[row].metadata.name
    assumed = pod.assigned_to(node_name)
    undoes = hasattr(trial.plugin, "unreserve")
    for last in _POINTS:
        if not hasattr(trial.plugin, last):
            continue
        trial.results(pod)
        _run(trial, assumed, node_name, last)
        for _ in range(2 if undoes else 0):  # it must be idempotent
            answer = trial.call("unreserve", trial.state, assumed, node_name)
            if answer is not None:
                trial.wrong("unreserve", answer, "None")
        again = trial.results(pod)
        trial.expect_same(
            results, again, f"decides differently after {last} has been undone by unreserve"
        )
    trial.results(pod)
    _run(trial, assumed, node_name, "post_bind")
    for work in trial.handle.spawned:
        run_on_clock(work, trial.handle.clock)
    trial.handle.spawned.clear()


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
    return not (answer.is_success or answer.is_wait or answer.is_skip)
