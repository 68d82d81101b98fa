"""Decisions of several versions of kube-scheduler for one pod, over one cluster.

The first version is the base: its decisions are carried out, and each further version decides over
the same cluster. A decision differs if the versions have different results, best nodes, victims or
messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config import SchedulerVersion
from scheduler.reports.model import PodVersions, VersionDifference, VersionOutcome

if TYPE_CHECKING:
    from scheduler.reports.model import NodeVerdict, PodReport

#: The number of nodes whose different verdicts are reported for one pod.
_NODES_MAX: Final = 3


class _Row(NamedTuple):
    """A row of `conformance/versions.md`: the version that changed a plugin, and the feature.

    An empty plugin stands for preemption and its messages.
    """

    since: SchedulerVersion
    plugin: str
    feature: str


_V35, _V36, _V37 = SchedulerVersion.V1_35, SchedulerVersion.V1_36, SchedulerVersion.V1_37
ROWS: Final = (
    _Row(_V35, "DynamicResources", "Devices: alternatives"),
    _Row(_V35, "DynamicResources", "Devices: pools"),
    _Row(_V35, "DynamicResources", "Devices: tolerations"),
    _Row(_V35, "DynamicResources", "Devices: capacity"),
    _Row(_V36, "NodeDeclaredFeatures", "Declared features"),
    _Row(_V36, "DynamicResources", "Devices: alternatives"),
    _Row(_V36, "NodeResourcesBalancedAllocation", "Balance of resources"),
    _Row(_V36, "ImageLocality", "Images"),
    _Row(_V36, "NodeResourcesFit", "Devices: extended resources"),
    _Row(_V36, "DynamicResources", "Devices: extended resources"),
    _Row(_V36, "DynamicResources", "Devices: taints"),
    _Row(_V36, "DynamicResources", "Devices: partitions"),
    _Row(_V36, "DynamicResources", "Devices: shared capacity"),
    _Row(_V37, "DynamicResources", "Messages"),
    _Row(_V37, "DynamicResources", "Devices: taint rules"),
    _Row(_V37, "NodeDeclaredFeatures", "Declared features"),
    _Row(_V37, "InterPodAffinity", "Anti-affinity"),
    _Row(_V37, "VolumeBinding", "Storage"),
    _Row(_V37, "NodeVolumeLimits", "Volume limits"),
    _Row(_V37, "NodeName", "Order of plugins"),
    _Row(_V37, "NodeUnschedulable", "Order of plugins"),
    _Row(_V37, "", "Messages"),
)


def rows_between(base: str, version: str, plugin: str) -> tuple[str, ...]:
    """Return the rows on a plugin for the versions after one, up to the other, in either order."""
    first, last = sorted((SchedulerVersion.parse(base), SchedulerVersion.parse(version)))
    features = (row for row in ROWS if first < row.since <= last and row.plugin == plugin)
    return tuple(f"{row.since.label}: {row.feature}" for row in features)


def versions_of(reports: dict[str, PodReport]) -> PodVersions:
    """Return the comparison of reports on one pod, by version, the base first."""
    outcomes = {version: _outcome(version, report) for version, report in reports.items()}
    (base, first), *others = reports.items()
    differences: list[VersionDifference] = []
    for version, report in others:
        kind = _kind(outcomes[base], outcomes[version])
        if kind:
            differences += _reasons(kind, base, first, version, report)
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
) -> list[VersionDifference]:
    """Return the plugins whose verdicts differ, on the nodes that the decision is about."""

    def difference(plugin: str, node: str, text: str) -> VersionDifference:
        rows = rows_between(base, version, plugin)
        return VersionDifference(
            version=version, kind=kind, plugin=plugin, node=node, text=text, rows=rows
        )

    if kind in ("preemption", "message"):
        return [difference("", "", f"{base}: {_message(first)}; {version}: {_message(report)}")]
    before, after = ({node.name: node for node in each.nodes} for each in (first, report))
    verdicts: list[VersionDifference] = []
    for name in _nodes_to_compare(first, report, before, after):
        one, other = before[name], after[name]
        if one.is_feasible and other.is_feasible:
            verdicts += [
                difference(plugin, name, f"score {old} in {base}, {new} in {version}")
                for plugin, old, new in _different_scores(one, other)
            ]
        elif one.is_feasible:
            plugin, reasons = _rejection(report, other)
            text = f"fits in {base}, rejected in {version} ({reasons})"
            verdicts.append(difference(plugin, name, text))
        elif other.is_feasible:
            plugin, reasons = _rejection(first, one)
            text = f"rejected in {base} ({reasons}), fits in {version}"
            verdicts.append(difference(plugin, name, text))
    if verdicts:
        return verdicts
    rejections = (first.pod_rejection, report.pod_rejection)
    plugins = dict.fromkeys(each.plugin for each in rejections if each is not None)
    text = f"{base}: {first.answer}; {version}: {report.answer}"
    return [difference(plugin, "", text) for plugin in plugins or ("",)]


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


def _nodes_to_compare(
    first: PodReport,
    report: PodReport,
    before: dict[str, NodeVerdict],
    after: dict[str, NodeVerdict],
) -> list[str]:
    """Return the chosen nodes, then nodes that fit in one version only."""
    chosen = [each.choice.node for each in (first, report) if each.choice is not None]
    others = [
        name
        for name in before
        if name in after and before[name].is_feasible != after[name].is_feasible
    ]
    return list(dict.fromkeys((*chosen, *others)))[:_NODES_MAX]
