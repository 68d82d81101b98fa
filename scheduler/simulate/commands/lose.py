"""`kubesched-simulate lose`: the failure of nodes, or of each domain."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

import click

from scheduler.explain.cluster import ClusterError
from scheduler.simulate.answers import Answer, Loss, counted
from scheduler.simulate.nodes import named_nodes, selected_nodes
from scheduler.simulate.options import about_a_cluster
from scheduler.simulate.processes import answered, can_fork

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import Node
    from scheduler.simulate.options import Inputs
    from scheduler.simulate.simulation import Situation

#: Fewer pods, over all domains but one, are not worth further processes.
_PODS_FOR_PROCESSES: Final = 2000


@click.command()
@click.argument("what", nargs=-1, metavar="[NODE | KEY=VALUE]...")
@click.option("--each", metavar="KEY", default="", help="Lose each domain of this label in turn.")
@about_a_cluster
def command(*, inputs: Inputs, what: tuple[str, ...], each: str) -> None:
    """Show what the failure of nodes does: their pods are gone at once, and created again.

    KEY=VALUE names the nodes with this label; with --each KEY each value is tried alone.
    """
    if bool(what) == bool(each):
        raise click.UsageError("give nodes or labels of nodes, or --each")

    async def answer(situation: Situation) -> Answer:
        present = situation.cluster.nodes
        if each:
            return await lose(situation, _domains(present, each))
        lost: dict[str, Node] = {}
        for one in what:
            found = selected_nodes(present, one) if "=" in one else named_nodes(present, [one])
            lost.update((node.metadata.name, node) for node in found)
        return await lose(situation, {" ".join(what): list(lost.values())})

    inputs.answer(answer)


def _domains(nodes: Sequence[Node], key: str) -> dict[str, list[Node]]:
    domains: dict[str, list[Node]] = {}
    for node in nodes:
        if (value := node.metadata.labels.get(key)) is not None:
            domains.setdefault(value, []).append(node)
    if not domains:
        raise ClusterError(f"--each: no node has the label {key}")
    return dict(sorted(domains.items()))


async def lose(situation: Situation, domains: Mapping[str, Sequence[Node]]) -> Answer:
    """Lose each domain alone, in a cluster that is as before."""
    is_large = len(situation.cluster.pods) * (len(domains) - 1) >= _PODS_FOR_PROCESSES
    if is_large and can_fork():
        work = [
            functools.partial(_lose_now, situation, name, nodes) for name, nodes in domains.items()
        ]
        losses = (*answered(work),)
    else:
        losses = tuple([await _lose(situation, name, nodes) for name, nodes in domains.items()])
    if len(losses) == 1:
        loss = losses[0]
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


def _lose_now(situation: Situation, domain: str, nodes: Sequence[Node]) -> Loss:
    return asyncio.run(_lose(situation, domain, nodes))


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
