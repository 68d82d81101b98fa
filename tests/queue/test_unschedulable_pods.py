"""Pods that wait for an event, and those that an event concerns."""

from scheduler.framework.events import EVENT_UNSCHEDULABLE_TIMEOUT, ClusterEvent
from scheduler.queue import QueuedPodInfo
from scheduler.queue.hints import QueueingHintFunction, RegisteredHints
from scheduler.queue.unschedulable_pods import UnschedulablePods
from scheduler.testing import make_pod
from tests.queue.world import NODE_ADD, PROFILE, START, queue, waiting


def pod(number: int, *, gated: bool = False) -> QueuedPodInfo:
    info = waiting(make_pod(f"p{number}"), *(["test"] if gated else []))
    info.gating_plugin = "test" if gated else ""
    return info


def _rejectors_of(info: QueuedPodInfo) -> frozenset[tuple[str, str]]:
    profile = info.pod_info.spec.scheduler_name
    if profile == "unknown":
        return frozenset()
    return frozenset((profile, plugin) for plugin in info.rejector_plugins)


def filed(*infos: QueuedPodInfo) -> UnschedulablePods:
    pods = UnschedulablePods(_rejectors_of, lambda info: info.uid)
    for info in infos:
        pods.add(info)
    return pods


def test_a_pod_that_changed_on_its_own_is_still_found_in_all_files() -> None:
    info = waiting(make_pod("p"), "A", "B")
    pods = filed(info)
    info.unschedulable_plugins = {"C"}
    info.gating_plugin = "C"
    assert len(list(pods.complaints())) == 5
    pods.add(info)
    assert list(pods.complaints()) == []
    info.pending_plugins = {"D"}
    assert pods.delete(info.key) is info
    assert pods._by_rejector == {}
    assert pods.gated_total == 0


def registered(event: ClusterEvent, *rejectors: tuple[str, str]) -> RegisteredHints:
    hints: dict[str, list[QueueingHintFunction]] = {}
    for profile, plugin in rejectors:
        hints.setdefault(profile, []).append(QueueingHintFunction(plugin, queue))
    return RegisteredHints(event, hints)


def concerned(pods: UnschedulablePods, event: RegisteredHints) -> list[str]:
    """The names of the pods that an event may move, in the order in which they came."""
    keys = {key for group in pods.groups_for(event) for key in group}
    return [info.pod_info.name for info in pods if info.key in keys]


def test_an_event_concerns_the_pods_of_plugins_that_registered_for_it() -> None:
    pods = filed(
        waiting(make_pod("both"), "A", "B"),
        waiting(make_pod("b"), "B"),
        waiting(make_pod("pending-a"), pending=["A"]),
        waiting(make_pod("other-profile", scheduler_name="other"), "A"),
        waiting(make_pod("c"), "C"),
    )
    assert concerned(pods, registered(NODE_ADD, (PROFILE, "A"))) == ["both", "pending-a"]
    assert concerned(pods, registered(NODE_ADD, (PROFILE, "B"), (PROFILE, "A"))) == [
        "both",
        "b",
        "pending-a",
    ]
    assert concerned(pods, registered(NODE_ADD, ("other", "A"))) == ["other-profile"]
    assert pods.groups_for(registered(NODE_ADD, (PROFILE, "D"))) == []
    assert len(pods.groups_for(registered(EVENT_UNSCHEDULABLE_TIMEOUT))) == 5


def test_any_event_concerns_pods_without_rejectors_or_with_an_unknown_profile() -> None:
    pods = filed(
        waiting(make_pod("stray", scheduler_name="unknown"), "A"),
        waiting(make_pod("nobody")),
        waiting(make_pod("a"), "A"),
    )
    assert concerned(pods, registered(NODE_ADD, (PROFILE, "B"))) == ["stray", "nobody"]


def test_pods_added_again_keep_their_order() -> None:
    first, second = waiting(make_pod("first"), "A"), waiting(make_pod("second"), "A")
    pods = filed(first, second)
    assert not pods.add(first)
    assert concerned(pods, registered(NODE_ADD, (PROFILE, "A"))) == ["first", "second"]


def test_pods_taken_together_come_in_the_order_of_arrival() -> None:
    infos = [waiting(make_pod(name), plugin) for name, plugin in zip("abcd", "ABAB", strict=True)]
    pods = filed(*infos)
    assert [
        info.pod_info.name for info in pods.take(pods.arrivals(["default/d", "default/a"]))
    ] == ["a", "d"]
    assert pods.in_order() == infos[1:3]
    assert concerned(pods, registered(NODE_ADD, (PROFILE, "B"))) == ["b"]
    assert list(pods.complaints()) == []


def test_only_whole_groups_of_alike_pods_are_given_together() -> None:
    infos = [waiting(make_pod(name), plugin) for name, plugin in zip("abcd", "ABAB", strict=True)]
    pods = UnschedulablePods(_rejectors_of, lambda info: tuple(info.rejector_plugins))
    for info in infos:
        pods.add(info)
    given = [sorted(pod.pod_info.name for pod in g.values()) for g in pods.in_groups(infos)]
    assert given == [["a", "c"], ["b", "d"]]
    given = [sorted(pod.pod_info.name for pod in g.values()) for g in pods.in_groups(infos[:3])]
    assert given == [["a", "c"], ["b"]]


def test_overdue_pods_are_named_the_longest_waiting_first() -> None:
    late = waiting(make_pod("late"), "A", timestamp=START + 1)
    early = waiting(make_pod("early"), "A", timestamp=START)
    gated = pod(0, gated=True)
    gated.timestamp = START + 9
    pods = filed(late, early, gated)
    assert pods.oldest_timestamp == early.timestamp
    assert pods.overdue(START + 30, 30) == []
    assert pods.overdue(START + 30.5, 30) == [early]
    assert pods.overdue(START + 99, 30) == [early, late, gated]
    pods.delete(early.key)
    assert pods.oldest_timestamp == late.timestamp
    assert filed().oldest_timestamp is None
    assert filed().overdue(START, 0) == []
