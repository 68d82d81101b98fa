"""Hints run once for each kind of waiting pods, not once for each pod."""

import functools
from collections.abc import Callable

from scheduler.api.core import Pod
from scheduler.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.framework.status import Status, unschedulable
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import HintAnswer, Move, Moves, Nominator, Place, PriorityQueue
from scheduler.queue.hints import QueueingHintFunction
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.pools import pods_of
from tests.queue.world import NODE_ADD, NODE_LABEL, PROFILE, START, less, sort_key, waiting

POD_ADD = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
#: As events have it: a pod with a node.
ASSIGNED_POD_LABEL = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL)


class _AlikePods:
    """A queue with a plugin whose hint depends on the label `app`, and the moves it returns."""

    def __init__(self, answer: Callable[[PodInfo], QueueingHint], *, shares: bool = True) -> None:
        self.asked: list[str] = []
        self.moves: list[Move] = []
        self.stays: list[tuple[int, tuple[HintAnswer, ...]]] = []
        self._answer = answer
        function = QueueingHintFunction("Fit", self._hint, _app_of if shares else None)
        self.queue = PriorityQueue(
            less,
            sort_key=sort_key,
            pre_enqueue_plugins={},
            queueing_hint_map={
                PROFILE: {NODE_ADD: [function], NODE_LABEL: [function], POD_LABEL: [function]}
            },
            nominator=Nominator(lambda namespace, name: None),
            metrics=SchedulerMetrics(),
        )

    def waits(self, *pods: Pod) -> None:
        for pod in pods:
            info = waiting(pod, "Fit")
            self.queue.unschedulable_pods.add(info)
        self.queue.check()

    def event(self, event: ClusterEvent, old: object = None, new: object = None) -> list[str]:
        """Move pods on an event; return the pods that the hint ran for."""
        self.asked.clear()
        self.moves.clear()
        self.stays.clear()
        move_all = self.queue.move_all_to_active_or_backoff_queue
        self._take(move_all(event, old, new, START + 60))
        self.queue.check()
        return list(self.asked)

    def _take(self, moves: Moves) -> None:
        for skipped in moves.skipped:
            if len(skipped.pods) > 1:
                self.stays.append((len(skipped.pods), skipped.hints))
            self.moves.extend(skipped.moves())
        self.moves.extend(moves.moved)

    def _hint(self, pod: PodInfo, old: object, new: object) -> QueueingHint:
        self.asked.append(pod.name)
        return self._answer(pod)


def _app_of(pod: PodInfo) -> str | None:
    return pod.labels.get("app")


def _queue_if(app: str, pod: PodInfo) -> QueueingHint:
    return QueueingHint(pod.labels.get("app") == app)


def _pod(name: str, app: str) -> Pod:
    return make_pod(name, labels={"app": app})


def _all_fail(pod: PodInfo) -> QueueingHint:
    raise ValueError(pod.name)


def test_the_hint_runs_once_for_each_kind_and_moves_all_pods_of_the_kind_in_order() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    alike.waits(_pod("a", "web"), _pod("b", "db"), _pod("c", "web"), _pod("d", "db"))
    assert alike.event(NODE_ADD) == ["a", "b"]
    assert [pod.metadata.name for pod in pods_of(alike.queue.active_q.in_order())] == ["a", "c"]
    moved = [move for move in alike.moves if move.source != move.target]
    assert [(m.pod.pod_info.name, m.target, m.hints) for m in moved] == [
        (name, Place.ACTIVE, (HintAnswer("Fit", "NodeAdd", "Queue"),)) for name in ("a", "c")
    ]


def test_pods_that_stay_are_returned_as_one_group_and_as_single_moves() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    alike.waits(_pod("a", "db"), _pod("b", "db"), _pod("c", "cache"))
    assert alike.event(NODE_ADD) == ["a", "c"]
    skipped = (HintAnswer("Fit", "NodeAdd", "QueueSkip"),)
    assert alike.stays == [(2, skipped)]
    assert [(m.pod.pod_info.name, m.source, m.target, m.hints) for m in alike.moves] == [
        (name, Place.UNSCHEDULABLE, Place.UNSCHEDULABLE, skipped) for name in ("a", "b", "c")
    ]


def test_a_pod_between_pods_of_another_kind_keeps_its_place() -> None:
    alike = _AlikePods(lambda pod: QueueingHint.QUEUE)
    alike.waits(_pod("a", "web"), _pod("b", "db"), _pod("c", "web"), _pod("d", "cache"))
    alike.event(NODE_ADD)
    assert [pod.metadata.name for pod in pods_of(alike.queue.active_q.in_order())] == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_the_hint_runs_for_the_pod_that_the_event_is_about_and_once_for_the_others() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    pods = [_pod(name, "db") for name in "abc"]
    alike.waits(*pods)
    assert alike.event(ASSIGNED_POD_LABEL, pods[1], pods[1]) == ["b", "a"]
    assert alike.event(ASSIGNED_POD_LABEL, _pod("x", "db"), _pod("x", "web")) == ["a"]


def test_a_hint_that_fails_runs_for_each_pod() -> None:
    alike = _AlikePods(_all_fail)
    alike.waits(_pod("a", "web"), _pod("b", "web"), _pod("c", "web"))
    assert alike.event(NODE_ADD) == ["a", "b", "c"]
    assert len(pods_of(alike.queue.active_q.in_order())) == 3


def test_a_hint_that_does_not_declare_what_it_depends_on_runs_for_each_pod() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"), shares=False)
    alike.waits(_pod("a", "db"), _pod("b", "db"))
    assert alike.event(NODE_ADD) == ["a", "b"]
    assert alike.stays == []


def test_a_pod_that_changes_is_no_longer_like_the_others() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    old = _pod("b", "db")
    alike.waits(_pod("a", "db"), old)
    alike.queue.update(old, PodInfo(make_pod("b", labels={"app": "cache"})), START)
    alike.queue.check()
    assert alike.event(NODE_ADD) == ["a", "b"]


def test_different_rejectors_make_different_pods() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    alike.waits(_pod("a", "db"))
    info = waiting(_pod("b", "db"), "Fit", "Other")
    alike.queue.unschedulable_pods.add(info)
    assert alike.event(NODE_ADD) == ["a", "b"]


def test_a_group_that_is_left_by_all_is_forgotten() -> None:
    alike = _AlikePods(functools.partial(_queue_if, "web"))
    pods = [_pod("a", "db"), _pod("b", "db")]
    alike.waits(*pods)
    for pod in pods:
        alike.queue.delete(pod, START)
    alike.queue.check()
    assert alike.event(NODE_ADD) == []


def test_the_hint_runs_only_for_pods_that_pass_the_check() -> None:
    alike = _AlikePods(lambda pod: QueueingHint.QUEUE)
    alike.waits(_pod("a", "db"), _pod("b", "db"), _pod("c", "web"))
    alike.queue.move_all_to_active_or_backoff_queue(
        NODE_ADD, None, None, START, pre_check=lambda info: info.pod_info.name != "a"
    )
    assert alike.asked == ["b", "c"]


class _Gang:
    """A plugin that gates all pods of an app alike, until the app is complete."""

    name = "Gang"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.complete: set[str | None] = set()
        function = QueueingHintFunction(
            self.name, lambda pod, old, new: QueueingHint.QUEUE, _app_of
        )
        self.queue = PriorityQueue(
            less,
            sort_key=sort_key,
            pre_enqueue_plugins={PROFILE: [self]},
            queueing_hint_map={PROFILE: {POD_ADD: [function]}},
            nominator=Nominator(lambda namespace, name: None),
            metrics=SchedulerMetrics(),
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.name)
        return None if _app_of(pod) in self.complete else unschedulable("incomplete")

    def pre_enqueue_depends_on(self, pod: PodInfo) -> str | None:
        return _app_of(pod)

    def arrives(self, *pods: Pod) -> Moves:
        """Add pods; return the moves after the event of the last one."""
        for pod in pods:
            self.queue.add(PodInfo(pod), START)
        self.asked.clear()
        moves = self.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, pods[-1], START)
        self.queue.check()
        return moves


def test_pre_enqueue_runs_once_after_an_event_for_pods_that_are_gated_alike() -> None:
    gang = _Gang()
    moves = gang.arrives(*(_pod(name, "web") for name in "abc"), _pod("x", "db"), _pod("d", "web"))
    assert gang.asked == ["d", "x"]
    assert not moves.moved
    assert sorted(key for stay in moves.skipped for key in stay.pods) == [
        f"default/{name}" for name in "abcdx"
    ]
    # Each arrived twice: as a new pod, and after the event.
    assert gang.queue.incoming_pods == {(Place.UNSCHEDULABLE, POD_ADD.label): 10}
    assert gang.queue.statistics().gated == 5


def test_an_event_that_opens_the_gate_moves_all_in_the_order_of_arrival() -> None:
    gang = _Gang()
    gang.arrives(_pod("a", "web"), _pod("x", "db"), _pod("b", "web"))
    gang.complete.add("web")
    moves = gang.arrives(_pod("y", "db"))
    assert [(move.pod.pod_info.name, move.target) for move in moves.moved] == [
        ("a", Place.ACTIVE),
        ("b", Place.ACTIVE),
    ]
    assert gang.queue.statistics().gated == 2
