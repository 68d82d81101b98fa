"""Schedulers that do one thing, mostly a wrong one, to see what the suite makes of them.

Functions for `--in-process`: `started` makes one of a function that returns a scheduler.
"""

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NoReturn

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

    def serving(self) -> AbstractAsyncContextManager[object]:
        """Serve what the scheduler has to show while the block runs."""
        return contextlib.nullcontext()

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
    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    server: str = document["clusters"][0]["cluster"]["server"]
    return server


def started(
    make: Callable[..., TinyScheduler],
) -> Callable[..., AbstractAsyncContextManager[TinyScheduler]]:
    """Return a function for `--in-process` with the parameters of one that makes a scheduler.

    That function gets the address of the API server and the clock.
    """

    @contextlib.asynccontextmanager
    @functools.wraps(make)
    async def run(
        *, kubeconfig: Path, clock: Clock, config: Path | None, seed: int, **more: object
    ) -> AsyncIterator[TinyScheduler]:
        scheduler = make(_server_of(kubeconfig), clock, **more)
        async with scheduler.serving():
            task = asyncio.ensure_future(scheduler.run())
            try:
                yield scheduler
            finally:
                task.cancel()
                await asyncio.wait((task,))
                if not task.cancelled():
                    task.result()

    return run


@started
def binds_all_to_a(url: str, _: Clock) -> TinyScheduler:
    """Puts every pod on the node called `a`, whether it fits or not."""
    return TinyScheduler(url, "a")


_RESTARTED: set[str] = set()


@started
def binds_to_the_next_node_after_a_restart(url: str, _: Clock) -> TinyScheduler:
    """Puts pods on the node `a`, and after a restart on the node `b`."""
    if url in _RESTARTED:
        return TinyScheduler(url, "b")
    _RESTARTED.add(url)
    return TinyScheduler(url, "a")


@started
def binds_to_the_node_of_its_name(url: str, _: Clock, *, identity: str) -> TinyScheduler:
    """Puts every pod on the node that is called as the scheduler is."""
    return TinyScheduler(url, identity)


@started
def binds_unless_there_are_plugins(
    url: str, _: Clock, *, plugins: tuple[str, ...] = ()
) -> TinyScheduler:
    """Puts every pod on the node called `a`, unless it is given plugins."""
    return TinyScheduler(url, None if plugins else "a")


@started
def binds_if_it_has_gates(
    url: str, _: Clock, *, feature_gates: Mapping[str, bool] | None = None
) -> TinyScheduler:
    """Puts every pod on the node called `a` if GenericWorkload is on."""
    return TinyScheduler(url, "a" if (feature_gates or {}).get("GenericWorkload") else None)


@started
def binds_nothing(url: str, _: Clock) -> TinyScheduler:
    """Looks at pods and leaves them alone."""
    return TinyScheduler(url, None)


_STARTS = itertools.count()


@started
def binds_at_the_second_start(url: str, _: Clock) -> TinyScheduler:
    """Bind nothing at every other start, and else every pod to the node `a`."""
    return TinyScheduler(url, "a" if next(_STARTS) % 2 else None)


class _Alone(TinyScheduler):
    """Does not connect to the server."""

    def __init__(self) -> None:
        super().__init__("", None)

    async def run(self) -> None:
        """Does nothing."""


class _Restless(_Alone):
    @property
    def is_idle(self) -> bool:
        return False


@started
def never_idle(_: str, __: Clock) -> TinyScheduler:
    """Never idle."""
    return _Restless()


class _Disordered(_Alone):
    @property
    def is_idle(self) -> bool:
        return True

    def check(self) -> None:
        raise AssertionError("pod p is in two queues")


@started
def in_disorder(_: str, __: Clock) -> TinyScheduler:
    """Does nothing wrong that can be seen, but its own check fails."""
    return _Disordered()


class _Sleepy(_Alone):
    """Has something to do until two seconds have passed on the clock it was given."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.task = asyncio.ensure_future(clock.sleep(2.0))

    @property
    def is_idle(self) -> bool:
        return self.task.done()


@started
def waits_for_time(_: str, clock: Clock) -> TinyScheduler:
    """Has work in flight that only time can finish."""
    return _Sleepy(clock)


@started
def does_not_start(_: str, __: Clock) -> NoReturn:
    """Refuses its configuration."""
    raise ValueError("profiles[0]: unknown plugin Foo")


class _Messy(TinyScheduler):
    async def run(self) -> None:
        try:
            await super().run()
        finally:
            raise RuntimeError("left in a mess")


@started
def fails_when_stopped(url: str, _: Clock) -> TinyScheduler:
    """Works, and breaks while it is being shut down."""
    return _Messy(url, "a")


@started
def takes_the_process_down(_: str, __: Clock) -> NoReturn:
    """Ends the process it runs in."""
    print("about to end it all")
    os._exit(3)


def _block() -> None:
    time.sleep(60)


@started
def blocks_the_process(url: str, _: Clock) -> TinyScheduler:
    """Never lets go of the processor."""
    _block()
    return TinyScheduler(url, None)


@started
def blocks_at_the_second_start(url: str, _: Clock) -> TinyScheduler:
    """Bind nothing at first, and then never let go of the processor."""
    if next(_STARTS):
        _block()
    return TinyScheduler(url, None)


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

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async def answer(_: web.BaseRequest) -> web.Response:
            return web.Response(text=self.page())

        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()

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


@started
def counts_label_updates(url: str, _: Clock, *, serve: bool = False) -> TinyScheduler:
    """Serves metrics in which a pod comes back when a node's label `helps` changes."""
    assert serve, "only cases that read metrics are run with it"
    return _Counting(url)


@started
def serves_an_empty_page(url: str, _: Clock, *, serve: bool = False) -> TinyScheduler:
    """Serves a page without any metric that anybody would look for."""
    return _CountingNothing(url)


@started
def serves_nonsense_once_a_pod_is_there(
    url: str, _: Clock, *, serve: bool = False
) -> TinyScheduler:
    """Serves what cannot be read, from the first pod on."""
    return _CountingNonsense(url)


@started
def serves_nowhere(url: str, _: Clock, *, serve: bool = False) -> TinyScheduler:
    """Has the parameter `serve`, and then no URL."""
    return TinyScheduler(url, None)
