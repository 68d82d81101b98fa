"""`kubesched-simulate capacity`: how many more copies fit, and what stops the next one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from scheduler.client.kinds import POD_GROUPS, object_key
from scheduler.simulate.answers import Answer, Capacity, Stop
from scheduler.simulate.question import question
from scheduler.simulate.templates import Templates, read_templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.api.core import Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.client import ApiObject
    from scheduler.simulate.simulation import Simulation, Situation

_LIMIT: Final = 10_000


@question
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=_LIMIT,
    show_default=True,
    help="Do not try more copies than this.",
)
async def command(situation: Situation, *, file: Path, limit: int) -> Answer:
    """Show how many more copies of each pod of FILE fit, without evictions.

    A workload stands for one of its pods, a pod group for all its pods. Each template is tried in
    the cluster as it is, without the others.
    """
    templates = read_templates(file, situation.cluster, count=1)
    return await capacity(situation, templates, limit=limit)


async def capacity(situation: Situation, templates: Templates, *, limit: int = _LIMIT) -> Answer:
    """Add copies of each template, one after another, until one does not fit."""
    found = tuple(
        [
            await _capacity(situation, templates, name, pods, limit)
            for name, pods in templates.by_workload().items()
        ]
    )
    counts = ", ".join(f"{one.copies:,} of {one.template}" for one in found)
    return Answer(
        question="capacity",
        summary=f"would fit: {counts}",
        warnings=situation.warnings(templates.pods),
        capacities=found,
    )


async def _capacity(
    situation: Situation, templates: Templates, name: str, pods: Sequence[Pod], limit: int
) -> Capacity:
    groups = {object_key(group): group for group in templates.others.get(POD_GROUPS.plural, ())}
    async with situation.simulation() as simulation:
        cluster, course = simulation.cluster, simulation.course
        course.now(f"copies of {name}")
        cluster.api.load({k: v for k, v in templates.others.items() if k != POD_GROUPS.plural})
        copies, stops = 0, False
        while copies < limit and not stops:
            copy = [_copy(pod, copies) for pod in pods]
            for group in _groups_of(pods, copies, groups):
                cluster.apply(group)
            for pod in copy:
                cluster.apply(pod)
            await cluster.run_until(cluster.clock.now())
            stored = (cluster.find_pod(pod) for pod in copy)
            stops = not all(pod is not None and pod.spec.node_name for pod in stored)
            copies += not stops
        stopped_by = tuple(_stops(simulation)) if stops else ()
        outcome = course.outcome()
    return Capacity(
        template=name,
        copies=copies,
        is_limited=not stops,
        stopped_by=stopped_by,
        outcome=outcome,
    )


def _copy(pod: Pod, number: int) -> Pod:
    """Return a copy of a pod that evicts no other pods."""
    metadata, group = pod.metadata, pod.spec.scheduling_group
    name = f"{metadata.name}-copy{number}"
    metadata = replace(metadata, name=name, uid=f"{metadata.namespace}/{name}")
    if group is not None:
        group = replace(group, pod_group_name=f"{group.pod_group_name}-copy{number}")
    spec = replace(pod.spec, preemption_policy="Never", scheduling_group=group)
    return replace(pod, metadata=metadata, spec=spec)


def _groups_of(
    pods: Sequence[Pod], number: int, groups: dict[str, ApiObject]
) -> Iterator[PodGroup]:
    """Yield copies of the pod groups of pods."""
    named = {
        f"{pod.metadata.namespace}/{pod.spec.scheduling_group.pod_group_name}"
        for pod in pods
        if pod.spec.scheduling_group is not None
    }
    for key in sorted(named & groups.keys()):
        group: PodGroup = groups[key]  # type: ignore[assignment]
        name = f"{group.metadata.name}-copy{number}"
        yield replace(group, metadata=replace(group.metadata, name=name, uid=f"group-{name}"))


def _stops(simulation: Simulation) -> Iterator[Stop]:
    """Yield the reasons against the last copy, the most frequent first."""
    failure = simulation.course.failure
    if failure is not None and failure.diagnosis.pre_filter_status is None:
        reasons = failure.diagnosis.node_to_status.reasons(failure.num_all_nodes)
        for reason, nodes in reasons.most_common():
            yield Stop(reason=reason, nodes=nodes)
        return
    nodes, before = len(simulation.cluster.nodes), simulation.course.waited
    new = [pod for pod in simulation.course.waiting() if pod.pod not in before]
    for reason in dict.fromkeys(pod.reason for pod in new):
        yield Stop(reason=reason, nodes=nodes)
