"""A scheduler without client, for benchmarks: objects arrive as from informers, no writes.

Event handlers, cache, queue, the default profile, scheduling cycles and the failure handler are the
real ones. A pod that was given a node counts as bound at once, and the handlers get the event.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterable

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.assembly.event_handlers import NodeEventHandler, PodEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.profiles import build_profiles
from scheduler.cache import Cache
from scheduler.client.kinds import KINDS
from scheduler.clock import SystemClock
from scheduler.config import default_config
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import RandomTie, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import PodsInPreBind, WaitingPods
from scheduler.snapshot import Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle
from scheduler.testing.doubles import FakeLister
from tests.cycle.running import result_of

__all__ = ["Stage"]


class Stage:
    """A cluster and a scheduler for it. `node_events` and `pod_events` take what happens."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.cache = Cache()
        self._clock, self._share = SystemClock(), PartSharing()
        self._pods: dict[str, Pod] = {}
        snapshot, rng = Snapshot(), random.Random(0)
        self._metrics = SchedulerMetrics(self._clock.monotonic)
        self._stories = PodStories()
        waiting_pods = WaitingPods(self._clock, self._metrics)
        listers = {plural: FakeLister() for plural in KINDS} | {"pods": _Pods(self._pods)}
        self._fakes, self._nominator = (
            FakeHandle(snapshot, listers=listers),
            Nominator(self._find_pod),
        )
        self._waiting_pods, self._pods_in_pre_bind = waiting_pods, PodsInPreBind()
        make_handle = self._fakes.with_parts(
            clock=self._clock,
            rng=rng,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            metrics=self._metrics,
            nominator=self._nominator,
            spawn=_drop,
        )
        (self._framework,) = build_profiles(default_config(SCHEME), make_handle).values()
        self.queue = self._build_queue()
        self._scheduling_queue = SchedulingQueue(
            self.queue, clock=self._clock, stories=self._stories
        )
        self._cycle_parts = self._build_cycle(snapshot, RandomTie(rng))
        metrics = self._metrics
        self.node_events = NodeEventHandler(
            cache=self.cache, queue=self._scheduling_queue, metrics=metrics
        )
        self.pod_events = PodEventHandler(
            cache=self.cache,
            queue=self._scheduling_queue,
            waiting_pods=waiting_pods,
            scheduler_names=[self._framework.profile_name],
            gang_scheduling=False,
            on_corrupted=_stop,
            metrics=metrics,
        )
        for node in nodes:
            self.node_events.on_add(node, is_initial=True)

    def _build_queue(self) -> PriorityQueue:
        framework = self._framework
        return PriorityQueue(
            framework.less,
            sort_key=framework.sort_key,
            pre_enqueue_plugins={framework.profile_name: framework.plugins["pre_enqueue"]},
            queueing_hint_map={
                framework.profile_name: build_queueing_hint_map(framework.registered_events)
            },
            nominator=self._nominator,
            metrics=self._metrics,
        )

    def _build_cycle(self, snapshot: Snapshot, tie_break: RandomTie) -> CycleParts:
        return CycleParts(
            profiles={self._framework.profile_name: self._framework},
            cache=self.cache,
            queue=self._scheduling_queue,
            algorithm=SchedulingAlgorithm(snapshot, tie_break=tie_break),
            api=self._fakes.api,
            waiting_pods=self._waiting_pods,
            pods_in_pre_bind=self._pods_in_pre_bind,
            pod_lister=self._find_pod,
            attempts=Attempts(clock=self._clock, metrics=self._metrics, stories=self._stories),
            spawn=_drop,
        )

    def schedule(self, pods: Iterable[Pod]) -> int:
        """Add these pods, schedule all active pods; return the number of pods with a node."""
        for arrived in pods:
            pod = self._share(arrived)
            self._pods[pod.key] = pod
            self.pod_events.on_add(pod, is_initial=False)
        bound = 0
        while len(self.queue.active_q):
            queued = self._scheduling_queue.pop_nowait()
            assert queued is not None, "it is active"
            result_of(schedule_one(self._cycle_parts, queued))
            bound += self._confirm(self._pods[queued.key])
        return bound

    def _confirm(self, pod: Pod) -> bool:
        """Deliver the watch event of the binding; False if the pod was not assumed."""
        assumed = self.cache.get_pod(pod)
        if assumed is None:
            return False
        self._scheduling_queue.done(pod.metadata.uid)
        bound = replace(pod, spec=replace(pod.spec, node_name=assumed.spec.node_name))
        self._pods[pod.key] = bound
        self.pod_events.on_update(pod, bound)
        return True

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(f"{namespace}/{name}")


class _Pods(FakeLister):
    """A lister of what has come in so far."""

    def __init__(self, pods: dict[str, Pod]) -> None:
        super().__init__()
        self._pods = pods

    def get(self, name: str, namespace: str = "") -> object | None:
        """One pod."""
        return self._pods.get(f"{namespace}/{name}")


def _drop(work: Coroutine[None, None, None], name: str) -> None:
    work.close()


def _stop(error: Exception) -> None:
    raise error
