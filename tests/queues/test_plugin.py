"""The plugin Queues in a simulated cluster: shares, gangs, evictions, reservations."""

import json
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from scheduler.config import DEFAULT_FEATURE_GATES, GANG_SCHEDULING, GENERIC_WORKLOAD
from scheduler.queues.objects import QUEUE_NAME_ANNOTATION
from scheduler.testing import make_pod

from .player import SCHEDULER_NAME, Playing

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


async def _runs_within_minutes(*, places: int = 110, **args: Any) -> bool:
    """Return True if a gang as large as the node runs although small pods follow each other.

    Pods without requests wait, too.
    """
    small = [{**pod, "node": "n1", "phase": "Running"} for pod in pods("small", 4)]
    allocatable = {"cpu": "4", "memory": "64Gi", "pods": str(places)}
    scenario = {
        "conf": SHIPPED,
        "nodes": [{"name": "n1", "allocatable": allocatable}],
        "queues": [queue("a")],
        "podGroups": [group("small"), group("large", least=2), group("empty")],
        "pods": [*small, *pods("large", 2, "2"), *pods("empty", 6, "")],
    }
    playing = Playing(scenario, improved=True, args=args)
    playing.create()
    for number in range(4, 16):
        playing.add_pod({**pods("small", 1)[0], "name": f"small-{number}"})
        await playing.cluster.run_until(playing.cluster.clock.now() + 30)
        bound_pods = [pod for pod in playing.cluster.pods if pod.spec.node_name]
        by_name = {p.metadata.name: p for p in bound_pods if p.status.phase != "Succeeded"}
        numbers = [int(name.split("-")[1]) for name in by_name if name.startswith("small")]
        if "large-0" in by_name or not numbers:
            break
        playing.finish(by_name[f"small-{min(numbers)}"])
    await playing.cluster.close()
    return "large-0" in by_name


async def test_a_large_gang_that_starves_gets_the_room_that_small_pods_leave() -> None:
    assert not await _runs_within_minutes(reservationAfterSeconds=0)
    assert await _runs_within_minutes()


async def test_pods_without_requests_leave_a_reserved_gang_its_places() -> None:
    assert not await _runs_within_minutes(places=4, backfillRespectsReservations=False)
    assert await _runs_within_minutes(places=4)


def core_group(name: str, of: str, *, least: int) -> PodGroup:
    """Return a PodGroup of `scheduling.k8s.io`; an annotation names its queue."""
    metadata = ObjectMeta(name=name, namespace="default", annotations={QUEUE_NAME_ANNOTATION: of})
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(least))
    return PodGroup(metadata, PodGroupSpec(scheduling_policy=policy))


def member(of: str, name: str, *, cpu: int = 1) -> Pod:
    """Return a pod of a core PodGroup."""
    pod = make_pod(name, requests={"cpu": str(cpu)}, scheduler_name=SCHEDULER_NAME)
    spec = replace(
        pod.spec,
        scheduling_group=PodSchedulingGroup(of),
        termination_grace_period_seconds=0,
    )
    return replace(pod, spec=spec)


class CoreGroups:
    """A cluster with the queues `a` and `b`, the core PodGroup `x` of `a` and `y` of `b`."""

    def __init__(self, *, cpu: int, least: int) -> None:
        gates = DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD, GANG_SCHEDULING}
        scenario = {"nodes": [node("n1", cpu)], "queues": [queue("a"), queue("b")], "pods": []}
        self._playing = Playing({"conf": SHIPPED, **scenario}, improved=True, gates=gates)
        self._playing.create()
        self._cluster = self._playing.cluster
        for name, of in (("x", "a"), ("y", "b")):
            self._cluster.apply(core_group(name, of, least=least))

    async def add(self, of: str, count: int, *, cpu: int = 1) -> dict[str, int]:
        """Add pods to a group; return the number of bound ones by group, when all is quiet."""
        for number in range(count):
            self._cluster.apply(member(of, f"{of}-{number}", cpu=cpu))
        await self._cluster.run_until(self._cluster.clock.now() + 120)
        names = [pod.metadata.name for pod in self._cluster.pods if pod.spec.node_name]
        return {of: sum(name.startswith(of) for name in names) for of in ("x", "y")}


async def test_core_groups_share_the_cluster() -> None:
    cluster = CoreGroups(cpu=4, least=1)
    assert await cluster.add("x", 6) == {"x": 4, "y": 0}
    assert await cluster.add("y", 6) == {"x": 2, "y": 2}


async def test_a_core_gang_evicts_for_all_its_members_or_for_none() -> None:
    cluster = CoreGroups(cpu=4, least=2)
    assert await cluster.add("x", 4) == {"x": 4, "y": 0}
    assert await cluster.add("y", 2, cpu=2) == {"x": 4, "y": 0}
    cluster = CoreGroups(cpu=4, least=2)
    assert await cluster.add("x", 4) == {"x": 4, "y": 0}
    assert await cluster.add("y", 2) == {"x": 2, "y": 2}


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
