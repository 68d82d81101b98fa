"""A recorded cluster, and the same decisions when its history is played."""

import asyncio
import contextlib
import io
import random
from collections.abc import AsyncIterator
from pathlib import Path

from fakeapi import FakeApiServer
from scheduler.api.core import Pod
from scheduler.simulate.history.format import HistoryWriter, read_history
from scheduler.simulate.history.recorder import Recorder
from scheduler.simulate.runs.one_run import RunResults, Task, play
from scheduler.testing import Simulation, VirtualClock, make_node, make_pod


@contextlib.asynccontextmanager
async def _recorded(simulation: Simulation, path: Path) -> AsyncIterator[Recorder]:
    """Record the cluster of a simulation while the block runs."""
    file, started, stop = io.BytesIO(), asyncio.Event(), asyncio.Event()
    recorder = Recorder(simulation.client, HistoryWriter(file), clock=simulation.clock)
    run = asyncio.create_task(recorder.run(stop, on_start=started.set))
    await started.wait()
    yield recorder
    await simulation.idle()
    stop.set()
    await run
    await asyncio.to_thread(path.write_bytes, file.getvalue())


async def _played(path: Path, *, config: str = "") -> RunResults:
    task = Task(history=str(path), policy="", config=config, plugins=(), seed=1, as_recorded=True)
    return await play(task, list(read_history(path)))


async def test_a_recording_has_the_objects_at_the_start_and_each_change(tmp_path: Path) -> None:
    async with FakeApiServer(clock=VirtualClock()) as server, Simulation(server) as simulation:
        await simulation.create(make_node("n"), make_pod("early", annotations={"a": "b"}))
        await simulation.idle()
        async with _recorded(simulation, tmp_path / "h") as recorder:
            await simulation.advance(5)
            await simulation.create(make_pod("late"))
            await simulation.idle()
            await simulation.delete_pod("early")
        assert "podgroups.scheduling.k8s.io" in recorder.unseen
    changes = [c for c in read_history(tmp_path / "h") if isinstance(c.object, Pod)]
    early = changes[0].object
    assert isinstance(early, Pod)
    assert (early.spec.node_name, early.metadata.annotations) == ("n", {"a": "b"})
    late = [c for c in changes if c.object.metadata.name == "late"]
    assert (late[0].change, late[0].seconds) == ("ADDED", 5.0)
    assert changes[-1].change == "DELETED"


async def test_the_simulated_scheduler_decides_as_the_one_over_http(tmp_path: Path) -> None:
    rng = random.Random(7)
    nodes = [
        make_node(
            f"n{i}",
            zone=f"z{i % 3}",
            allocatable={"cpu": str(2 + i % 3), "memory": "8Gi", "pods": "9"},
            taints=[{"key": "special", "effect": "NoSchedule"}] if i == 4 else [],
        )
        for i in range(6)
    ]
    async with FakeApiServer(clock=VirtualClock()) as server, Simulation(server) as simulation:
        await simulation.create(*nodes[:4])
        async with _recorded(simulation, tmp_path / "h"):
            alive = []
            for number in range(40):
                selector = {"topology.kubernetes.io/zone": "z1"} if number % 7 == 0 else None
                await simulation.create(
                    make_pod(
                        f"p{number}",
                        labels={"app": f"a{number % 2}"},
                        requests={"cpu": rng.choice(("200m", "500m", "1500m"))},
                        node_selector=selector,
                    )
                )
                alive.append(f"p{number}")
                await simulation.advance(rng.choice((0, 1, 4)))
                if number % 3 == 2:
                    await simulation.delete_pod(alive.pop(rng.randrange(len(alive))))
                if number == 20:
                    await simulation.create(*nodes[4:])
            await simulation.advance(20)
    results = await _played(tmp_path / "h")
    assert results.compared > 25
    assert results.differences == []
    assert results.measures.numbers["unschedulable"] < 15


async def test_another_configuration_gives_differences_with_their_cause(tmp_path: Path) -> None:
    async with FakeApiServer(clock=VirtualClock()) as server, Simulation(server) as simulation:
        large = {"cpu": "8", "memory": "32Gi", "pods": "99"}
        await simulation.create(make_node("large", allocatable=large), make_node("small"))
        async with _recorded(simulation, tmp_path / "h"):
            await simulation.create(make_pod("p", requests={"cpu": "1", "memory": "1Gi"}))
            await simulation.idle()
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}]
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
    [difference] = (await _played(tmp_path / "h", config=config)).differences
    assert (difference.recorded, difference.node) == ("large", "small")
    assert difference.cause == "large has 312, 13 less than small: NodeResourcesFit -13"
