"""From decisions to reports: counts, groups, ties and the answer in words."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api import resources
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.failures import FilterPausedError
from scheduler.framework.status import Code, Status
from scheduler.preemption import CRITERIA
from scheduler.reports.cause import cause_of
from scheduler.reports.decision import Decision, decide
from scheduler.reports.model import (
    Change,
    Choice,
    ClusterReport,
    CurrentNode,
    NearestNode,
    NodeBox,
    NodeVerdict,
    PodBox,
    PodReport,
    PreemptionCandidate,
    PreemptionReport,
    Rejection,
    Victim,
)
from scheduler.reports.remedies import all_rejections, distinct_remedies
from scheduler.runtime import PluginFailedError
from scheduler.snapshot import NodeInfo
from scheduler.snapshot.columns import Row
from scheduler.snapshot.nodes import zone_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.client import Store
    from scheduler.cycle.schedule_pod import SchedulingAlgorithm
    from scheduler.framework.extender import Extender
    from scheduler.preemption import Candidate, Preemption
    from scheduler.reports.decision import PostFilterOutcome
    from scheduler.reports.remedies import AllRejections, Remedies
    from scheduler.runtime import Framework
    from scheduler.snapshot import IntArray, PodInfo, Snapshot
    from scheduler.snapshot.node_table import NodeTable

#: The number of distinct changes that are reported.
_NEAREST_MAX: Final = 5
#: The number of nodes whose remedies are computed within one turn of the event loop.
_CANDIDATES_IN_ONE_TURN: Final = 500
_EXAMPLES_MAX: Final = 3
#: In a cluster of more pods than this, the boxes of nodes do not list their pods.
_LISTED_PODS_MAX: Final = 10_000
_NOT_EVALUATED: Final = "not evaluated"


def pod_report(
    decision: Decision,
    framework: Framework | None,
    snapshot: Snapshot,
    *,
    current_node: str = "",
    scenario: str = "",
    in_one_turn: bool = False,
) -> PodReport:
    """Return the report of a decision; `snapshot` is as it was for the decision.

    `framework` is None for a pod whose scheduler name no profile has. `current_node` is the node
    that the pod has already. With `in_one_turn`, a filter that takes longer than a turn of the
    event loop is ended, and the report has only the first rejection of each node.
    """
    extra = None
    if framework is not None and decision.diagnosis is not None:
        with contextlib.suppress(PluginFailedError, FilterPausedError):
            extra = all_rejections(framework, snapshot, decision.pod, may_pause=in_one_turn)
    groups, feasible = _Groups(), _feasible(decision)
    fitting = {node.name for node in feasible}
    others = [(at, name) for at, name in enumerate(snapshot.names) if name not in fitting]
    nodes = feasible + _rejected(decision, others, groups, extra)
    choice = _choice(decision, feasible)
    current = _current(current_node, nodes, groups, choice) if current_node else None
    scores = decision.schedule_result.scores if decision.schedule_result else None
    remedies: Sequence[Remedies] = ()
    if extra is not None and decision.result == "unschedulable":
        candidates_max = _CANDIDATES_IN_ONE_TURN if in_one_turn else None
        remedies = distinct_remedies(extra, snapshot, decision.pod, candidates_max=candidates_max)
    cause = cause_of(decision, extra, remedies, snapshot)
    return PodReport(
        scenario=scenario,
        pod=decision.pod.key,
        scheduler_name=decision.pod.spec.scheduler_name,
        result=decision.result,
        answer=_answer(decision, choice, current, len(feasible), len(snapshot))
        + _sampling(decision, len(snapshot)),
        message=decision.message,
        all_nodes=len(snapshot),
        feasible_nodes=len(feasible),
        evaluated_nodes=decision.counts[0],
        choice=choice,
        current=current,
        pod_rejection=_pod_rejection(decision),
        rejections=groups.rejections(),
        preemption=_preemption(decision.post_filter),
        nearest=tuple(_nearest(each) for each in remedies[:_NEAREST_MAX]),
        score_plugins=tuple(scores.by_plugin) if scores is not None else (),
        nodes=tuple(nodes),
        reserved=tuple(decision.reserved),
        owner=owner_of(decision.pod.pod),
        cause=cause.text,
        cause_plugins=cause.plugins,
    )


async def report_over(
    snapshot: Snapshot,
    framework: Framework | None,
    pod: PodInfo,
    *,
    pods: Store[Pod],
    extenders: Sequence[Extender] = (),
    in_one_turn: bool = False,
    sampling: SchedulingAlgorithm | None = None,
) -> PodReport:
    """Decide a pod over the snapshot, without preemption, and return the report.

    A pod that has a node is decided over the cluster without this pod. `pods` are the pods that
    plugins list. The snapshot and `pods` are unchanged afterwards. Only extenders are awaited, and
    other tasks where a filter takes long. `in_one_turn` is that of `pod_report`. `sampling` is a
    search that stops early, for the number of nodes that it evaluates.
    """
    if framework is None:
        waiting = pod.without_node() if pod.spec.node_name else pod
        return pod_report(Decision(waiting, "ignored"), None, snapshot)
    with cluster_without(pod, snapshot, pods=pods) as waiting:
        decision = await decide(snapshot, framework, CycleState(), waiting, extenders=extenders)
        if sampling is not None and decision.result == "scheduled":
            found, diagnosis = await sampling.find_nodes_that_fit_pod(
                framework, CycleState(), waiting
            )
            evaluated = len(found) + len(diagnosis.node_to_status)
            decision = decision._replace(counts=(evaluated, len(found)))
        node = pod.spec.node_name
        return pod_report(decision, framework, snapshot, current_node=node, in_one_turn=in_one_turn)


@contextlib.contextmanager
def cluster_without(pod: PodInfo, snapshot: Snapshot, *, pods: Store[Pod]) -> Iterator[PodInfo]:
    """Take a pod off its node, if it has one, and yield the pod without a node.

    The end of the `with` block restores the snapshot and `pods`, the pods that plugins list.
    """
    node = pod.spec.node_name
    waiting = pod.without_node() if node else pod
    listed = pods.get(pod.name, pod.namespace)
    row = snapshot.table.row_of.get(node)
    pods.put(waiting.pod)
    try:
        with snapshot.unchanged_pods():
            if row is not None and pod.uid in snapshot.table.pods[row]:
                snapshot.remove_pod(pod)
            yield waiting
    finally:
        if listed is not None:
            pods.put(listed)


class _Groups:
    """Groups nodes by the statuses that reject them; an index stands for a status."""

    def __init__(self) -> None:
        self._index_of: Final[dict[Status, int]] = {}
        self._first: Final[defaultdict[int, list[str]]] = defaultdict(list)
        self._further: Final[defaultdict[int, int]] = defaultdict(int)

    def index(self, status: Status) -> int:
        return self._index_of.setdefault(status, len(self._index_of))

    def add(self, name: str, indexes: Sequence[int]) -> None:
        self._first[indexes[0]].append(name)
        for index in indexes[1:]:
            self._further[index] += 1

    def text(self, index: int) -> str:
        """Return the reasons and the plugin of a group."""
        status = list(self._index_of)[index]
        reasons = status.message or _NOT_EVALUATED
        return f"{reasons} ({status.plugin})" if status.plugin else reasons

    def rejections(self) -> tuple[Rejection, ...]:
        return tuple(
            _rejection(status, self._first[index], self._further[index])
            for status, index in self._index_of.items()
        )


def _rejection(status: Status, nodes: Sequence[str], further_nodes: int = 0) -> Rejection:
    return Rejection(
        plugin=status.plugin,
        code=str(status.code),
        reasons=status.reasons or (_NOT_EVALUATED,),
        preemption_may_help=status.code == Code.UNSCHEDULABLE,
        nodes=len(nodes),
        further_nodes=further_nodes,
        examples=tuple(nodes[:_EXAMPLES_MAX]),
    )


def _pod_rejection(decision: Decision) -> Rejection | None:
    status = decision.status
    if status is None and decision.diagnosis is not None:
        status = decision.diagnosis.pre_filter_status
    return None if status is None else _rejection(status, ())


def _feasible(decision: Decision) -> list[NodeVerdict]:
    """Return the feasible nodes with their scores, the best first, equals by name."""
    result = decision.schedule_result
    if result is None or result.scores is None:
        return []
    names = result.feasible_nodes.names
    totals = result.scores.total.tolist()
    plugins = list(result.scores.by_plugin)
    rows = list(zip(*(s.tolist() for s in result.scores.by_plugin.values()), strict=True))
    rows = rows or [()] * len(names)
    order = sorted(range(len(names)), key=lambda position: (-totals[position], names[position]))
    return [
        NodeVerdict(
            name=names[position],
            total=totals[position],
            scores=dict(zip(plugins, rows[position], strict=True)),
        )
        for position in order
    ]


def _rejected(
    decision: Decision,
    nodes: Iterable[tuple[int, str]],
    groups: _Groups,
    extra: AllRejections | None,
) -> list[NodeVerdict]:
    """Return nodes with all their rejections, the scheduler's verdict first.

    `nodes` are the positions in the snapshot and the names of nodes that are not feasible.
    """
    if decision.diagnosis is None:
        return []
    statuses = decision.diagnosis.node_to_status
    further = _further_indexes(groups, extra)
    verdicts = []
    for position, name in nodes:
        first = groups.index(statuses.get(name))
        indexes = [first]
        for codes, index_of in further:
            code = codes[position]
            if code >= 0 and index_of[code] != first:
                indexes.append(index_of[code])
        groups.add(name, indexes)
        verdicts.append(NodeVerdict(name=name, rejections=tuple(indexes)))
    return verdicts


def _further_indexes(
    groups: _Groups, extra: AllRejections | None
) -> list[tuple[list[int], list[int]]]:
    """Return for each filter the status of every node, and the groups of its statuses."""
    if extra is None:
        return []
    return [
        (
            rejections.codes.tolist(),
            [groups.index(status.with_plugin(plugin.name)) for status in rejections.statuses],
        )
        for plugin, rejections in extra.by_plugin
    ]


def _choice(decision: Decision, feasible: Sequence[NodeVerdict]) -> Choice | None:
    result = decision.schedule_result
    if result is None or not feasible or decision.result != "scheduled":
        return None
    best = feasible[0].total or 0
    tied = [node.name for node in feasible if node.total == best]
    return Choice(
        node=result.suggested_host,
        total=best,
        tied_nodes=len(tied),
        tied_examples=tuple(tied[:_EXAMPLES_MAX]),
    )


def _current(
    name: str, nodes: Sequence[NodeVerdict], groups: _Groups, choice: Choice | None
) -> CurrentNode:
    node = next((node for node in nodes if node.name == name), None)
    if node is None:
        return CurrentNode(name=name, would_be_chosen=False)
    if node.total is None:
        return CurrentNode(
            name=name, would_be_chosen=False, problem=groups.text(node.rejections[0])
        )
    total = node.total
    better = sum(other.total is not None and other.total > total for other in nodes)
    chosen = choice is not None and total == choice.total
    return CurrentNode(name=name, would_be_chosen=chosen, rank=better + 1, total=total)


def _answer(
    decision: Decision, choice: Choice | None, current: CurrentNode | None, feasible: int, size: int
) -> str:
    share = f"{feasible:,} of {size:,} nodes feasible"
    text = _answer_without_node(decision, choice, share)
    if current is None:
        return text
    if choice is not None and current.would_be_chosen:
        return f"is on {current.name}, and {_again(choice)}; {share}"
    if current.problem:
        there = f", where it would not fit now: {current.problem}"
    elif current.rank:
        there = f", number {current.rank:,} of {feasible:,} feasible nodes with {current.total}"
    else:
        there = ", which is not among the nodes" if decision.diagnosis is not None else ""
    again = "decided again without it:" if choice is None else "now it would be"
    return f"is on {current.name}{there}; {again} {text}"


def _sampling(decision: Decision, size: int) -> str:
    """Return a remark if the scheduler's own search stops before it has seen all nodes."""
    evaluated = decision.counts[0]
    if decision.result != "scheduled" or not 0 < evaluated < size:
        return ""
    return f"; the scheduler looks at {evaluated:,} of {size:,}"


def _again(choice: Choice) -> str:
    if choice.tied_nodes == 1:
        return f"would be scheduled there again: the best with {choice.total}"
    return f"may be scheduled there again: {_drawn(choice)}"


def _drawn(choice: Choice) -> str:
    return f"one of {choice.tied_nodes:,} with {choice.total}, drawn by chance"


def _answer_without_node(decision: Decision, choice: Choice | None, feasible: str) -> str:
    if choice is not None:
        tie = f"{_drawn(choice)}; " if choice.tied_nodes > 1 else ""
        return f"scheduled on {choice.node}, {tie}{feasible}"
    status = decision.status
    if decision.result == "ignored":
        return f"ignored: no profile is named {decision.pod.spec.scheduler_name}"
    if decision.result == "gated" and status is not None:
        return f"gated by {status.plugin}: {status.message}"
    return f"{decision.result}: {decision.message}" if decision.message else decision.result


def _preemption(outcome: PostFilterOutcome | None) -> PreemptionReport | None:
    if outcome is None:
        return None
    preemption = outcome.preemption
    candidates: list[PreemptionCandidate] = []
    if preemption is not None:
        choice = preemption.choice
        others = [c for c in preemption.candidates if c.name != choice.best.name]
        others.sort(key=lambda candidate: -choice.lost_by[candidate.name])
        candidates = [
            _candidate(candidate, _lost_by(preemption, candidate))
            for candidate in (choice.best, *others)
        ]
    return PreemptionReport(
        message=outcome.status.message,
        nominated_node=outcome.nominated_node,
        candidates=tuple(candidates),
    )


def _candidate(candidate: Candidate, lost_by: str) -> PreemptionCandidate:
    return PreemptionCandidate(
        node=candidate.name,
        victims=tuple(Victim(pod=pod.key, priority=pod.priority) for pod in candidate.victims.pods),
        violated_budgets=candidate.victims.num_pdb_violations,
        lost_by=lost_by,
    )


def _lost_by(preemption: Preemption, candidate: Candidate) -> str:
    number = preemption.choice.lost_by.get(candidate.name)
    if number is None or candidate.name == preemption.choice.best.name:
        return ""
    return CRITERIA[number] if preemption.has_default_criteria else f"best by rule {number + 1}"


def _nearest(remedies: Remedies) -> NearestNode:
    return NearestNode(
        name=remedies.node,
        nodes=remedies.nodes,
        changes=tuple(
            Change(plugin=plugin, text=r.text, on_pod=r.on_pod, on_nodes=r.on_nodes)
            for plugin, r in remedies.changes
        ),
    )


def owner_of(pod: Pod) -> str:
    """Return the pod's controller; the Deployment if the controller is its ReplicaSet."""
    metadata, owner = pod.metadata, pod.metadata.controller
    if owner is None:
        return ""
    template = metadata.labels.get("pod-template-hash")
    name = owner.name.removesuffix(f"-{template}") if template else owner.name
    return f"{metadata.namespace}/{name}"


def cluster_report(table: NodeTable, *, new_pods: Collection[str] = ()) -> ClusterReport:
    """Return the allocation of every node, by name; `new_pods` are the pods placed just now."""
    present = [(node, row) for row, node in enumerate(table.nodes) if node is not None]
    present.sort(key=lambda node_and_row: node_and_row[0].metadata.name)
    rows = np.array([row for _, row in present], dtype=np.int64)
    counts = table.pod_count[rows].tolist()
    total = sum(counts)
    shares = {name: _shares(table, rows, name) for name in (resources.CPU, resources.MEMORY)}
    pods_max = table.column(table.allocatable, resources.PODS)[rows].tolist()
    boxes = [
        NodeBox(
            name=node.metadata.name,
            unschedulable=node.spec.unschedulable,
            pod_count=counts[position],
            pods_max=pods_max[position],
            shares={resource: column[position] for resource, column in shares.items()},
            pods=_pod_boxes(table, Row(row), new_pods) if total <= _LISTED_PODS_MAX else (),
            zone=zone_name(node),
        )
        for position, (node, row) in enumerate(present)
    ]
    return ClusterReport(nodes=tuple(boxes), pod_count=total)


def _shares(table: NodeTable, rows: IntArray, resource: str) -> list[float]:
    allocatable = table.column(table.allocatable, resource)[rows].tolist()
    requested = table.column(table.requested, resource)[rows].tolist()
    return [
        round(part / whole, 4) if whole else 0.0
        for part, whole in zip(requested, allocatable, strict=True)
    ]


def _pod_boxes(table: NodeTable, row: Row, new_pods: Collection[str]) -> tuple[PodBox, ...]:
    pods = table.pods[row].values()
    allocatable = NodeInfo(table, row).allocatable if pods else {}
    return tuple(
        PodBox(pod=pod.key, share=_share(pod, allocatable), is_new=pod.key in new_pods)
        for pod in pods
    )


def _share(pod: PodInfo, allocatable: Mapping[str, int]) -> float:
    """Return the largest part of cpu or memory that a pod requests of a node."""
    parts = [
        pod.requests[name] / allocatable[name]
        for name in (resources.CPU, resources.MEMORY)
        if allocatable.get(name)
    ]
    return round(max(parts, default=0.0), 4)
