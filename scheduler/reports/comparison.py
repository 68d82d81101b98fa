"""Compare a decision of ours with another scheduler's for the same pod: shadow mode.

bound by the other one     same          its node has the highest total, maybe with others
                           lower_score   its node fits, with a lower total than the best
                           rejected      a plugin of ours rejects its node
                           unknown_node  its node is not in our snapshot
left pending by it         pending       no node fits for us either
                           would_place   a node fits
either                     concurrent    as `same` or `pending`, once concurrent bindings are in
                                         the order of the queue
                           error         a plugin of ours failed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from scheduler.framework.types import FitError
from scheduler.reports.decision import Decision
from scheduler.reports.model import Comparison, ScoreDifference

if TYPE_CHECKING:
    from scheduler.cycle.schedule_one import Found
    from scheduler.cycle.schedule_pod import ScheduleResult
    from scheduler.runtime.scoring import NodeScores
    from scheduler.snapshot import PodInfo, Snapshot

#: The values of `Comparison.agreement` that mean the same decision.
AGREEMENTS: Final = frozenset({"same", "pending", "concurrent"})


def compare(
    decision: Decision, snapshot: Snapshot, *, node: str, their_message: str, now: float
) -> Comparison:
    """Compare a decision with the other scheduler's: `node`, or "" for a pod that it left pending.

    `snapshot` is as it was for the decision. `their_message` is the message of the pod's condition.
    """
    pod, result, diagnosis = decision.pod, decision.schedule_result, decision.diagnosis
    comparison = Comparison(
        time=now,
        pod=pod.key,
        uid=pod.uid,
        scheduler_name=pod.spec.scheduler_name,
        agreement="error",
        answer=decision.message,
        all_nodes=len(snapshot),
        node=node,
        message=decision.message,
        their_message=their_message,
    )
    if decision.result == "error":
        return comparison
    scores = None
    if result is not None and result.scores is not None:
        scores = result.scores
        comparison = _with_best(comparison, result, scores)
    ours = f"here {comparison.best} with {comparison.best_total}" if scores else decision.message
    if not node:
        agreement = "pending" if scores is None else "would_place"
        return _with(comparison, agreement, ours if scores is None else f"pending, {ours}")
    if node not in snapshot:
        return _with(comparison, "unknown_node", f"{node} is not among the nodes; {ours}")
    if result is not None and scores is not None and node in result.feasible_nodes.names:
        return _against_best(comparison, result, scores)
    if diagnosis is None:
        return _with(comparison, "rejected", ours)
    status = diagnosis.node_to_status.get(node)
    answer = f"{node} is rejected by {status.plugin}: {status.message}; {ours}"
    return _with(comparison, "rejected", answer, plugin=status.plugin, reasons=status.reasons)


def compare_found(
    found: Found, pod: PodInfo, snapshot: Snapshot, *, node: str, now: float
) -> Comparison:
    """Compare the result of a cycle with the node that another scheduler has chosen for the pod.

    `snapshot` is that of the cycle.
    """
    result, status = found.result, found.status
    if result is not None:
        decision = Decision(pod, "scheduled", result, result.diagnosis)
    else:
        assert status is not None, "without a node there is a reason"
        diagnosis = status.cause.diagnosis if isinstance(status.cause, FitError) else None
        decision = Decision(pod, "unschedulable", diagnosis=diagnosis, message=status.message)
    return compare(decision, snapshot, node=node, their_message="", now=now)


def _with(
    comparison: Comparison,
    agreement: str,
    answer: str,
    *,
    plugin: str = "",
    reasons: tuple[str, ...] = (),
) -> Comparison:
    return replace(
        comparison, agreement=agreement, answer=answer, rejected_by=plugin, reasons=reasons
    )


def _with_best(comparison: Comparison, result: ScheduleResult, scores: NodeScores) -> Comparison:
    best = scores.total.max()
    return replace(
        comparison,
        feasible_nodes=len(result.feasible_nodes),
        best=result.suggested_host,
        best_total=int(best),
        tied_nodes=int(np.count_nonzero(scores.total == best)),
    )


def _against_best(comparison: Comparison, result: ScheduleResult, scores: NodeScores) -> Comparison:
    """Return the comparison for a node that fits; the scores are compared plugin by plugin."""
    node, best = comparison.node, comparison.best
    position = list(result.feasible_nodes.names).index(node)
    total = int(scores.total[position])
    comparison = replace(comparison, total=total)
    if total == comparison.best_total:
        tied = comparison.tied_nodes
        text = f"one of {tied:,} with {total}" if tied > 1 else f"the best with {total}"
        return _with(comparison, "same", f"{node} is {text}")
    differences = [
        ScoreDifference(
            plugin=plugin, theirs=int(column[position]), ours=int(column[result.position])
        )
        for plugin, column in scores.by_plugin.items()
        if column[position] != column[result.position]
    ]
    differences.sort(key=lambda entry: entry.theirs - entry.ours)
    by_plugin = ", ".join(f"{entry.plugin} {entry.theirs - entry.ours:+}" for entry in differences)
    lower = (comparison.best_total or 0) - total
    answer = f"{node} has {total}, {lower} less than {best}: {by_plugin}"
    return _with(replace(comparison, differences=tuple(differences)), "lower_score", answer)
