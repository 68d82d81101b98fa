"""`kubesched-simulate place`: further pods in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.client import PODS
from scheduler.explain.templates import read_templates
from scheduler.reports.counts import counted
from scheduler.simulate.answers import Answer
from scheduler.simulate.question import question

if TYPE_CHECKING:
    from scheduler.explain.templates import Templates
    from scheduler.simulate.simulation import Situation


@question
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--count",
    type=click.IntRange(min=1),
    help="The number of pods of each workload, or of copies of each pod.",
)
async def command(situation: Situation, *, file: Path, count: int | None) -> Answer:
    """Show which pods of FILE would be bound, and who evicted.

    Deployments, StatefulSets, Jobs and other workloads stand for their pods.
    """
    return await place(situation, read_templates(file, situation.cluster, count=count))


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
