"""Schedulers that do one thing, mostly a wrong one, to see what the suite makes of them.

Functions for `--in-process`; each is an asynchronous context manager that yields a scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
import yaml
from aiohttp import web

from conformance.clock import Clock


class TinyScheduler:
    """Watches pods, and binds each to the same node, if it binds any."""

    def __init__(self, url: str, node_name: str | None) -> None:
        self.resource_versions: dict[str, str] = {}
        self._url = url
        self._node_name = node_name
        self._busy = True
        self._failure: Exception | None = None

    @property
    def is_idle(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return not self._busy

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(self._url, timeout=timeout) as session:
            try:
                await self._follow(session)
            except aiohttp.ClientError:
                self._busy = False

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/pods", params={"watch": "true"}) as response:
            self._busy = False
            async for line in response.content:
                event = msgspec.json.decode(line)
                if event["type"] == "ADDED":
                    await self._take(session, event["object"])

    async def _take(self, session: aiohttp.ClientSession, pod: dict[str, dict[str, str]]) -> None:
        if self._node_name is None or "nodeName" in pod["spec"]:
            return
        self._busy = True
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if name == "poison":
            self._failure = RuntimeError(f"choked on {name}")
            return
        logging.getLogger("tiny").info("binding %s", name)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": self._node_name},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        async with session.post(path, json=body) as response:
            await response.read()
        self._busy = False


def _server_of(kubeconfig: Path) -> str:
    server: str = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"][
        "server"
    ]
    return server


@contextlib.asynccontextmanager
async def _running(kubeconfig: Path, node_name: str | None) -> AsyncIterator[TinyScheduler]:
    scheduler = TinyScheduler(_server_of(kubeconfig), node_name)
    task = asyncio.ensure_future(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def binds_all_to_a(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Puts every pod on the node called `a`, whether it fits or not."""
    async with _running(kubeconfig, "a") as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def binds_to_the_next_node_after_a_restart(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Puts pods on the node `a`, and after a restart on the node `b`."""
    mark = kubeconfig.with_name("started")
    node_name = "b" if mark.exists() else "a"
    mark.touch()
    async with _running(kubeconfig, node_name) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def binds_to_the_node_of_its_name(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, identity: str
) -> AsyncIterator[TinyScheduler]:
    """Puts every pod on the node that is called as the scheduler is."""
    async with _running(kubeconfig, identity) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def binds_unless_there_are_plugins(
    *,
    kubeconfig: Path,
    clock: Clock,
    config: Path | None,
    seed: int,
    plugins: tuple[str, ...] = (),
) -> AsyncIterator[TinyScheduler]:
    """Puts every pod on the node called `a`, unless it is given plugins."""
    async with _running(kubeconfig, None if plugins else "a") as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def binds_if_it_has_gates(
    *,
    kubeconfig: Path,
    clock: Clock,
    config: Path | None,
    seed: int,
    feature_gates: Mapping[str, bool] | None = None,
) -> AsyncIterator[TinyScheduler]:
    """Puts every pod on the node called `a` if GenericWorkload is on."""
    is_on = (feature_gates or {}).get("GenericWorkload")
    async with _running(kubeconfig, "a" if is_on else None) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def binds_nothing(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Looks at pods and leaves them alone."""
    async with _running(kubeconfig, None) as scheduler:
        yield scheduler


_STARTS = itertools.count()


@contextlib.asynccontextmanager
async def binds_at_the_second_start(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Bind nothing at every other start, and else every pod to the node `a`."""
    async with _running(kubeconfig, "a" if next(_STARTS) % 2 else None) as scheduler:
        yield scheduler


class _Restless(TinyScheduler):
    @property
    def is_idle(self) -> bool:
        return False


@contextlib.asynccontextmanager
async def never_idle(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Never idle."""
    yield _Restless("", None)


class _Disordered(TinyScheduler):
    @property
    def is_idle(self) -> bool:
        return True

    def check(self) -> None:
        raise AssertionError("pod p is in two queues")


@contextlib.asynccontextmanager
async def in_disorder(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Does nothing wrong that can be seen, but its own check fails."""
    yield _Disordered("", None)


class _Sleepy(TinyScheduler):
    """Has something to do until two seconds have passed on the clock it was given."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("", None)
        self.task = asyncio.ensure_future(clock.sleep(2.0))

    @property
    def is_idle(self) -> bool:
        return self.task.done()


@contextlib.asynccontextmanager
async def waits_for_time(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Has work in flight that only time can finish."""
    yield _Sleepy(clock)


@contextlib.asynccontextmanager
async def does_not_start(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Refuses its configuration."""
    raise ValueError("profiles[0]: unknown plugin Foo")
    yield TinyScheduler("", None)


@contextlib.asynccontextmanager
async def fails_when_stopped(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Works, and breaks while it is being shut down."""
    async with _running(kubeconfig, "a") as scheduler:
        yield scheduler
        raise RuntimeError("left in a mess")


@contextlib.asynccontextmanager
async def takes_the_process_down(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Ends the process it runs in."""
    print("about to end it all")
    os._exit(3)
    yield TinyScheduler("", None)


def _block() -> None:
    time.sleep(60)


@contextlib.asynccontextmanager
async def blocks_the_process(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Never lets go of the processor."""
    _block()
    yield TinyScheduler("", None)


@contextlib.asynccontextmanager
async def blocks_at_the_second_start(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int
) -> AsyncIterator[TinyScheduler]:
    """Bind nothing at first, and then never let go of the processor."""
    if next(_STARTS):
        _block()
    async with _running(kubeconfig, None) as scheduler:
        yield scheduler


class _Counting(TinyScheduler):
    """Binds nothing; counts label updates of nodes, as if `helps` had brought a pod back."""

    def __init__(self, url: str) -> None:
        super().__init__(url, None)
        self.url = ""
        self.pods = 0
        self.handled = 0
        self.requeued = 0
        self._helps: dict[str, str | None] = {}

    async def _follow(self, session: aiohttp.ClientSession) -> None:
        self._busy = False
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_pods(session))
            group.create_task(self._follow_nodes(session))

    async def _follow_pods(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/pods", params={"watch": "true"}) as response:
            async for line in response.content:
                self.pods += msgspec.json.decode(line)["type"] == "ADDED"

    async def _follow_nodes(self, session: aiohttp.ClientSession) -> None:
        async with session.get("/api/v1/nodes", params={"watch": "true"}) as response:
            async for line in response.content:
                event = msgspec.json.decode(line)
                metadata = event["object"]["metadata"]
                name, helps = metadata["name"], metadata.get("labels", {}).get("helps")
                if event["type"] == "MODIFIED":
                    self.handled += 1
                    self.requeued += helps != self._helps.get(name)
                self._helps[name] = helps

    def page(self) -> str:
        label, family = "NodeUpdateNodeLabel", "scheduler_queue_incoming_pods_total"
        return (
            f'{family}{{event="UnschedulablePodAdd",queue="active"}} {self.pods}\n'
            f'{family}{{event="{label}",queue="backoff"}} {self.requeued}\n'
            f'scheduler_event_handling_duration_seconds_count{{event="{label}"}} {self.handled}\n'
            "scheduler_pod_scheduled_after_flush_total 0\n"
        )


class _CountingNothing(_Counting):
    def page(self) -> str:
        return ""


class _CountingNonsense(_Counting):
    def page(self) -> str:
        return "scheduler_pod_scheduled_after_flush_total many\n" if self.pods else ""


@contextlib.asynccontextmanager
async def _serving(scheduler: _Counting) -> AsyncIterator[_Counting]:
    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(text=scheduler.page())

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scheduler.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    task = asyncio.ensure_future(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await runner.cleanup()


@contextlib.asynccontextmanager
async def counts_label_updates(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, serve: bool = False
) -> AsyncIterator[TinyScheduler]:
    """Serves metrics in which a pod comes back when a node's label `helps` changes."""
    assert serve, "only cases that read metrics are run with it"
    async with _serving(_Counting(_server_of(kubeconfig))) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def serves_an_empty_page(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, serve: bool = False
) -> AsyncIterator[TinyScheduler]:
    """Serves a page without any metric that anybody would look for."""
    async with _serving(_CountingNothing(_server_of(kubeconfig))) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def serves_nonsense_once_a_pod_is_there(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, serve: bool = False
) -> AsyncIterator[TinyScheduler]:
    """Serves what cannot be read, from the first pod on."""
    async with _serving(_CountingNonsense(_server_of(kubeconfig))) as scheduler:
        yield scheduler


@contextlib.asynccontextmanager
async def serves_nowhere(
    *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, serve: bool = False
) -> AsyncIterator[TinyScheduler]:
    """Has the parameter `serve`, and then no URL."""
    async with _running(kubeconfig, None) as scheduler:
        yield scheduler
