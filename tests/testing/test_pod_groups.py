"""Pod groups in a whole scheduler, on the fake API server and on a virtual clock."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from fakeapi import FakeApiServer, ServerOptions
from scheduler.api.core import Pod, PodResourceClaim, PodSchedulingGroup
from scheduler.client.kinds import POD_GROUPS
from scheduler.testing import Simulation, VirtualClock, make_node, make_pod

pytestmark = pytest.mark.slow

GATES = {
    "GenericWorkload": True,
    "GangScheduling": True,
    "TopologyAwareWorkloadScheduling": True,
    "WorkloadAwarePreemption": True,
}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    options = ServerOptions(runtime_config=["scheduling.k8s.io/v1alpha2=true"])
    async with FakeApiServer(clock=VirtualClock(), seed=1, options=options) as running:
        yield running


async def create_group(simulation: Simulation, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    path = POD_GROUPS.collection_path("default")
    await simulation.client.request("POST", path, body=json.dumps(body).encode())


def member(name: str, group: str, cpu: str) -> Pod:
    pod = make_pod(name, requests={"cpu": cpu})
    spec = replace(pod.spec, scheduling_group=PodSchedulingGroup(group))
    return replace(pod, spec=spec)


async def nodes_of(simulation: Simulation, *names: str) -> list[str]:
    return [await simulation.node_of(name) for name in names]


async def condition_of(simulation: Simulation, name: str) -> tuple[str, str]:
    group = await simulation.client.get(POD_GROUPS, name, namespace="default")
    (condition,) = group.status.conditions
    return condition.status, condition.reason


async def test_a_gang_is_bound_together_or_not_at_all(server: FakeApiServer) -> None:
    async with Simulation(server, feature_gates=GATES) as simulation:
        await simulation.create(make_node("a", allocatable={"cpu": "2", "pods": "110"}))
        await create_group(simulation, "gang", schedulingPolicy={"gang": {"minCount": 3}})
        names = ["g0", "g1", "g2"]
        await simulation.create(*(member(name, "gang", "1") for name in names[:2]))
        await simulation.idle()
        assert await nodes_of(simulation, *names[:2]) == ["", ""]
        await simulation.create(member("g2", "gang", "1"))
        await simulation.idle()
        assert await nodes_of(simulation, *names) == ["", "", ""]
        assert await condition_of(simulation, "gang") == ("False", "Unschedulable")
        await simulation.create(make_node("b", allocatable={"cpu": "2", "pods": "110"}))
        await simulation.advance(30)
        assert "" not in await nodes_of(simulation, *names)
        assert await condition_of(simulation, "gang") == ("True", "Scheduled")


async def test_a_group_is_placed_in_one_domain(server: FakeApiServer) -> None:
    async with Simulation(server, feature_gates=GATES) as simulation:
        for name, zone, cpu in (("a", "x", "2"), ("b", "y", "2"), ("c", "y", "2")):
            allocatable = {"cpu": cpu, "pods": "110"}
            await simulation.create(make_node(name, labels={"zone": zone}, allocatable=allocatable))
        await create_group(
            simulation,
            "gang",
            schedulingPolicy={"gang": {"minCount": 2}},
            schedulingConstraints={"topology": [{"key": "zone"}]},
        )
        await simulation.create(member("g0", "gang", "2"), member("g1", "gang", "2"))
        await simulation.idle()
        assert sorted(await nodes_of(simulation, "g0", "g1")) == ["b", "c"]


async def test_room_is_made_for_a_whole_gang(server: FakeApiServer) -> None:
    async with Simulation(server, feature_gates=GATES) as simulation:
        await simulation.create(
            *(make_node(n, allocatable={"cpu": "2", "pods": "110"}) for n in "ab"),
            *(make_pod(f"low-{n}", requests={"cpu": "2"}, node_name=n) for n in "ab"),
        )
        priority_class = {"metadata": {"name": "high"}, "value": 5}
        await simulation.client.request(
            "POST",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            body=json.dumps(priority_class).encode(),
        )
        await create_group(
            simulation,
            "gang",
            schedulingPolicy={"gang": {"minCount": 2}},
            priorityClassName="high",
        )
        await simulation.create(member("g0", "gang", "2"), member("g1", "gang", "2"))
        await simulation.idle()
        pods = [await simulation.pod(f"low-{n}") for n in "ab"]
        assert all(pod.metadata.deletion_timestamp is not None for pod in pods)
        for name in "ab":
            await simulation.delete_pod(f"low-{name}")
        await simulation.advance(30)
        assert sorted(await nodes_of(simulation, "g0", "g1")) == ["a", "b"]


GANG_OF_TWO = {"gang": {"minCount": 2}}


@pytest.mark.parametrize(
    ("count", "policy"),
    [
        (2, GANG_OF_TWO),
        (20, {"gang": {"minCount": 20}}),
        (5, GANG_OF_TWO),
        (2, {"basic": {}}),
        (20, {"basic": {}}),
    ],
)
async def test_members_share_a_claim_that_is_being_allocated(
    server: FakeApiServer, count: int, policy: dict[str, Any]
) -> None:
    """The cases of upstream's `test/integration/dra/pod_group.go`.

    The first member that is bound writes the claim; the others fail in PreBind and are tried again.
    """
    async with Simulation(server, feature_gates=GATES) as simulation:
        for name in ("worker-0", "worker-1"):
            await simulation.create(make_node(name, allocatable={"cpu": "64", "pods": "110"}))
        await create_devices(simulation)
        await create_group(simulation, "group", schedulingPolicy=policy)
        names = [f"pod-{number}" for number in range(count)]
        await simulation.create(*(with_claim(member(name, "group", "1")) for name in names))
        await simulation.advance(60)
        assert await nodes_of(simulation, *names) == ["worker-0"] * count
        claim = await devices(simulation, "GET", "namespaces/default/resourceclaims/shared")
        assert sorted(user["name"] for user in claim["status"]["reservedFor"]) == sorted(names)


def with_claim(pod: Pod) -> Pod:
    entry = PodResourceClaim(name="devices", resource_claim_name="shared")
    return replace(pod, spec=replace(pod.spec, resource_claims=(entry,)))


async def create_devices(simulation: Simulation) -> None:
    """Create a device on `worker-0`, its class, and the claim `shared` for it."""
    driver = "gpu.example.com"
    pool = {"name": "worker-0", "generation": 1, "resourceSliceCount": 1}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    for path, name, spec in (
        ("deviceclasses", "gpu", {}),
        (
            "resourceslices",
            "worker-0",
            {"driver": driver, "pool": pool, "nodeName": "worker-0", "devices": [{"name": "gpu"}]},
        ),
        (
            "namespaces/default/resourceclaims",
            "shared",
            {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        ),
    ):
        await devices(simulation, "POST", path, {"metadata": {"name": name}, "spec": spec})


async def devices(
    simulation: Simulation, verb: str, path: str, value: dict[str, Any] | None = None
) -> Any:
    body = json.dumps(value).encode() if value is not None else None
    path = f"/apis/resource.k8s.io/v1/{path}"
    return json.loads(await simulation.client.request(verb, path, body=body))
