"""`kubesched-simulate capacity`: how many more copies fit, and what stops the next one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from scheduler.client.kinds import POD_GROUPS
from scheduler.explain.templates import Templates, read_templates, renamed
from scheduler.simulate.answers import Answer, Capacity, Stop
from scheduler.simulate.question import question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.client import ApiObject
    from scheduler.simulate.simulation import Simulation, Situation

_COPIES_MAX: Final = 10_000


@question
@click.argument("file", type=click.Path(path_type=Path))
async def command(situation: Situation, *, file: Path) -> Answer:
    """Show how many more copies of the pods of FILE fit.

    Copies evict nothing. A workload stands for one of its pods, a pod group for all its pods. Each
    template is tried in the cluster as it is, without the others, up to 10,000 copies.
    """
    templates = read_templates(file, situation.cluster, count=1)
    return await capacity(situation, templates)


async def capacity(situation: Situation, templates: Templates) -> Answer:
    """Add copies of each template, one after another, until one does not fit."""
    workloads = templates.by_workload().items()
    found = [await _capacity(situation, templates.others, name, pods) for name, pods in workloads]
    counts = ", ".join(f"{one.copies:,} of {one.template}" for one in found)
    return Answer(
        question="capacity",
        summary=f"would fit: {counts}",
        warnings=situation.warnings(templates.pods),
        capacities=(*found,),
    )


async def _capacity(
    situation: Situation,
    others: Mapping[str, Sequence[ApiObject]],
    name: str,
    pods: Sequence[Pod],
) -> Capacity:
    named = {pod.spec.scheduling_group.pod_group_name for pod in pods if pod.spec.scheduling_group}
    of_others = dict(others)
    groups: Sequence[PodGroup] = of_others.pop(POD_GROUPS.plural, ())  # type: ignore[assignment]
    async with situation.simulation() as simulation:
        cluster, course = simulation.cluster, simulation.course
        course.now(f"copies of {name}")
        cluster.api.load(of_others)
        copies, stops = 0, False
        while copies < _COPIES_MAX and not stops:
            suffix = f"-copy{copies}"
            for group in groups:
                if group.metadata.name in named:
                    cluster.apply(renamed(group, group.metadata.name + suffix))
            copy = [_copy(pod, suffix) for pod in pods]
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


def _copy(pod: Pod, suffix: str) -> Pod:
    """Return a copy of a pod that evicts no other pods."""
    group = pod.spec.scheduling_group
    if group is not None:
        group = replace(group, pod_group_name=group.pod_group_name + suffix)
    spec = replace(pod.spec, preemption_policy="Never", scheduling_group=group)
    return replace(renamed(pod, pod.metadata.name + suffix), spec=spec)


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
