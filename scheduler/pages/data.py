"""The content of a page as JSON. Tables are columns, because 5,000 nodes are repeated per pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.reports.summary import summary_of_stories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.reports.model import ClusterReport, PodReport, Report
    from scheduler.stories import LatestPod

#: A page lists the nodes of each pod until it has this many rows; the pods after that have counts.
_ROWS_MAX: Final = 250_000


def report_data(report: Report) -> bytes:
    """Return a report as the content of a page."""
    names: dict[str, int] = {}
    rows, pods = 0, []
    for pod in report.pods:
        rows += len(pod.nodes)
        pods.append(_pod(pod, names, has_table=rows <= _ROWS_MAX))
    content = {
        "summary": report.summary,
        "pods": pods,
        "names": list(names),
        "cluster": None if report.cluster is None else cluster_data(report.cluster),
        "story": report.story,
    }
    return msgspec.json.encode(content)


def pod_data(pod: PodReport | None, story: bytes) -> bytes:
    """Return a live pod: its decision, and its story, which is JSON already."""
    names: dict[str, int] = {}
    decision = None if pod is None else _pod(pod, names, has_table=True)
    content = {"pod": decision, "names": list(names), "story": msgspec.Raw(story)}
    return msgspec.json.encode(content)


def state_data(cluster: ClusterReport, pods: Sequence[LatestPod], now: float) -> bytes:
    """Return the live state: the nodes, and the latest pods with their summary."""
    content = {
        "time": now,
        "cluster": cluster_data(cluster),
        "summary": summary_of_stories(pods),
        "pods": [{"pod": pod.key, "result": pod.outcome, "answer": pod.text} for pod in pods],
    }
    return msgspec.json.encode(content)


def _pod(pod: PodReport, names: dict[str, int], *, has_table: bool) -> dict[str, object]:
    content = {
        name: getattr(pod, field)
        for field, name in zip(pod.__struct_fields__, pod.__struct_encode_fields__, strict=True)
        if field != "nodes"
    }
    if has_table:
        nodes = pod.nodes
        content["table"] = {
            "nodes": [names.setdefault(node.name, len(names)) for node in nodes],
            "totals": [node.total for node in nodes],
            "rejections": [node.rejections for node in nodes],
            "scores": {
                plugin: [node.scores.get(plugin) for node in nodes] for plugin in pod.score_plugins
            },
        }
    return content


def cluster_data(cluster: ClusterReport) -> dict[str, object]:
    """Return the allocation of a cluster in columns."""
    nodes = cluster.nodes
    resources = list(nodes[0].shares) if nodes else []
    return {
        "podCount": cluster.pod_count,
        "names": [node.name for node in nodes],
        "shares": {name: [node.shares[name] for node in nodes] for name in resources},
        "podCounts": [node.pod_count for node in nodes],
        "podsMax": [node.pods_max for node in nodes],
        "zones": [node.zone for node in nodes],
        "unschedulable": [index for index, node in enumerate(nodes) if node.unschedulable],
        "pods": [[(pod.pod, pod.share, pod.is_new) for pod in node.pods] for node in nodes]
        if any(node.pods for node in nodes)
        else None,
    }
