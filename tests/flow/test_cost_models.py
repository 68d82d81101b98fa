"""The prices of the cost models, on nodes whose pods a dry run changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from scheduler.api.core import Node, Pod
from scheduler.flow.args import FlowPlacementArgs
from scheduler.flow.cost_models import COST_MODELS
from scheduler.framework import CycleState
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import framework_of

_BANDWIDTH = "example.com/mbit"


def _costs(
    model: str,
    nodes: Sequence[Node],
    pod: Pod,
    *,
    added: Sequence[Mapping[str, str]] = (),
    **args: Any,
) -> list[int]:
    """Return the cost of a pod on each node; pods with these requests come to the first before."""
    handle = FakeHandle(snapshot_of(nodes))
    framework = framework_of(NodeResourcesFit, handle=handle)
    state, info = CycleState(), PodInfo(pod)
    framework.pre_filters.run(state, info, handle.snapshot.nodes)
    worlds = framework.worlds(state, info, handle.snapshot.nodes)
    pods = [PodInfo(make_pod(f"added-{i}", requests=each)) for i, each in enumerate(added)]
    worlds.add_pods(np.zeros(len(pods), dtype=np.int64), pods)
    price = COST_MODELS[model](handle, FlowPlacementArgs(**args))
    return price(info, worlds).tolist()


def _nodes(*names: str, **fields: Any) -> list[Node]:
    offered = {"cpu": "4", "memory": "16Gi", "pods": "9", _BANDWIDTH: "1000"}
    return [make_node(name, allocatable=offered, **fields) for name in names]


def test_the_scores_of_the_profile_count_against_the_cost() -> None:
    pod = make_pod(requests={"cpu": "2", "memory": "8Gi"})
    assert _costs("ProfileScores", _nodes("a", "b"), pod) == [-50, -50]
    added = [{"cpu": "1", "memory": "0"}]
    # Half of both resources was left on each node, and now there is a quarter of the cpu on one.
    assert _costs("ProfileScores", _nodes("a", "b"), pod, added=added) == [-37, -50]


def test_octopus_counts_pods() -> None:
    assert _costs("Octopus", _nodes("a", "b"), make_pod(), added=[{}, {"cpu": "3"}]) == [2, 0]


def test_cpu_and_memory_cost_their_share_and_their_variance() -> None:
    nodes = _nodes("a")
    even = make_pod(requests={"cpu": "2", "memory": "8Gi"})
    uneven = make_pod(requests={"cpu": "4", "memory": "0"})
    assert _costs("CpuMemory", nodes, even) == [500]
    assert _costs("CpuMemory", nodes, uneven) == [500 + 250]
    assert _costs("CpuMemory", nodes, even, added=[{"cpu": "2", "memory": "8Gi"}]) == [1000]


def test_data_of_another_rack_counts_double() -> None:
    nodes = [*_nodes("a", "b", zone="first"), *_nodes("c", zone="second"), *_nodes("d")]
    pod = make_pod(annotations={"flow.kubesched.io/data": "a=100Mi, c=10Mi, gone=1Mi"})
    # From the other rack 11 MiB on a, 100 MiB from the same rack on b, and so on.
    assert _costs("Locality", nodes, pod) == [22, 100 + 22, 202, 222]
    assert _costs("Locality", nodes, make_pod()) == [0, 0, 0, 0]


def test_an_annotation_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod(annotations={"data": "a=much"})
    with caplog.at_level(logging.WARNING):
        assert _costs("Locality", _nodes("a"), pod, data_annotation="data") == [0]
    [record] = caplog.records
    assert record.getMessage().startswith(
        'pod default/pod: annotation data: expected "NODE=QUANTITY,...", got "a=much": quantities'
    )


def test_bandwidth_costs_its_share() -> None:
    nodes = [*_nodes("a", "b"), make_node("without")]
    pod = make_pod(requests={"cpu": "1"})
    args = {"bandwidth_resource": _BANDWIDTH, "added": [{_BANDWIDTH: "300"}]}
    assert _costs("Network", nodes, pod, **args) == [300, 0, 1000]
    wanting = make_pod(requests={_BANDWIDTH: "500"})
    assert _costs("Network", nodes, wanting, **args) == [800, 500, 1000]
