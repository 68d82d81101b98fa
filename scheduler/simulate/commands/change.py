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
from scheduler.framework.types import FitError
from scheduler.reports.build import cluster_without, owner_of
from scheduler.reports.comparison import AGREEMENTS, compare
from scheduler.reports.decision import Decision, decide
from scheduler.simulate.answers import Answer, ChangedPod, Changes
from scheduler.simulate.controllers import controller_of
from scheduler.simulate.options import about_a_cluster
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.queue import QueuedPodInfo
    from scheduler.reports.model import Comparison
    from scheduler.simulate.options import Inputs
    from scheduler.simulate.simulation import Simulation, Situation

_ALL_NODES: Final = 100
#: The owners whose pods may run on one node only.
_PINNED: Final = frozenset({"DaemonSet", "Node"})


@click.command()
@click.option(
    "--present",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The present configuration, by default kube-scheduler's.",
)
@about_a_cluster
def command(*, inputs: Inputs, present: Path | None) -> None:
    """Show which pods --config and --plugin decide otherwise than --present, and why.

    A running pod is decided again in the cluster without this pod. Pods of DaemonSets are left
    out. Both configurations compare all nodes.
    """
    before = settings(present, version=inputs.version, gates=inputs.gates)

    async def answer(situation: Situation) -> Answer:
        old = dataclasses.replace(situation, config=replace(before, extenders=()), plugins=())
        return await change(old, situation)

    inputs.answer(answer)


async def change(old: Situation, new: Situation) -> Answer:
    """Decide all pods with both schedulers, and compare."""
    old, new = _over_all_nodes(old), _over_all_nodes(new)
    async with (
        old.simulation(settles=False) as before,
        new.simulation(settles=False) as after,
    ):
        running, ties = [], 0
        compared = [pod for pod in after.cluster.pods if _may_move(pod)]
        for pod in sorted(compared, key=lambda pod: pod.key):
            if not pod.spec.node_name:
                continue
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
    config = replace(situation.config, percentage_of_nodes_to_score=_ALL_NODES)
    profiles = tuple(
        replace(profile, percentage_of_nodes_to_score=None) for profile in config.profiles
    )
    return dataclasses.replace(situation, config=replace(config, profiles=profiles))


def _may_move(pod: Pod) -> bool:
    owner = controller_of(pod)
    return owner is None or owner.kind not in _PINNED


class _Choice(NamedTuple):
    """The chosen node, empty for none, and the nodes with the highest total."""

    node: str
    best: frozenset[str]


async def _decided(simulation: Simulation, pod: Pod) -> tuple[Decision, _Choice]:
    core = simulation.cluster.core
    framework = core.profiles.get(pod.spec.scheduler_name)
    core.cache.update_snapshot(core.snapshot)
    if framework is None:
        return Decision(PodInfo(pod), "ignored", message="no profile has this name"), _NO_CHOICE
    with cluster_without(PodInfo(pod), core.snapshot, pods=core.informers.pods.lister) as waiting:
        decision = await decide(core.snapshot, framework, CycleState(), waiting)
    return decision, _choice(decision)


_NO_CHOICE: Final = _Choice("", frozenset())


def _choice(decision: Decision) -> _Choice:
    result = decision.schedule_result
    if result is None:
        return _NO_CHOICE
    if result.scores is None:
        return _Choice(result.suggested_host, frozenset({result.suggested_host}))
    total, names = result.scores.total, result.feasible_nodes.names
    best = frozenset(names[position] for position in np.flatnonzero(total == total.max()))
    return _Choice(result.suggested_host, best)


async def _compared(
    before: Simulation, after: Simulation, pod: Pod
) -> tuple[ChangedPod | None, bool]:
    """Return what has changed for a running pod, and True if both choose by chance."""
    _, old = await _decided(before, pod)
    decision, new = await _decided(after, pod)
    if old.best & new.best or old.node == new.node:
        return None, len(old.best | new.best) > 1
    found = _comparison(decision, after, old.node)
    return _changed(pod, pod.spec.node_name, old.node, new.node, found), False


async def _compared_waiting(before: Simulation, after: Simulation) -> list[ChangedPod]:
    """Return the waiting pods that end elsewhere once both schedulers have decided all of them."""
    waiting = {pod.metadata.uid: pod for pod in after.cluster.pods if not pod.spec.node_name}
    await before.cluster.settle()
    nodes = {pod.metadata.uid: pod.spec.node_name for pod in before.cluster.pods}
    reasons = {pod.pod: pod.reason for pod in before.course.waiting()}
    comparisons: dict[str, Comparison] = {}

    def compare_now(queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        uid = queued.pod_info.uid
        if isinstance(found, Found) and uid in waiting and nodes.get(uid):
            comparisons[uid] = _of_cycle(after, queued, found, nodes[uid])

    after.cluster.on_cycle = compare_now
    await after.cluster.settle()
    changed = []
    for pod in sorted(after.cluster.pods, key=lambda pod: pod.key):
        uid, node = pod.metadata.uid, pod.spec.node_name
        if uid not in waiting or node == nodes.get(uid, ""):
            continue
        found = comparisons.get(uid)
        if found is not None and found.agreement in AGREEMENTS:
            continue
        why = reasons.get(pod.key, "") if found is None else ""
        changed.append(_changed(pod, "", nodes.get(uid, ""), node, found, why=why))
    return changed


def _of_cycle(after: Simulation, queued: QueuedPodInfo, found: Found, node: str) -> Comparison:
    """Compare the result of a cycle with the node that the other scheduler has chosen."""
    pod, result = queued.pod_info, found.result
    if result is not None:
        return _comparison(Decision(pod, "scheduled", result, result.diagnosis), after, node)
    status = found.status
    assert status is not None, "without a node there is a reason"
    diagnosis = status.cause.diagnosis if isinstance(status.cause, FitError) else None
    decision = Decision(pod, "unschedulable", diagnosis=diagnosis, message=status.message)
    return _comparison(decision, after, node)


def _comparison(decision: Decision, simulation: Simulation, node: str) -> Comparison:
    snapshot = simulation.cluster.core.snapshot
    now = simulation.cluster.clock.now()
    return compare(decision, snapshot, node=node, their_message="", now=now)


def _changed(
    pod: Pod, node: str, before: str, after: str, found: Comparison | None, *, why: str = ""
) -> ChangedPod:
    return ChangedPod(
        pod=pod.key,
        owner=owner_of(pod),
        node=node,
        before=before,
        after=after,
        why=why or ("" if found is None else found.answer),
        scores=() if found is None else found.differences,
    )
