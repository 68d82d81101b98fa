"""Pod groups with a real scheduler process: it is killed, lacks their API, or computes for long."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from fakeapi import FakeApiServer, ServerOptions, StateFiles
from tests.integration.api_client import PODS, Api, eventually
from tests.integration.scripted_run import Plan, kubeconfig_for, nothing_happens
from tests.integration.write_proxy import Moment, Write, WriteProxy
from tests.thoroughness import thorough_only

ROOT = Path(__file__).parent.parent.parent
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
ALPHA = ServerOptions(runtime_config=["api/alpha=true"])
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
PREEMPTION = f"{GATES},WorkloadAwarePreemption=true"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
#: A leader that computed for two seconds without a pause would lose this lease.
LEASE_TIMES = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=400ms",
)
PATIENCE_SECONDS = 180.0
#: Pods of lower priority.
LOWER = 2000
MEMBERS = [f"m{number:02}" for number in range(20)]


@contextlib.asynccontextmanager
async def _scheduler(
    url: str, directory: Path, plan: Plan = nothing_happens
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a scheduler with the gates on; the plan may kill it at one of its writes."""
    started: list[asyncio.subprocess.Process] = []
    async with WriteProxy(url, plan=plan, on_death=lambda: started[0].kill()) as proxy:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "--secure-port", "0", "--leader-elect=false"),
            *("--kubeconfig", str(kubeconfig_for(proxy.url, directory)), "--feature-gates", GATES),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(process)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _nodes_of_members(api: Api) -> list[str]:
    pods = await api.get(PODS)
    return [p["spec"].get("nodeName", "") for p in pods["items"] if p["metadata"]["name"][0] == "m"]


async def _gang(api: Api, min_count: int) -> None:
    policy = {"gang": {"minCount": min_count}}
    await api.create(GROUPS, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}})


async def _member(api: Api, name: str) -> None:
    await api.pod(name, schedulingGroup={"podGroupName": "g"})


async def _is_scheduled(api: Api) -> str:
    """Return the status of the gang's condition, once it is written."""

    async def status() -> str:
        conditions = (await api.get(f"{GROUPS}/g")).get("status", {}).get("conditions", [])
        return next((c["status"] for c in conditions if c["type"] == "PodGroupScheduled"), "")

    return await eventually(status)


async def test_a_gang_that_was_half_bound_at_a_kill_is_completed(tmp_path: Path) -> None:
    bindings = 0

    def tenth_binding(write: Write) -> Moment | None:
        nonlocal bindings
        bindings += write.kind == "POST pods/binding"
        return Moment.BEFORE if bindings == 10 else None

    async with FakeApiServer(options=ALPHA) as server, Api.of(server) as api:
        for number in range(5):
            await api.node(f"n{number}", cpu="4")
        await _gang(api, len(MEMBERS))
        for name in MEMBERS:
            await _member(api, name)
        async with _scheduler(server.url, tmp_path, tenth_binding) as process:
            assert await process.wait() == -signal.SIGKILL
        bound = [node for node in await _nodes_of_members(api) if node]
        assert 0 < len(bound) < len(MEMBERS)
        async with _scheduler(server.url, tmp_path):
            for name in MEMBERS:
                await api.node_of(name)
            assert await _is_scheduled(api) == "True"
        nodes = await _nodes_of_members(api)
        assert {nodes.count(node) for node in nodes} == {4}, "every node is full"


async def test_without_their_api_pods_are_scheduled_and_groups_follow_once_it_is_there(
    tmp_path: Path,
) -> None:
    state = StateFiles(data=tmp_path / "state.db")
    async with contextlib.AsyncExitStack() as stack:
        async with FakeApiServer(state=state) as server, Api.of(server) as api:
            await api.node("n", cpu="4")
            await api.pod("web")
            process = await stack.enter_async_context(_scheduler(server.url, tmp_path))
            assert await api.node_of("web") == "n"
            assert process.stderr is not None
            absent = ""
            while "podgroups" not in absent:
                absent = (await process.stderr.readline()).decode()
                assert absent, "the scheduler ended without a line about pod groups"
            assert "trying again until it exists" in absent
        options = {"options": ALPHA, "port": server.port, "state": state}
        async with FakeApiServer(**options) as server, Api.of(server) as api:
            await _gang(api, 2)
            for name in MEMBERS[:2]:
                await _member(api, name)
            assert [await api.node_of(name) for name in MEMBERS[:2]] == ["n", "n"]
            assert await _is_scheduled(api) == "True"


@thorough_only  # seconds of computing, against a lease in real time
async def test_the_leader_keeps_its_lease_while_a_group_preempts_among_many_pods(
    tmp_path: Path,
) -> None:
    """The group's members differ, so the scheduler searches once per lower pod."""
    async with FakeApiServer(options=ALPHA) as server, Api.of(server) as api:
        for number in range(20):
            await api.node(f"n{number}", cpu="100")
        await asyncio.gather(
            *(api.pod(f"low-{i}", nodeName=f"n{i % 20}", priority=0) for i in range(LOWER))
        )
        value = {"metadata": {"name": "high"}, "value": 1000}
        await api.create("/apis/scheduling.k8s.io/v1/priorityclasses", value)
        policy = {"gang": {"minCount": 8}}
        spec = {"schedulingPolicy": policy, "priorityClassName": "high"}
        await api.create(GROUPS, {"metadata": {"name": "g"}, "spec": spec})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "--secure-port", "0", *LEASE_TIMES),
            *("--kubeconfig", str(server.write_kubeconfig(tmp_path / "kubeconfig"))),
            *("--feature-gates", PREEMPTION),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            for number, name in enumerate(MEMBERS[:8]):
                more = {"priorityClassName": "high", "schedulingGroup": {"podGroupName": "g"}}
                await api.pod(name, cpu="50" if number else "49", **more)

            async def victims() -> int:
                pods = (await api.get(PODS))["items"]
                staying = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
                return LOWER + 8 - len(staying)

            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await victims():  # noqa: ASYNC110 - another process: one can only ask
                    await asyncio.sleep(0.5)
            lease = (await api.get(LEASE))["spec"]
            assert process.returncode is None
            assert lease["leaseTransitions"] == 0
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()
