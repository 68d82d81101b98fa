"""The summary of many decisions: the counts by result, and the pods by owner and cause."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.reports.model import PodGroup, Summary

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.reports.model import PodReport
    from scheduler.stories import LatestPod

#: The results that a person looks for, first: of decisions, and of stories.
_ORDER: Final = (
    *("error", "unschedulable", "preempted", "gated", "ignored"),
    *("waiting", "nominated", "reserved", "moved", "asked"),
    *("scheduled", "bound"),
)


def summary_of(reports: Iterable[PodReport]) -> Summary:
    """Return the counts by result, and the groups: failures first, then the largest."""
    return _summary((_key(report), _group(report)) for report in reports)


def summary_of_stories(pods: Iterable[LatestPod]) -> Summary:
    """Return the counts by outcome, and the groups by namespace and cause."""
    return _summary((group, replace(group, pods=(key,))) for key, group in map(_told, pods))


def _told(pod: LatestPod) -> tuple[str, PodGroup]:
    """Return the pod's key, and its group without pods."""
    namespace = pod.key.partition("/")[0]
    group = PodGroup(result=pod.outcome, namespace=namespace, owner="", cause=pod.cause, pods=())
    return pod.key, group


def _summary(pods: Iterable[tuple[Hashable, PodGroup]]) -> Summary:
    """Return the summary of pods, each with the key of its group and a group of its own."""
    groups: dict[Hashable, list[PodGroup]] = {}
    for key, group in pods:
        groups.setdefault(key, []).append(group)
    merged = [replace(each[0], pods=tuple(g.pods[0] for g in each)) for each in groups.values()]
    merged.sort(key=_place)
    results: Counter[str] = Counter()
    for group in merged:
        results[group.result] += len(group.pods)
    return Summary(results=dict(results), groups=tuple(merged))


def without_owners(groups: Iterable[PodGroup]) -> list[PodGroup]:
    """Return fewer groups: the pods of several owners with one cause are one group."""
    merged: dict[Hashable, PodGroup] = {}
    for group in groups:
        key = (group.result, group.cause)
        known = merged.get(key)
        if known is None:
            merged[key] = group
            continue
        namespace = group.namespace if group.namespace == known.namespace else ""
        pods = known.pods + group.pods
        merged[key] = replace(known, owner="", namespace=namespace, pods=pods)
    return sorted(merged.values(), key=_place)


def _key(report: PodReport) -> Hashable:
    """Return the key of a pod's group.

    The amounts in the causes of an owner's pods may differ; pods without an owner may have nothing
    in common.
    """
    if report.owner:
        return report.result, report.owner, report.cause_plugins, report.unsure
    return report.result, _namespace(report), report.cause, report.unsure


def _group(report: PodReport) -> PodGroup:
    unsure = f" (unsure: no {', no '.join(report.unsure)} in the input)" if report.unsure else ""
    return PodGroup(
        result=report.result,
        namespace=_namespace(report),
        owner=report.owner,
        cause=report.cause + unsure,
        pods=(report.pod,),
        node=report.choice.node if report.choice is not None else "",
    )


def _namespace(report: PodReport) -> str:
    return report.pod.partition("/")[0]


def _place(group: PodGroup) -> tuple[int, int]:
    return _ORDER.index(group.result), -len(group.pods)
