"""Run a plugin on random clusters and check the rules that every plugin must follow.

    from scheduler.testing import check_plugin

    def test_gpu_guard_is_a_good_plugin():
        check_plugin(GpuGuard, twin=FastGpuGuard)

The rules:

- Equal calls return equal results, on the same instance and on a new one. The results for a pod
  depend neither on other pods that were decided before nor on another scheduler in the process.
- Arguments are never modified.
- Each method returns only values that its contract allows; `post_filter`, `pre_bind`, `bind` and
  `post_bind` are async, all others are not.
- The result for a node does not depend on the other nodes in the argument, nor on the order of the
  nodes: another order gives equal verdicts and scores.
- A dry run does not change the state of the real run. A node is filtered after the removal of a
  pod in a dry run as in a cluster without the pod.
- Scores are in range.
- After Unreserve the plugin decides as before Reserve, about this pod and about others.
- If an event makes the plugin accept a pod, up to Permit, it has registered for the event, and the
  hint returns QUEUE. The events are new nodes, deleted pods, changed labels and annotations of
  nodes, of running pods and of the pod itself, changed resources and taints of nodes, and
  additions, changes and deletions of the `objects`. The pod waits in a cluster of the nodes that
  reject it.
- If a `twin` is given, it returns the same results.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

from scheduler.api.core import Node, Pod
from scheduler.client.kinds import kind_key
from scheduler.framework.interface import Plugin
from scheduler.runtime.extension_points import EXTENSION_POINTS, require_extension_point
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing.event_checks import check_hints, check_order
from scheduler.testing.held_pods import check_held_pods
from scheduler.testing.pod_life import check_deletion, check_life, check_post_filter
from scheduler.testing.random_cluster import random_cluster
from scheduler.testing.trial import Observations, Trial, TrialSetup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.api.unstructured import Kind
    from scheduler.client import ApiObject

_SEEDS: Final = range(25)
#: Removals and hints are checked on a part of the clusters: each check makes a cluster per node,
#: pod and object.
_SLOW_SEEDS_MAX: Final = 8
_METHODS: Final = tuple(method for point in EXTENSION_POINTS for method in point.methods)


class NotJudgedWarning(UserWarning):
    """`check_plugin` passed without seeing some behaviour of the plugin."""


def check_plugin(
    plugin_class: type[Plugin],
    *,
    args: object = None,
    twin: type[Plugin] | None = None,
    seeds: Iterable[int] = _SEEDS,
    labels: Mapping[str, Sequence[str]] | None = None,
    annotations: Mapping[str, Sequence[str]] | None = None,
    objects: Mapping[Kind, Sequence[ApiObject]] | None = None,
    pods: Sequence[Pod] = (),
) -> tuple[str, ...]:
    """Check a plugin on one random cluster per seed. Return what could not be judged.

    Raises AssertionError with the broken rule, the seed and the pod; `PluginSetupError` for a
    plugin that the scheduler refuses at its start, and TypeError for a class that is no `Plugin`.
    Behaviour that was never seen is also a `NotJudgedWarning`: "it never rejected a node".

    `args` are the plugin's arguments as in `pluginConfig`. `twin` is a second class that must
    return the same results, for example the vectorised form of the rule. `labels` and
    `annotations` map further keys to their values: nodes and pods get them at random, beside the
    labels `app`, `disk`, `gpu` and zones. `objects` are the objects of the kinds that the plugin
    `reads`. `pods` are scheduled in every cluster beside the random pods.
    """
    classes: list[object] = [plugin_class] if twin is None else [plugin_class, twin]
    for checked_class in classes:
        if not (isinstance(checked_class, type) and issubclass(checked_class, Plugin)):
            raise TypeError(f"expected a subclass of scheduler.Plugin, got {checked_class!r}")
    require_extension_point(plugin_class)
    seen = Observations()
    for number, seed in enumerate(seeds):
        cluster = random_cluster(seed, labels=labels, annotations=annotations)
        cluster = cluster._replace(incoming=[*cluster.incoming, *pods])
        setup = TrialSetup(args=args, cluster=cluster, seed=seed, objects=objects or {}, seen=seen)
        _check_decisions(plugin_class, setup, twin)
        for pod in map(PodInfo, cluster.incoming):
            _check_life(Trial(plugin_class, setup), Trial(plugin_class, setup), pod)
            if number < _SLOW_SEEDS_MAX:
                Trial(plugin_class, setup).check_removals(pod)
                check_hints(Trial(plugin_class, setup), pod)
        check_order(Trial(plugin_class, setup))
        check_held_pods(Trial(plugin_class, setup))
    notes = tuple(_not_judged(plugin_class, seen))
    if notes:
        warnings.warn(
            f"check_plugin({plugin_class.name}) could not judge all: {'; '.join(notes)}",
            NotJudgedWarning,
            stacklevel=2,
        )
    return notes


def _check_decisions(
    plugin_class: type[Plugin], setup: TrialSetup, twin_class: type[Plugin] | None
) -> None:
    """Compare the decisions of several instances and of a twin, pod after pod."""
    first, again = Trial(plugin_class, setup), Trial(plugin_class, setup)
    twin = Trial(twin_class, setup) if twin_class is not None else None
    for pod in map(PodInfo, setup.cluster.incoming):
        results = first.results(pod)
        first.expect_same(results, first.results(pod), "answered differently when asked again")
        first.expect_same(results, again.results(pod), "answered differently when made anew")
        alone_trial = Trial(plugin_class, setup)
        alone = alone_trial.results(pod)
        first.expect_same(results, alone, "answered differently after other pods")
        reordered = alone_trial.results_in_another_order(pod)
        first.expect_same(results, reordered, "answered differently for nodes in another order")
        if twin is not None:
            twins = twin.results(pod)
            common = results._replace(verdicts=twins.verdicts, scores=twins.scores)
            first.expect_same(results, common, f"and {twin.name} disagree")


def _check_life(trial: Trial, other: Trial, pod: PodInfo) -> None:
    """Run a pod's whole life; `other` is a second scheduler in the same process."""
    before = other.results(pod)
    results = trial.results(pod)
    check_post_filter(trial, pod, results)
    check_life(trial, pod, results)
    message = "shares state with a second scheduler: it answered differently after the first bound"
    other.expect_same(before, other.results(pod), message)
    check_deletion(trial, pod, results)


def _not_judged(plugin_class: type[Plugin], seen: Observations) -> Iterable[str]:
    """Yield the behaviour that was never seen."""
    for method in _METHODS:
        if callable(getattr(plugin_class, method, None)) and method not in seen.called:
            yield f"{method} was never called"
    filters = {"filter", "filter_nodes", "pre_filter"} & seen.called
    if filters and not seen.has_rejected_a_node:
        yield "it never rejected a node"
    if {"score", "score_nodes"} & seen.called and not seen.has_scored_differently:
        yield "all scores were equal"
    if seen.has_rejected_a_pod and not hasattr(plugin_class, "events_to_register"):
        yield "it has no events_to_register: every change retries the pods that it rejects"
    if seen.waits_for_nothing:
        yield "it has registered for no event: the pods that it rejects wait for minutes"
    if seen.has_held_a_pod and not seen.has_allowed_a_pod:
        yield "permit let pods wait, and none was ever allowed (give `pods` or `objects`)"
    for kind in (*plugin_class.reads, *plugin_class.required):
        if kind not in (Node, Pod) and kind_key(kind) not in map(kind_key, seen.changed_kinds):
            yield f"no event of {kind_key(kind)} was tried (give `objects`)"
    for hint in sorted(seen.hints - seen.called):
        yield f"{hint} was never called"
