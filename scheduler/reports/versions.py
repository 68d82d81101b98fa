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
from scheduler.reports.model import PodVersions, VersionDifference, VersionOutcome

if TYPE_CHECKING:
    from scheduler.reports.model import NodeVerdict, PodReport

#: The number of nodes whose different verdicts are reported for one pod.
_NODES_MAX: Final = 3


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
    outcomes = {version: _outcome(version, report) for version, report in reports.items()}
    (base, first), *others = reports.items()
    differences: list[VersionDifference] = []
    for version, report in others:
        kind = _kind(outcomes[base], outcomes[version])
        if not kind:
            continue
        for plugin, node, text in _reasons(kind, base, first, version, report):
            rows = rows_between(base, version, plugin)
            differences.append(
                VersionDifference(
                    version=version, kind=kind, plugin=plugin, node=node, text=text, rows=rows
                )
            )
    return PodVersions(
        pod=first.pod,
        owner=first.owner,
        outcomes=tuple(outcomes.values()),
        differences=tuple(differences),
    )


def _outcome(version: str, report: PodReport) -> VersionOutcome:
    preemption = report.preemption
    victims = preemption.candidates[0].victims if preemption and preemption.candidates else ()
    best: tuple[str, ...] = ()
    if report.choice is not None:
        total = report.choice.total
        best = tuple(sorted(node.name for node in report.nodes if node.total == total))
    return VersionOutcome(
        version=version,
        result=report.result,
        best=best,
        nominated_node=preemption.nominated_node if preemption is not None else "",
        victims=tuple(sorted(victim.pod for victim in victims)),
        message=_message(report),
    )


def _message(report: PodReport) -> str:
    after = report.preemption.message if report.preemption is not None else ""
    return " ".join(filter(None, (report.message, after)))


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
    kind: str, base: str, first: PodReport, version: str, report: PodReport
) -> list[tuple[str, str, str]]:
    """Return plugin, node and text of the verdicts that differ, on the nodes of the decision."""
    if kind in ("preemption", "message"):
        return [("", "", f"{base}: {_message(first)}; {version}: {_message(report)}")]
    verdicts = []
    for one, other in _nodes_to_compare(first, report):
        if one.is_feasible and other.is_feasible:
            for plugin, old, new in _different_scores(one, other):
                verdicts.append((plugin, one.name, f"score {old} in {base}, {new} in {version}"))
        elif one.is_feasible:
            plugin, reasons = _rejection(report, other)
            text = f"fits in {base}, rejected in {version} ({reasons})"
            verdicts.append((plugin, one.name, text))
        elif other.is_feasible:
            plugin, reasons = _rejection(first, one)
            text = f"rejected in {base} ({reasons}), fits in {version}"
            verdicts.append((plugin, one.name, text))
    if verdicts:
        return verdicts
    rejections = (first.pod_rejection, report.pod_rejection)
    plugins = dict.fromkeys(each.plugin for each in rejections if each is not None)
    text = f"{base}: {first.answer}; {version}: {report.answer}"
    return [(plugin, "", text) for plugin in plugins or ("",)]


def _nodes_to_compare(first: PodReport, report: PodReport) -> list[tuple[NodeVerdict, NodeVerdict]]:
    """Return the verdicts on the chosen nodes, then on nodes that fit in one version only.

    A report on an error has no verdicts.
    """
    after = {node.name: node for node in report.nodes}
    pairs = [(one, after[one.name]) for one in first.nodes if one.name in after]
    chosen = [each.choice.node for each in (first, report) if each.choice is not None]
    found = [pair for name in dict.fromkeys(chosen) for pair in pairs if pair[0].name == name]
    found += [
        (one, other)
        for one, other in pairs
        if one.name not in chosen and one.is_feasible != other.is_feasible
    ]
    return found[:_NODES_MAX]


def _different_scores(one: NodeVerdict, other: NodeVerdict) -> list[tuple[str, int, int]]:
    """Return the plugins whose scores of a node differ, with both scores."""
    scores = (
        (plugin, one.scores.get(plugin, 0), other.scores.get(plugin, 0))
        for plugin in {**one.scores, **other.scores}
    )
    return [(plugin, old, new) for plugin, old, new in scores if old != new]


def _rejection(report: PodReport, node: NodeVerdict) -> tuple[str, str]:
    """Return the plugin that rejects a node first, and its reasons."""
    rejection = report.rejections[node.rejections[0]]
    return rejection.plugin, ", ".join(rejection.reasons)
