"""Scores and choices of the policies, in a scheduler with a few nodes."""

import json

import pytest

from scheduler.api.core import Node, Pod
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import load_text
from scheduler.plugins import SCHEME
from scheduler.simulate.gpu_requests import (
    GPU_COUNT,
    GPU_INDEX,
    GPU_MILLI,
    GPU_MODEL,
    gpu_request,
)
from scheduler.simulate.policies.best_fit import BestFit
from scheduler.simulate.policies.dot_product import DotProduct
from scheduler.simulate.policies.fragmentation_gradient import FragmentationGradient
from scheduler.simulate.policies.gpu_clustering import GpuClustering
from scheduler.simulate.policies.gpu_packing import GpuPacking
from scheduler.simulate.policies.gpu_shares import GpuShare, GpuShares
from scheduler.simulate.policies.random_node import RandomNode
from scheduler.testing import make_node, make_pod

_TYPICAL = [
    {"cpuMilli": 1000, "gpuMilli": 500, "gpus": 1, "share": 0.5},
    {"cpuMilli": 1000, "gpuMilli": 1000, "gpus": 1, "share": 0.5},
]


def _node(name: str, gpus: int, *, model: str = "T4", cpu: str = "64") -> Node:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "99", GPU_COUNT: str(gpus)}
    return make_node(name, labels={GPU_MODEL: model}, allocatable=allocatable)


def _pod(
    name: str, milli: int = 0, gpus: int = 1, *, models: str = "", node: str = "", index: str = ""
) -> Pod:
    annotations = {GPU_MILLI: str(milli), GPU_COUNT: str(gpus)} if milli else {}
    annotations |= {GPU_MODEL: models} if models else {}
    annotations |= {GPU_INDEX: index} if index else {}
    return make_pod(name, annotations=annotations, requests={"cpu": "1"}, node_name=node)


class _Scheduler:
    """A scheduler with one policy."""

    def __init__(self, plugin: type[GpuShare], *objects: Node | Pod) -> None:
        profile: dict[str, object] = {
            "plugins": {
                "multiPoint": {
                    "disabled": [{"name": "*"}],
                    "enabled": [
                        {"name": name} for name in ("PrioritySort", "DefaultBinder", plugin.name)
                    ],
                }
            }
        }
        if issubclass(plugin, FragmentationGradient):
            args = {"typicalPods": _TYPICAL}
            profile["pluginConfig"] = [{"name": plugin.name, "args": args}]
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        config = load_text(json.dumps(document), SCHEME)
        self.scores: dict[str, int] = {}
        self.cluster = SimulatedCluster(config, plugins=(plugin,), on_cycle=self._note)
        for obj in objects:
            self.cluster.apply(obj)

    def _note(self, queued: object, found: object) -> None:
        result = getattr(found, "result", None)
        if result is not None and result.scores is not None:
            names = result.feasible_nodes.names
            self.scores = dict(zip(names, result.scores.total.tolist(), strict=True))

    async def node_of(self, pod: Pod) -> str:
        self.cluster.apply(pod)
        await self.cluster.settle()
        return next(p for p in self.cluster.pods if p.key == pod.key).spec.node_name

    def left(self, node: str) -> list[int]:
        framework = next(iter(self.cluster.core.profiles.values()))
        shares = framework.handle.shared(GpuShares)
        gpus = int(shares.gpus[shares.row(node)])
        return shares.left[shares.row(node)][:gpus].tolist()


async def test_a_share_goes_to_the_fullest_gpu_with_room_and_whole_gpus_to_the_first_idle() -> None:
    scheduler = _Scheduler(GpuShare, _node("a", 4))
    await scheduler.node_of(_pod("first", 300))
    await scheduler.node_of(_pod("second", 600))
    await scheduler.node_of(_pod("third", 500))
    assert scheduler.left("a") == [100, 500, 1000, 1000]
    await scheduler.node_of(_pod("pair", 1000, 2))
    assert scheduler.left("a") == [100, 500, 0, 0]


async def test_a_pod_fits_only_where_single_gpus_have_room() -> None:
    scheduler = _Scheduler(GpuShare, _node("a", 2))
    await scheduler.node_of(_pod("first", 600))
    await scheduler.node_of(_pod("second", 600))
    assert await scheduler.node_of(_pod("third", 500)) == "", "no GPU has 500 left, two have 400"
    assert await scheduler.node_of(_pod("fourth", 400)) == "a"


async def test_a_pod_that_names_models_gets_one_of_them() -> None:
    scheduler = _Scheduler(GpuShare, _node("a", 2), _node("b", 2, model="A10"))
    assert await scheduler.node_of(_pod("p", 1000, models="V100|A10")) == "b"
    assert await scheduler.node_of(_pod("q", 1000, models="V100")) == ""


async def test_gpus_are_given_back_when_the_pod_is_deleted_and_waiting_pods_get_them() -> None:
    scheduler = _Scheduler(GpuShare, _node("a", 1))
    first = _pod("first", 1000)
    await scheduler.node_of(first)
    assert await scheduler.node_of(_pod("second", 1000)) == ""
    scheduler.cluster.remove(first)
    await scheduler.cluster.settle()
    assert [pod.spec.node_name for pod in scheduler.cluster.pods] == ["a"]


async def test_pods_that_run_already_hold_the_gpus_of_their_annotation() -> None:
    running = _pod("running", 700, node="a", index="1")
    other = _pod("other", 1000, node="a")
    scheduler = _Scheduler(GpuShare, _node("a", 3), running, other)
    await scheduler.node_of(_pod("p", 200))
    assert scheduler.left("a") == [0, 100, 1000]


async def test_packing_prefers_gpus_in_use_then_nodes_in_use_then_small_idle_nodes() -> None:
    used = [_pod("u1", 800, node="used", index="0"), _pod("u2", 500, node="used", index="3")]
    nodes = [_node("used", 4), _node("idle4", 4), _node("idle8", 8)]
    scheduler = _Scheduler(GpuPacking, *nodes, *used)
    assert await scheduler.node_of(_pod("p", 1000, 2)) == "used"
    # The figures of the study's repository: `gpu_packing_score_test.go`.
    assert scheduler.scores == {"used": 48, "idle4": 29, "idle8": 25}
    await scheduler.node_of(_pod("share", 200))
    assert scheduler.scores["used"] == 98


async def test_clustering_keeps_pods_of_one_kind_together() -> None:
    running = [
        _pod("s1", 500, node="shares", index="0"),
        _pod("s2", 500, node="both", index="0"),
        _pod("w1", 1000, node="both", index="1"),
        _pod("w2", 1000, node="whole", index="0"),
    ]
    nodes = [_node(name, 4) for name in ("shares", "both", "whole", "idle")]
    scheduler = _Scheduler(GpuClustering, *nodes, *running)
    assert await scheduler.node_of(_pod("p", 100)) == "shares"
    assert scheduler.scores == {"shares": 89, "both": 67, "whole": 15, "idle": 37}


async def test_best_fit_takes_the_node_with_least_left() -> None:
    nodes = [_node("large", 8, cpu="128"), _node("small", 2), _node("medium", 4)]
    scheduler = _Scheduler(BestFit, *nodes)
    assert await scheduler.node_of(_pod("p", 500)) == "small"
    assert scheduler.scores["small"] == 100
    assert scheduler.scores["large"] == 0


async def test_dot_product_scores_free_by_requested_amounts() -> None:
    scheduler = _Scheduler(DotProduct, _node("full", 8, cpu="128"), _node("small", 2, cpu="64"))
    assert await scheduler.node_of(_pod("p", 1000, 2)) == "small"
    # 100 x (1 - (1 x 1/128 + 1 x 2/8) / 2), and half of the CPU and a quarter of the GPUs.
    assert scheduler.scores == {"full": 87, "small": 96}


async def test_the_gradient_keeps_idle_gpus_whole() -> None:
    running = _pod("running", 400, node="broken", index="1")
    scheduler = _Scheduler(FragmentationGradient, _node("a", 2), _node("broken", 2), running)
    assert await scheduler.node_of(_pod("p", 500)) == "broken"
    assert scheduler.left("broken") == [1000, 100]
    # 600 of one GPU were a fragment for half of the pods, then 100 for all; 500 on the idle node.
    assert scheduler.scores == {"broken": 54, "a": 43}


async def test_of_equal_gradients_the_first_node_wins() -> None:
    scheduler = _Scheduler(FragmentationGradient, _node("a", 4), _node("b", 2))
    assert await scheduler.node_of(_pod("p", 500)) == "a"
    assert scheduler.scores["a"] == scheduler.scores["b"]


async def test_a_single_feasible_node_gets_the_pod_on_the_gpu_that_fragments_least() -> None:
    running = _pod("running", 400, node="a", index="1")
    scheduler = _Scheduler(FragmentationGradient, _node("a", 2), running)
    await scheduler.node_of(_pod("p", 500))
    assert scheduler.left("a") == [1000, 100]


async def test_random_choices_are_repeated_by_the_seed() -> None:
    async def placements() -> list[str]:
        scheduler = _Scheduler(RandomNode, *(_node(f"n{i}", 8) for i in range(5)))
        return [await scheduler.node_of(_pod(f"p{i}", 300)) for i in range(20)]

    first = await placements()
    assert first == await placements()
    assert len(set(first)) > 1


@pytest.mark.parametrize(
    ("annotations", "error"),
    [
        ({GPU_MILLI: "many"}, "expected an integer from 0 to 1000, got 'many'"),
        ({GPU_MILLI: "500", GPU_COUNT: "2"}, "expected 1000 for 2 GPUs, got 500"),
        ({GPU_MILLI: "1000", GPU_COUNT: "9"}, "expected an integer from 0 to 8, got '9'"),
    ],
)
def test_a_bad_request_is_named(annotations: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        gpu_request(annotations)
