"""A Job that is a gang, from its creation to its end: actors make the group, pods get nodes.

The actors are upstream's job controller, garbage collector and kubelets; the scheduler is ours.
"""

from typing import Any

import msgspec

from fakeapi import Actors, FakeApiServer, KubeletOptions, ServerOptions
from scheduler.testing import Simulation, VirtualClock, make_node

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
GATES = {"GenericWorkload": True, "GangScheduling": True}
CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
JOB = {
    "metadata": {"name": "train"},
    "spec": {
        "completionMode": "Indexed",
        "completions": 3,
        "parallelism": 3,
        "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
    },
}


async def _items(simulation: Simulation, path: str) -> list[Any]:
    items: list[Any] = msgspec.json.decode(await simulation.client.request("GET", path))["items"]
    return items


async def _settle(simulation: Simulation, actors: Actors) -> None:
    for _ in range(3):
        await actors.wait_until_idle()
        await simulation.idle()


async def _pass_time(simulation: Simulation, actors: Actors, seconds: float) -> None:
    for _ in range(int(seconds)):
        await simulation.advance(1.0)
        await _settle(simulation, actors)


async def test_a_job_that_is_a_gang_is_bound_ends_and_is_collected() -> None:
    clock = VirtualClock()
    options = ServerOptions(runtime_config=["api/alpha=true"])
    kubelet = KubeletOptions(pods_complete_after_seconds=10.0)
    async with (
        FakeApiServer(clock=clock, options=options) as server,
        Actors(server, owners=True, garbage_collector=True, kubelet=kubelet) as actors,
        Simulation(server, feature_gates=GATES) as simulation,
    ):
        await simulation.create(make_node("n", allocatable={"cpu": "4", "pods": "10"}))
        await simulation.client.request("POST", JOBS, body=msgspec.json.encode(JOB))
        await _settle(simulation, actors)
        (group,) = await _items(simulation, GROUPS)
        (condition,) = group["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodGroupScheduled", "True")
        pods = await _items(simulation, PODS)
        assert [pod["spec"]["nodeName"] for pod in pods] == ["n"] * 3
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {
            group["metadata"]["name"]
        }
        await _pass_time(simulation, actors, 20)
        (job,) = await _items(simulation, JOBS)
        assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (3, "0-2")

        await simulation.client.request(
            "DELETE", f"{JOBS}/train", query="propagationPolicy=Background"
        )
        await _pass_time(simulation, actors, 5)
        assert await _items(simulation, GROUPS) == await _items(simulation, PODS) == []
