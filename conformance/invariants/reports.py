"""Invariants of the conditions of bound pods, and of the deletions of victims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ..format.reading import name_in, name_of, node_of
from ..format.resources import objects, part
from .violation import Violation, invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..api import Json
    from ..run.observation import PodRecord
    from .history import History


@invariant("pkg/scheduler handleSchedulingFailure: a pod that is assigned is not reported")
def bound_pods_reported_as_scheduled(history: History) -> Iterator[Violation]:
    """A pod that the scheduler has bound is not shown as `PodScheduled=False` at the end."""
    bound = {pod.uid for pod in history.observation.placements}
    for uid, pod in history.end.pods.items():
        conditions = objects(part(pod, "status").get("conditions"))
        if uid in bound and {"PodScheduled": "False"} in [
            {str(entry.get("type")): entry.get("status")} for entry in conditions
        ]:
            text = f"pod {name_of(pod)} is bound to {node_of(pod)}, and shown as not scheduled"
            condition = {"type": "PodScheduled", "status": "True"}
            yield Violation(
                text=text, step="", expect={"pod": name_of(pod), "condition": condition}
            )


@invariant("pkg/scheduler bindingCycle, handleSchedulingFailure, PreemptPod: events")
def events_agree(history: History) -> Iterator[Violation]:
    """Each event Scheduled, FailedScheduling and Preempted agrees with the state of its pod.

    A scheduler that writes no event of a kind is not judged by that kind.
    """
    observation = history.observation
    told: dict[str, dict[str, str]] = {}
    for event in observation.events:
        uid = str(part(event, "regarding").get("uid"))
        told.setdefault(str(event.get("reason")), {})[uid] = str(event.get("note"))
    if any(
        write.status >= 300 and write.path.partition("?")[0].endswith("/binding")
        for write in observation.writes or ()
    ):
        # A refused binding may have been done.
        told.pop("Scheduled", None)
    for pod in observation.pods:
        name = name_of(pod.object)
        for reason, notes in told.items():
            text = _WRONG[reason](pod, notes.get(pod.uid)) if reason in _WRONG else ""
            if text:
                what = "no_event" if pod.uid in notes else "event"
                expect: Json = {"pod": name, what: {"reason": reason}}
                yield Violation(text=f"pod {name} {text}", step="", expect=expect)


def _wrong_binding(pod: PodRecord, note: str | None) -> str:
    """Return the fault of an event Scheduled, or of its absence; empty if there is none."""
    if note is None:
        return "is bound, and has no event Scheduled" if pod.by_scheduler and pod.node else ""
    is_told = bool(pod.node) and note.endswith(f" to {pod.node}")
    return "" if is_told else f"has the event {note!r}, and is on {pod.node or 'no node'}"


def _wrong_preemption(pod: PodRecord, note: str | None) -> str:
    is_gone = pod.deleted_seconds is not None or pod.preempted_seconds is not None
    # A victim that is being bound goes back to the queue.
    return "has the event Preempted, and stays" if note and pod.node and not is_gone else ""


def _wrong_failure(pod: PodRecord, note: str | None) -> str:
    is_reported = any(one.reason == "Unschedulable" for one in pod.rejections)
    missing = note is None and is_reported
    return "is reported as unschedulable, and has no event FailedScheduling" if missing else ""


_WRONG: Final = {
    "Scheduled": _wrong_binding,
    "Preempted": _wrong_preemption,
    "FailedScheduling": _wrong_failure,
}


@invariant("pkg/scheduler/framework/preemption: a victim that is terminating is not deleted again")
def victims_asked_once(history: History) -> Iterator[Violation]:
    """The scheduler deletes each pod at most once, a victim that ends slowly too."""
    asked = Counter(
        write.path.partition("?")[0]
        for write in history.observation.writes or ()
        if write.method == "DELETE" and write.status < 300 and "/pods/" in write.path
    )
    made = Counter(pod.key for pod in history.observation.pods)
    for path, count in asked.items():
        _, _, _, _, namespace, _, name = path.split("/")
        if count > made[f"{namespace}/{name}"]:
            shown = name_in(namespace, name)
            text = f"pod {shown} was deleted {count} times by the scheduler"
            yield Violation(text=text, step="", expect={"pod": shown, "deleted": True})
