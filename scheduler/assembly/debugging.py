"""Compare cache and queue with the informers, and dump them to the log.

Source: `pkg/scheduler/backend/cache/debugger`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cache import compare as compare_with_cache
from scheduler.cache import dump_nodes, dump_pods

if TYPE_CHECKING:
    from collections.abc import Callable

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


def dump_of(core: Core) -> Callable[[], None]:
    """Return a function that writes the present contents of cache and queue to the log.

    It may run in a thread.
    """
    nominator = core.queue.nominator
    nominated_on = {
        name: nominator.nominated_pods_for_node(name) for name in nominator.nominated_nodes
    }
    nodes, known_pods = core.cache.nodes, core.cache.pods
    pods, summary = core.queue.pending_pods()

    def dump() -> None:
        paragraphs = dump_nodes(nodes, known_pods.values(), nominated_on)
        _log.warning("Dump of cached NodeInfo\n%s", "\n\n".join(paragraphs))
        _log.warning("Dump of scheduling queue, %s\n%s", summary, "\n".join(dump_pods(pods)))

    return dump
