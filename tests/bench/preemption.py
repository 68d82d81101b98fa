"""Preemption cycles per second, without HTTP.

One cycle is all that happens to a pod that fits nowhere: pop, snapshot, filters over every node,
the dry run over upstream's share of the nodes, the choice, and the way back into the queue with a
nominated node. Victims are not deleted, so every further pod finds the nominations of those before
it.
"""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from scheduler.api.core import LabelSelector, Pod, TopologySpreadConstraint
from scheduler.clock import SystemClock, Turns
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.reports.decision import result_of
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.bench.bare import BareScheduler
from tests.bench.stretches import Stretch, measure, spare_the_collector

__all__ = ["pod_preemption", "preemption_cycles_per_second"]

_NODE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_LOW: Final = {"cpu": "2", "memory": "500Mi"}
_HIGH: Final = {"cpu": "3", "memory": "500Mi"}
_ZONES: Final = 3
_LONG_AGO: Final = datetime(2026, 1, 1, tzinfo=UTC)


def preemption_cycles_per_second(
    nodes_total: int, *, low_total: int = 10_000, preemptors: int = 200
) -> float:
    """Nodes full of pods of low priority, equally many on each, and pods that want their places.

    Raises RuntimeError if one of those finds no victims.
    """
    running = []
    for i in range(low_total):
        pod = make_pod(f"low-{i}", node_name=f"node-{i % nodes_total}", requests=_LOW, priority=-10)
        status = replace(pod.status, start_time=_LONG_AGO + timedelta(seconds=i))
        running.append(replace(pod, status=status))
    high = [make_pod(f"high-{i}", requests=_HIGH, priority=10) for i in range(preemptors)]
    bench = _Bench(nodes_total, running, high)
    warm_up = 10
    bench.schedule(high[:warm_up])
    start = time.perf_counter()
    bench.schedule(high[warm_up:])
    seconds = time.perf_counter() - start
    if bench.nominated != preemptors:
        raise RuntimeError(f"{bench.nominated} of {preemptors} pods were nominated")
    return (preemptors - warm_up) / seconds


def pod_preemption(nodes_total: int, low_total: int) -> Stretch:
    """Measure a pod that preempts on full nodes, and whose spread constraint looks at all pods.

    Raises RuntimeError if it finds no victims.
    """
    return asyncio.run(_pod_preemption(nodes_total, low_total))


async def _pod_preemption(nodes_total: int, low_total: int) -> Stretch:
    labels = {"app": "web"}
    per_node = low_total // nodes_total
    offered = {"cpu": str(per_node), "memory": "256Gi", "pods": "1000"}
    nodes = [
        make_node(f"node-{i}", allocatable=offered, zone=f"zone-{i % _ZONES}")
        for i in range(nodes_total)
    ]
    running = []
    for i in range(low_total):
        name = f"node-{i % nodes_total}"
        pod = make_pod(f"low-{i}", node_name=name, requests={"cpu": "1"}, labels=labels)
        status = replace(pod.status, start_time=_LONG_AGO + timedelta(seconds=i))
        running.append(replace(pod, status=status))
    pod = make_pod("high", requests={"cpu": str(per_node // 3)}, labels=labels, priority=10)
    zone = "topology.kubernetes.io/zone"
    spread = TopologySpreadConstraint(per_node, zone, "DoNotSchedule", LabelSelector(labels))
    high = replace(pod, spec=replace(pod.spec, topology_spread_constraints=(spread,)))
    bench = BareScheduler(nodes, running, turns=Turns(SystemClock()))
    bench.core.informers.pods.put(high)
    queued = bench.core.cycle.queue.pop_nowait()
    if queued is None:
        raise RuntimeError("the pod does not wait")
    name = f"pod preempts on {nodes_total} nodes"
    spare_the_collector()
    measured = await measure(name, low_total, schedule_one(bench.core.cycle, queued))
    if not bench.core.queue.nominator.nominations:
        raise RuntimeError("the pod found no victims")
    return measured


class _Bench(BareScheduler):
    """Nodes, the pods on them, and the pods that wait."""

    def __init__(self, nodes_total: int, running: Iterable[Pod], waiting: Iterable[Pod]) -> None:
        nodes = [
            make_node(f"node-{i}", allocatable=_NODE, zone=f"zone-{i % _ZONES}")
            for i in range(nodes_total)
        ]
        super().__init__(nodes, running)
        for pod in waiting:
            self.core.informers.pods.lister.put(pod)

    @property
    def nominated(self) -> int:
        """The number of pods that are nominated to a node."""
        return sum(bool(node) for node in self.core.queue.nominator.nominations.values())

    def schedule(self, pods: Iterable[Pod]) -> None:
        """Queue and try these pods, each once."""
        cycle = self.core.cycle
        for pod in pods:
            cycle.queue.add(PodInfo(pod))
        while (queued := cycle.queue.pop_nowait()) is not None:
            result_of(schedule_one(cycle, queued))
