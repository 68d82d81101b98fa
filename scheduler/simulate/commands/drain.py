"""`kubesched-simulate drain`: the eviction of all pods from nodes, as `kubectl drain` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from scheduler.explain.daemons import is_daemon
from scheduler.reports.counts import counted
from scheduler.simulate.answers import Answer, Drain, DrainedNode
from scheduler.simulate.question import question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.simulate.simulation import Simulation, Situation

#: kubectl tries again after this time if a budget does not allow an eviction.
_RETRY_SECONDS: Final = 5.0
#: The annotation of static pods, which stay.
_MIRROR: Final = "kubernetes.io/config.mirror"


@question
@click.argument("nodes", nargs=-1)
@click.option("-l", "--selector", default="", help="The nodes with these labels.")
async def command(situation: Situation, *, nodes: tuple[str, ...], selector: str) -> Answer:
    """Show what a drain of NODES does, and which budgets stop it.

    As kubectl drain --ignore-daemonsets --delete-emptydir-data --force, one node after another.
    """
    if bool(nodes) == bool(selector):
        raise click.UsageError("give the names of nodes, or --selector")
    if selector:
        return await drain(situation, situation.nodes(labels=selector))
    return await drain(situation, [situation.nodes(name=n)[0] for n in dict.fromkeys(nodes)])


async def drain(situation: Situation, nodes: Sequence[Node]) -> Answer:
    """Cordon all nodes, then evict their pods, node by node."""
    async with situation.simulation() as simulation:
        cluster, course = simulation.cluster, simulation.course
        course.now("the nodes are cordoned")
        for node in nodes:
            cluster.apply(replace(node, spec=replace(node.spec, unschedulable=True)))
        drained = [await _drain_node(simulation, node.metadata.name) for node in nodes]
        outcome = course.outcome()
    stuck = [each for each in drained if each.stopped_by]
    new = {pod.pod for pod in outcome.waiting} - set(outcome.waiting_before)
    return Answer(
        question="drain",
        summary=f"{len(nodes) - len(stuck):,} of {len(nodes):,} nodes would be drained, in "
        f"{counted(sum(each.steps for each in drained), 'step')}; "
        f"{counted(len(outcome.evicted), 'pod')} would be evicted, {len(new):,} of the new pods "
        "would wait",
        warnings=situation.warnings(situation.cluster.pods),
        drain=Drain(nodes=tuple(drained), outcome=outcome),
    )


async def _drain_node(simulation: Simulation, name: str) -> DrainedNode:
    """Evict the pods of a node, again and again while a budget allows another one.

    kubectl tries for ever; here the node is left once nothing happens in the cluster any more.
    """
    cluster, course = simulation.cluster, simulation.course
    pods = [pod for pod in cluster.pods if pod.spec.node_name == name]
    pods = [pod for pod in pods if _MIRROR not in pod.metadata.annotations]
    daemons = [pod for pod in pods if is_daemon(pod)]
    left = sorted((pod for pod in pods if not is_daemon(pod)), key=lambda pod: pod.key)
    steps, number = 0, len(left)
    stopped_by: dict[str, str] = {}
    while left:
        course.now(f"drain of {name}")
        stopped_by = await _evict_all(simulation, left)
        stays = [pod for pod in left if pod.key in stopped_by]
        if len(stays) < len(left):
            steps += 1
        elif cluster.is_settled:
            break
        left = stays
        await cluster.run_until(cluster.clock.now() + _RETRY_SECONDS)
    course.now(f"the pods of {name} end")
    await cluster.settle()
    return DrainedNode(
        node=name,
        steps=steps,
        evicted=number - len(left),
        daemon_pods=len(daemons),
        stopped_by=stopped_by if left else {},
    )


async def _evict_all(simulation: Simulation, pods: Sequence[Pod]) -> dict[str, str]:
    """Try to evict each pod once; return why pods stay."""
    cluster, stopped_by = simulation.cluster, {}
    for pod in pods:
        present = cluster.find_pod(pod)
        if present is None or present.metadata.deletion_timestamp is not None:
            continue
        if reason := simulation.budgets.evict(present):
            stopped_by[pod.key] = reason
        else:
            # Owner and scheduler react before the next eviction.
            await cluster.run_until(cluster.clock.now())
    return stopped_by
