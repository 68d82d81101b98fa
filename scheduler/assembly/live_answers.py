"""The content of the page `/debug/ui`: the cluster as it is, and a pod's decision and story.

A pod is decided on request, between two steps of the scheduler: filters and scores are pure, so
nothing changes for the scheduler but the metrics of its extension points. The snapshot is brought
up to date before, except while a scheduling cycle that uses it waits in PostFilter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.pages.data import pod_data, state_data
from scheduler.reports.build import cluster_report, report_over
from scheduler.reports.decision import result_of
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from scheduler.assembly.build import BuiltScheduler
    from scheduler.reports.model import PodReport

#: The page lists the pods whose stories were extended last.
_PODS_MAX = 500


def live_state(parts: BuiltScheduler) -> bytes:
    """Return the allocation of the nodes and the latest pods, as JSON."""
    cluster = cluster_report(parts.core.cache.table)
    return state_data(cluster, parts.core.stories.latest(_PODS_MAX), parts.outside.clock.now())


def live_pod(parts: BuiltScheduler, namespace: str, name: str) -> bytes | None:
    """Return the decision for a pod and its story, as JSON; None for an unknown pod."""
    story = parts.core.stories.as_json(namespace, name)
    return None if story is None else pod_data(_decided(parts, namespace, name), story)


def _decided(parts: BuiltScheduler, namespace: str, name: str) -> PodReport | None:
    """Return the decision for a pod, on its node or not; None for a pod that is deleted."""
    core, pod = parts.core, parts.core.informers.find_pod(namespace, name)
    if pod is None:
        return None
    if not parts.loop.is_in_cycle:
        core.cache.update_snapshot(core.snapshot)
    framework = core.profiles.get(pod.spec.scheduler_name)
    # The cache has the node of an assumed pod.
    info = core.cache.get_pod(pod) or PodInfo(pod)
    work = report_over(core.snapshot, framework, info, pods=core.informers.pods.lister)
    return result_of(work)
