"""The content of the page `/debug/ui`: the cluster as it is, and a pod's decision and story.

A waiting pod is decided again over the snapshot of the last scheduling cycle: filters and scores
are pure, so nothing changes for the scheduler but the metrics of its extension points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.types import FitError
from scheduler.pages.data import pod_data, state_data
from scheduler.reports.build import cluster_report, pod_report
from scheduler.reports.decision import decide, unschedulable
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from scheduler.assembly.build import BuiltScheduler
    from scheduler.reports.model import PodReport

#: The page lists the pods whose stories were extended last.
_PODS_MAX = 500


def live_state(parts: BuiltScheduler) -> bytes:
    """Return the allocation of the nodes and the latest pods, as JSON."""
    cluster = cluster_report(parts.cache.table)
    return state_data(cluster, parts.stories.latest(_PODS_MAX), parts.base.clock.now())


def live_pod(parts: BuiltScheduler, namespace: str, name: str) -> bytes | None:
    """Return the decision for a waiting pod and its story, as JSON; None for an unknown pod."""
    story = parts.stories.as_json(namespace, name)
    return None if story is None else pod_data(_decided(parts, namespace, name), story)


def _decided(parts: BuiltScheduler, namespace: str, name: str) -> PodReport | None:
    """Return the decision for a pod that waits; None for other pods, and before the first cycle."""
    pod, snapshot = parts.base.informers.find_pod(namespace, name), parts.base.snapshot
    if pod is None or pod.spec.node_name or not len(snapshot):
        return None
    framework = parts.profiles.get(pod.spec.scheduler_name)
    if framework is None or parts.cache.is_assumed_pod(pod):
        return None
    try:
        decision = decide(snapshot, framework, CycleState(), PodInfo(pod))
    except FitError as error:
        decision = unschedulable(error)
    return pod_report(decision, framework, snapshot)
