"""Effects of events on waiting pods. Cases stem from `Test_isPodWorthRequeuing` (same order) and
from `Test_buildQueueingHintMap` of `scheduler_test.go`."""

from collections.abc import Callable, Iterable

import pytest

from scheduler.framework.events import (
    ALL_EVENTS,
    EVENT_ASSIGNED_POD_ADD,
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from scheduler.framework.failures import PluginSetupError
from scheduler.framework.interface import Plugin
from scheduler.framework.registrations import events_of
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import HintAnswer, build_queueing_hint_map
from scheduler.queue.active_queue import InFlightEvent
from scheduler.queue.hints import QueueingHintFunction, QueueingHints, QueueingStrategy
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_node, make_pod
from tests.queue.world import (
    NODE_ADD,
    NODE_LABEL,
    PROFILE,
    Hints,
    fail,
    hint_map,
    never,
    queue,
    skip,
    waiting,
)

SKIP, AFTER_BACKOFF, IMMEDIATELY = QueueingStrategy

NODE_UPDATE = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
LABEL_AND_TAINT = ClusterEvent(
    EventResource.NODE, ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
)
ANYTHING_ADDED = ClusterEvent(EventResource.WILDCARD, ActionType.ADD)
ANYTHING = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)

POD = make_pod("pod1", namespace="ns1", uid="1")
OTHER = make_pod("other", namespace="ns2", uid="2")


def counted(judge: QueueingHints) -> dict[tuple[str, ...], int]:
    """Return the number of answers, by plugin, event and answer."""
    durations = judge.metrics.queueing_hint_execution_duration.by_labels
    return {labels: histogram.total for labels, histogram in durations.items()}


def requeueing(hints: Hints, profile: str = PROFILE) -> QueueingHints:
    return QueueingHints({profile: hint_map(hints)}, SchedulerMetrics(), generic_workload=False)


def narrowed(
    judge_of: dict[str, Callable[[PodInfo], bool] | None],
) -> tuple[dict[str, QueueingStrategy], dict[tuple[str, ...], float]]:
    """Return the strategies for waiting pods after an event that each plugin narrows or not."""
    hints = {
        NODE_ADD: [
            QueueingHintFunction(name, queue, None, lambda old, new, f=affected: f)
            for name, affected in judge_of.items()
        ]
    }
    hints[NODE_ADD].append(QueueingHintFunction("plain", queue))
    judge = QueueingHints({PROFILE: hints}, SchedulerMetrics(), generic_workload=False)
    pods = {
        f"{plugin}-{about}": waiting(
            make_pod(f"{plugin}-{about}", labels={"about": about}), *filter(None, [plugin])
        )
        for plugin in ("claims", "plain", "")
        for about in ("this", "other")
    }
    decisions = judge.decide(
        [{pod.key: pod} for pod in pods.values()], judge.registered_for(NODE_ADD), None, None
    )
    found = {key: each.strategy for each in decisions.requeues for key in each.pods}
    strategies = {name: found.get(pod.key, SKIP) for name, pod in pods.items()}
    return strategies, dict(judge.metrics.pre_queueing_hint_evaluations)


def test_an_event_about_some_pods_leaves_all_others_alone() -> None:
    """Also those of other plugins, and those without any: as upstream."""
    strategies, counts = narrowed({"claims": lambda pod: pod.labels.get("about") == "this"})
    assert {name for name, strategy in strategies.items() if strategy != SKIP} == {
        "claims-this", "plain-this", "-this",
    }  # fmt: skip
    assert counts == {("claims", "narrowed"): 1}


def test_an_event_about_all_pods_is_not_narrowed() -> None:
    strategies, counts = narrowed({"claims": None})
    assert SKIP not in strategies.values()
    assert counts == {("claims", "all_pods"): 1}


@pytest.mark.parametrize(
    ("rejectors", "pending", "event", "new", "hints", "expected", "asked"),
    [
        pytest.param(
            "foo1", "", NODE_ADD, make_node(), {EVENT_ASSIGNED_POD_ADD: [("foo1", queue)]},
            SKIP, "", id="no hint for the event",
        ),
        pytest.param(
            "foo1", "", NODE_ADD, make_node(), {NODE_ADD: [("foo1", fail)]},
            AFTER_BACKOFF, "foo1:Error: RuntimeError: unexpected error",
            id="a hint that fails counts as Queue",
        ),
        pytest.param(
            "foo1", "", EVENT_UNSCHEDULABLE_TIMEOUT, None, {},
            AFTER_BACKOFF, "", id="a wildcard event",
        ),
        pytest.param(
            "foo1", "", EVENT_FORCE_ACTIVATE, POD, {},
            AFTER_BACKOFF, "", id="a wildcard event that names this pod",
        ),
        pytest.param(
            "foo1", "", EVENT_FORCE_ACTIVATE, OTHER, {},
            SKIP, "", id="a wildcard event that names another pod",
        ),
        pytest.param(
            "foo1", "", EVENT_FORCE_ACTIVATE, make_node(), {},
            SKIP, "", id="a wildcard event that names no pod",
        ),
        pytest.param(
            "foo1 foo3", "foo2", NODE_ADD, make_node(),
            {NODE_ADD: [("foo1", queue), ("foo2", queue), ("foo3", never), ("foo4", never)]},
            IMMEDIATELY, "foo1:Queue foo2:Queue", id="Queue from a pending plugin",
        ),
        pytest.param(
            "foo1", "foo2", NODE_ADD, make_node(),
            {NODE_ADD: [("foo1", queue), ("foo2", skip)]},
            AFTER_BACKOFF, "foo1:Queue foo2:QueueSkip", id="only the other rejector says Queue",
        ),
        pytest.param(
            "foo1 foo2", "", NODE_ADD, make_node(),
            {NODE_ADD: [("foo1", skip), ("foo2", queue)]},
            AFTER_BACKOFF, "foo1:QueueSkip foo2:Queue", id="Queue from an unschedulable plugin",
        ),
        pytest.param(
            "foo1 foo2", "", NODE_ADD, make_node(),
            {NODE_ADD: [("foo1", skip), ("foo2", skip), ("foo3", never)]},
            SKIP, "foo1:QueueSkip foo2:QueueSkip", id="other plugins' hints are not asked",
        ),
        pytest.param(
            "foo1 foo2", "", NODE_LABEL, make_node(),
            {NODE_LABEL: [("foo1", queue), ("foo2", never)], NODE_UPDATE: [("foo1", never)],
             NODE_ADD: [("foo1", never)]},
            AFTER_BACKOFF, "foo1:Queue", id="one Queue is enough without pending plugins",
        ),
        pytest.param(
            "foo1", "", NODE_LABEL, make_node(),
            {NODE_LABEL: [("foo1", skip)], NODE_UPDATE: [("foo1", queue)]},
            AFTER_BACKOFF, "foo1:QueueSkip foo1:Queue", id="a general registration is asked too",
        ),
        pytest.param(
            "foo1", "", NODE_UPDATE, make_node(), {NODE_LABEL: [("foo1", never)]},
            SKIP, "", id="a general event is no special one",
        ),
        pytest.param(
            "foo1", "", NODE_ADD, make_node(), {ANYTHING_ADDED: [("foo1", queue)]},
            AFTER_BACKOFF, "foo1:Queue", id="registered for any resource",
        ),
        pytest.param(
            "foo1", "", LABEL_AND_TAINT, make_node(), {ANYTHING: [("foo1", queue)]},
            AFTER_BACKOFF, "foo1:Queue", id="registered for everything",
        ),
        pytest.param(
            "", "", NODE_ADD, make_node(), {NODE_ADD: [("foo1", never)]},
            AFTER_BACKOFF, "", id="nobody has rejected it",
        ),
    ],
)  # fmt: skip
def test_the_hints_of_the_rejector_plugins_decide(
    rejectors: str,
    pending: str,
    event: ClusterEvent,
    new: object,
    hints: Hints,
    expected: QueueingStrategy,
    asked: str,
) -> None:
    """Test_isPodWorthRequeuing."""
    judge = requeueing(hints)
    pod = waiting(POD, *rejectors.split(), pending=pending.split())
    answers: list[HintAnswer] = []
    strategy = judge.is_pod_worth_requeuing(pod, judge.registered_for(event), None, new, answers)
    assert strategy == expected
    assert " ".join(f"{a.plugin_name}:{a.answer}" for a in answers) == asked
    assert sum(counted(judge).values()) == len(answers)


def test_a_pod_of_an_unknown_profile_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    judge = requeueing({NODE_ADD: [("foo1", never)]}, profile="other")
    strategy = judge.is_pod_worth_requeuing(
        waiting(POD, "foo1"), judge.registered_for(NODE_ADD), None, None, []
    )
    assert strategy == AFTER_BACKOFF
    assert "No QueueingHintMap is registered for this profile" in caplog.text


def test_a_failing_hint_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    judge = requeueing({NODE_ADD: [("foo1", fail)]})
    answers: list[HintAnswer] = []
    judge.is_pod_worth_requeuing(
        waiting(POD, "foo1"), judge.registered_for(NODE_ADD), None, None, answers
    )
    assert counted(judge) == {("foo1", "NodeAdd", "Error"): 1}
    assert answers == [HintAnswer("foo1", "NodeAdd", "Error: RuntimeError: unexpected error")]
    assert (
        "QueueingHintFn returns error: event=NodeAdd plugin=foo1 pod=ns1/pod1 err=unexpected error"
        in caplog.text
    )
    assert "RuntimeError" in caplog.text


def test_hints_see_the_pod_and_both_objects() -> None:
    seen: list[object] = []

    def look(pod: PodInfo, old: object, new: object) -> QueueingHint:
        seen.extend((pod, old, new))
        return QueueingHint.QUEUE

    judge = requeueing({NODE_LABEL: [("foo1", look)]})
    pod, old, new = waiting(POD, "foo1"), make_node("n"), make_node("n", labels={"a": "b"})
    judge.is_pod_worth_requeuing(pod, judge.registered_for(NODE_LABEL), old, new, [])
    assert seen == [pod.pod_info, old, new]


@pytest.mark.parametrize(
    ("pending", "events", "expected"),
    [
        pytest.param([], [NODE_LABEL], SKIP, id="none helps"),
        pytest.param([], [NODE_LABEL, NODE_ADD, NODE_LABEL], AFTER_BACKOFF, id="one helps"),
        pytest.param(["bar"], [NODE_ADD, NODE_LABEL], IMMEDIATELY, id="the best counts"),
        pytest.param(["bar"], [NODE_ADD], AFTER_BACKOFF, id="the pending plugin has no say"),
        pytest.param([], [], SKIP, id="nothing has happened"),
    ],
)
def test_the_best_of_the_missed_events_counts(
    pending: list[str], events: list[ClusterEvent], expected: QueueingStrategy
) -> None:
    judge = requeueing({NODE_ADD: [("foo", queue)], NODE_LABEL: [("foo", skip), ("bar", queue)]})
    missed = [InFlightEvent(event, None, None) for event in events]
    assert (
        judge.strategy_after_attempt(waiting(POD, "foo", pending=pending), missed, []) == expected
    )


def test_a_pod_that_was_not_in_flight_backs_off(caplog: pytest.LogCaptureFixture) -> None:
    judge = requeueing({})
    assert judge.strategy_after_attempt(waiting(POD, "foo"), None, []) == AFTER_BACKOFF
    assert "in flight Pod isn't found in the scheduling queue" in caplog.text


class NodePlugin(Plugin):
    events: Iterable[ClusterEventWithHint] = (ClusterEventWithHint(NODE_ADD, skip),)

    def filter(self) -> None: ...

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        return self.events


class PodPlugin(NodePlugin):
    events = (
        ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.ADD), skip),
        ClusterEventWithHint(NODE_LABEL),
    )


class TaintPlugin(NodePlugin):
    events = (
        ClusterEventWithHint(NODE_ADD, skip),
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT), skip),
    )


class AllOfNodePlugin(NodePlugin):
    events = (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ALL), skip),)


class EmptyPlugin(NodePlugin):
    events = ()


class SilentPlugin(Plugin):
    """Names no events."""


class BrokenPlugin(NodePlugin):
    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        raise RuntimeError(f"mock error of {self.name}")


def listed(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Return the hint map as text: the answers of the plugins' hints, by event label."""
    hints = build_queueing_hint_map(map(events_of, plugins))
    pod = PodInfo(POD)
    return {
        event.label: " ".join(f"{name}:{hint(pod, None, None)}" for name, hint, *_ in functions)
        for event, functions in hints.items()
    }


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(
            [SilentPlugin()],
            {e.event.label: "SilentPlugin:Queue" for e in ALL_EVENTS},
            id="a plugin that names no events is registered for all",
        ),
        pytest.param(
            [NodePlugin(), PodPlugin()],
            {
                "NodeAdd": "NodePlugin:QueueSkip",
                "NodeUpdateNodeTaint": "NodePlugin:Queue",
                "PodAdd": "PodPlugin:QueueSkip",
                "NodeUpdateNodeLabel": "PodPlugin:Queue",
            },
            id="NodeAdd registers changes of taints as well; no hint means Queue",
        ),
        pytest.param(
            [TaintPlugin()],
            {"NodeAdd": "TaintPlugin:QueueSkip", "NodeUpdateNodeTaint": "TaintPlugin:QueueSkip"},
            id="unless the plugin registers them itself",
        ),
        pytest.param(
            [AllOfNodePlugin()],
            {"NodeAll": "AllOfNodePlugin:QueueSkip"},
            id="or registers for all changes of nodes",
        ),
        pytest.param([EmptyPlugin()], {}, id="a plugin may name no events at all"),
        pytest.param(
            [EmptyPlugin(), NodePlugin(), TaintPlugin()],
            {
                "NodeAdd": "NodePlugin:QueueSkip TaintPlugin:QueueSkip",
                "NodeUpdateNodeTaint": "NodePlugin:Queue TaintPlugin:QueueSkip",
            },
            id="plugins that share an event",
        ),
    ],
)
def test_the_hint_map_is_built_from_what_plugins_register(
    plugins: list[Plugin], expected: dict[str, str]
) -> None:
    """Test_buildQueueingHintMap."""
    assert listed(plugins) == expected


def test_a_plugin_that_cannot_name_its_events_stops_the_start() -> None:
    """Test_buildQueueingHintMap, "one EventsToRegister returns an error"."""
    text = '^plugin "BrokenPlugin": events_to_register: mock error of BrokenPlugin$'
    with pytest.raises(PluginSetupError, match=text) as caught:
        listed([NodePlugin(), BrokenPlugin()])
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_the_events_of_a_plugin_are_those_of_all_profiles() -> None:
    hints = hint_map({NODE_ADD: [("foo", queue)]}), hint_map({NODE_LABEL: [("foo", queue)]})
    maps = dict(zip(("one", "two"), hints, strict=True))
    judge = QueueingHints(maps, SchedulerMetrics(), generic_workload=False)
    assert judge.events_of == {"foo": (NODE_ADD, NODE_LABEL)}
