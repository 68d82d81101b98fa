"""The FGD study (USENIX ATC 2023): policies for shared GPUs on variants of one trace.

The pods of a trace arrive one after another in random order, until they have asked for 130 % of all
GPUs. A pod that fits nowhere is dropped, and no pod leaves. Of equally good nodes the first by name
is taken. The nodes have new names, so that their order is random. The scheduler is the real one:
each policy is a profile, and each decision a scheduling cycle.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import load_text
from scheduler.cycle.schedule_pod import FirstInOrder
from scheduler.plugins import SCHEME
from scheduler.simulate.gpu_requests import GPU_COUNT, WHOLE
from scheduler.simulate.history.openb import pod_object
from scheduler.simulate.policies.best_fit import BestFit
from scheduler.simulate.policies.dot_product import DotProduct
from scheduler.simulate.policies.fragmentation import (
    Fragmentation,
    FragmentationColumn,
    TypicalPod,
)
from scheduler.simulate.policies.fragmentation_gradient import FragmentationGradient
from scheduler.simulate.policies.gpu_clustering import GpuClustering
from scheduler.simulate.policies.gpu_packing import GpuPacking
from scheduler.simulate.policies.gpu_shares import GpuShare, GpuShares
from scheduler.simulate.policies.random_node import RandomNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from scheduler.api.core import Node
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.simulate.gpu_requests import GpuRequest
    from scheduler.simulate.history.openb import OpenbPod

#: Pods arrive until they have asked for so many percent of all GPUs.
LOAD_PERCENT_MAX: Final = 130

#: The plugin of each policy. The names are those of the published results.
POLICIES: Final[Mapping[str, type[GpuShare]]] = {
    "01-Random": RandomNode,
    "02-DotProd": DotProduct,
    "03-GpuClustering": GpuClustering,
    "04-GpuPacking": GpuPacking,
    "05-BestFit": BestFit,
    "06-FGD": FragmentationGradient,
    "07-DefaultProfile": GpuShare,
}
_DEFAULT_PROFILE: Final = "07-DefaultProfile"


class Trace(NamedTuple):
    """A trace: the nodes by name, and the pods."""

    name: str
    nodes: Sequence[Node]
    pods: Sequence[OpenbPod]


def typical_pods(
    requests: Iterable[tuple[int, GpuRequest]], *, coverage: float = 0.95
) -> tuple[TypicalPod, ...]:
    """Return the most frequent requests (CPU and GPU) that cover this part of the pods.

    Of equally frequent ones the larger goes first.
    """
    counts = Counter(requests)
    models = {request: "|".join(sorted(request[1].models)) for request in counts}
    ordered = sorted(
        counts, key=lambda each: (counts[each], each[0], *each[1][:2], models[each]), reverse=True
    )
    chosen, covered = [], 0
    for each in ordered:
        if covered >= coverage * counts.total():
            break
        chosen.append(each)
        covered += counts[each]
    return tuple(
        TypicalPod(
            cpu_milli=cpu,
            gpu_milli=gpu.milli,
            gpus=gpu.gpus,
            models=tuple(sorted(gpu.models)),
            share=(counts[cpu, gpu] / counts.total()) / (covered / counts.total()),
        )
        for cpu, gpu in chosen
    )


class Curves(NamedTuple):
    """Results by arrived load in whole percent, all in percent.

    Allocated and fragmented GPU parts are in percent of all GPUs, the ratio is that of fragmented
    to idle parts. A load that did not occur is NaN.
    """

    allo: NDArray[np.float64]
    frag: NDArray[np.float64]
    frag_ratio: NDArray[np.float64]


async def run(
    trace: Trace,
    policy: str,
    *,
    seed: int,
    on_progress: Callable[[float], None] = lambda _: None,
) -> Curves:
    """Run one policy on one trace. `on_progress` gets the finished part, from 0 to 1."""
    typical = typical_pods((pod.cpu_milli, pod.gpu) for pod in trace.pods)
    plugin = POLICIES[policy]
    cluster = SimulatedCluster(
        _config(plugin, policy, typical), plugins=(plugin,), tie_break=FirstInOrder(), seed=seed
    )
    rng = random.Random(seed)
    cluster.api.load({"nodes": _in_random_order(trace.nodes, rng)})
    measure = _Measure(cluster, Fragmentation(typical))
    share, arriving = PartSharing(), arrivals(trace, rng)
    for number, pod in enumerate(arriving):
        waiting = share(pod_object(pod))
        cluster.apply(waiting)
        await cluster.settle()
        decided = cluster.find_pod(waiting)
        assert decided is not None, "no pod is deleted before it is decided"
        if not decided.spec.node_name:
            cluster.remove(decided)
        measure.pod_decided(pod, is_bound=bool(decided.spec.node_name))
        on_progress(number / len(arriving))
    return measure.curves()


def _in_random_order(nodes: Sequence[Node], rng: random.Random) -> list[Node]:
    """Return the nodes with new names, whose order is random."""
    numbered = enumerate(rng.sample(nodes, k=len(nodes)))
    return [
        replace(node, metadata=replace(node.metadata, name=f"{i:09}-{node.metadata.name}"))
        for i, node in numbered
    ]


def arrivals(trace: Trace, rng: random.Random) -> list[OpenbPod]:
    """Return the trace's pods in random order, cut or extended by random ones to the full load."""
    gpus = sum(int(node.status.allocatable.get(GPU_COUNT, "0")) for node in trace.nodes)
    room = gpus * WHOLE * LOAD_PERCENT_MAX // 100
    pods = list(trace.pods)
    rng.shuffle(pods)
    room -= sum(pod.gpu.total for pod in pods)
    while room < 0:
        room += pods.pop(rng.randrange(len(pods))).gpu.total
    for number in itertools.count():
        pod = trace.pods[rng.randrange(len(trace.pods))]
        room -= pod.gpu.total
        if room < 0:
            break
        pods.append(replace(pod, name=f"{pod.name}-tuned-{number}"))
    return pods


def _config(
    plugin: type[GpuShare], policy: str, typical: Sequence[TypicalPod]
) -> KubeSchedulerConfiguration:
    """Return the profile of a policy: the ordinary resource filter, and the policy's plugin.

    kube-scheduler's default profile gets the plugin's filter in addition to its own.
    """
    profile: dict[str, object] = {}
    if policy != _DEFAULT_PROFILE:
        names = ("PrioritySort", "DefaultBinder", plugin.name)
        profile["plugins"] = {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name} for name in names],
            },
            "preFilter": {"enabled": [{"name": "NodeResourcesFit"}]},
            "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
        }
    if plugin.Args is not None:
        args = {"typicalPods": msgspec.to_builtins(typical)}
        profile["pluginConfig"] = [{"name": plugin.name, "args": args}]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }
    return load_text(json.dumps(document), SCHEME)


class _Measure:
    """Measures allocation and fragmentation after each decision."""

    def __init__(self, cluster: SimulatedCluster, fragmentation: Fragmentation) -> None:
        core = cluster.core
        self._cache: Final = core.cache
        self._snapshot: Final = core.snapshot
        self._cache.update_snapshot(self._snapshot)
        framework = next(iter(core.profiles.values()))
        shares = framework.handle.shared(GpuShares)
        shares.align(self._snapshot.nodes)
        self._column: Final = FragmentationColumn(fragmentation, shares)
        self._all: Final = int(shares.gpus.sum()) * WHOLE
        self._arrived = 0
        self._allocated = 0
        self._moments: Final[list[tuple[float, float, float, float]]] = []

    def pod_decided(self, pod: OpenbPod, *, is_bound: bool) -> None:
        """Note the state after the decision on one pod."""
        self._arrived += pod.gpu.total
        if is_bound:
            self._allocated += pod.gpu.total
            self._cache.update_snapshot(self._snapshot)
            self._column.update(self._snapshot.nodes)
        fragmented, idle = self._column.values.sum(), self._all - self._allocated
        self._moments.append(
            (
                self._arrived / self._all,
                round(100 * self._allocated / self._all, 2),
                100 * fragmented / self._all,
                100 * fragmented / max(idle, 1),
            )
        )

    def curves(self) -> Curves:
        """Return the means over the moments of each load."""
        load, *values = np.array(self._moments).T
        at = np.rint(100 * load).astype(np.int64)
        loads = LOAD_PERCENT_MAX + 1
        counts = np.bincount(at, minlength=loads)[:loads].astype(np.float64)
        counts[counts == 0] = np.nan
        return Curves(*(np.bincount(at, v, minlength=loads)[:loads] / counts for v in values))
