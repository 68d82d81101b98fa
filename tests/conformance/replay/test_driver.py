"""The driver's creation of objects, and its test for the end of a run. No process is started."""

import asyncio

import pytest

from conformance.clock import VirtualClock
from conformance.errors import InputError, ReplayError
from conformance.replay import driver
from conformance.replay.driver import KUBESCHED, Settings, scheduler_config
from conformance.replay.history import History, Json, Write
from conformance.replay.recording import Recorder
from tests.conformance.replay.evidence import CPU_ONLY, held_pod, task


def test_the_scheduler_is_not_held_back_and_otherwise_left_as_it_is() -> None:
    config = scheduler_config("/kubeconfig", Settings())
    connection = config.pop("clientConnection")
    assert connection == {"kubeconfig": "/kubeconfig", "qps": 100_000, "burst": 100_000}
    assert config == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
    }


def test_the_share_of_nodes_to_score_is_set_only_if_it_is_given() -> None:
    assert "percentageOfNodesToScore" not in scheduler_config("k", Settings())
    config = scheduler_config("k", Settings(config={"percentageOfNodesToScore": 0}))
    assert config["percentageOfNodesToScore"] == 0


def test_our_own_scheduler_gets_the_kubeconfig() -> None:
    assert "{kubeconfig}" in KUBESCHED
    assert "{config}" in KUBESCHED


def test_a_command_that_cannot_find_the_server_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected \{kubeconfig\} or \{config\} in it"):
        Settings(target_command=("kube-scheduler",))


async def test_objects_are_begun_in_their_order_so_many_at_a_time() -> None:
    begun: list[object] = []
    under_way = most = 0

    async def work(obj: Json) -> None:
        nonlocal under_way, most
        begun.append(obj["n"])
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    await driver._each(work, ({"n": number} for number in range(10)), 3)
    assert begun == list(range(10))
    assert most == 3


async def test_a_run_is_settled_when_all_is_decided_and_quiet() -> None:
    clock = VirtualClock(0)
    recorder = Recorder(["a", "b"], clock)
    settled = asyncio.ensure_future(driver._settled(recorder, 2.0, clock))

    async def at(seconds: float) -> bool:
        await clock.run_for(seconds - clock.now(), lambda: asyncio.sleep(0))
        await asyncio.sleep(0)
        return settled.done()

    recorder.observe("MODIFIED", held_pod(task("a"), node="n"))
    assert not await at(10)
    recorder.observe("MODIFIED", held_pod(task("b"), message="no room"))
    assert not await at(11)
    recorder.observe("MODIFIED", held_pod(task("b"), node="n"))
    assert not await at(12.9)
    assert await at(13.2)


def test_the_writes_of_a_history_in_time_are_counted_by_pod() -> None:
    history = History((CPU_ONLY,), (task("a"), task("b")))
    run = driver.Run(history, Settings(in_time=True), Recorder(["a", "b"], VirtualClock(0)))
    created = [Write(0.0, obj.object, is_creation=True) for obj in (*history.nodes, *history.pods)]
    change = {"metadata": {"labels": {"app": "web"}}}
    changes = [Write(1.0, task("a").object, patch=change), Write(1.0, CPU_ONLY.object)]
    for write in (*created, *changes, Write(2.0, task("b").object)):
        run.note(write)
    assert run.created == 2
    assert (run.changed, run.deleted) == ({"a", "node-cpu"}, {"b"})


async def test_a_watch_that_does_not_reach_the_list_is_an_error() -> None:
    clock = VirtualClock(0)
    listed = held_pod(task("a"), node="n", version=7)
    waiting = asyncio.ensure_future(driver._caught_up(Recorder(["a"], clock), [listed], clock))
    await clock.run_for(100, lambda: asyncio.sleep(0))
    with pytest.raises(ReplayError, match="the watch of pods has fallen behind: 0, 7"):
        await waiting


async def test_the_lists_are_compared_with_a_watch_that_has_seen_as_much() -> None:
    clock = VirtualClock(0)
    recorder = Recorder(["a"], clock)
    listed = held_pod(task("a"), node="n", version=7)
    waiting = asyncio.ensure_future(driver._caught_up(recorder, [listed], clock))
    await clock.run_for(1, lambda: asyncio.sleep(0))
    assert not waiting.done()
    recorder.observe("MODIFIED", listed)
    await clock.run_for(1, lambda: asyncio.sleep(0))
    assert waiting.done()
