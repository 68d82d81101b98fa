"""Invariants of the conditions of bound pods, and of the deletions of victims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..format.resources import objects, part
from .state import name_of, node_of
from .violation import Violation, invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            shown = name if namespace == "default" else f"{namespace}/{name}"
            text = f"pod {shown} was deleted {count} times by the scheduler"
            yield Violation(text=text, step="", expect={"pod": shown, "deleted": True})
