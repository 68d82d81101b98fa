"""Compare cache and queue with the informers, and dump them to the log.

Source: `pkg/scheduler/backend/cache/debugger`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cache import compare as compare_with_cache
from scheduler.cache import dump_nodes, dump_pods

if TYPE_CHECKING:
    from scheduler.assembly.core import Core
    from scheduler.cache import CacheDifference

_log: Final = logging.getLogger(__name__)


def compare(core: Core) -> CacheDifference:
    """Compare cache and queue with the informers; differences are logged and counted."""
    ours, queue = core.profiles.keys(), core.queue
    pods = core.informers.pods.lister.list()
    difference = compare_with_cache(
        core.cache,
        nodes=core.informers.nodes.lister.list(),
        pods=[pod for pod in pods if pod.spec.node_name or pod.spec.scheduler_name in ours],
        queued=[*queue.pending_pods()[0], *queue.in_flight_pods()],
    )
    for line in difference.lines():
        _log.error("%s", line)
    difference.record(core.ports.metrics)
    return difference


def dump(core: Core) -> None:
    """Write the contents of cache and queue to the log."""
    nodes = dump_nodes(core.cache, core.queue.nominator.nominated_pods_for_node)
    _log.warning("Dump of cached NodeInfo\n%s", "\n\n".join(nodes))
    pods, summary = core.queue.pending_pods()
    lines = "\n".join(dump_pods(pods))
    _log.warning("Dump of scheduling queue, %s\n%s", summary, lines)
