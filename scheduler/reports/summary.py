"""The summary of many decisions: the counts by result, and the pods by owner and cause."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.reports.model import PodGroup, Summary

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.reports.model import PodReport

#: The results that a person looks for, first.
_ORDER: Final = ("error", "unschedulable", "gated", "ignored", "scheduled")


def summary_of(reports: Iterable[PodReport]) -> Summary:
    """Return the counts by result, and the groups: failures first, then the largest."""
    groups: dict[Hashable, PodGroup] = {}
    results: Counter[str] = Counter()
    for report in reports:
        results[report.result] += 1
        key, new = _key(report), _group(report)
        known = groups.get(key)
        groups[key] = new if known is None else replace(known, pods=known.pods + new.pods)
    ordered = sorted(groups.values(), key=_place)
    counts = {result: results[result] for result in _ORDER if results[result]}
    return Summary(results=counts, groups=tuple(ordered))


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
