"""Decisions of several versions of kube-scheduler for one pod, over one cluster.

The first version is the base: its decisions are carried out, and each further version decides over
the same cluster. A decision differs if the versions have different results, best nodes, victims or
messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.config import SchedulerVersion
from scheduler.reports.model import (
    PodVersions,
    PreemptionReport,
    VersionDifference,
    VersionOutcome,
)

if TYPE_CHECKING:
    from scheduler.reports.model import NodeVerdict, PodReport

#: The number of nodes whose different verdicts are reported for one pod.
_NODES_MAX: Final = 3
_NO_PREEMPTION: Final = PreemptionReport(message="", nominated_node="", candidates=())

#: The features of `conformance/versions.md`, by the version that changed them and the plugin that
#: they are about. An empty plugin stands for preemption and its messages.
FEATURES: Final = msgspec.json.decode(
    Path(__file__).with_name("versions.json").read_bytes(),
    type=dict[str, dict[str, tuple[str, ...]]],
)


def rows_between(base: str, version: str, plugin: str) -> tuple[str, ...]:
    """Return the features of a plugin that changed after one version, up to the other."""
    first, last = sorted((SchedulerVersion.parse(base), SchedulerVersion.parse(version)))
    return tuple(
        f"{since}: {feature}"
        for since, by_plugin in FEATURES.items()
        if first < SchedulerVersion.parse(since) <= last
        for feature in by_plugin.get(plugin, ())
    )


def versions_of(reports: dict[str, PodReport]) -> PodVersions:
    """Return the comparison of reports on one pod, by version, the base first."""
    outcomes = tuple(_outcome(version, report) for version, report in reports.items())
    (base, first), *others = zip(outcomes, reports.values(), strict=True)
    return PodVersions(
        pod=first.pod,
        owner=first.owner,
        outcomes=outcomes,
        differences=tuple(
            VersionDifference(
                version=outcome.version,
                kind=kind,
                plugin=plugin,
                node=node,
                text=text,
                rows=rows_between(base.version, outcome.version, plugin),
            )
            for outcome, report in others
            if (kind := _kind(base, outcome))
            for plugin, node, text in _reasons(kind, base, first, outcome, report)
        ),
    )


def _outcome(version: str, report: PodReport) -> VersionOutcome:
    preemption, choice = report.preemption or _NO_PREEMPTION, report.choice
    victims = preemption.candidates[0].victims if preemption.candidates else ()
    best = (node.name for node in report.nodes if choice and node.total == choice.total)
    return VersionOutcome(
        version=version,
        result=report.result,
        best=tuple(sorted(best)),
        nominated_node=preemption.nominated_node,
        victims=tuple(sorted(victim.pod for victim in victims)),
        message=" ".join(filter(None, (report.message, preemption.message))),
    )


def _kind(one: VersionOutcome, other: VersionOutcome) -> str:
    """Return what differs: the first of result, node, preemption, message; empty for nothing."""
    if one.result != other.result:
        return "result"
    if one.best != other.best:
        return "node"
    if (one.nominated_node, one.victims) != (other.nominated_node, other.victims):
        return "preemption"
    return "message" if one.message != other.message else ""


def _reasons(
    kind: str, base: VersionOutcome, first: PodReport, outcome: VersionOutcome, report: PodReport
) -> list[tuple[str, str, str]]:
    """Return plugin, node and text of the verdicts that differ, on the nodes of the decision."""
    old, new = base.version, outcome.version
    if kind in ("preemption", "message"):
        return [("", "", f"{old}: {base.message}; {new}: {outcome.message}")]
    verdicts = []
    for one, other in _nodes_to_compare(first, report):
        if one.is_feasible and other.is_feasible:
            for plugin in {**one.scores, **other.scores}:
                before, after = one.scores.get(plugin, 0), other.scores.get(plugin, 0)
                if before != after:
                    text = f"score {before} in {old}, {after} in {new}"
                    verdicts.append((plugin, one.name, text))
        elif one.is_feasible or other.is_feasible:
            plugin, was = _verdict(old, first, one)
            new_plugin, becomes = _verdict(new, report, other)
            verdicts.append((plugin or new_plugin, one.name, f"{was}, {becomes}"))
    if verdicts:
        return verdicts
    rejections = (first.pod_rejection, report.pod_rejection)
    plugins = dict.fromkeys(each.plugin for each in rejections if each is not None)
    text = f"{old}: {first.answer}; {new}: {report.answer}"
    return [(plugin, "", text) for plugin in plugins or ("",)]


def _nodes_to_compare(first: PodReport, report: PodReport) -> list[tuple[NodeVerdict, NodeVerdict]]:
    """Return the verdicts on the chosen nodes, then on nodes that fit in one version only.

    A report on an error has no verdicts.
    """
    after = {node.name: node for node in report.nodes}
    pairs = {one.name: (one, after[one.name]) for one in first.nodes if one.name in after}
    chosen = [each.choice.node for each in (first, report) if each.choice is not None]
    differ = [name for name, (a, b) in pairs.items() if a.is_feasible != b.is_feasible]
    names = [name for name in dict.fromkeys((*chosen, *differ)) if name in pairs]
    return [pairs[name] for name in names[:_NODES_MAX]]


def _verdict(version: str, report: PodReport, node: NodeVerdict) -> tuple[str, str]:
    """Return the plugin that rejects a node first (empty if the pod fits), and the verdict."""
    if node.is_feasible:
        return "", f"fits in {version}"
    rejection = report.rejections[node.rejections[0]]
    return rejection.plugin, f"rejected in {version} ({', '.join(rejection.reasons)})"
