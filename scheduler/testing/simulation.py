"""A scheduler in the test's process, on a virtual clock, that can be awaited until it is idle.

    async with FakeApiServer(clock=VirtualClock()) as server:
        async with Simulation(server, plugins=[Gang]) as simulation:
            await simulation.create(make_node("n"), make_pod("p"))
            await simulation.idle()
            assert simulation.node_of("p") == "n"
            await simulation.advance(300)

The scheduler talks to the API server over HTTP, as always. An hour of virtual time takes as long as
the work in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.api.core import Node, ObjectMeta, Pod
from scheduler.assembly.build import USER_AGENT
from scheduler.client import NODES, PODS, RestClient, connect
from scheduler.client.discovery import discover_kind
from scheduler.client.kinds import Resource, resource_named
from scheduler.testing.in_process import run_in_process
from scheduler.virtual_clock import VirtualClock, let_tasks_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from scheduler.api.core import Container
    from scheduler.assembly.app import AppStatistics
    from scheduler.framework.interface import Plugin
    from scheduler.testing.in_process import RunningScheduler

#: The real time after which a scheduler that never becomes idle is an error.
_IDLE_SECONDS_MAX: Final = 30.0
#: Matches the path of requests about events.
_EVENTS: Final = re.compile(r"/apis/events\.k8s\.io/|/api/v1/(namespaces/[^/]+/)?events\b").match
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_LOOK_SECONDS: Final = 0.001
#: Checks without success after which pending work must be waiting for time to pass.
_LOOKS_BEFORE_TIME: Final = 100
#: The virtual time that may pass while the scheduler becomes idle: retries of requests.
_NUDGED_SECONDS_MAX: Final = 60.0


#: A typed object, or the decoded JSON of one with `apiVersion` and `kind`.
SomeObject: TypeAlias = "Node | Pod | Mapping[str, Any]"


class ServerStatistics(Protocol):
    """The counts of an API server."""

    @property
    def requests_in_flight(self) -> int: ...

    @property
    def undelivered_watch_events(self) -> int: ...


class HandledRequest(Protocol):
    """A request that the API server has answered. `path` includes the query."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def user_agent(self) -> str: ...

    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class ApiServer(Protocol):
    """The part of `fakeapi.FakeApiServer` that a simulation uses."""

    @property
    def clock(self) -> object: ...

    @property
    def kubeconfig(self) -> str: ...

    @property
    def resource_version(self) -> int: ...

    def listening(
        self, *, on_request: Callable[[HandledRequest], None]
    ) -> AbstractContextManager[None]: ...

    def send_bookmarks(self) -> int: ...

    def statistics(self) -> ServerStatistics: ...


class _Request(NamedTuple):
    """An object on its way to the API server; `body` is its JSON."""

    resource: Resource[Any]
    name: str
    namespace: str
    body: bytes

    @property
    def collection_path(self) -> str:
        return self.resource.collection_path(self.namespace)

    @property
    def path(self) -> str:
        return self.resource.path(self.name, namespace=self.namespace)


class Simulation:
    """A scheduler that works on an API server whose clock is a `VirtualClock`.

    `plugins` are enabled in the default profile, `args` are arguments of plugins by name,
    `feature_gates` settings by name. Raises TypeError for a server with another clock, and
    `ConfigError` on entering.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        plugins: Iterable[type[Plugin] | str] = (),
        args: Mapping[str, object] | None = None,
        seed: int = 0,
        feature_gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        if not isinstance(server.clock, VirtualClock):
            raise TypeError(
                "the server needs a virtual clock: FakeApiServer(clock=VirtualClock()), with "
                f"scheduler.testing.VirtualClock, got {type(server.clock).__name__}"
            )
        self.clock: Final = server.clock
        self._server: Final = server
        self._plugins: Final = tuple(plugins)
        self._args: Final = dict(args or {})
        self._seed: Final = seed
        self._feature_gates: Final = feature_gates
        #: The requests by which the scheduler and its plugins have written, in order, but events.
        self.writes: Final[list[HandledRequest]] = []
        self._stack = contextlib.AsyncExitStack()
        self._scheduler: RunningScheduler | None = None
        self._client: RestClient | None = None

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulation-")))
            kubeconfig, config = folder / "kubeconfig", folder / "config.json"
            kubeconfig.write_text(self._server.kubeconfig, encoding="utf-8")
            config.write_bytes(msgspec.json.encode(self._configuration()))
            connection = connect(kubeconfig=str(kubeconfig), clock=self.clock)
            client = RestClient(connection, clock=self.clock, user_agent="simulation", qps=-1)
            stack.enter_context(self._server.listening(on_request=self._note_request))
            self._client = await stack.enter_async_context(client)
            self._scheduler = await stack.enter_async_context(
                run_in_process(
                    kubeconfig=kubeconfig,
                    clock=self.clock,
                    config=config,
                    plugins=self._plugins,
                    seed=self._seed,
                    feature_gates=self._feature_gates,
                )
            )
            await self.idle()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    @property
    def client(self) -> RestClient:
        """A client of the API server, for any other request."""
        assert self._client is not None, "the simulation is entered first"
        return self._client

    async def create(self, *objects: SomeObject) -> None:
        """Create objects; a pod with a node name is on its node at once.

        An object is of a type of `scheduler.api`, such as `Node` and `Pod`, or a mapping with
        `apiVersion` and `kind`, whose namespace is `default` if it has none. Containers of a `Pod`
        without an image get one, as the API server requires it. Raises KindNotFound, ValueError for
        a mapping without `apiVersion`, `kind` or `metadata`, and `ApiError`.
        """
        for obj in objects:
            request = await self._request(obj)
            await self.client.request("POST", request.collection_path, body=request.body)

    async def update(self, obj: SomeObject) -> None:
        """Replace an object, whatever its version. A node's status is written too.

        The object and the errors are those of `create`; NotFound for an unknown object.
        """
        request = await self._request(obj)
        await self.client.request("PUT", request.path, body=request.body)
        if request.resource.group_resource == NODES.group_resource:
            await self.client.request("PUT", f"{request.path}/status", body=request.body)

    async def delete(self, obj: SomeObject) -> None:
        """Delete an object at once, without a grace period. Raises NotFound."""
        request = await self._request(obj)
        await self.client.request("DELETE", request.path, query="gracePeriodSeconds=0")

    async def delete_pod(self, name: str, *, namespace: str = "default") -> None:
        """Delete a pod at once, without a grace period. Raises NotFound."""
        await self.delete(Pod(metadata=ObjectMeta(name=name, namespace=namespace)))

    async def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """Return a pod of the API server. Raises NotFound."""
        return await self.client.get(PODS, name, namespace=namespace)

    async def node_of(self, name: str, *, namespace: str = "default") -> str:
        """Return the node of a pod; empty without one. Raises NotFound."""
        return (await self.pod(name, namespace=namespace)).spec.node_name

    def statistics(self) -> AppStatistics:
        """Return counts of decisions and of pods in the queue."""
        return self._running.statistics()

    async def idle(self) -> None:
        """Return when nothing will happen before an object changes or time passes.

        Raises the scheduler's own exception if it has failed, and TimeoutError.
        """
        looks, nudged_until = 0, self.clock.now() + _NUDGED_SECONDS_MAX
        try:
            async with asyncio.timeout(_IDLE_SECONDS_MAX):
                while not await self._is_settled():
                    looks += 1
                    due = self.clock.next_wake_up
                    if looks % _LOOKS_BEFORE_TIME == 0 and due is not None and due < nudged_until:
                        self.clock.advance_nowait(max(0.0, due - self.clock.now()))
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"not idle after {_IDLE_SECONDS_MAX:g} s of real time") from None

    async def advance(self, seconds: float) -> None:
        """Let time pass, from one wake-up to the next; the scheduler becomes idle in between."""
        end = self.clock.now() + seconds
        await self.idle()
        while (due := self.clock.next_wake_up) is not None and due < end:
            self.clock.advance_nowait(max(0.0, due - self.clock.now()))
            await self.idle()
        self.clock.advance_nowait(max(0.0, end - self.clock.now()))
        await self.idle()

    async def _request(self, obj: SomeObject) -> _Request:
        """Return the parts of a request about an object, whose uid and version are left out."""
        if isinstance(obj, Mapping):
            return await self._request_of_mapping(obj)
        resource = resource_named(type(obj))
        assert isinstance(resource, Resource), "a type is a known kind"
        obj = replace(obj, metadata=replace(obj.metadata, uid="", resource_version=""))
        if isinstance(obj, Pod):
            spec = replace(
                obj.spec,
                containers=_with_images(obj.spec.containers),
                init_containers=_with_images(obj.spec.init_containers),
            )
            obj = replace(obj, spec=spec)
        metadata = obj.metadata
        return _Request(resource, metadata.name, metadata.namespace, resource.encode(obj))

    async def _request_of_mapping(self, obj: Mapping[str, object]) -> _Request:
        missing = [name for name in ("apiVersion", "kind", "metadata") if name not in obj]
        if missing:
            raise ValueError(f"an object without {' and '.join(missing)}: {obj!r}")
        given = obj["metadata"]
        if not isinstance(given, Mapping):
            raise ValueError(f"metadata: expected a mapping, got {given!r}")
        version, kind = str(obj["apiVersion"]), str(obj["kind"])
        resource = await discover_kind(self.client, api_version=version, kind=kind)
        metadata = {k: v for k, v in given.items() if k not in ("uid", "resourceVersion")}
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        body = msgspec.json.encode({**obj, "metadata": metadata}, enc_hook=dict)
        return _Request(resource, metadata.get("name", ""), metadata.get("namespace", ""), body)

    def _note_request(self, request: HandledRequest) -> None:
        is_of_scheduler = request.user_agent.startswith(USER_AGENT)
        if is_of_scheduler and request.method != "GET" and not _EVENTS(request.path):
            self.writes.append(request)

    @property
    def _running(self) -> RunningScheduler:
        assert self._scheduler is not None, "the simulation is entered first"
        return self._scheduler

    async def _is_settled(self) -> bool:
        """True if all is idle and the scheduler has seen every object.

        A bookmark that has arrived proves that every change before it has arrived.
        """
        await let_tasks_run()
        if not self._is_at_rest():
            return False
        version = self._server.resource_version
        if not self._has_seen(version):
            self._server.send_bookmarks()
            await asyncio.sleep(_LOOK_SECONDS)
        return (
            self._has_seen(version)
            and self._is_at_rest()
            and self._server.resource_version == version
        )

    def _has_seen(self, version: int) -> bool:
        seen = self._running.resource_versions.values()
        return all(text.isdecimal() and int(text) >= version for text in seen)

    def _is_at_rest(self) -> bool:
        numbers = self._server.statistics()
        busy = numbers.requests_in_flight or numbers.undelivered_watch_events
        return not busy and self._running.is_idle

    def _configuration(self) -> dict[str, object]:
        """Return a KubeSchedulerConfiguration without election and rate limit."""
        given = [{"name": name, "args": value} for name, value in self._args.items()]
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": -1},
            "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": given}],
        }


def _with_images(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(replace(container, image=container.image or _IMAGE) for container in containers)
