"""One instance of a plugin on one cluster: its calls, and the rules for its answers.

`check_plugin` compares the answers of several trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import msgspec
import numpy as np

from scheduler.api.core import Pod
from scheduler.framework.arithmetic import MAX_NODE_SCORE, MIN_NODE_SCORE
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.interface import Remedy
from scheduler.framework.status import Code, NodeToStatus, Rejections, Status
from scheduler.framework.types import PreFilterResult
from scheduler.snapshot.columns import World
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing.builders import snapshot_of
from scheduler.testing.doubles import FakeHandle, FakeLister, framework_with
from scheduler.testing.virtual_clock import run_on_clock

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduler.api.unstructured import Kind
    from scheduler.client import ApiObject
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.interface import Plugin
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.snapshot import Snapshot
    from scheduler.testing.random_cluster import RandomCluster


_REJECTED_BY_ANOTHER: Final = Status(Code.UNSCHEDULABLE, "rejected", plugin="Another")


@dataclass(kw_only=True)
class Observations:
    """The behaviour that a check has seen, over all clusters."""

    #: The methods that were called.
    called: set[str] = field(default_factory=set)
    #: The hints of the plugin's events.
    hints: set[str] = field(default_factory=set)
    has_rejected_a_node: bool = False
    has_rejected_a_pod: bool = False
    has_scored_differently: bool = False
    #: True if the plugin rejects pods and has registered for no event.
    waits_for_nothing: bool = False
    has_held_a_pod: bool = False
    has_allowed_a_pod: bool = False
    #: The kinds of which an event was tried.
    changed_kinds: set[Kind] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class TrialSetup:
    """The surroundings of a trial; `objects` are the objects of the listers, by resource."""

    args: object
    cluster: RandomCluster
    seed: int
    objects: Mapping[Kind, Sequence[ApiObject]]
    seen: Observations


class Results(NamedTuple):
    """A plugin's results for one pod."""

    pre_enqueue: Status | None
    pre_filter: PreFilterResult | Status | None
    verdicts: Sequence[Status | None]
    scores: Sequence[int]

    def first_feasible(self) -> int | None:
        """Return the row of the first node that fits; None if no node fits."""
        return next((row for row, verdict in enumerate(self.verdicts) if verdict is None), None)


class Trial:
    """One instance of a plugin on one cluster. Failures name the seed and the pod."""

    def __init__(self, plugin_class: type[Plugin], setup: TrialSetup) -> None:
        self._class: Final = plugin_class
        self._setup: Final = setup
        self.name: Final = plugin_class.name
        self.seen: Final = setup.seen
        self.cluster: Final = setup.cluster
        self.objects: Final = setup.objects
        self._snapshot: Final = snapshot_of(self.cluster.nodes, self.cluster.running)
        listers: dict[Kind, FakeLister] = {
            kind: FakeLister(objects_of_kind) for kind, objects_of_kind in setup.objects.items()
        }
        listers["pods"] = FakeLister((*self.cluster.running, *self.cluster.incoming))
        self.handle: Final = FakeHandle(self._snapshot, seed=setup.seed, listers=listers)
        framework = framework_with(plugin_class, args=setup.args, handle=self.handle)
        self.plugin: Final = next(p for p in framework.instances if isinstance(p, plugin_class))
        #: The events that the plugin has registered for; none if it cannot reject a pod.
        self.registered: Final[Sequence[ClusterEventWithHint]] = next(
            (events for plugin, events in framework.registered_events if plugin is self.plugin), ()
        )
        self._pod: PodInfo | None = None
        #: The cycle state of the last decision.
        self.state = CycleState()

    def on_cluster(
        self,
        cluster: RandomCluster,
        *,
        objects: Mapping[Kind, Sequence[ApiObject]] | None = None,
    ) -> Trial:
        """Return a trial of the same plugin on another cluster, with other objects if given."""
        objects = self.objects if objects is None else objects
        return Trial(self._class, replace(self._setup, cluster=cluster, objects=objects))

    def fitting_nodes(self, pod: PodInfo) -> Collection[str]:
        """Return the nodes that take the pod, as far as this plugin decides: up to Permit."""
        state, nodes = CycleState(), self._snapshot.nodes
        self._pod, self.state = pod, state
        if self._status("pre_enqueue", pod) is not None:
            return ()
        pre_filter = self._pre_filter(state, pod, nodes)
        if isinstance(pre_filter, Status):
            names = list(nodes.names) if pre_filter.is_skip else []
        else:
            allowed = pre_filter.node_names if pre_filter is not None else None
            names = [
                name
                for name, verdict in zip(nodes.names, self.verdicts(state, pod, nodes), strict=True)
                if verdict is None and (allowed is None or name in allowed)
            ]
        return [name for name in names if self._is_permitted(state, pod, name)]

    def _is_permitted(self, state: CycleState, pod: PodInfo, node_name: str) -> bool:
        """Return True if Reserve and Permit let the pod have the node; both are undone."""
        if not hasattr(self.plugin, "permit"):
            return True
        assumed = pod.assigned_to(node_name)
        # Permit is not called after a rejection by Reserve.
        answers = (self.call(point, state, assumed, node_name) for point in ("reserve", "permit"))
        is_rejected = any(isinstance(answer, Status) and answer.is_rejected for answer in answers)
        self.call("unreserve", state, assumed, node_name)
        return not is_rejected

    def node_name(self, row: int) -> str:
        """Return the name of the node with this row in results."""
        return self._snapshot.names[row]

    def assume(self, pod: PodInfo) -> None:
        """Add a pod to its node in the snapshot."""
        self._snapshot.assume_pod(pod)

    def arrive(self, pod: PodInfo, assumed: PodInfo) -> None:
        """Bring the news that a pod of the cluster is on its node."""
        self.assume(assumed)
        self.handle.change(Pod, pod.pod, assumed.pod)

    def leave(self, assumed: PodInfo) -> None:
        """Delete a pod that is on its node."""
        self._snapshot.remove_pod(assumed)
        self.handle.change(Pod, assumed.pod, None)

    def results_in_another_order(self, pod: PodInfo) -> Results:
        """Return the results of a new instance that gets the nodes in another order."""
        other = self.on_cluster(self.cluster._replace(nodes=self.cluster.nodes[::-1]))
        results, names = other.results(pod), list(self._snapshot.names)
        verdicts = dict(zip(other._snapshot.names, results.verdicts, strict=True))
        feasible = [name for name, verdict in verdicts.items() if verdict is None]
        scores = dict(zip(feasible, results.scores, strict=False))
        return results._replace(
            verdicts=[verdicts[name] for name in names],
            scores=[scores[name] for name in names if name in scores],
        )

    def node_statuses(self, results: Results) -> NodeToStatus:
        """Return the verdicts as PostFilter gets them: every node is rejected."""
        statuses = NodeToStatus(self._snapshot.names, self._snapshot.table.row_of)
        for name, verdict in zip(self._snapshot.names, results.verdicts, strict=True):
            own = verdict.with_plugin(self.name) if verdict is not None else _REJECTED_BY_ANOTHER
            statuses.set(name, own)
        return statuses

    def results(self, pod: PodInfo) -> Results:
        """Decide on one pod: PreEnqueue to Score."""
        self._pod, self.state = pod, CycleState()
        before = _fingerprint(self._snapshot, pod)
        answers = self._answers(pod, self.state)
        for part, value in _fingerprint(self._snapshot, pod).items():
            if value != before[part]:
                self.fail(f"changed an argument: {part}")
        return answers

    def _answers(self, pod: PodInfo, state: CycleState) -> Results:
        nodes = self._snapshot.nodes
        pre_enqueue = self._status("pre_enqueue", pod)
        pre_filter = self._pre_filter(state, pod, nodes)
        verdicts: list[Status | None] = [None] * len(nodes)
        if not isinstance(pre_filter, Status):
            verdicts = self.verdicts(state, pod, nodes)
            self._check_remedies(state, pod, nodes, verdicts)
            self._check_pieces(state, pod, nodes, verdicts)
            self._check_dry_run(state, pod, nodes, verdicts)
        elif pre_filter.is_rejected:
            verdicts = [pre_filter] * len(nodes)
        feasible = nodes.take(np.array([verdict is None for verdict in verdicts], dtype=bool))
        scores = self._scores(state, pod, feasible) if len(feasible) else []
        self.seen.has_rejected_a_node |= len(feasible) < len(nodes)
        if pre_enqueue is not None or not len(feasible):
            self.note_rejection()
        self.seen.has_scored_differently |= len(set(scores)) > 1
        return Results(pre_enqueue, pre_filter, verdicts, scores)

    def note_rejection(self) -> None:
        """Note that the plugin has rejected the pod, or holds it until a timeout rejects it."""
        self.seen.has_rejected_a_pod = True
        self.seen.waits_for_nothing |= not self.registered

    def expect_same(self, answers: Results, others: Results, claim: str) -> None:
        """Fail if two sets of results for one pod differ, naming the first difference."""
        names = list(self._snapshot.names)
        feasible = [n for n, v in zip(names, answers.verdicts, strict=True) if v is None]
        for kind, about in (("verdicts", names), ("scores", feasible)):
            one, other = getattr(answers, kind), getattr(others, kind)
            for name, mine, other_value in zip(about, one, other, strict=False):
                if mine != other_value:
                    self.fail(f"{claim}: {kind} of {name}: {mine} and {other_value}")
        for kind in answers._fields:
            one, other = getattr(answers, kind), getattr(others, kind)
            if one != other:
                self.fail(f"{claim}: {kind}: {one} and {other}")

    # Extension points.

    def _pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        answer = self.call("pre_filter", state, pod, nodes)
        if answer is None or isinstance(answer, PreFilterResult):
            return answer
        if isinstance(answer, Status) and (answer.is_skip or answer.is_rejected):
            return answer
        self.wrong("pre_filter", answer, "a PreFilterResult, Skip, a rejection or None")

    def verdicts(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> list[Status | None]:
        if not hasattr(self.plugin, "filter_nodes"):
            return [self._status("filter", state, pod, node) for node in nodes]
        answer = self.call("filter_nodes", state, pod, nodes)
        if answer is None:
            return [None] * len(nodes)
        if not isinstance(answer, Rejections):
            self.wrong("filter_nodes", answer, "Rejections or None")
        if answer.codes.shape != (len(nodes),):
            self.fail(f"filter_nodes gave {answer.codes.shape} verdicts on {len(nodes)} nodes")
        if len(nodes) and not -1 <= answer.codes.min() <= answer.codes.max() < len(answer.statuses):
            self.fail("filter_nodes gave codes that stand for no status")
        if any(not status.is_rejected for status in answer.statuses):
            self.wrong("filter_nodes", list(answer.statuses), "rejections only")
        return [answer.status(index) for index in range(len(nodes))]

    def _check_pieces(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Sequence[Status | None]
    ) -> None:
        """Check that a node's verdict does not depend on the other nodes or on their order."""
        backwards = np.arange(len(nodes))[::-1]
        if self.verdicts(state, pod, nodes.take(backwards)) != list(verdicts)[::-1]:
            self.fail("filters a node differently when the nodes are in another order")
        for row, verdict in enumerate(verdicts):
            [alone] = self.verdicts(state, pod, nodes.slice(row, row + 1))
            if alone != verdict:
                self.fail(
                    f"filters node {nodes.name(row)} differently when it is alone in view: "
                    f"{alone} instead of {verdict}"
                )

    def _check_remedies(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Sequence[Status | None]
    ) -> None:
        """Check that `remedies` returns remedies for each rejected node."""
        for row, verdict in enumerate(verdicts):
            if verdict is None or not hasattr(self.plugin, "remedies"):
                continue
            answer = self.call("remedies", state, pod, nodes[row])
            if not isinstance(answer, Sequence) or not all(isinstance(a, Remedy) for a in answer):
                self.wrong("remedies", answer, "a sequence of Remedy")

    def _check_dry_run(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Sequence[Status | None]
    ) -> None:
        """Check that adding and removing a pod in a dry run leaves the verdicts unchanged."""
        metadata = msgspec.structs.replace(pod.pod.metadata, name="guest", uid="guest")
        guest = PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata), like=pod)
        guest = guest.assigned_to(nodes.name(0))
        what_if, supposed = WhatIf(nodes), state.clone()
        what_if.add_pod(World(0), guest)
        self._status("add_pod", supposed, pod, guest, what_if.node(World(0)))
        self.verdicts(supposed, pod, what_if.nodes)
        if self.verdicts(state, pod, nodes) != list(verdicts):
            self.fail("let a dry run change the state of the real one: its state needs a clone()")
        what_if.remove_pod(World(0), guest.uid)
        self._status("remove_pod", supposed, pod, guest, what_if.node(World(0)))
        if self.verdicts(supposed, pod, what_if.nodes) != list(verdicts):
            self.fail("filters differently after a pod has come and gone in a dry run")

    def check_removals(self, pod: PodInfo) -> None:
        """Check that a node is filtered in a dry run without a pod as in a cluster without it.

        Preemption removes running pods in dry runs, in which PreFilter does not run again.
        """
        filters = hasattr(self.plugin, "filter") or hasattr(self.plugin, "filter_nodes")
        if not (filters and hasattr(self.plugin, "pre_filter")):
            return
        self._pod, state, nodes = pod, CycleState(), self._snapshot.nodes
        if isinstance(self._pre_filter(state, pod, nodes), Status):
            return
        for index, running in enumerate(self.cluster.running):
            gone, row = PodInfo(running), self._snapshot.table.row_of[running.spec.node_name]
            what_if, supposed = WhatIf(nodes), state.clone()
            what_if.remove_pod(World(row), gone.uid)
            self._status("remove_pod", supposed, pod, gone, what_if.node(World(row)))
            [tried] = self.verdicts(supposed, pod, what_if.nodes.slice(row, row + 1))
            left = [*self.cluster.running[:index], *self.cluster.running[index + 1 :]]
            expected = self.on_cluster(self.cluster._replace(running=left))._verdict(pod, row)
            if (tried is None) != (expected is None):
                self.fail(
                    f"filters node {nodes.name(row)} differently after {gone.key} is removed in a "
                    f"dry run ({tried}) and in a cluster without it ({expected}): add_pod and "
                    "remove_pod must update the state that pre_filter has written"
                )

    def _verdict(self, pod: PodInfo, row: int) -> Status | None:
        """Return the verdict for one node after PreFilter."""
        self._pod, state, nodes = pod, CycleState(), self._snapshot.nodes
        pre_filter = self._pre_filter(state, pod, nodes)
        if isinstance(pre_filter, Status):
            return pre_filter if pre_filter.is_rejected else None
        [verdict] = self.verdicts(state, pod, nodes.slice(row, row + 1))
        return verdict

    def _scores(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> list[int]:
        skipped = self.call("pre_score", state, pod, nodes)
        if skipped is not None:
            if not (isinstance(skipped, Status) and skipped.is_skip):
                self.wrong("pre_score", skipped, "Skip or None")
            return []
        scores = self._raw_scores(state, pod, nodes)
        if scores is not None and hasattr(self.plugin, "normalize_score"):
            answer = self.call("normalize_score", state, pod, scores)
            scores = self._as_scores("normalize_score", answer, len(nodes))
        if scores is None:
            return []
        for index, score in enumerate(scores.tolist()):
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                limits = f"{MIN_NODE_SCORE}..{MAX_NODE_SCORE}"
                self.fail(f"scored node {nodes.name(index)} {score}, which is not in {limits}")
        return [int(score) for score in scores]

    def _raw_scores(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        if hasattr(self.plugin, "score_nodes"):
            answer = self.call("score_nodes", state, pod, nodes)
            return self._as_scores("score_nodes", answer, len(nodes))
        if not hasattr(self.plugin, "score"):
            return None
        scores = [self.call("score", state, pod, node) for node in nodes]
        for score in scores:
            if type(score) is not int:
                self.wrong("score", score, "a plain int")
        return self._as_scores("score", scores, len(nodes))

    def _as_scores(
        self, method: str, answer: object, total: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        scores = np.asarray(answer)
        if scores.shape != (total,) or scores.dtype.kind not in "iu":
            self.wrong(method, answer, f"{total} integers")
        return scores

    # Calls.

    def _status(self, method: str, *arguments: object) -> Status | None:
        """Call a method that returns a rejection or None."""
        answer = self.call(method, *arguments)
        if answer is None:
            return None
        if not isinstance(answer, Status) or not (answer.is_rejected or answer.is_success):
            self.wrong(method, answer, "a rejection or None")
        return None if answer.is_success else answer

    def call(self, method: str, *arguments: object) -> object:
        """Call a method of the plugin. Return None if the plugin does not define it."""
        bound = getattr(self.plugin, method, None)
        if bound is None:
            return None
        self.seen.called.add(method)
        try:
            answer: object = bound(*arguments)
        except Exception as error:  # noqa: BLE001 - code of a plugin; `fail` raises
            self.fail(f"{method} raised {type(error).__name__}: {error}", error)
        return answer

    def call_async(self, method: str, *arguments: object) -> object:
        """Call an async method and wait for its result on the virtual clock."""
        self.seen.called.add(method)
        try:
            return run_on_clock(getattr(self.plugin, method)(*arguments), self.handle.clock)
        except Exception as error:  # noqa: BLE001 - code of a plugin; `fail` raises
            self.fail(f"{method} raised {type(error).__name__}: {error}", error)

    def wrong(self, method: str, answer: object, wanted: str) -> NoReturn:
        self.fail(f"{method} answered {answer!r}: expected {wanted}")

    def fail(self, message: str, cause: Exception | None = None) -> NoReturn:
        """Raise AssertionError with the message and the seed that repeats the failure."""
        pod = f", pod {self._pod.key}" if self._pod is not None else ""
        raise AssertionError(
            f"{self.name} {message}\n"
            f"(on the random cluster of seed {self._setup.seed}{pod}; "
            f"the same call with seeds=[{self._setup.seed}] repeats it)"
        ) from cause


def _fingerprint(snapshot: Snapshot, pod: PodInfo) -> dict[str, object]:
    """Return everything that a plugin can read, to detect modifications."""
    table = snapshot.table
    facts: dict[str, object] = {f"pod {pod.key}": msgspec.json.encode(pod.pod)}
    for row, name in enumerate(table.names):
        facts[f"node {name}"] = msgspec.json.encode(table.nodes[row])
        facts[f"the pods of {name}"] = [
            msgspec.json.encode(other.pod) for other in table.pods[row].values()
        ]
        facts[f"the host ports of {name}"] = table.host_ports[row]
    for kind in ("allocatable", "requested", "non_zero_requested"):
        for resource, column in getattr(table, kind).items():
            facts[f"{kind} {resource}"] = column.tobytes()
    facts["pod counts"] = table.pod_count.tobytes()
    return facts
