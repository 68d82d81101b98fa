"""Which events may help which waiting pods: queueing hints, and what follows from their answers.

A pod that was turned down waits until an event happens that one of its rejector plugins has
registered for, and whose hint says that it may fit now:

    no rejector plugin (an error)           ->  after backoff, whatever the event
    wildcard event                          ->  after backoff; if it names a pod, that pod only
    profile unknown to the hint map         ->  after backoff
    hint of a pending plugin says Queue     ->  immediately
    hint of another rejector says Queue     ->  after backoff
    a hint raises                           ->  counts as Queue
    otherwise                               ->  skip

Of waiting pods that are alike in the eyes of the hints only one is asked, and the answer holds for
all of them (`likeness`): there may be tens of thousands, from a few templates.
Source: `isPodWorthRequeuing`, `isEventOfInterest` in `backend/queue/scheduling_queue.go`;
`buildQueueingHintMap` in `pkg/scheduler/scheduler.go`; KEP-4247.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.api.core import Pod
from scheduler.framework.events import (
    ALL_EVENTS,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHintFn,
    match_cluster_events,
)
from scheduler.framework.types import EXTENDER_NAME
from scheduler.queue.errors import EventsToRegisterError
from scheduler.queue.observer import HintAnswer

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.interface import EnqueueExtensions, Plugin
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.active_queue import InFlightEvent
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

    _Dependence = Callable[[PodInfo], Hashable]


class QueueingHintFunction(NamedTuple):
    """A queueing hint, and the plugin whose verdict it may overturn.

    `depends_on` is what it looks at of a waiting pod (`SharedHintsPlugin`); None if nobody says.
    """

    plugin_name: str
    queueing_hint_fn: QueueingHintFn
    depends_on: Callable[[PodInfo], Hashable] | None = None


class QueueingStrategy(enum.IntEnum):
    """What an event means for a waiting pod; the greater, the better for it."""

    #: It stays where it is.
    QUEUE_SKIP = 0
    #: It is tried again, once its backoff is over.
    QUEUE_AFTER_BACKOFF = 1
    #: It is tried again at once.
    QUEUE_IMMEDIATELY = 2


class Interest:
    """What an event means to the plugins: worked out once for each kind of event."""

    __slots__ = ("event", "hints", "is_of_interest", "is_wildcard", "label", "rejectors")

    def __init__(
        self, event: ClusterEvent, hints: Mapping[str, Sequence[QueueingHintFunction]]
    ) -> None:
        self.event: Final = event
        self.label: Final = event.label
        self.is_wildcard: Final = event.is_wildcard
        #: By profile, the hints to ask; a profile without hint map is not in it.
        self.hints: Final = hints
        #: The plugins with a hint for this event, each with its profile.
        self.rejectors: Final = tuple(
            dict.fromkeys(
                (profile, hint.plugin_name) for profile, of in hints.items() for hint in of
            )
        )
        #: Whether any waiting pod at all could be helped by it.
        self.is_of_interest: Final = self.is_wildcard or bool(self.rejectors)


def _always_queue(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Stands for the hint of a plugin that has registered for an event without one."""
    return QueueingHint.QUEUE


def _nothing(pod: PodInfo) -> Hashable:
    """What that one depends on."""
    return ()


def build_queueing_hint_map(
    plugins: Iterable[Plugin], *, has_extenders: bool = False
) -> dict[ClusterEvent, list[QueueingHintFunction]]:
    """One profile's hints, from what its plugins register for. Called once, at start.

    `plugins` are those that can turn pods down (`Framework.rejecting_plugins`). One without
    `events_to_register` hears of everything, and so does the pseudo-plugin that stands for the
    extenders, if there are any.
    Raises `EventsToRegisterError` with the texts of all plugins that fail.
    """
    hint_map: dict[ClusterEvent, list[QueueingHintFunction]] = {}
    failures: dict[str, Exception] = {}
    if has_extenders:
        _register(hint_map, EXTENDER_NAME, ALL_EVENTS, None)
    for plugin in plugins:
        if not hasattr(plugin, "events_to_register"):
            _register(hint_map, plugin.name, ALL_EVENTS, None)
            continue
        try:
            events = tuple(cast("EnqueueExtensions", plugin).events_to_register())
        except Exception as failure:
            failures[plugin.name] = failure
        else:
            depends_on = getattr(plugin, "hints_depend_on", None)
            _register(hint_map, plugin.name, events, depends_on)
    if failures:
        causes = list(failures.values())
        raise EventsToRegisterError(failures) from (
            causes[0] if len(causes) == 1 else ExceptionGroup("events_to_register", causes)
        )
    return hint_map


def _register(
    hint_map: dict[ClusterEvent, list[QueueingHintFunction]],
    plugin_name: str,
    events: Sequence[ClusterEventWithHint],
    depends_on: Callable[[PodInfo], Hashable] | None,
) -> None:
    node_actions = ActionType.NONE
    for event, hint in events:
        if event.resource == EventResource.NODE:
            node_actions |= event.action_type
        hint_map.setdefault(event, []).append(
            QueueingHintFunction(plugin_name, _always_queue, _nothing)
            if hint is None
            else QueueingHintFunction(plugin_name, hint, depends_on)
        )
    if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
        # A new node is often tainted at first, and is then kept from the hints by the event
        # handlers' own check of the node; the plugin would never hear that it has become usable.
        # https://github.com/kubernetes/kubernetes/issues/109437
        hint_map.setdefault(
            ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT), []
        ).append(QueueingHintFunction(plugin_name, _always_queue, _nothing))


class Requeueing:
    """Asks the hints, and measures them."""

    def __init__(
        self,
        queueing_hint_map: Mapping[str, Mapping[ClusterEvent, Sequence[QueueingHintFunction]]],
        metrics: SchedulerMetrics,
        log: logging.Logger,
    ) -> None:
        self.metrics: Final = metrics
        self._hint_map: Final = queueing_hint_map
        self._log: Final = log
        # There are as many as kinds of objects times kinds of changes that are handed in.
        self._interests: Final[dict[ClusterEvent, Interest]] = {}
        #: What each plugin has registered for, in whichever profile.
        self.events_of: Final[dict[str, tuple[ClusterEvent, ...]]] = {}
        #: By profile and plugin, what its hints look at of a pod; with None it is the very pod.
        self._dependences: Final[dict[tuple[str, str], dict[_Dependence | None, None]]] = {}
        for profile, hints in queueing_hint_map.items():
            for event, functions in hints.items():
                for name, _, depends_on in functions:
                    self.events_of[name] = (*self.events_of.get(name, ()), event)
                    self._dependences.setdefault((profile, name), {})[depends_on] = None

    def interest(self, event: ClusterEvent) -> Interest:
        """What this event means to the plugins."""
        known = self._interests.get(event)
        if known is None:
            known = self._interests[event] = Interest(
                event,
                {
                    profile: tuple(
                        function
                        for registered, functions in hints.items()
                        if match_cluster_events(registered, event)
                        for function in functions
                    )
                    for profile, hints in self._hint_map.items()
                },
            )
        return known

    def likeness(self, pod: QueuedPodInfo) -> Hashable:
        """Equal for pods that any event means the same for, unless it is about one of them.

        That is so if the same plugins have turned them down, whose hints see no difference.
        """
        profile = pod.pod_info.spec.scheduler_name
        if profile not in self._hint_map:
            return pod.uid
        unschedulable = tuple(sorted(pod.unschedulable_plugins))
        pending = tuple(sorted(pod.pending_plugins))
        seen: list[Hashable] = []
        for plugin in (*unschedulable, *pending):
            for depends_on in self._dependences.get((profile, plugin), ()):
                if depends_on is None:
                    return pod.uid
                seen.append(depends_on(pod.pod_info))
        return (profile, pod.gating_plugin, unschedulable, pending, tuple(seen))

    def is_pod_worth_requeuing(
        self,
        pod: QueuedPodInfo,
        interest: Interest,
        old_obj: object,
        new_obj: object,
        asked: list[HintAnswer] | None = None,
    ) -> QueueingStrategy:
        """What this event means for this pod, see the top of this module.

        The hints of its rejector plugins are asked, in the order of registration and no more of
        them than needed. Their answers are added to `asked`, if given.
        """
        unschedulable, pending = pod.unschedulable_plugins, pod.pending_plugins
        if not unschedulable and not pending:
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        if interest.is_wildcard:
            if new_obj is None or (isinstance(new_obj, Pod) and new_obj.metadata.uid == pod.uid):
                return QueueingStrategy.QUEUE_AFTER_BACKOFF
            return QueueingStrategy.QUEUE_SKIP
        profile = pod.pod_info.spec.scheduler_name
        functions = interest.hints.get(profile)
        if functions is None:
            self._log.error(
                "No QueueingHintMap is registered for this profile: profile=%s pod=%s",
                profile, pod.key,
            )  # fmt: skip
            return QueueingStrategy.QUEUE_AFTER_BACKOFF

        strategy = QueueingStrategy.QUEUE_SKIP
        for function in functions:
            plugin = function.plugin_name
            if plugin not in unschedulable and plugin not in pending:
                continue
            if self._ask(function, pod, interest, old_obj, new_obj, asked) == QueueingHint.QUEUE:
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
        asked: list[HintAnswer] | None = None,
    ) -> QueueingStrategy:
        """What the events that a pod has missed mean for it: the best that any of them means.

        None stands for a pod that was not in flight, which only a bug or a failed binding gives
        back; it backs off. Source: `determineSchedulingHintForInFlightPod`.
        """
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        if missed is None:
            self._log.error(
                "Error getting cluster events for pod: pod=%s err=in flight Pod isn't found in the "
                "scheduling queue. If you see this error log, it's likely a bug in the scheduler",
                pod.key,
            )
            return QueueingStrategy.QUEUE_AFTER_BACKOFF
        # Only a pending plugin can do better than that, so without one the rest need no look.
        enough = (
            QueueingStrategy.QUEUE_IMMEDIATELY
            if pod.pending_plugins
            else QueueingStrategy.QUEUE_AFTER_BACKOFF
        )
        best = QueueingStrategy.QUEUE_SKIP
        for event, old_obj, new_obj in missed:
            strategy = self.is_pod_worth_requeuing(
                pod, self.interest(event), old_obj, new_obj, asked
            )
            best = max(best, strategy)
            if best >= enough:
                break
        return best

    def _ask(
        self,
        function: QueueingHintFunction,
        pod: QueuedPodInfo,
        interest: Interest,
        old_obj: object,
        new_obj: object,
        asked: list[HintAnswer] | None,
    ) -> QueueingHint:
        plugin = function.plugin_name
        started = self.metrics.stopwatch()
        try:
            hint = function.queueing_hint_fn(pod.pod_info, old_obj, new_obj)
            answer = "Queue" if hint == QueueingHint.QUEUE else "QueueSkip"
        except Exception as error:
            # Better to try the pod in vain than to leave it waiting for an event that has passed.
            self._log.error(
                "QueueingHintFn returns error: event=%s plugin=%s pod=%s err=%s",
                interest.label, plugin, pod.key, error, exc_info=error,
            )  # fmt: skip
            hint, answer = QueueingHint.QUEUE, "Error"
        self.metrics.queueing_hint_execution_duration.observe(
            self.metrics.stopwatch() - started, plugin, interest.label, answer
        )
        if asked is not None:
            asked.append(HintAnswer(plugin, interest.label, answer))
        return hint
