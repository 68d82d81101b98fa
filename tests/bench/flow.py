"""Flow placement against one by one: `python -m tests.bench.flow [--openb DIR] [--only NAME]`.

Prints a table for `docs/flow.md`. Each run has a process of its own, whose CPU time and largest
memory count. All pods wait when the scheduler starts. The total score is measured afterwards by the
default profile alone: the pods are bound again in the same order, and each counts the score of its
node at that moment.
"""

import argparse
import asyncio
import multiprocessing
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.framework import CycleState
from scheduler.simulate.gpu_requests import GPU_COUNT, GPU_MODEL, WHOLE
from scheduler.simulate.history.openb import read_nodes, read_pods
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.bench.mixed import mixed_workload
from tests.flow.clusters import GROUPS, cluster_of, gang, member, nested, on_nodes

_GPU: Final = "example.com/gpu-milli"


class _Case(NamedTuple):
    """A cluster with the pods that wait."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    groups: Sequence[PodGroup] = ()


class _Result(NamedTuple):
    pods: int
    placed: int
    score: int
    seconds: float
    mebibytes: float


def _mixed(nodes_total: int, pods_total: int) -> _Case:
    workload = mixed_workload(nodes_total, pods_total)
    return _Case(workload.nodes, [*workload.running, *workload.pods])


def _openb(folder: Path, trace: str) -> _Case:
    """Return the trace; GPUs are a resource in thousandths, models a required node affinity."""
    nodes = [
        replace(node, status=replace(node.status, allocatable=_in_milli(node)))
        for node in read_nodes(folder / "openb_node_list_all_node.csv")
    ]
    pods = []
    for pod in read_pods(folder / f"openb_pod_list_{trace}.csv"):
        requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
        if pod.gpu.gpus:
            requests[_GPU] = str(pod.gpu.gpus * pod.gpu.milli)
        affinity = _on_models(sorted(pod.gpu.models)) if pod.gpu.models else None
        pods.append(make_pod(pod.name, requests=requests, affinity=affinity))
    return _Case(nodes, pods)


def _in_milli(node: Node) -> dict[str, str]:
    offered = dict(node.status.allocatable)
    gpus = int(offered.pop(GPU_COUNT, "0"))
    return offered | {_GPU: str(gpus * WHOLE)}


def _on_models(models: Sequence[str]) -> dict[str, object]:
    terms = [{"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": models}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def _nested_gang(size: int) -> _Case:
    nodes, pods = nested(size)
    return _Case(nodes, pods, [gang(size)])


def _random_gang(size: int, choices: int, seed: int) -> _Case:
    """Return a gang that fits: each member may run on a node of its own, and on some others."""
    rng = random.Random(seed)
    names = [f"node-{number:03}" for number in range(size)]
    nodes = [make_node(name, allocatable={"cpu": "1", "pods": "9"}) for name in names]
    own = rng.sample(names, size)
    pods = [
        member(
            f"member-{number:03}",
            requests={"cpu": "1"},
            affinity=on_nodes(*{name, *rng.sample(names, choices)}),
        )
        for number, name in enumerate(own)
    ]
    return _Case(nodes, pods, [gang(size)])


def _run(case: _Case, *, flow: bool) -> _Result:
    """Schedule all pods, and measure."""
    gates = GROUPS if case.groups else DEFAULT_FEATURE_GATES
    cluster = cluster_of(case.nodes, case.pods, case.groups, flow=flow, gates=gates)
    waiting = {pod.metadata.name for pod in case.pods if not pod.spec.node_name}
    order: list[str] = []
    bind = cluster.api.bind

    async def note_and_bind(pod: Pod, node_name: str) -> None:
        order.append(pod.metadata.name)
        await bind(pod, node_name)

    cluster.api.bind = note_and_bind  # type: ignore[method-assign]
    started = time.process_time()
    # A pod that does not fit is tried once; a gang is tried again and again.
    asyncio.run(cluster.run_until(cluster.clock.now() + 0.5))
    seconds = time.process_time() - started
    node_of = {pod.metadata.name: pod.spec.node_name for pod in cluster.pods}
    placed = [name for name in order if name in waiting and node_of[name]]
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _Result(len(waiting), len(placed), _score(case, node_of, placed), seconds, usage)


def _score(case: _Case, node_of: dict[str, str], order: Sequence[str]) -> int:
    running = [pod for pod in case.pods if pod.spec.node_name]
    cluster = cluster_of(case.nodes, running, flow=False)
    pods = {
        pod.metadata.name: replace(pod, spec=replace(pod.spec, scheduling_group=None))
        for pod in case.pods
    }
    return sum(_scores(cluster, pods, node_of, order))


def _scores(
    cluster: SimulatedCluster, pods: dict[str, Pod], node_of: dict[str, str], order: Sequence[str]
) -> Iterator[int]:
    core = cluster.core
    [framework] = core.profiles.values()
    for name in order:
        core.cache.update_snapshot(core.snapshot)
        state, info = CycleState(), PodInfo(pods[name])
        nodes = framework.feasible_nodes(state, info)
        position = nodes.position(node_of[name])
        assert position is not None, f"{name} does not fit on its node when it is bound again"
        yield int(framework.scores.run(state, info, nodes).total[position])
        cluster.apply(info.assigned_to(node_of[name]).pod)


def _measured(make: Callable[[], _Case], *, flow: bool) -> _Result:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_measure, (make, flow))


def _measure(make: Callable[[], _Case], flow: bool) -> _Result:
    return _run(make(), flow=flow)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flow", description=__doc__)
    parser.add_argument("--openb", type=Path, help="the folder of the openb trace")
    parser.add_argument("--only", default="", help="the cases whose name begins so")
    arguments = parser.parse_args()
    print("| | pods | left out | total score | CPU s | MiB |\n|---|---|---|---|---|---|")
    for name, case, parameters in _cases(arguments.openb):
        if not name.startswith(arguments.only):
            continue
        for flow in (False, True):
            results = [_measured(_Lazy(case, each), flow=flow) for each in parameters]
            total, placed = (sum(column) for column in list(zip(*results, strict=True))[:2])
            print(
                f"| {name}, {'flow' if flow else 'one by one'} | {total} | {total - placed} | "
                f"{sum(result.score for result in results):,} | "
                f"{sum(result.seconds for result in results):.1f} | "
                f"{max(result.mebibytes for result in results):.0f} |",
                flush=True,
            )


class _Lazy(NamedTuple):
    """A case that is made in the process that runs it."""

    case: Callable[..., _Case]
    parameters: tuple[object, ...]

    def __call__(self) -> _Case:
        return self.case(*self.parameters)


def _cases(
    openb: Path | None,
) -> Iterator[tuple[str, Callable[..., _Case], Sequence[tuple[object, ...]]]]:
    yield "mixed, 500 nodes", _mixed, [(500, 2000)]
    yield "mixed, 30 nodes", _mixed, [(30, 2000)]
    if openb is not None:
        for trace in ("default", "gpuspec33"):
            yield f"openb, {trace}", _openb, [(openb, trace)]
    for size in (20, 100, 200):
        yield f"a gang of {size}, one matching", _nested_gang, [(size,)]
    for choices in (1, 3, 10):
        gangs = [(20, choices, seed) for seed in range(20)]
        yield f"20 gangs of 20, {choices} further nodes", _random_gang, gangs


if __name__ == "__main__":
    main()
