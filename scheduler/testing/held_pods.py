"""Check the pods that a plugin holds at Permit: something must allow them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from scheduler.framework.status import Status
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing.object_changes import object_changes
from scheduler.testing.virtual_clock import run_on_clock

if TYPE_CHECKING:
    from scheduler.testing.trial import Trial

#: Turns of the event loop after which the outcome of an allowed pod is known.
_TURNS: Final = 3


def check_held_pods(trial: Trial) -> None:
    """Schedule all pods of the cluster, one after another, and note if a held one is allowed.

    Each pod that Permit accepts or holds keeps its node, so that the plugin sees all of them. Then
    the objects change, for plugins that wait for them by `handle.on_change`.
    """
    if hasattr(trial.plugin, "permit"):
        run_on_clock(_schedule_all(trial), trial.handle.clock)


async def _schedule_all(trial: Trial) -> None:
    held = [
        asyncio.create_task(trial.handle.waiting_pods.wait_on_permit(pod.uid))
        for pod in map(PodInfo, trial.cluster.incoming)
        if _is_held(trial, pod)
    ]
    for kind, items in trial.objects.items():
        for obj, changed, _ in object_changes(items):
            trial.handle.change(kind, obj, changed)
            trial.handle.change(kind, changed, obj)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    for task in held:
        trial.seen.has_held_a_pod = True
        trial.seen.has_allowed_a_pod |= task.done() and task.result() is None
        task.cancel()
    for work in trial.handle.spawned:
        work.close()
    trial.handle.spawned.clear()


def _is_held(trial: Trial, pod: PodInfo) -> bool:
    """Run a pod up to Permit; return True if the plugin holds it there."""
    row = trial.results(pod).first_feasible()
    if row is None:
        return False
    assumed = pod.assigned_to(trial.node_name(row))
    for point in ("reserve", "permit"):
        answer = trial.call(point, trial.state, assumed, assumed.pod.spec.node_name)
        if not isinstance(answer, Status):
            continue
        if point == "permit" and answer.is_wait:
            trial.assume(assumed)
            trial.handle.waiting_pods.add(assumed, {trial.name: answer.timeout_seconds})
            return True
        trial.call("unreserve", trial.state, assumed, assumed.pod.spec.node_name)
        return False
    trial.assume(assumed)
    return False
