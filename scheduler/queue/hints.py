"""Queueing hints: decide which waiting pods an event may make schedulable.

A rejected pod waits until an event happens that one of its rejector plugins has registered for, and
whose hint returns `Queue`:

    no rejector plugin (an error)              ->  after backoff, for any event
    wildcard event                             ->  after backoff; if it names a pod, that pod only
    profile without hint map                   ->  after backoff
    hint of a pending plugin returns Queue     ->  immediately
    hint of another rejector returns Queue     ->  after backoff
    a hint raises                              ->  counts as Queue
    otherwise                                  ->  skip

There may be tens of thousands of waiting pods, made from a few templates. So pods with the same
`hint_group_key` share one call: the hints are called for one of them, and the answer is used for
all. Two exceptions call the hints for each pod: an event about a pod of the group, and a hint that
raises, as its error is logged with the name of the pod and may concern this pod only.
Source: `isPodWorthRequeuing`, `isEventOfInterest` in `backend/queue/scheduling_queue.go`;
`buildQueueingHintMap` in `pkg/scheduler/scheduler.go`; KEP-4247. The sharing is ours.
"""

from __future__ import annotations

import enum
import itertools
import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scheduler.api.core import Pod
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHintFn,
    match_any_cluster_event,
    match_cluster_events,
    on,
)
from scheduler.framework.failures import SeenFailures
from scheduler.queue.queued_pod_info import HintAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.registrations import PluginEvents
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.active_queue import InFlightEvent
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

    DependsOn = Callable[[PodInfo], Hashable]
    IsAffected = Callable[[PodInfo], bool]
    PreQueueingHintFn = Callable[[Any, Any], IsAffected | None]

_log: Final = logging.getLogger(__name__)

_ERROR: Final = "Error"
_ALL_AFFECTED: Final[Mapping[str, IsAffected]] = MappingProxyType({})


class QueueingHintFunction(NamedTuple):
    """A queueing hint and the plugin whose rejections it is about.

    `depends_on` returns the part of a waiting pod that the hint reads (`SharedHintsPlugin`). None
    means that the hint may read all of the pod. `pre_queueing_hint_fn` takes the object before and
    after, and returns which pods the event is about, None for all. Other pods, also of other
    plugins, do not come back by this event.
    """

    plugin_name: str
    queueing_hint_fn: QueueingHintFn[Any]
    depends_on: DependsOn | None = None
    pre_queueing_hint_fn: PreQueueingHintFn | None = None


class QueueingStrategy(enum.IntEnum):
    """The effect of an event on a waiting pod; a higher value retries the pod sooner."""

    #: The pod stays where it is.
    QUEUE_SKIP = 0
    #: The pod is retried once its backoff is over.
    QUEUE_AFTER_BACKOFF = 1
    #: The pod is retried at once.
    QUEUE_IMMEDIATELY = 2


class RegisteredHints:
    """The hints that are registered for an event. Made once for each kind of event."""

    __slots__ = (
        "by_profile",
        "event",
        "is_of_interest",
        "is_wildcard",
        "label",
        "narrowing",
        "rejectors",
    )

    def __init__(
        self, event: ClusterEvent, by_profile: Mapping[str, Sequence[QueueingHintFunction]]
    ) -> None:
        self.event: Final = event
        self.label: Final = event.label
        self.is_wildcard: Final = event.is_wildcard
        #: The hints to call by profile. A profile without hint map is not in it.
        self.by_profile: Final = by_profile
        #: The plugins with a hint for this event, as pairs of profile and plugin name.
        self.rejectors: Final = tuple(
            dict.fromkeys(
                (profile, hint.plugin_name) for profile, of in by_profile.items() for hint in of
            )
        )
        #: The functions that narrow the pods which the event is about, with their plugins.
        self.narrowing: Final = tuple(
            (hint.plugin_name, hint.pre_queueing_hint_fn)
            for of in by_profile.values()
            for hint in of
            if hint.pre_queueing_hint_fn is not None and not self.is_wildcard
        )
        #: True if the event may move any pod at all.
        self.is_of_interest: Final = self.is_wildcard or bool(self.rejectors)


class Decision(NamedTuple):
    """Alike pods by key, how soon they are retried after an event, and the answers of the hints."""

    pods: Mapping[str, QueuedPodInfo]
    strategy: QueueingStrategy
    answers: tuple[HintAnswer, ...]

    @property
    def has_error(self) -> bool:
        return any(answer.answer.startswith(_ERROR) for answer in self.answers)


class Decisions(NamedTuple):
    """The pods that an event retries, and the pods that its hints keep waiting."""

    requeues: list[Decision]
    skips: list[Decision]

    def add(self, decision: Decision) -> None:
        """Add a decision. Pods that stay without a call of a hint are left out."""
        if decision.strategy != QueueingStrategy.QUEUE_SKIP:
            self.requeues.append(decision)
        elif decision.answers:
            self.skips.append(decision)


class _Others(Mapping[str, "QueuedPodInfo"]):
    """A view of alike pods without some of them."""

    __slots__ = ("_group", "_left_out")

    def __init__(
        self, group: Mapping[str, QueuedPodInfo], left_out: Mapping[str, QueuedPodInfo]
    ) -> None:
        self._group: Final = group
        self._left_out: Final = left_out

    def __getitem__(self, key: str) -> QueuedPodInfo:
        if key in self._left_out:
            raise KeyError(key)
        return self._group[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._group if key not in self._left_out)

    def __len__(self) -> int:
        return len(self._group) - sum(key in self._group for key in self._left_out)


def _always_queue(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """The hint of a plugin that has registered for an event without a hint."""
    return QueueingHint.QUEUE


def _nothing(pod: PodInfo) -> Hashable:
    """The part of the pod that `_always_queue` reads."""
    return ()


def build_queueing_hint_map(
    registered: Iterable[PluginEvents],
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> dict[ClusterEvent, list[QueueingHintFunction]]:
    """Return one profile's hints by the event that they are registered for.

    `registered` are the events of the plugins that can reject pods (`Framework.registered_events`).
    """
    hint_map: dict[ClusterEvent, list[QueueingHintFunction]] = {}
    adds_taints = version < SchedulerVersion.V1_37
    for plugin, events in registered:
        added = _taints_of_new_nodes(events) if adds_taints else ()
        depends_on = getattr(plugin, "hints_depend_on", None)
        always = QueueingHintFunction(plugin.name, _always_queue, _nothing)
        narrowing = getattr(plugin, "pre_queueing_hints", {})
        for event, hint in (*events, *added):
            narrow = narrowing.get(event.resource)
            function = (
                QueueingHintFunction(plugin.name, hint, depends_on, narrow) if hint else always
            )
            hint_map.setdefault(event, []).append(function)
    return hint_map


def _taints_of_new_nodes(events: Sequence[ClusterEventWithHint]) -> Iterable[ClusterEventWithHint]:
    """Yield the taints of nodes for a plugin that has registered for new nodes but not for taints.

    A new node is often tainted at first. Upstream's event handlers, up to 1.36, then keep its
    addition from the hints, and the plugin would miss that the node becomes usable later.
    https://github.com/kubernetes/kubernetes/issues/109437
    """
    actions = ActionType.NONE
    for event, _ in events:
        if event.resource == EventResource.NODE:
            actions |= event.action_type
    if actions & ActionType.ADD and not actions & ActionType.UPDATE_NODE_TAINT:
        yield on(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)


def _apart(
    group: Mapping[str, QueuedPodInfo], about: Sequence[str]
) -> Iterator[Mapping[str, QueuedPodInfo]]:
    """Yield the group; if an event is about pods in it, each of them alone, then the others."""
    own = {key: group[key] for key in about if key in group}
    for key, pod in own.items():
        yield {key: pod}
    yield _Others(group, own) if own else group


class QueueingHints:
    """Calls the queueing hints of all profiles, and measures them."""

    def __init__(
        self,
        queueing_hint_map: Mapping[str, Mapping[ClusterEvent, Sequence[QueueingHintFunction]]],
        metrics: SchedulerMetrics,
        *,
        generic_workload: bool,
    ) -> None:
        self.metrics: Final = metrics
        self._seen_failures: Final = SeenFailures()
        self.generic_workload: Final = generic_workload
        self._hint_map: Final = queueing_hint_map
        # Bounded by the kinds of objects times the kinds of changes.
        self._registered: Final[dict[ClusterEvent, RegisteredHints]] = {}
        #: The events that each plugin has registered for, in any profile.
        self.events_of: Final[dict[str, tuple[ClusterEvent, ...]]] = {}
        #: The `depends_on` of each plugin's hints, by profile and plugin name.
        self._depends_on: Final[dict[tuple[str, str], dict[DependsOn | None, None]]] = {}
        for profile, hints in queueing_hint_map.items():
            for event, functions in hints.items():
                for name, _, depends_on, _ in functions:
                    self.events_of[name] = (*self.events_of.get(name, ()), event)
                    self._depends_on.setdefault((profile, name), {})[depends_on] = None

    def registered_for(self, event: ClusterEvent) -> RegisteredHints:
        """Return the hints for an event, hints of more general registrations included."""
        known = self._registered.get(event)
        if known is None:
            by_profile = {
                profile: tuple(
                    function
                    for registered, functions in hints.items()
                    if match_cluster_events(registered, event)
                    for function in functions
                )
                for profile, hints in self._hint_map.items()
            }
            known = self._registered[event] = RegisteredHints(event, by_profile)
        return known

    def is_member(self, pod: PodInfo) -> bool:
        """True for a member of a pod group, which backs off after each attempt, whatever comes."""
        return self.generic_workload and pod.spec.scheduling_group is not None

    def rejectors_of(self, pod: QueuedPodInfo) -> frozenset[tuple[str, str]]:
        """Return the pod's rejector plugins, each with its profile.

        Empty if any event moves the pod: it has no rejectors, or its profile has no hint map.
        """
        profile = pod.pod_info.spec.scheduler_name
        if profile not in self._hint_map:
            return frozenset()
        return frozenset((profile, plugin) for plugin in pod.rejector_plugins)

    def hint_group_key(self, pod: QueuedPodInfo) -> Hashable:
        """Return the grouping key: pods with equal keys get equal answers from all hints.

        An event about a pod of the group is excepted. Equal keys mean the same profile, gate and
        rejectors, and equal values for the parts of the pod that their hints read.
        """
        profile = pod.pod_info.spec.scheduler_name
        if profile not in self._hint_map:
            return pod.uid
        unschedulable = tuple(sorted(pod.unschedulable_plugins))
        pending = tuple(sorted(pod.pending_plugins))
        parts: list[Hashable] = []
        for plugin in (*unschedulable, *pending):
            for depends_on in self._depends_on.get((profile, plugin), ()):
                if depends_on is None:
                    return pod.uid
                parts.append(depends_on(pod.pod_info))
        return (profile, pod.gating_plugin, unschedulable, pending, tuple(parts))

    def decide(
        self,
        groups: Iterable[Mapping[str, QueuedPodInfo]],
        registered: RegisteredHints,
        old_obj: object,
        new_obj: object,
    ) -> Decisions:
        """Decide for all pods of these groups; the pods of each group must be alike."""
        about = [obj.key for obj in (old_obj, new_obj) if isinstance(obj, Pod)]
        decisions = Decisions([], [])
        affected = self._affected(registered, old_obj, new_obj)
        if affected:
            groups = (
                {key: pod}
                for group in groups
                for key, pod in group.items()
                if any(is_affected(pod.pod_info) for is_affected in affected.values())
            )
        for group in itertools.chain.from_iterable(_apart(group, about) for group in groups):
            is_shared = len(group) > 1
            for pod in group.values():
                if not _can_move(pod, registered):
                    break
                answers: list[HintAnswer] = []
                strategy = self.is_pod_worth_requeuing(
                    pod, registered, old_obj, new_obj, answers, affected
                )
                decision = Decision({pod.key: pod}, strategy, tuple(answers))
                is_shared = is_shared and not decision.has_error
                decisions.add(decision._replace(pods=group) if is_shared else decision)
                if is_shared:
                    break
        return decisions

    def _affected(
        self, registered: RegisteredHints, old_obj: object, new_obj: object
    ) -> dict[str, IsAffected]:
        """Return by plugin which pods an event is about; nothing if it is about all.

        Source: `runPreQueueingHintPlugins`, v1.37.2.
        """
        affected: dict[str, IsAffected] = {}
        evaluations = self.metrics.pre_queueing_hint_evaluations
        for plugin, narrow in registered.narrowing:
            is_affected = narrow(old_obj, new_obj)
            if is_affected is None:
                evaluations[plugin, "all_pods"] += 1
                return {}
            evaluations[plugin, "narrowed"] += 1
            affected[plugin] = is_affected
        return affected

    def is_pod_worth_requeuing(
        self,
        pod: QueuedPodInfo,
        registered: RegisteredHints,
        old_obj: object,
        new_obj: object,
        answers: list[HintAnswer],
        affected: Mapping[str, IsAffected] = _ALL_AFFECTED,
    ) -> QueueingStrategy:
        """Decide for one pod by the table at the top of this module.

        Calls the hints of the rejector plugins in the order of registration, and stops at the first
        answer that decides. Appends the answers to `answers`.
        """
        unschedulable, pending = pod.unschedulable_plugins, pod.pending_plugins
        if not unschedulable and not pending:
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        if registered.is_wildcard:
            if new_obj is None or (isinstance(new_obj, Pod) and new_obj.metadata.uid == pod.uid):
                return QueueingStrategy.QUEUE_AFTER_BACKOFF
            return QueueingStrategy.QUEUE_SKIP
        profile = pod.pod_info.spec.scheduler_name
        functions = registered.by_profile.get(profile)
        if functions is None:
            _log.error(
                "No QueueingHintMap is registered for this profile: profile=%s pod=%s",
                profile, pod.key,
            )  # fmt: skip
            return QueueingStrategy.QUEUE_AFTER_BACKOFF

        strategy = QueueingStrategy.QUEUE_SKIP
        for function in functions:
            plugin = function.plugin_name
            if plugin not in unschedulable and plugin not in pending:
                continue
            if plugin in affected and not affected[plugin](pod.pod_info):
                continue
            hint, answer = self._call(function, pod, registered.label, old_obj, new_obj)
            answers.append(answer)
            if hint == QueueingHint.QUEUE:
                if plugin in pending:
                    return QueueingStrategy.QUEUE_IMMEDIATELY
                if not pending:
                    return QueueingStrategy.QUEUE_AFTER_BACKOFF
                strategy = QueueingStrategy.QUEUE_AFTER_BACKOFF
        return strategy

    def strategy_after_attempt(
        self,
        pod: QueuedPodInfo,
        missed: Iterable[InFlightEvent] | None,
        answers: list[HintAnswer],
    ) -> QueueingStrategy:
        """Return the best strategy that any event during the pod's attempt leads to.

        `missed` is None for a pod that was not in flight: it backs off. Only a bug or a failed
        binding gives such a pod back. Source: `determineSchedulingHintForInFlightPod`.
        """
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        if self.is_member(pod.pod_info):
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        if missed is None:
            _log.error(
                "Error getting cluster events for pod: pod=%s err=in flight Pod isn't found in the "
                "scheduling queue. If you see this error log, it's likely a bug in the scheduler",
                pod.key,
            )
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        # Only a pending plugin leads to more, so without one the rest of the events is skipped.
        enough = (
            QueueingStrategy.QUEUE_IMMEDIATELY
            if pod.pending_plugins
            else QueueingStrategy.QUEUE_AFTER_BACKOFF
        )
        best = QueueingStrategy.QUEUE_SKIP
        for event, old_obj, new_obj in missed:
            strategy = self.is_pod_worth_requeuing(
                pod, self.registered_for(event), old_obj, new_obj, answers
            )
            best = max(best, strategy)
            if best >= enough:
                break
        return best

    def _call(
        self,
        function: QueueingHintFunction,
        pod: QueuedPodInfo,
        event_label: str,
        old_obj: object,
        new_obj: object,
    ) -> tuple[QueueingHint, HintAnswer]:
        plugin = function.plugin_name
        started = self.metrics.stopwatch()
        try:
            hint = function.queueing_hint_fn(pod.pod_info, old_obj, new_obj)
            answer = "Queue" if hint == QueueingHint.QUEUE else "QueueSkip"
        except Exception as error:  # noqa: BLE001 - code of a plugin
            # An attempt in vain is better than a pod that waits for an event that has passed.
            is_new = self._seen_failures.is_new(plugin, error)
            _log.error(
                "QueueingHintFn returns error: event=%s plugin=%s pod=%s err=%s",
                event_label, plugin, pod.key, error, exc_info=error if is_new else None,
            )  # fmt: skip
            # Interned: a hint fails in the same way again and again.
            answer = sys.intern(f"{_ERROR}: {type(error).__name__}: {error}")
            hint = QueueingHint.QUEUE
        label = answer.partition(":")[0]
        self.metrics.queueing_hint_execution_duration.observe(
            self.metrics.stopwatch() - started, plugin, event_label, label
        )
        return hint, HintAnswer(plugin, event_label, answer)


def _can_move(pod: QueuedPodInfo, registered: RegisteredHints) -> bool:
    """Return False for a gated pod whose gating plugin has not registered for the event."""
    return not pod.is_gated or match_any_cluster_event(registered.event, pod.gating_plugin_events)
