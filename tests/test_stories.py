"""Stories of pods: which entries are kept, for how long, and their JSON."""

from typing import Any

import msgspec

from scheduler.queue import HintAnswer, HintsSkipped, Move, Moves, Place
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.stories import (
    Attempted,
    Bound,
    GroupAttempted,
    Nominated,
    PodStories,
    RejectedNodes,
    WaitingOnPermit,
)
from scheduler.testing import make_pod


def queued(name: str = "web", uid: str = "u1") -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name, uid=uid)), timestamp=0.0)


def story_of(stories: PodStories, name: str = "web") -> Any:
    story = stories.as_json("default", name)
    return None if story is None else msgspec.json.decode(story)


def moved(pod: QueuedPodInfo, source: Place, target: Place, event: str = "") -> Moves:
    return Moves([Move(1.5, pod, source, target, event)])


def test_a_move_names_its_event_and_the_hints_that_allowed_it() -> None:
    stories = PodStories()
    hint = HintAnswer("NodeResourcesFit", "AssignedPodDelete", "Queue")
    event = "AssignedPodDelete"
    move = Move(2.5, queued(), Place.UNSCHEDULABLE, Place.BACKOFF, event, (hint,))
    stories.record(Moves([move]))
    [entry] = story_of(stories)["entries"]
    assert entry == {
        "time": 2.5,
        "kind": "moved",
        "text": "unschedulable -> backoff by AssignedPodDelete",
        "from": "unschedulable",
        "to": "backoff",
        "event": "AssignedPodDelete",
        "hints": [{"plugin": "NodeResourcesFit", "event": "AssignedPodDelete", "answer": "Queue"}],
    }


def test_an_event_that_does_not_move_the_pod_is_an_entry() -> None:
    stories = PodStories()
    stories.record(moved(queued(), Place.UNSCHEDULABLE, Place.UNSCHEDULABLE, "NodeAdd"))
    [entry] = story_of(stories)["entries"]
    assert entry["kind"] == "asked"
    assert entry["text"] == "NodeAdd does not help: stays unschedulable"


def test_a_scheduled_attempt_has_the_scores_of_its_node() -> None:
    stories = PodStories()
    scores = (("NodeResourcesFit", 47), ("ImageLocality", 3))
    attempt = Attempted(
        1.0, 2, "scheduled", node="n1", evaluated_nodes=5, feasible_nodes=3, scores=scores
    )
    stories.add(queued().pod_info, attempt)
    [entry] = story_of(stories)["entries"]
    assert entry["text"] == (
        "attempt 2: n1, one of 3 feasible of 5 evaluated nodes, "
        "with the score 50 (NodeResourcesFit 47, ImageLocality 3)"
    )
    assert entry["scores"] == {"NodeResourcesFit": 47, "ImageLocality": 3}
    assert entry["total_score"] == 50


def test_a_failed_attempt_has_the_number_of_nodes_rejected_by_each_plugin() -> None:
    stories = PodStories()
    rejected = RejectedNodes("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), 4)
    message = "0/4 nodes are available: 4 Insufficient cpu."
    attempt = Attempted(1.0, 1, "unschedulable", message=message, rejected=(rejected,))
    stories.add(queued().pod_info, attempt)
    [entry] = story_of(stories)["entries"]
    assert entry["text"] == f"attempt 1: unschedulable: {message}"
    assert entry["verdicts"] == [
        {
            "plugin": "NodeResourcesFit",
            "code": "Unschedulable",
            "reasons": ["Insufficient cpu"],
            "nodes": 4,
        }
    ]


def test_nomination_permit_and_bind_have_their_texts() -> None:
    stories = PodStories()
    for entry in (
        Nominated(1.0, "n1"),
        Nominated(2.0, ""),
        WaitingOnPermit(3.0, "n1", {"Gang": 90.0}),
        Bound(4.0, "n1"),
    ):
        stories.add(queued().pod_info, entry)
    assert [entry["text"] for entry in story_of(stories)["entries"]] == [
        "nominated to n1",
        "nominated to no node",
        "waiting on permit for n1: Gang for 90s",
        "bound to n1",
    ]


def test_a_pod_that_was_created_again_begins_a_new_story() -> None:
    stories = PodStories()
    stories.record(moved(queued(uid="old"), Place.OUTSIDE, Place.ACTIVE, "x"))
    stories.record(moved(queued(uid="new"), Place.OUTSIDE, Place.ACTIVE, "y"))
    story = story_of(stories)
    assert story["uid"] == "new"
    assert [entry["event"] for entry in story["entries"]] == ["y"]


def test_late_entries_of_the_predecessor_are_not_in_the_story() -> None:
    stories = PodStories()
    stories.record(moved(queued(uid="old"), Place.OUTSIDE, Place.ACTIVE, "x"))
    stories.record(moved(queued(uid="new"), Place.OUTSIDE, Place.ACTIVE, "y"))
    stories.add(queued(uid="old").pod_info, Bound(2.0, "n"))
    stories.record(moved(queued(uid="new"), Place.ACTIVE, Place.IN_FLIGHT, "z"))
    story = story_of(stories)
    assert (story["uid"], [entry["event"] for entry in story["entries"]]) == ("new", ["y", "z"])
    assert stories.known() == ["default/web"]


def test_late_entries_of_any_predecessor_are_dropped() -> None:
    stories = PodStories(pods_max=2)
    stories.record(moved(queued(uid="first"), Place.OUTSIDE, Place.ACTIVE, "x"))
    for other in ("a", "b"):  # the story of the first pod is dropped: there are too many
        stories.record(moved(queued(other, other), Place.OUTSIDE, Place.ACTIVE))
    for uid in ("second", "third"):
        stories.record(moved(queued(uid=uid), Place.OUTSIDE, Place.ACTIVE, uid))
    stories.add(queued(uid="second").pod_info, Bound(2.0, "n"))
    stories.add(queued(uid="first").pod_info, Bound(2.0, "n"))
    stories.record(moved(queued(uid="first"), Place.IN_FLIGHT, Place.OUTSIDE))
    stories.record(moved(queued(uid="third"), Place.ACTIVE, Place.IN_FLIGHT, "z"))
    story = story_of(stories)
    assert (story["uid"], [entry["event"] for entry in story["entries"]]) == (
        "third",
        ["third", "z"],
    )


def test_of_many_pods_that_move_at_once_the_last_have_stories() -> None:
    stories = PodStories(pods_max=2)
    stories.record(moved(queued("before", "before"), Place.OUTSIDE, Place.ACTIVE))
    moves = [Move(1.0, queued(n, n), Place.UNSCHEDULABLE, Place.ACTIVE, "NodeAdd") for n in "abc"]
    stories.record(Moves(moves))
    assert stories.known() == ["default/b", "default/c"]


def test_the_longest_untouched_story_goes_first() -> None:
    stories = PodStories(pods_max=2)
    for name in ("a", "b", "a", "c"):
        stories.record(moved(queued(name, name), Place.OUTSIDE, Place.ACTIVE))
    assert stories.known() == ["default/a", "default/c"]
    assert story_of(stories, "b") is None


def test_a_story_too_long_loses_its_oldest_entries_and_counts_them() -> None:
    stories = PodStories(entries_max=2)
    for number in range(5):
        stories.add(queued().pod_info, Bound(float(number), f"n{number}"))
    story = story_of(stories)
    assert story["dropped"] == 3
    assert [entry["node"] for entry in story["entries"]] == ["n3", "n4"]


def test_skipped_hints_of_many_pods_are_in_each_story_while_the_pods_wait() -> None:
    stories = PodStories(entries_max=3)
    pods = {f"default/p{n}": queued(f"p{n}", f"u{n}") for n in range(100)}
    for pod in pods.values():
        failed = moved(pod, Place.IN_FLIGHT, Place.UNSCHEDULABLE, "ScheduleAttemptFailure")
        stories.record(failed)
    known = list(stories.known())
    hint = HintAnswer("Fit", "NodeAdd", "QueueSkip")
    for seconds in (1.0, 2.0, 3.0):
        stories.record(
            Moves(skipped=[HintsSkipped(seconds, pods, Place.UNSCHEDULABLE, "NodeAdd", (hint,))])
        )
    assert stories.known() == known
    entries = story_of(stories, "p7")["entries"]
    # What was before the pod began to wait is not about this wait.
    assert [(entry["time"], entry["kind"]) for entry in entries] == [
        (1.5, "moved"),
        (2.0, "asked"),
    ]
    assert entries[1]["text"] == "2 NodeAdd do not help (Fit): stays unschedulable"
    assert (entries[1]["until"], entries[1]["events"]) == (3.0, {"NodeAdd": 2})
    assert entries[1]["hints"] == [{"plugin": "Fit", "event": "NodeAdd", "answer": "QueueSkip"}]
    stories.record(moved(pods.pop("default/p7"), Place.UNSCHEDULABLE, Place.ACTIVE, "NodeAdd"))
    assert [entry["kind"] for entry in story_of(stories, "p7")["entries"]] == ["moved", "moved"]


def test_events_one_after_another_that_do_not_help_are_one_line() -> None:
    stories, pod = PodStories(), queued()
    for at, event in enumerate(("NodeAdd", "NodeAdd", "PodDelete")):
        hint = HintAnswer("Fit", event, "QueueSkip")
        stays = Move(float(at), pod, Place.UNSCHEDULABLE, Place.UNSCHEDULABLE, event, (hint,))
        stories.record(Moves([stays]))
    stories.record(Moves([Move(3.0, pod, Place.UNSCHEDULABLE, Place.ACTIVE, "NodeUpdate")]))
    stories.record(Moves([Move(4.0, pod, Place.BACKOFF, Place.BACKOFF, "NodeAdd")]))
    assert [entry["text"] for entry in story_of(stories)["entries"]] == [
        "2 NodeAdd, PodDelete do not help (Fit): stays unschedulable",
        "unschedulable -> active by NodeUpdate",
        "NodeAdd does not help: stays backoff",
    ]


def test_equal_reasons_of_a_plugin_are_one_rejection() -> None:
    stories, reasons = PodStories(), ("Insufficient cpu",)
    rejected = (
        RejectedNodes("NodeResourcesFit", "Unschedulable", reasons, 4),
        RejectedNodes("TaintToleration", "UnschedulableAndUnresolvable", ("taint",), 1),
        RejectedNodes("NodeResourcesFit", "UnschedulableAndUnresolvable", reasons, 3),
    )
    stories.add(queued().pod_info, Attempted(1.0, 1, "unschedulable", rejected=rejected))
    [entry] = story_of(stories)["entries"]
    assert [(v["plugin"], v["nodes"], v["code"]) for v in entry["verdicts"]] == [
        ("NodeResourcesFit", 7, "Unschedulable, UnschedulableAndUnresolvable"),
        ("TaintToleration", 1, "UnschedulableAndUnresolvable"),
    ]


def test_skipped_hints_of_few_pods_are_kept_in_their_own_stories() -> None:
    stories = PodStories()
    pods = {"default/a": queued("a", "ua"), "default/b": queued("b", "ub")}
    stories.record(Moves(skipped=[HintsSkipped(1.0, pods, Place.UNSCHEDULABLE, "NodeAdd", ())]))
    assert [story_of(stories, name)["entries"][0]["kind"] for name in "ab"] == ["asked", "asked"]


def test_the_latest_pods_are_listed_with_their_outcomes() -> None:
    stories = PodStories()
    for name in ("first", "second", "third"):
        stories.record(moved(queued(name, name), Place.OUTSIDE, Place.ACTIVE))
    first = queued("first", "first")
    stories.add(first.pod_info, Attempted(2.0, 1, "unschedulable", message="no room"))
    stories.record(moved(first, Place.ACTIVE, Place.UNSCHEDULABLE))
    stories.add(queued("second", "second").pod_info, Bound(3.0, "n1"))
    assert list(stories.latest(2)) == [
        ("default/second", "bound", "bound to n1", "bound"),
        ("default/first", "unschedulable", "attempt 1: unschedulable: no room", "no room"),
    ]
    assert list(stories.latest(9))[2] == ("default/third", "moved", "outside -> active", "moved")


def test_a_group_has_a_story_until_another_of_its_name_is_scheduled() -> None:
    stories = PodStories(entries_max=2)
    nodes = {"default/a": "n1", "default/b": ""}
    for time in (1.0, 2.0, 3.0):
        stories.add_to_group(
            "default/gang", "u1", GroupAttempted(time, "unschedulable", "no room", nodes, "zone-a")
        )
    story = msgspec.json.decode(stories.group_as_json("default", "gang") or b"")
    assert (story["name"], story["dropped"], len(story["entries"])) == ("gang", 1, 2)
    assert story["entries"][0]["text"] == (
        "attempt: unschedulable: 1 of 2 members fit in zone-a: no room"
    )
    stories.add_to_group("default/gang", "u2", GroupAttempted(4.0, "scheduled", "", nodes))
    story = msgspec.json.decode(stories.group_as_json("default", "gang") or b"")
    assert [entry["result"] for entry in story["entries"]] == ["scheduled"]
    assert stories.group_as_json("default", "web") is None
