"""A gang with exactly one perfect matching, over HTTP: the scheduler beside an API server."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.testing.cluster import Cluster
from tests.thoroughness import thorough_only

_GATES = {"GenericWorkload": True, "GangScheduling": True}


def _config(*, flow: bool) -> dict[str, Any]:
    plugins = {"multiPoint": {"enabled": [{"name": "FlowPlacement"}]}} if flow else {}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    return {"percentageOfNodesToScore": 100, "profiles": [profile]}


def _gang(size: int) -> list[dict[str, Any]]:
    """Return nodes with room for one pod each; member i runs on all but the last i of them."""
    nodes = [
        {"node": {"name": f"n-{number:03}", "cpu": 1, "labels": {"rank": str(number)}}}
        for number in range(size)
    ]
    members = []
    for number in range(size):
        rank = {"key": "rank", "operator": "Lt", "values": [str(size - number)]}
        affinity = {"required": [{"matchExpressions": [rank]}]}
        name = f"m-{number:03}"
        members.append(
            {"pod": {"name": name, "pod_group": "gang", "cpu": 1, "node_affinity": affinity}}
        )
    return [*nodes, {"pod_group": {"name": "gang", "min_count": size}}, *members]


def _placements(size: int, *, flow: bool) -> dict[str, str]:
    with Cluster(config=_config(flow=flow), gates=_GATES, objects=_gang(size)) as cluster:
        return cluster.settle().placements()


@pytest.mark.slow
@pytest.mark.parametrize("size", [50, pytest.param(200, marks=thorough_only)])
def test_a_gang_with_one_perfect_matching_is_bound(size: int) -> None:
    expected = {f"m-{number:03}": f"n-{size - 1 - number:03}" for number in range(size)}
    assert _placements(size, flow=True) == expected


@pytest.mark.slow
@thorough_only
def test_one_by_one_binds_none_of_it() -> None:
    assert _placements(50, flow=False) == {}
