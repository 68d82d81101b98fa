"""A plugin's function is called for each change of an object."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from fakeapi import FakeApiServer
from scheduler.framework import CycleState, Plugin, PodInfo, Status, wait
from scheduler.testing import (
    FakeHandle,
    FakeLister,
    Simulation,
    VirtualClock,
    make_node,
    make_plugin,
    make_pod,
)

CONFIG_MAPS = "configmaps.v1"


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Notes(Plugin):
    """Holds all pods until the ConfigMap `go` is yes, and notes each change; fails for `bad`."""

    seen: ClassVar[list[tuple[str, str]]] = []

    def __init__(self) -> None:
        self.handle.on_change(CONFIG_MAPS, self.note)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return wait(600)

    def note(self, old: Any, new: Any) -> None:
        before, after = (each["data"]["is"] if each else "none" for each in (old, new))
        self.seen.append((before, after))
        if after == "yes":
            self.handle.iterate_over_waiting_pods(lambda waiting: waiting.allow(self.name))
        assert after != "bad"


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    Notes.seen.clear()
    clock = VirtualClock()
    async with FakeApiServer(clock=clock, load=[config_map("go", **{"is": "no"})]) as running:
        yield running


async def test_each_change_is_one_call_and_an_exception_is_logged(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Simulation(server, plugins=[Notes]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.update(config_map("go", **{"is": "bad"}))
        await simulation.idle()
        assert await simulation.node_of("p") == ""
        await simulation.delete(config_map("go"))
        await simulation.create(config_map("go", **{"is": "yes"}))
        await simulation.idle()
        assert await simulation.node_of("p") == "a"
    assert Notes.seen == [("none", "no"), ("no", "bad"), ("bad", "none"), ("none", "yes")]
    [failure] = [record for record in caplog.records if record.exc_info]
    assert failure.getMessage() == f"A plugin's function failed for a change of {CONFIG_MAPS}"


class TooLate(Plugin):
    error: ClassVar[list[str]] = []

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        try:
            self.handle.on_change(CONFIG_MAPS, lambda old, new: None)
        except RuntimeError as error:
            self.error.append(str(error))
        return None


async def test_a_function_that_would_miss_changes_is_refused(server: FakeApiServer) -> None:
    async with Simulation(server, plugins=[TooLate]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.idle()
    assert TooLate.error == ["on_change: to be called in __init__ of a plugin"]


def test_a_fake_handle_changes_objects() -> None:
    Notes.seen.clear()
    go = make_pod("go")
    handle = FakeHandle(listers={"pods": FakeLister([go])})
    calls: list[tuple[object, object]] = []
    handle.on_change("pods", lambda old, new: calls.append((old, new)))
    handle.change("pods", go, None)
    assert handle.lister("pods").list() == []
    handle.change("pods", None, go)
    assert (handle.lister("pods").list(), calls) == ([go], [(go, None), (None, go)])
    assert make_plugin(Notes, handle=handle).name == "Notes"
