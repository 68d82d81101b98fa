"""Run a plugin on random clusters and check the rules that every plugin must follow.

    from scheduler.testing import check_plugin

    def test_gpu_guard_is_a_good_plugin():
        check_plugin(GpuGuard, twin=FastGpuGuard)

The rules:

- Equal calls return equal results, on the same instance and on a new one.
- Arguments are never modified.
- Each method returns only values that its contract allows.
- The result for a node does not depend on the other nodes in the argument or on their order.
- A dry run does not change the state of the real run.
- Scores are in range.
- If a `twin` is given, it returns the same results.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import msgspec
import numpy as np

from scheduler.client.kinds import kind_key
from scheduler.framework.arithmetic import MAX_NODE_SCORE, MIN_NODE_SCORE
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.status import Rejections, Status
from scheduler.framework.types import PreFilterResult
from scheduler.runtime.extension_points import require_extension_point
from scheduler.runtime.registry import Registry
from scheduler.snapshot.columns import World
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.what_if import WhatIf
from scheduler.testing.builders import snapshot_of
from scheduler.testing.doubles import FakeHandle, FakeLister
from scheduler.testing.random_cluster import random_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.unstructured import Kind
    from scheduler.framework.interface import Plugin
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.snapshot import Snapshot
    from scheduler.testing.random_cluster import RandomCluster

_SEEDS: Final = range(25)


class _Results(NamedTuple):
    """A plugin's results for one pod."""

    pre_enqueue: Status | None
    pre_filter: PreFilterResult | Status | None
    verdicts: Sequence[Status | None]
    scores: Sequence[int]
    fragments: object


def check_plugin(
    plugin_class: type[Plugin],
    *,
    args: object = None,
    twin: type[Plugin] | None = None,
    seeds: Iterable[int] = _SEEDS,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Check a plugin on one random cluster per seed.

    Raises AssertionError with the broken rule, the seed and the pod. `args` are the plugin's
    arguments as in `pluginConfig`. `twin` is a second class that must return the same results, for
    example the vectorised form of the rule. `labels` maps further label keys to their values: nodes
    and pods get them at random, beside `app`, `disk`, `gpu` and zones.
    """
    require_extension_point(plugin_class)
    for seed in seeds:
        cluster = random_cluster(seed, labels=labels)
        first = _Trial(plugin_class, args, seed, cluster)
        again = _Trial(plugin_class, args, seed, cluster)
        other = _Trial(twin, args, seed, cluster) if twin is not None else None
        first.check_events()
        for pod in map(PodInfo, cluster.incoming):
            answers = first.results(pod)
            first.expect_same(answers, first.results(pod), "answered differently when asked again")
            first.expect_same(answers, again.results(pod), "answered differently when made anew")
            if other is not None:
                twins = other.results(pod)
                common = answers._replace(verdicts=twins.verdicts, scores=twins.scores)
                first.expect_same(answers, common, f"and {other.name} disagree")


class _Trial:
    """One instance of a plugin on one cluster. Failures name the seed and the pod."""

    def __init__(
        self, plugin_class: type[Plugin], args: object, seed: int, cluster: RandomCluster
    ) -> None:
        self.name: Final = plugin_class.name
        self._seed: Final = seed
        self._snapshot: Final = snapshot_of(cluster.nodes, cluster.running)
        listers: dict[Kind, FakeLister] = {
            kind_key(kind): FakeLister() for kind in (*plugin_class.reads, *plugin_class.required)
        }
        listers["pods"] = FakeLister((*cluster.running, *cluster.incoming))
        handle = FakeHandle(self._snapshot, seed=seed, listers=listers)
        self._plugin: Final = Registry([plugin_class]).create(plugin_class.name, args, handle)
        self._pod: PodInfo | None = None

    def results(self, pod: PodInfo) -> _Results:
        """Run all extension points for one pod and return the results."""
        self._pod = pod
        before = _fingerprint(self._snapshot, pod)
        answers = self._answers(pod, CycleState())
        for what, value in _fingerprint(self._snapshot, pod).items():
            if value != before[what]:
                self.fail(f"wrote to what it was shown: {what}")
        return answers

    def _answers(self, pod: PodInfo, state: CycleState) -> _Results:
        nodes = self._snapshot.nodes
        pre_enqueue = self._status("pre_enqueue", pod)
        pre_filter = self._pre_filter(state, pod, nodes)
        verdicts: list[Status | None] = [None] * len(nodes)
        if not isinstance(pre_filter, Status):
            verdicts = self._verdicts(state, pod, nodes)
            self._check_pieces(state, pod, nodes, verdicts)
            self._check_dry_run(state, pod, nodes, verdicts)
        elif pre_filter.is_rejected:
            verdicts = [pre_filter] * len(nodes)
        feasible = nodes.take(np.array([verdict is None for verdict in verdicts], dtype=bool))
        scores = self._scores(state, pod, feasible) if len(feasible) else []
        fragments = self._call("sign", pod)
        return _Results(pre_enqueue, pre_filter, verdicts, scores, fragments)

    def check_events(self) -> None:
        """Check that `events_to_register` returns events with hints."""
        events = self._call("events_to_register")
        if events is None:
            return
        if not isinstance(events, Iterable):
            self._wrong("events_to_register", events, "events with hints")
        for event in events:
            if not isinstance(event, ClusterEventWithHint):
                self._wrong("events_to_register", event, "a ClusterEventWithHint")

    def expect_same(self, answers: _Results, others: _Results, what: str) -> None:
        """Fail if two sets of results for one pod differ, naming the first difference."""
        names = list(self._snapshot.names)
        feasible = [n for n, v in zip(names, answers.verdicts, strict=True) if v is None]
        for field, about in (("verdicts", names), ("scores", feasible)):
            one, other = getattr(answers, field), getattr(others, field)
            for name, mine, theirs in zip(about, one, other, strict=False):
                if mine != theirs:
                    self.fail(f"{what}: {field} of {name}: {mine} and {theirs}")
        for field in answers._fields:
            one, other = getattr(answers, field), getattr(others, field)
            if one != other:
                self.fail(f"{what}: {field}: {one} and {other}")

    # Extension points.

    def _pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        answer = self._call("pre_filter", state, pod, nodes)
        if answer is None or isinstance(answer, PreFilterResult):
            return answer
        if isinstance(answer, Status) and (answer.is_skip or answer.is_rejected):
            return answer
        self._wrong("pre_filter", answer, "a PreFilterResult, Skip, a rejection or None")

    def _verdicts(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> list[Status | None]:
        if not hasattr(self._plugin, "filter_nodes"):
            return [self._status("filter", state, pod, node) for node in nodes]
        answer = self._call("filter_nodes", state, pod, nodes)
        if answer is None:
            return [None] * len(nodes)
        if not isinstance(answer, Rejections):
            self._wrong("filter_nodes", answer, "Rejections or None")
        if answer.codes.shape != (len(nodes),):
            self.fail(f"filter_nodes gave {answer.codes.shape} verdicts on {len(nodes)} nodes")
        if len(nodes) and not -1 <= answer.codes.min() <= answer.codes.max() < len(answer.statuses):
            self.fail("filter_nodes gave codes that stand for no status")
        if any(not status.is_rejected for status in answer.statuses):
            self._wrong("filter_nodes", list(answer.statuses), "rejections only")
        return [answer.status(index) for index in range(len(nodes))]

    def _check_pieces(
        self, state: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Sequence[Status | None]
    ) -> None:
        """Check that a node's verdict does not depend on the other nodes or on their order."""
        backwards = np.arange(len(nodes))[::-1]
        if self._verdicts(state, pod, nodes.take(backwards)) != list(verdicts)[::-1]:
            self.fail("filters a node differently when the nodes are in another order")
        for row, verdict in enumerate(verdicts):
            [alone] = self._verdicts(state, pod, nodes.slice(row, row + 1))
            if alone != verdict:
                self.fail(
                    f"filters node {nodes.name(row)} differently when it is alone in view: "
                    f"{alone} instead of {verdict}"
                )

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
        self._verdicts(supposed, pod, what_if.nodes)
        if self._verdicts(state, pod, nodes) != list(verdicts):
            self.fail("let a dry run change the state of the real one: its state needs a clone()")
        what_if.remove_pod(World(0), guest.uid)
        self._status("remove_pod", supposed, pod, guest, what_if.node(World(0)))
        if self._verdicts(supposed, pod, what_if.nodes) != list(verdicts):
            self.fail("filters differently after a pod has come and gone in a dry run")

    def _scores(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> list[int]:
        skipped = self._call("pre_score", state, pod, nodes)
        if skipped is not None:
            if not (isinstance(skipped, Status) and skipped.is_skip):
                self._wrong("pre_score", skipped, "Skip or None")
            return []
        scores = self._raw_scores(state, pod, nodes)
        if scores is not None and hasattr(self._plugin, "normalize_score"):
            answer = self._call("normalize_score", state, pod, scores)
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
        if hasattr(self._plugin, "score_nodes"):
            answer = self._call("score_nodes", state, pod, nodes)
            return self._as_scores("score_nodes", answer, len(nodes))
        if not hasattr(self._plugin, "score"):
            return None
        scores = [self._call("score", state, pod, node) for node in nodes]
        for score in scores:
            if type(score) is not int:
                self._wrong("score", score, "a plain int")
        return self._as_scores("score", scores, len(nodes))

    def _as_scores(
        self, method: str, answer: object, total: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        scores = np.asarray(answer)
        if scores.shape != (total,) or scores.dtype.kind not in "iu":
            self._wrong(method, answer, f"{total} integers")
        return scores

    # Calls.

    def _status(self, method: str, *arguments: object) -> Status | None:
        """Call a method that returns a rejection or None."""
        answer = self._call(method, *arguments)
        if answer is None:
            return None
        if not isinstance(answer, Status) or not (answer.is_rejected or answer.is_success):
            self._wrong(method, answer, "a rejection or None")
        return None if answer.is_success else answer

    def _call(self, method: str, *arguments: object) -> object:
        """Call a method of the plugin. Return None if the plugin does not define it."""
        bound = getattr(self._plugin, method, None)
        if bound is None:
            return None
        if inspect.iscoroutinefunction(bound):
            self.fail(f"{method} must not be async: it decides, and may not wait")
        try:
            answer: object = bound(*arguments)
        except Exception as error:
            self.fail(f"{method} raised {type(error).__name__}: {error}", error)
        return answer

    def _wrong(self, method: str, answer: object, wanted: str) -> NoReturn:
        self.fail(f"{method} answered {answer!r}: expected {wanted}")

    def fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Raise AssertionError with the message and a call that reproduces the failure."""
        pod = f", pod {self._pod.key}" if self._pod is not None else ""
        raise AssertionError(
            f"{self.name} {what}\n"
            f"(on the random cluster of seed {self._seed}{pod}; "
            f"check_plugin({self.name}, seeds=[{self._seed}]) repeats it)"
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
