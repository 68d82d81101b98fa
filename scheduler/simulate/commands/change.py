"""`kubesched-simulate change`: the pods that another configuration decides otherwise."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import numpy as np
from msgspec.structs import replace

from scheduler.cycle.schedule_one import Found
from scheduler.explain.source import settings
from scheduler.framework.cycle_state import CycleState
from scheduler.reports.build import cluster_without, owner_of
from scheduler.reports.comparison import AGREEMENTS, compare, compare_found
from scheduler.reports.decision import Decision, decide
from scheduler.simulate.answers import Answer, ChangedPod, Changes
from scheduler.simulate.question import question
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.queue import QueuedPodInfo
    from scheduler.reports.model import Comparison
    from scheduler.simulate.simulation import Simulation, Situation

_ALL_NODES: Final = 100
#: The owners whose pods may run on one node only.
_PINNED: Final = frozenset({"DaemonSet", "Node"})


@question
@click.option(
    "--present",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The present configuration, by default kube-scheduler's.",
)
async def command(situation: Situation, *, present: Path | None) -> Answer:
    """Show which pods another configuration decides otherwise.

    --config and --plugin are compared with --present; both compare all nodes. A running pod is
    decided again in the cluster without this pod. Pods of DaemonSets are left out.
    """
    config = settings(present, version=situation.version, gates=situation.feature_gates)
    config = replace(config, extenders=())
    return await change(dataclasses.replace(situation, config=config, plugins=()), situation)


async def change(old: Situation, new: Situation) -> Answer:
    """Decide all pods with both schedulers, and compare."""
    old, new = _over_all_nodes(old), _over_all_nodes(new)
    async with (
        old.simulation(settles=False) as before,
        new.simulation(settles=False) as after,
    ):
        running, ties = [], 0
        pods_and_owners = ((pod, pod.metadata.controller) for pod in after.cluster.pods)
        compared = [pod for pod, owner in pods_and_owners if not owner or owner.kind not in _PINNED]
        for pod in sorted(compared, key=lambda pod: pod.key):
            if pod.spec.node_name:
                found, is_tie = await _compared(before, after, pod)
                running += [] if found is None else [found]
                ties += is_tie
        waiting = await _compared_waiting(before, after)
    pods = (*waiting, *running)
    return Answer(
        question="change",
        summary=f"{len(pods):,} of {len(compared):,} pods would be decided otherwise; {ties:,} "
        "are decided by chance among equal nodes",
        warnings=new.warnings(compared),
        changes=Changes(compared=len(compared), ties=ties, pods=pods),
    )


def _over_all_nodes(situation: Situation) -> Situation:
    profiles = tuple(
        replace(profile, percentage_of_nodes_to_score=None) for profile in situation.config.profiles
    )
    config = replace(situation.config, percentage_of_nodes_to_score=_ALL_NODES, profiles=profiles)
    return dataclasses.replace(situation, config=config)


class _Choice(NamedTuple):
    """The decision on a pod, the chosen node, and all nodes with the highest total."""

    decision: Decision
    node: str = ""
    best: frozenset[str] = frozenset()


async def _decided(simulation: Simulation, pod: Pod) -> _Choice:
    """Decide a running pod in the cluster without this pod."""
    core = simulation.cluster.core
    framework = core.profiles.get(pod.spec.scheduler_name)
    core.cache.update_snapshot(core.snapshot)
    if framework is None:
        return _Choice(Decision(PodInfo(pod), "ignored", message="no profile has this name"))
    with cluster_without(PodInfo(pod), core.snapshot, pods=core.informers.pods.lister) as waiting:
        decision = await decide(core.snapshot, framework, CycleState(), waiting)
    result = decision.schedule_result
    if result is None:
        return _Choice(decision)
    best = frozenset({result.suggested_host})
    if result.scores is not None:
        total, names = result.scores.total, result.feasible_nodes.names
        best = frozenset(names[position] for position in np.flatnonzero(total == total.max()))
    return _Choice(decision, result.suggested_host, best)


async def _compared(
    before: Simulation, after: Simulation, pod: Pod
) -> tuple[ChangedPod | None, bool]:
    """Return what has changed for a running pod, and True if both choose by chance."""
    old, new = await _decided(before, pod), await _decided(after, pod)
    if old.best & new.best or old.node == new.node:
        return None, len(old.best | new.best) > 1
    snapshot, now = after.cluster.core.snapshot, after.cluster.clock.now()
    found = compare(new.decision, snapshot, node=old.node, their_message="", now=now)
    return _changed(pod, old.node, new.node, found), False


async def _compared_waiting(before: Simulation, after: Simulation) -> list[ChangedPod]:
    """Return the waiting pods that end elsewhere once both schedulers have decided all of them."""
    waiting = {pod.metadata.uid: pod for pod in after.cluster.pods if not pod.spec.node_name}
    await before.cluster.settle()
    nodes = {pod.metadata.uid: pod.spec.node_name for pod in before.cluster.pods}
    reasons = {pod.pod: pod.reason for pod in before.course.waiting()}
    comparisons: dict[str, Comparison] = {}

    def compare_now(queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        pod, cluster = queued.pod_info, after.cluster
        if isinstance(found, Found) and pod.uid in waiting and nodes.get(pod.uid):
            comparisons[pod.uid] = compare_found(
                found, pod, cluster.core.snapshot, node=nodes[pod.uid], now=cluster.clock.now()
            )

    after.cluster.on_cycle = compare_now
    await after.cluster.settle()
    changed = []
    for pod in sorted(after.cluster.pods, key=lambda pod: pod.key):
        uid, node = pod.metadata.uid, pod.spec.node_name
        found = comparisons.get(uid)
        is_same = node == nodes.get(uid, "") or (found and found.agreement in AGREEMENTS)
        if uid in waiting and not is_same:
            why = reasons.get(pod.key, "")
            changed.append(_changed(waiting[uid], nodes.get(uid, ""), node, found, why=why))
    return changed


def _changed(
    pod: Pod, before: str, after: str, found: Comparison | None, *, why: str = ""
) -> ChangedPod:
    """Return the difference for a pod; `why` is the reason without a comparison."""
    return ChangedPod(
        pod=pod.key,
        owner=owner_of(pod),
        node=pod.spec.node_name,
        before=before,
        after=after,
        why=why if found is None else found.answer,
        scores=() if found is None else found.differences,
    )
