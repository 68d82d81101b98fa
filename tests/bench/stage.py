"""A scheduler without client, for benchmarks: objects arrive as from informers, no writes.

Event handlers, cache, queue, the default profile, scheduling cycles and the failure handler are the
real ones. A pod that was given a node counts as bound at once, and the handlers get the event.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.reports.decision import result_of
from tests.bench.bare import BareScheduler

__all__ = ["Stage"]


class Stage(BareScheduler):
    """A cluster and a scheduler for it. `node_events` and `pod_events` take what happens."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        super().__init__((), ())
        self.cache, self.queue, self._share = self.core.cache, self.core.queue, PartSharing()
        cycle = self.core.cycle
        self._scheduling_queue, self._pods = cycle.queue, self.core.informers.pods.lister
        self.node_events = NodeEventHandler(
            cache=self.cache, queue=cycle.queue, metrics=self.metrics
        )
        self.pod_events = PodEventHandler(
            cache=self.cache,
            queue=cycle.queue,
            waiting_pods=cycle.waiting_pods,
            scheduler_names=self.core.profiles,
            feature_gates=frozenset(),
            on_corrupted=self.fail,
            metrics=self.metrics,
        )
        for node in nodes:
            self.node_events.on_add(node, is_initial=True)

    def schedule(self, pods: Iterable[Pod]) -> int:
        """Add these pods, schedule all active pods; return the number of pods with a node."""
        for arrived in pods:
            pod = self._share(arrived)
            self._pods.put(pod)
            self.pod_events.on_add(pod, is_initial=False)
        bound = 0
        while len(self.queue.active_q):
            queued = self._scheduling_queue.pop_nowait()
            assert queued is not None, "it is active"
            result_of(schedule_one(self.core.cycle, queued))
            bound += self._confirm(queued.pod_info.pod)
        return bound

    def _confirm(self, pod: Pod) -> bool:
        """Deliver the watch event of the binding; False if the pod was not assumed."""
        assumed = self.cache.get_pod(pod)
        if assumed is None:
            return False
        self._scheduling_queue.done(pod.metadata.uid)
        bound = replace(pod, spec=replace(pod.spec, node_name=assumed.spec.node_name))
        self._pods.put(bound)
        self.pod_events.on_update(pod, bound)
        return True
