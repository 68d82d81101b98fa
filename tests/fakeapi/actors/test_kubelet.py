"""The kubelet: bound pods run, end and are deleted; nodes have heartbeats."""

import pytest

from fakeapi import Actors, KubeletOptions

from ..actor_cluster import NODES, PODS, cluster, conditions, node, pod
from ..api_client import JSON_PATCH, MERGE, Json

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"


async def test_a_bound_pod_runs_after_its_startup() -> None:
    async with cluster(kubelet=KubeletOptions(startup_seconds=3)) as c:
        await c.create(PODS, pod())
        found = await c.read(f"{PODS}/p")
        assert found["status"]["phase"] == "Pending"
        state = found["status"]["containerStatuses"][0]["state"]
        assert state == {"waiting": {"reason": "ContainerCreating"}}
        assert conditions(found)["Ready"] == "False"
        await c.advance(2.9)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Pending"
        await c.advance(0.1)
        found = await c.read(f"{PODS}/p")
        status = found["status"]
        assert status["phase"] == "Running"
        assert status["podIP"] == status["podIPs"][0]["ip"]
        assert status["startTime"] == "2027-01-15T08:00:00Z"
        ready = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        assert all(conditions(found)[kind] == "True" for kind in ready)
        assert not any({"reason", "message"} & one.keys() for one in status["conditions"])
        (container,) = status["containerStatuses"]
        assert container["state"] == {"running": {"startedAt": "2027-01-15T08:00:03Z"}}
        assert container["ready"]
        assert container["started"]


async def test_pods_that_are_not_bound_or_have_no_node_wait() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod("lost", node="nowhere"))
        unbound = pod("unbound")
        del unbound["spec"]["nodeName"]
        await c.create(PODS, unbound)
        await c.advance(10)
        assert {p["status"]["phase"] for p in await c.items(PODS)} == {"Pending"}
        await c.api.post(
            f"{PODS}/unbound/binding",
            {"metadata": {"name": "unbound"}, "target": {"kind": "Node", "name": "n1"}},
        )
        await c.create(NODES, node("nowhere"))
        await c.advance(1)
        assert {p["status"]["phase"] for p in await c.items(PODS)} == {"Running"}


@pytest.mark.parametrize(
    ("policy", "codes", "phase", "restarts", "reason"),
    [
        ("Never", "0", "Succeeded", 0, "Completed"),
        ("Never", "3", "Failed", 0, "Error"),
        ("OnFailure", "0", "Succeeded", 0, "Completed"),
        ("OnFailure", "1,0", "Succeeded", 1, "Completed"),
        ("OnFailure", "1,1,0", "Succeeded", 2, "Completed"),
    ],
)
async def test_a_pod_completes(
    policy: str, codes: str, phase: str, restarts: int, reason: str
) -> None:
    async with cluster(kubelet=True) as c:
        spec = {"restartPolicy": policy}
        await c.create(PODS, pod(spec=spec, run_seconds="5", exit_codes=codes))
        await c.advance(60, step_seconds=30)
        found = await c.read(f"{PODS}/p")
        assert found["status"]["phase"] == phase
        (container,) = found["status"]["containerStatuses"]
        assert container["restartCount"] == restarts
        assert container["state"]["terminated"]["reason"] == reason
        assert conditions(found)["Ready"] == "False"


async def test_restarts_back_off_as_upstream_does() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(run_seconds="1", exit_codes="1", startup_seconds="0"))
        seen = []
        for _ in range(36):
            await c.advance(1)
            (container,) = (await c.read(f"{PODS}/p"))["status"]["containerStatuses"]
            seen.append(container["restartCount"])
            if "waiting" in container["state"]:
                assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                assert not container["ready"]
        # Ends after 1 s, begins at once; ends at 2, waits 10; ends at 13, waits 20; runs from 33.
        assert [seen.index(number) + 1 for number in (1, 2, 3)] == [1, 12, 33]
        assert container["lastState"]["terminated"]["exitCode"] == 1


async def test_a_deadline_ends_a_pod() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(spec={"activeDeadlineSeconds": 7}))
        await c.advance(7)
        status = (await c.read(f"{PODS}/p"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_deleted_pod_is_gone_after_its_grace_period() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(spec={"terminationGracePeriodSeconds": 20}))
        await c.advance(2)
        await c.api.delete(f"{PODS}/p")
        await c.advance(19)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"
        async with c.api.watch(PODS) as stream:
            await c.advance(1)
            assert (await stream.next() or {})["type"] == "ADDED"
            last = [await stream.next() for _ in range(2)]
        final = (last[0] or {})["object"]["status"]
        assert final["phase"] == "Failed"
        assert final["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
        assert await c.code(f"{PODS}/p") == 404


async def test_a_pod_may_need_less_than_its_grace_period() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(termination_seconds="2"))
        await c.advance(2)
        await c.api.delete(f"{PODS}/p")
        await c.advance(1.5)
        assert await c.code(f"{PODS}/p") == 200
        await c.advance(0.5)
        assert await c.code(f"{PODS}/p") == 404


async def test_a_pod_is_ready_once_its_readiness_gate_is_true() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(spec={"readinessGates": [{"conditionType": "my/gate"}]}))
        await c.advance(1)
        found = await c.read(f"{PODS}/p")
        assert (conditions(found)["Ready"], conditions(found)["ContainersReady"]) == (
            "False",
            "True",
        )
        gate = [*found["status"]["conditions"], {"type": "my/gate", "status": "True"}]
        await c.api.patch(f"{PODS}/p/status", {"status": {"conditions": gate}}, MERGE)
        await c.settle()
        assert conditions(await c.read(f"{PODS}/p"))["Ready"] == "True"


async def test_a_readiness_probe_delays_ready() -> None:
    async with cluster(kubelet=True) as c:
        probe = {"initialDelaySeconds": 10, "exec": {"command": ["true"]}}
        probed = {"name": "probed", "image": "x", "readinessProbe": probe}
        await c.create(PODS, pod(spec={"containers": [{"name": "c", "image": "x"}, probed]}))
        await c.advance(10.5)
        found = await c.read(f"{PODS}/p")
        assert found["status"]["phase"] == "Running"
        statuses = {one["name"]: one for one in found["status"]["containerStatuses"]}
        assert [statuses[name]["ready"] for name in ("c", "probed")] == [True, False]
        assert statuses["probed"]["started"]
        assert (conditions(found)["Ready"], conditions(found)["ContainersReady"]) == (
            "False",
            "False",
        )
        (why,) = (one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert why["message"] == "containers with unready status: [probed]"
        await c.advance(0.5)
        assert conditions(await c.read(f"{PODS}/p"))["Ready"] == "True"


@pytest.mark.parametrize(
    ("policy", "phase"), [("Never", "Succeeded"), ("OnFailure", "Succeeded"), ("Always", "Running")]
)
async def test_pods_that_can_complete_do_so_on_request(policy: str, phase: str) -> None:
    async with cluster(kubelet=KubeletOptions(pods_complete_after_seconds=5)) as c:
        await c.create(PODS, pod(spec={"restartPolicy": policy}))
        await c.create(PODS, pod("own", run_seconds="60", spec={"restartPolicy": policy}))
        await c.advance(5.9)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"
        await c.advance(0.1)
        found = (await c.read(f"{PODS}/p"))["status"]
        assert found["phase"] == phase
        assert found["containerStatuses"][0]["restartCount"] == 0
        assert (await c.read(f"{PODS}/own"))["status"]["phase"] == "Running"


async def test_new_capacity_of_a_node_becomes_allocatable() -> None:
    has = {**node("n1"), "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}}}
    async with cluster(load=[has], kubelet=True) as c:

        async def patched(*operations: tuple[str, str, str]) -> Json:
            patch = [
                {"op": op, "path": f"/status/{path}", "value": v} for op, path, v in operations
            ]
            reply = await c.api.patch(f"{NODES}/n1/status", patch, JSON_PATCH)
            assert reply.code == 200, reply.body
            await c.settle()
            found: Json = (await c.read(f"{NODES}/n1"))["status"]["allocatable"]
            return found

        dongles = "capacity/example.com~1dongle"
        assert await patched(("add", dongles, "4")) == {"cpu": "7", "example.com/dongle": "4"}
        assert (await patched(("replace", dongles, "6")))["example.com/dongle"] == "6"
        both = (("add", "capacity/cpu", "16"), ("add", "allocatable/cpu", "15"))
        assert (await patched(*both))["cpu"] == "15"
        assert await patched(("remove", dongles, "")) == {"cpu": "15"}


async def test_another_kubelet_continues_the_pods_of_an_earlier_one() -> None:
    async with cluster(kubelet=True) as c:
        await c.create(PODS, pod(run_seconds="10", spec={"restartPolicy": "Never"}))
        await c.advance(4)
        await c.actors.__aexit__()
        async with Actors(c.server, kubelet=True) as actors:
            await actors.wait_until_idle()
            c.clock.advance(6)
            await actors.wait_until_idle()
            assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"
            c.clock.advance(1)
            await actors.wait_until_idle()
            assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Succeeded"


async def test_nodes_have_heartbeats() -> None:
    async with cluster(kubelet=True) as c:
        found = await c.read(f"{NODES}/n1")
        assert conditions(found) == {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }
        lease = await c.read(LEASE)
        assert lease["spec"]["holderIdentity"] == "n1"
        await c.advance(10)
        assert (await c.read(LEASE))["spec"]["renewTime"] == "2027-01-15T08:00:10.000000Z"
        await c.advance(290, step_seconds=10)
        beat = (await c.read(f"{NODES}/n1"))["status"]["conditions"][0]["lastHeartbeatTime"]
        assert beat == "2027-01-15T08:05:00Z"


async def test_a_stopped_node_does_nothing() -> None:
    async with cluster(kubelet=True) as c:
        assert c.actors.kubelet is not None
        c.actors.kubelet.stop_node("n1")
        await c.create(PODS, pod())
        await c.advance(30, step_seconds=10)
        assert "startTime" not in (await c.read(f"{PODS}/p"))["status"]
        assert (await c.read(LEASE))["spec"]["renewTime"] == "2027-01-15T08:00:00.000000Z"
        c.actors.kubelet.start_node("n1")
        await c.advance(1)
        assert (await c.read(f"{PODS}/p"))["status"]["phase"] == "Running"
        assert (await c.read(LEASE))["spec"]["renewTime"] == "2027-01-15T08:00:30.000000Z"


async def test_user_agents_name_the_actor() -> None:
    async with cluster(kubelet=True) as c:
        await c.advance(1)
        agents = {request.user_agent for request in c.server.requests}
        assert agents == {"fakeapi-actors/kubelet", "fakeapi-actors/informer"}
