"""Pods that back off, beyond upstream's tables (`tests/upstream/test_scheduling_queue.py`)."""

import itertools
import math

import pytest
from msgspec.structs import replace

from scheduler.api.core import PodSchedulingGroup
from scheduler.framework.events import EVENT_UNSCHEDULABLE_TIMEOUT
from scheduler.queue import QueuedPodInfo
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.queued_pod_info import POPPABLE, WAITING, CountedReasons, Place
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import START, World, sort_key, waiting


def backoff_queue(
    initial: float = 1.0, max_seconds: float = 10.0, *, pops_early: bool = True
) -> BackoffQueue:
    return BackoffQueue(
        initial_backoff_seconds=initial,
        max_backoff_seconds=max_seconds,
        sort_key=sort_key,
        pops_early=pops_early,
    )


def pod_that(
    name: str = "p",
    *,
    came: float = 0.0,
    unschedulable: int = 0,
    errors: int = 0,
    expires: float = 0.0,
    priority: int = 0,
) -> QueuedPodInfo:
    """Return a pod that was given back `came` seconds after the start, after so many failures."""
    rejectors = () if errors else ("plugin",)
    info = waiting(make_pod(name, priority=priority), *rejectors, timestamp=START + came)
    info.unschedulable_count = unschedulable
    info.consecutive_errors_count = errors
    info.backoff_expiration = expires
    return info


@pytest.mark.parametrize(
    ("pops_early", "order"),
    [
        (True, ["pod5", "pod4", "pod2", "pod3"]),
        pytest.param(False, ["pod5", "pod3", "pod4", "pod2"], id="SchedulerPopFromBackoffQ=false"),
    ],
)
def test_pods_of_one_window_leave_in_the_order_of_active_q(
    order: list[str], *, pops_early: bool
) -> None:
    """TestBackoffQueueOrdering."""
    queue = backoff_queue(pops_early=pops_early)
    for name, priority, came in (
        ("pod0", 1, 0),
        ("pod1", 1, -1),
        ("pod2", 2, -2 + 0.001),
        ("pod3", 1, -2),
        ("pod4", 2, -2),
        ("pod5", 1, -3),
    ):
        pod = pod_that(name, came=came, unschedulable=1, priority=priority)
        queue.add(pod)
    popped = queue.pop_backoff_completed(START, pods_max=9)
    assert [pod.pod_info.name for pod in popped] == order


@pytest.mark.parametrize(
    ("after_seconds", "backs_off"), [(0.0, True), (1.0, True), (1.99, True), (2.0, False)]
)
def test_a_pod_backs_off_until_the_window_of_its_end_is_over(
    after_seconds: float, backs_off: bool
) -> None:
    pod = pod_that(came=0.25, unschedulable=1)
    assert backoff_queue().is_pod_backing_off(pod, START + after_seconds) is backs_off


def test_only_rejected_pods_are_popped_early() -> None:
    queue = backoff_queue()
    rejected = pod_that("rejected", came=5, unschedulable=4)
    broken = pod_that("broken", errors=1)
    for pod in (broken, rejected):
        queue.add(pod)
    assert queue.pop() is rejected
    assert queue.pop() is None
    assert list(queue) == [broken]


@pytest.mark.parametrize("errors", [0, 1])
def test_a_pod_can_be_found_and_deleted(errors: int) -> None:
    queue = backoff_queue()
    pod = pod_that("p", unschedulable=1, errors=errors)
    queue.add(pod)
    assert queue.get(pod.key) is pod
    assert queue.delete(pod.key) is pod
    assert queue.delete(pod.key) is None
    assert queue.get(pod.key) is None


def test_the_deadline_is_the_first_window_in_which_a_pod_is_released() -> None:
    queue = backoff_queue()
    assert queue.next_deadline() is None
    late, soon = pod_that("late", came=0.7, unschedulable=3), pod_that("soon", came=0.4, errors=1)
    for pod in (late, soon):
        queue.add(pod)
    for pod in (soon, late):
        deadline = queue.next_deadline()
        assert deadline is not None
        assert queue.pop_backoff_completed(math.nextafter(deadline, 0), pods_max=9) == []
        assert queue.pop_backoff_completed(deadline, pods_max=9) == [pod]


@pytest.mark.parametrize(
    ("rejectors", "complaint"),
    [((), "no plugin rejected it"), (("plugin",), "plugins have rejected it")],
)
def test_a_pod_in_the_wrong_heap_is_complained_about(
    rejectors: tuple[str, ...], complaint: str
) -> None:
    queue = backoff_queue()
    pod = pod_that(errors=1 if rejectors else 0)
    queue.add(pod)
    assert list(queue.complaints()) == []
    pod.unschedulable_plugins = set(rejectors)
    assert complaint in "".join(queue.complaints())


def member_that(name: str, *, unschedulable: int) -> QueuedPodInfo:
    """Return a pod of a pod group, as `pod_that` returns one of none."""
    member = pod_that(name, unschedulable=unschedulable)
    spec = replace(member.pod_info.spec, scheduling_group=PodSchedulingGroup("gang"))
    member.pod_info = PodInfo(replace(member.pod_info.pod, spec=spec))
    return member


def test_members_of_pod_groups_can_be_left_until_their_backoff_ends() -> None:
    queue = backoff_queue()
    member = member_that("member", unschedulable=1)
    single = pod_that("single", unschedulable=3)
    queue.add(member)
    queue.add(single)
    assert queue.pop(leaves_members=True) is single
    assert queue.pop(leaves_members=True) is None
    assert list(queue.complaints()) == []
    assert queue.pop() is member


class Counting(int):
    """A number of a sort key; counts the comparisons of all such numbers."""

    comparisons = 0

    def __lt__(self, other: int) -> bool:
        Counting.comparisons += 1
        return int(self) < int(other)


def test_pods_are_popped_past_a_member_without_sorting_all() -> None:
    numbers = itertools.count()
    queue = BackoffQueue(
        initial_backoff_seconds=1.0,
        max_backoff_seconds=10.0,
        sort_key=lambda _: (Counting(next(numbers)),),
    )
    queue.add(member_that("member", unschedulable=1))
    for index in range(500):
        queue.add(pod_that(f"pod-{index}", unschedulable=1))
    Counting.comparisons = 0
    assert all(queue.pop(leaves_members=True) is not None for _ in range(500))
    assert queue.pop(leaves_members=True) is None
    assert Counting.comparisons < 500 * 2 * math.log2(500)


@pytest.mark.parametrize(("places", "left"), [(WAITING, 1), ((*WAITING, *POPPABLE), 0)])
def test_since_1_37_a_pod_that_is_deleted_while_it_backs_off_counts_no_more(
    places: tuple[Place, ...], left: int
) -> None:
    world, pod = World(counted_reasons=CountedReasons(places)), make_pod("p")
    world.try_in_vain(pod, "Fit")
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    assert world.place_of(pod) == "backoff"
    world.delete(pod)
    assert world.queue.unschedulable_reasons.total() == left
