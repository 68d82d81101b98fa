"""Decide pods as several versions of kube-scheduler, over one cluster, and show the differences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from scheduler.config import SchedulerVersion
from scheduler.explain.cluster import with_api_defaults
from scheduler.explain.text import make_table
from scheduler.reports.counts import counted
from scheduler.reports.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from rich.table import Table

    from scheduler.api.core import Pod
    from scheduler.explain.world import World
    from scheduler.reports.model import PodVersions, VersionOutcome

#: What differs, as the first line counts it.
_KINDS: Final = {
    "result": "with another result",
    "node": "on another node",
    "preemption": "with other victims",
    "message": "with another message only",
}
_VICTIMS_SHOWN: Final = 3


def parse_versions(
    _: click.Context, __: click.Parameter, value: str
) -> tuple[SchedulerVersion, ...]:
    """Parse `--compare-versions`: two or more versions, each once."""
    if not value:
        return ()
    try:
        versions = tuple(SchedulerVersion.parse(label.strip()) for label in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"{error}; got {value!r}") from error
    if len(versions) < 2 or len({*versions}) < len(versions):
        raise click.BadParameter(f"expected two or more versions, each once; got {value!r}")
    return versions


async def decided_by_versions(
    worlds: Mapping[str, World], pods: Sequence[Pod], only: frozenset[str]
) -> AsyncIterator[PodVersions]:
    """Yield the decisions of all versions for each pod without a node, or for the named pods.

    The decisions of the first version are carried out, and the other versions decide over the
    cluster that it has made, so that no difference follows from another difference.
    """
    base, *others = worlds.values()
    for world in worlds.values():
        world.take_changes()
    for pod in pods:
        if pod.spec.node_name and pod.key in only:
            yield versions_of({v: await world.report_again(pod) for v, world in worlds.items()})
    for waiting in base.in_queue_order(pod for pod in pods if not pod.spec.node_name):
        pod = with_api_defaults(waiting)
        decision = await base.decide(pod)
        changes = base.take_changes()
        beside = [await world.decide_beside(pod, base, decision, changes) for world in others]
        if not only or pod.key in only:
            pairs = zip(worlds.items(), (decision, *beside), strict=True)
            yield versions_of({version: world.report(own) for (version, world), own in pairs})


def comparison_lines(listed: Sequence[PodVersions]) -> list[str]:
    """Return a sentence for each version after the first: the pods that it decides otherwise."""
    lines = []
    base, *others = (outcome.version for outcome in listed[0].outcomes)
    for version in others:
        kinds = Counter(
            next((d.kind for d in pod.differences if d.version == version), "") for pod in listed
        )
        counts = [f"{kinds[kind]:,} {text}" for kind, text in _KINDS.items() if kinds[kind]]
        text = ", ".join(counts) or "all as before"
        lines.append(f"{counted(len(listed), 'pod')}, {base} to {version}: {text}")
    return lines


def comparison_table(listed: Sequence[PodVersions]) -> Table:
    """Return a table of the pods that versions decide otherwise, with the reasons."""
    versions = [outcome.version for outcome in listed[0].outcomes]
    table = make_table("pod", *versions, "why", "conformance/versions.md")
    for pod in listed:
        cells = [pod.pod, *map(_shown, pod.outcomes)]
        for number, difference in enumerate(pod.differences):
            where = " on ".join(filter(None, (difference.plugin, difference.node)))
            why = ": ".join(filter(None, (where, difference.text)))
            row = cells if number == 0 else [""] * len(cells)
            table.add_row(*row, why, "; ".join(difference.rows))
    return table


def _shown(outcome: VersionOutcome) -> str:
    if outcome.best:
        tied = len(outcome.best) - 1
        return outcome.best[0] + (f" or {tied:,} equal" if tied else "")
    if outcome.nominated_node:
        shown = ", ".join(outcome.victims[:_VICTIMS_SHOWN])
        more = "..." if len(outcome.victims) > _VICTIMS_SHOWN else ""
        return f"{outcome.result}, {outcome.nominated_node} without {shown}{more}"
    return outcome.result
