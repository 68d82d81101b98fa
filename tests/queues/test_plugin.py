"""The plugin Queues in a simulated cluster: shares, gangs, evictions, reservations."""

import json
import subprocess
import sys
from typing import Any

import pytest

from .player import Playing

SHIPPED = {
    "actions": "reclaim, allocate, backfill, preempt",
    "tiers": [
        {"plugins": [{"name": n} for n in ("priority", "gang", "conformance", "drf", "proportion")]}
    ],
}


def node(name: str, cpu: int = 4) -> dict[str, Any]:
    return {"name": name, "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}}


def queue(name: str, weight: int = 1) -> dict[str, Any]:
    return {"name": name, "weight": weight}


def group(name: str, of: str = "a", *, least: int = 1, priority: str = "") -> dict[str, Any]:
    row = {"name": name, "queue": of, "minMember": least}
    return {**row, "priorityClassName": priority} if priority else row


def pods(of: str, count: int, cpu: str = "1", **fields: Any) -> list[dict[str, Any]]:
    """Return pods of a group; memory is never scarce."""
    requests = {"cpu": cpu, "memory": "64Mi"} if cpu else {}
    return [
        {"name": f"{of}-{i}", "group": of, "requests": requests, "created": i, **fields}
        for i in range(count)
    ]


async def bound(*, improved: bool = True, **scenario: Any) -> dict[str, int]:
    """Return the number of running pods by group at the end."""
    jobs: dict[str, int] = (await played(improved=improved, **scenario))["jobs"]
    return jobs


async def played(*, improved: bool = True, **scenario: Any) -> dict[str, Any]:
    base = {"conf": SHIPPED, "nodes": [node("n1")], "queues": [queue("a"), queue("b")]}
    summary = await Playing({**base, **scenario}, improved=improved).summary()
    jobs = {key.split("/")[1]: job["running"] for key, job in summary["jobs"].items()}
    return {**summary, "jobs": jobs}


async def test_two_queues_share_a_cluster_by_weight() -> None:
    assert await bound(
        nodes=[node("n1", 8)],
        queues=[queue("a", 3), queue("b", 1)],
        podGroups=[group("x", "a"), group("y", "b")],
        pods=[*pods("x", 10), *pods("y", 10)],
    ) == {"x": 6, "y": 2}


async def test_jobs_of_a_queue_take_turns() -> None:
    assert await bound(podGroups=[group("x"), group("y")], pods=[*pods("x", 9), *pods("y", 9)]) == {
        "x": 2,
        "y": 2,
    }


@pytest.mark.parametrize(("least", "expected"), [(4, 4), (5, 0)])
async def test_a_gang_is_bound_whole_or_not_at_all(least: int, expected: int) -> None:
    assert await bound(podGroups=[group("x", least=least)], pods=pods("x", 5)) == {"x": expected}


async def test_a_gang_that_never_fits_holds_no_other_back() -> None:
    scenario: dict[str, Any] = {
        "podGroups": [group("big", least=5), group("small")],
        "pods": [*pods("big", 5), *pods("small", 3, created=99)],
    }
    assert await bound(**scenario) == {"big": 0, "small": 3}
    assert await bound(**scenario, improved=False) == {"big": 0, "small": 0}


async def test_borrowed_room_is_given_back() -> None:
    summary = await played(
        podGroups=[group("x", "a"), group("y", "b")],
        pods=[*pods("x", 6), *pods("y", 6)],
    )
    assert summary["jobs"] == {"x": 2, "y": 2}
    running = [{**pod, "node": "n1", "phase": "Running"} for pod in pods("x", 4)]
    summary = await played(
        podGroups=[group("x", "a"), group("y", "b")], pods=[*running, *pods("y", 6)]
    )
    assert summary["jobs"] == {"x": 2, "y": 2}
    assert summary["evicted"] == {"a": 2, "b": 0}


async def test_a_gang_evicts_for_all_its_members_or_for_none() -> None:
    running = [{**pod, "node": "n1", "phase": "Running"} for pod in pods("x", 4)]
    classes = [{"name": "high", "value": 9}]
    for least, expected in ((2, {"x": 2, "y": 2}), (5, {"x": 4, "y": 0})):
        summary = await played(
            priorityClasses=classes,
            podGroups=[group("x", "a"), group("y", "a", least=least, priority="high")],
            pods=[*running, *pods("y", least)],
        )
        assert summary["jobs"] == expected


async def test_a_queue_that_has_its_share_still_serves_its_urgent_jobs_first() -> None:
    running = [{**pod, "node": "n1", "phase": "Running"} for pod in pods("x", 4)]
    summary = await played(
        queues=[queue("a")],
        priorityClasses=[{"name": "high", "value": 9}],
        podGroups=[group("x", "a"), group("y", "a", priority="high")],
        pods=[*running, *pods("y", 1)],
    )
    assert summary["jobs"] == {"x": 3, "y": 1}


async def test_a_gang_that_runs_keeps_its_least_number() -> None:
    running = [{**pod, "node": "n1", "phase": "Running"} for pod in pods("x", 4)]
    summary = await played(
        podGroups=[group("x", "a", least=3), group("y", "b")], pods=[*running, *pods("y", 4)]
    )
    assert summary["jobs"] == {"x": 3, "y": 1}


async def test_pods_without_requests_fill_the_gaps() -> None:
    assert await bound(
        podGroups=[group("x"), group("y")], pods=[*pods("x", 5), *pods("y", 3, "")]
    ) == {"x": 4, "y": 3}


def test_a_default_profile_imports_nothing_of_queues() -> None:
    code = (
        "import sys; from scheduler.config import default_config; "
        "from scheduler.plugins import SCHEME; "
        "from scheduler.assembly.simulated_cluster import SimulatedCluster; "
        "SimulatedCluster(default_config(SCHEME)); "
        "import json; found = [m for m in sys.modules if m.startswith('scheduler.queues')]; "
        "print(json.dumps(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    assert json.loads(done.stdout) == []
