"""The content of the page `/debug/ui`: the cluster as it is, and a pod's decision and story.

A pod is decided on request, between two steps of the scheduler: filters and scores are pure, so
nothing changes for the scheduler but the metrics of its extension points. The snapshot is brought
up to date before, except while a scheduling cycle that uses it waits in PostFilter. A filter that
searches for longer than a turn of the event loop ends the decision: the page must not hold the
scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.pages.data import pod_data, state_data
from scheduler.reports.build import cluster_report, pod_report, report_over
from scheduler.reports.decision import failed, result_of
from scheduler.runtime import PluginFailedError
from scheduler.snapshot import PodInfo

if TYPE_CHECKING:
    from scheduler.assembly.core import Core
    from scheduler.reports.model import PodReport

#: The page lists the pods whose stories were extended last.
_PODS_MAX: Final = 500

_TOO_LONG: Final = "not decided here: a filter searches for longer than this page may take"


def live_state(core: Core, now: float) -> bytes:
    """Return the allocation of the nodes and the latest pods, as JSON."""
    latest = list(core.stories.latest(_PODS_MAX))
    return state_data(cluster_report(core.cache.table), latest, now)


def live_pod(core: Core, namespace: str, name: str, *, is_in_cycle: bool) -> bytes | None:
    """Return the decision for a pod and its story, as JSON; None for an unknown pod."""
    story = core.stories.as_json(namespace, name)
    if story is None:
        return None
    return pod_data(_decided(core, namespace, name, is_in_cycle=is_in_cycle), story)


def _decided(core: Core, namespace: str, name: str, *, is_in_cycle: bool) -> PodReport | None:
    """Return the decision for a pod, on its node or not; None for a pod that is deleted."""
    pod = core.informers.find_pod(namespace, name)
    if pod is None:
        return None
    if not is_in_cycle:
        core.cache.update_snapshot(core.snapshot)
    framework = core.profiles.get(pod.spec.scheduler_name)
    # The cache has the node of an assumed pod.
    info = core.cache.get_pod(pod) or PodInfo(pod)
    listed = core.informers.pods.lister
    work = report_over(core.snapshot, framework, info, pods=listed, in_one_turn=True)
    try:
        return result_of(work)
    except PluginFailedError:
        decision = failed(info, PluginFailedError(_TOO_LONG))
        return pod_report(decision, framework, core.snapshot)
