"""`kubesched-simulate place`: further pods in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.client import PODS
from scheduler.simulate.answers import Answer, counted
from scheduler.simulate.options import about_a_cluster
from scheduler.simulate.templates import read_templates

if TYPE_CHECKING:
    from scheduler.simulate.options import Inputs
    from scheduler.simulate.simulation import Situation
    from scheduler.simulate.templates import Templates


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="The number of pods of each workload, or of copies of each pod.",
)
@about_a_cluster
def command(*, inputs: Inputs, file: Path, count: int | None) -> None:
    """Show which pods of FILE would be bound now and where, and who would be evicted.

    Deployments, StatefulSets, Jobs and other workloads stand for their pods.
    """

    async def answer(situation: Situation) -> Answer:
        templates = read_templates(file, situation.cluster, replicas=count, copies=count)
        return await place(situation, templates)

    inputs.answer(answer)


async def place(situation: Situation, templates: Templates) -> Answer:
    """Create the pods in the cluster, and let the scheduler place them."""
    async with situation.simulation() as simulation:
        simulation.course.now("the pods are created")
        simulation.cluster.api.load({**templates.others, PODS.plural: templates.pods})
        await simulation.cluster.settle()
        outcome = simulation.course.outcome()
    keys = {pod.key for pod in templates.pods}
    placed = sum(pod.pod in keys for pod in outcome.placed)
    return Answer(
        question="place",
        summary=f"{placed:,} of {len(keys):,} pods would be bound, {len(keys) - placed:,} would "
        f"wait; {counted(len(outcome.evicted), 'pod')} would be evicted",
        warnings=situation.warnings(templates.pods),
        place=outcome,
    )
