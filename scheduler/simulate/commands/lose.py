"""`kubesched-simulate lose`: the failure of nodes, or of each domain."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final

import click

from scheduler.reports.counts import counted
from scheduler.simulate.answers import Answer, Loss
from scheduler.simulate.question import question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import Node
    from scheduler.simulate.simulation import Situation

#: Fewer pods, over all domains but one, are not worth further processes.
_PODS_FOR_PROCESSES: Final = 2000


@question
@click.argument("what", nargs=-1, metavar="[NODE | KEY=VALUE]...")
@click.option("--each", metavar="KEY", default="", help="Lose each domain of this label in turn.")
async def command(situation: Situation, *, what: tuple[str, ...], each: str) -> Answer:
    """Show what the failure of nodes, or of each domain, does.

    Their pods are gone at once, and created again. KEY=VALUE names the nodes with this label; with
    --each KEY each value is tried alone.
    """
    if bool(what) == bool(each):
        raise click.UsageError("give nodes or labels of nodes, or --each")
    domains: dict[str, list[Node]] = {}
    if each:
        for node in situation.nodes(labels=each):
            domains.setdefault(node.metadata.labels[each], []).append(node)
        return await lose(situation, dict(sorted(domains.items())))
    lost: dict[str, Node] = {}
    for one in what:
        found = situation.nodes(labels=one) if "=" in one else situation.nodes(name=one)
        lost.update((node.metadata.name, node) for node in found)
    return await lose(situation, {" ".join(what): [*lost.values()]})


async def lose(situation: Situation, domains: Mapping[str, Sequence[Node]]) -> Answer:
    """Lose each domain alone, in a cluster that is as before."""
    is_large = len(situation.cluster.pods) * (len(domains) - 1) >= _PODS_FOR_PROCESSES
    if is_large and sys.platform == "linux":
        with ProcessPoolExecutor(
            min(len(domains), 2 * (os.cpu_count() or 1)),
            mp_context=multiprocessing.get_context("fork"),
            initializer=_inherited.append,
            initargs=((situation, domains),),
        ) as pool:
            losses = (*pool.map(_lose_inherited, domains),)
    else:
        losses = tuple([await _lose(situation, name, nodes) for name, nodes in domains.items()])
    if len(losses) == 1:
        [loss] = losses
        waits = sum(bool(pod.successor and not pod.successor_node) for pod in loss.outcome.evicted)
        summary = (
            f"the cluster {'survives' if loss.survives else 'does not survive'} the loss of "
            f"{loss.domain}: {counted(loss.lost_pods, 'pod')} lost, {waits:,} would wait"
        )
    else:
        survived = sum(loss.survives for loss in losses)
        summary = f"the cluster survives {survived:,} of {len(losses):,} losses"
    warnings = situation.warnings(situation.cluster.pods)
    return Answer(question="lose", summary=summary, warnings=warnings, losses=losses)


#: What a process inherits, as it cannot be sent.
_inherited: Final[list[tuple[Situation, Mapping[str, Sequence[Node]]]]] = []


def _lose_inherited(domain: str) -> Loss:
    [(situation, domains)] = _inherited
    return asyncio.run(_lose(situation, domain, domains[domain]))


async def _lose(situation: Situation, domain: str, nodes: Sequence[Node]) -> Loss:
    names = {node.metadata.name for node in nodes}
    async with situation.simulation() as simulation:
        cluster = simulation.cluster
        simulation.course.now(f"loss of {domain}")
        pods = [pod for pod in cluster.pods if pod.spec.node_name in names]
        for node in nodes:
            cluster.remove(node)
        for pod in sorted(pods, key=lambda pod: pod.key):
            cluster.remove(pod)
        await cluster.settle()
        outcome = simulation.course.outcome()
    return Loss(
        domain=domain,
        nodes=tuple(sorted(names)),
        lost_pods=len(pods),
        survives=all(pod.successor_node for pod in outcome.evicted if pod.successor),
        outcome=outcome,
    )
