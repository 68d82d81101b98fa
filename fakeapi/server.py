"""The server: HTTP in front of the registry, and the object that tests hold in their hands.

    async with FakeApiServer() as server:
        ...  # clients use server.url or server.kubeconfig

Several servers may live in one event loop. All work but waiting happens in one go, so every write
is atomic; a request that waits (a list for a version, a watch) holds no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from fakeapi.access.access import Access
from fakeapi.access.users import current_user
from fakeapi.admission.selection import Selection
from fakeapi.clock import SystemClock
from fakeapi.crds.controller import DefinitionController
from fakeapi.crds.rules import with_definition_rules
from fakeapi.faults import Faults, admin
from fakeapi.faults.incidents import Incidents
from fakeapi.http import answers
from fakeapi.http.connections import Connections, read_patiently
from fakeapi.http.port import Port, keep
from fakeapi.http.responses import response_to, stream_response
from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.loading import load as loading
from fakeapi.loading.manifests import manifests_of, read_all
from fakeapi.requests.call import split_target, understood
from fakeapi.requests.handle import Watch, explained, handle
from fakeapi.security.gate import too_busy
from fakeapi.security.guard import Guard
from fakeapi.state import StateError
from fakeapi.state.keeper import Keeper
from fakeapi.state.replaying import replay
from fakeapi.store.journal import Journal
from fakeapi.store.registry import Registry
from fakeapi.store.store import Store
from fakeapi.types.errors import ApiError, EntityTooLarge, InternalError, TooBusy
from fakeapi.types.identity import IdSource
from fakeapi.types.kind import KindTable
from fakeapi.validation.cluster import SYSTEM_PRIORITIES
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from contextlib import AbstractContextManager

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import RawRequestMessage

    from fakeapi.clock import Clock
    from fakeapi.faults import Fault
    from fakeapi.http.answers import Answer
    from fakeapi.security.guard import Loopback
    from fakeapi.security.options import Security
    from fakeapi.state.keeper import StateFiles
    from fakeapi.store.journal import HandledRequest, ObjectChange
    from fakeapi.store.watch import Watcher
    from fakeapi.types.kind import Kind, ResourceKey
    from fakeapi.types.objects import Json

DEFAULT_EVENT_LOG_SIZE: Final = 10_000
#: Longer than the idle time of Go's client, so that the client hangs up first and no POST is lost.
_KEEPALIVE_SECONDS: Final = 120.0
#: How long a watch that cannot be written to may hold up the end.
_SHUTDOWN_SECONDS: Final = 0.25
#: Versions begin at the time in 10 microseconds: no write rate overtakes it, so that a server that
#: is started later never begins below where an earlier one ended.
_VERSIONS_PER_SECOND: Final = 100_000
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASS_TEXTS: Final = {
    "system-node-critical": (
        "Used for system critical pods that must not be moved from their current node."
    ),
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another "
        "node if necessary."
    ),
}
#: Who owns what is there before anybody writes.
_MANAGER: Final = "kube-apiserver"

_log = logging.getLogger("fakeapi")


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """A server's numbers at one moment. Watches do not count as requests in flight.

    Neither do requests that a fault holds until its end; nor are the events of a watch that a fault
    stalls undelivered.
    """

    objects: int
    watchers: int
    requests_in_flight: int
    requests_total: int
    undelivered_watch_events: int
    resource_version: int
    requests_held: int = 0
    watches_stalled: int = 0


class FakeApiServer:
    """A Kubernetes API server that lives in this process; an asynchronous context manager."""

    _port: Port | None = None
    _connections: Connections | None = None

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        load: Iterable[Json | str | Path] = (),
        event_log_size: int = DEFAULT_EVENT_LOG_SIZE,
        requests_kept: int = 0,
        admission_plugins: Iterable[str] | None = None,
        enable_admission_plugins: Iterable[str] = (),
        disable_admission_plugins: Iterable[str] = (),
        taint_nodes_by_condition: bool = False,
        managed_fields: bool = True,
        seed: int | None = None,
        initial_resource_version: int | None = None,
        kinds: Iterable[Kind] = (),
        faults: Iterable[Fault | Json | str | Path] = (),
        fault_log: Path | None = None,
        admin_endpoint: bool = True,
        state: StateFiles | None = None,
        security: Security | None = None,
    ) -> None:
        """Set up a server that listens once it is entered; port 0 picks a free one.

        `load` takes objects, files and directories; `event_log_size` is how many changes of each
        resource a watch may go back; `requests_kept` is how many requests `requests` goes back;
        `admission_plugins` is the whole list of plugins, the next three change the default one;
        `managed_fields` False keeps no record of who wrote what until somebody applies; `seed`
        fixes uids and generated names; versions begin at `initial_resource_version`, by default
        at the time of the clock; `kinds` are served in addition to the built-in ones. `faults`
        are values and files, `fault_log` is a file for what was injected, `admin_endpoint` says
        whether faults may be set over HTTP. `state` are files of an earlier state or for a later
        one; what is restored takes the place of `load`. `security` is TLS, users, roles and limits;
        without it the host is loopback. Raises {Load,Fault,State,Security,Admission}Error.
        """
        chosen = (admission_plugins, enable_admission_plugins, disable_admission_plugins)
        admission = Selection.of(*chosen).chain(taints_nodes=taint_nodes_by_condition)
        self._guard = Guard(security, host)
        self._gate = self._guard.gate
        self._clock: Clock = SystemClock() if clock is None else clock
        if initial_resource_version is None:
            initial_resource_version = int(self._clock.now() * _VERSIONS_PER_SECOND)
        store = Store(resource_version=initial_resource_version, log_size=event_log_size)
        table, ids = KindTable((*with_definition_rules(BUILT_IN), *kinds)), IdSource(seed)
        self._registry = Registry(table, store, self._clock, ids, admission, managed_fields)
        self._registry.extensions[Access] = self._guard.access
        self._host, self._requested_port, self._admin_endpoint = host, port, admin_endpoint
        # In order of arrival: what is sent first must not depend on where objects lie in memory.
        self._watchers: dict[Watcher, Kind] = {}
        self._in_flight = self._total = 0
        self._journal = Journal(self._registry.store, self._clock, requests_kept=requests_kept)
        self.state: Final = Keeper(state, self._registry.store, self._clock, self._journal)
        with self.state.setting_up():
            self._set_up(load)
            self.faults = self._faults_of(faults, fault_log, seed)

    def _faults_of(
        self, faults: Iterable[Fault | Json | str | Path], log: Path | None, seed: int | None
    ) -> Faults:
        made = Faults(
            self._registry, self._clock, functools.partial(_read, clock=self._clock), seed=seed
        )
        made.add(*faults)
        if log is not None:  # not before the faults: they may be from a log of that name
            made.log_to(log)
        return made

    @property
    def url(self) -> str:
        """Where clients find the server, once it is entered."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._guard.tls is None else 'https'}://{host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on, once it is entered."""
        return self._port.number if self._port is not None else self._requested_port

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig for the server, as YAML; for an administrator if users are told apart."""
        return self._guard.kubeconfig(self.url)

    @property
    def loopback(self) -> Loopback:
        """What a client in this process needs besides the address; it may do everything."""
        return self._guard.loopback

    def kubeconfig_for(self, user: str, groups: Iterable[str] = ()) -> str:
        """A kubeconfig for some other user: with a certificate made now, or a known token.

        Raises SecurityError if there is neither TLS of the server's own nor such a token.
        """
        return self._guard.kubeconfig(self.url, user, groups)

    @property
    def resource_version(self) -> int:
        """The newest version."""
        return self._registry.store.resource_version

    @property
    def clock(self) -> Clock:
        """The clock it lives on."""
        return self._clock

    @property
    def kinds(self) -> KindTable:
        """The kinds it serves; a row may be added at any time."""
        return self._registry.kinds

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """The newest requests that were answered, the oldest of them first.

        At most `requests_kept` of them; a watch is among them as soon as it has begun.
        """
        return self._journal.requests

    def listening(
        self,
        *,
        on_change: Callable[[ObjectChange], None] | None = None,
        on_request: Callable[[HandledRequest], None] | None = None,
    ) -> AbstractContextManager[None]:
        """Call back at once with each change and each answered request inside the block.

        What a request changes comes before the request. Callbacks must neither wait nor raise.
        """
        return self._journal.listening(on_change, on_request)

    def write_kubeconfig(self, path: str | Path) -> Path:
        """Write the kubeconfig to a file and answer its path."""
        target = Path(path)
        target.touch(mode=0o600)  # there may be a key in it
        target.write_text(self.kubeconfig, encoding="utf-8")
        return target

    def load(self, objects: Iterable[Json | str | Path], *, keep_uids: bool = False) -> int:
        """Store objects, or those in files and directories; how many. Raises LoadError.

        Nothing is stored if one of them is refused. "-" is the standard input. With `keep_uids`
        objects keep the uids they have, instead of getting new ones wherever they are named.
        """
        given = list(objects)
        manifests = manifests_of(value for value in given if isinstance(value, dict))
        manifests += read_all(value for value in given if not isinstance(value, dict))
        return loading.load(
            self._registry, manifests, keeps_uids=keep_uids, rehearses=not self.state.is_setting_up
        )

    def save_snapshot(self, path: str | Path | None = None) -> Path:
        """Write the state to a file, by default that of `state.snapshot`. Raises StateError."""
        return self.state.save_snapshot(None if path is None else Path(path))

    async def replay(self, path: str | Path, *, speed: float = 1.0) -> int:
        """Make the changes of a recording again; how many. Raises StateError.

        They have the gaps they had, on the server's clock, divided by `speed`; 0 leaves none.
        """
        return await replay(self._registry, Path(path), speed=speed)

    def object_keys(self) -> frozenset[tuple[ResourceKey, str]]:
        """What is stored, each object by its resource and its key in that."""
        return frozenset(
            (collection.resource, key)
            for collection in self._registry.store.collections()
            for key in collection.revisions
        )

    def remove_all_but(self, keys: Container[tuple[ResourceKey, str]]) -> int:
        """Remove everything else at once, whoever holds it; how many. Watchers are told.

        For whoever clears up: there is no grace, and finalizers do not count.
        """
        gone = [which for which in sorted(self.object_keys()) if which not in keys]
        for resource, key in gone:
            self._registry.store.remove(resource, key)
        return len(gone)

    def send_bookmarks(self) -> int:
        """Push a bookmark to every watch that allows them; answers the version it will carry.

        A client that has received it has seen every change up to that version.
        """
        for watcher in self._watchers:
            watcher.send_bookmark()
        return self.resource_version

    def compact(self) -> None:
        """Forget all past changes: watches and lists of earlier versions get 410 Expired."""
        self._registry.store.compact()

    def statistics(self) -> Statistics:
        """The server's numbers at this moment."""
        store, stalled = self._registry.store, self.faults.stalled
        return Statistics(
            objects=sum(len(collection.revisions) for collection in store.collections()),
            watchers=len(self._watchers),
            requests_in_flight=self._in_flight + self.faults.requests_delayed,
            requests_total=self._total,
            undelivered_watch_events=sum(
                watcher.undelivered for watcher in self._watchers if watcher not in stalled
            ),
            resource_version=store.resource_version,
            requests_held=self.faults.requests_held,
            watches_stalled=len(stalled),
        )

    async def __aenter__(self) -> FakeApiServer:
        """Start to listen. Raises OSError if the address cannot be had, or StateError.

        Files that are written anew lose what was in them only when that has succeeded.
        """
        loop = asyncio.get_running_loop()
        self._connections = Connections(
            self._handle if self._gate is None else self._guarded,
            request_factory=functools.partial(
                _make_request, loop, self._guard.options.max_request_bytes
            ),
            clock=self._clock,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            access_log=None,
            auto_decompress=False,  # upstream takes bodies as they come, too
        )
        self._port = Port(self._connections, self._host, self._requested_port, tls=self._guard.tls)
        try:
            await self._port.open()
            self.faults.begin_log()
            self.state.begin()
        except (OSError, StateError):
            self._port.close()
            self.abandon()  # without a port, or its files, there is no server
            raise
        self.faults.server_started(Incidents(self._port, self._registry.store, self._clock))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop: no new connections, watches end, requests finish; the state is saved.

        Raises StateError if it cannot be.
        """
        assert self._port is not None
        assert self._connections is not None
        self.faults.server_stopping()
        self._port.close()
        for watcher in self._watchers:
            watcher.end()
        self._connections.pre_shutdown()  # idle connections close, busy ones after their answer
        await self._connections.shutdown(_SHUTDOWN_SECONDS)
        await self._port.closed()
        self.state.close()

    def abandon(self) -> None:
        """Let go of the files of a server that will not be entered, as they are."""
        self.faults.server_stopping()
        self.state.abandon()

    def _set_up(self, load: Iterable[Json | str | Path]) -> None:
        """Begin with what is there before anybody writes; a restored state is only completed."""
        if self.state.is_restored:
            self._registry.ids.go_on(self.resource_version)
        self._registry.controllers = (DefinitionController,)
        for follow in self._registry.controllers:
            follow(self._registry)
        self.kinds.listeners[self] = self._end_watches
        self._create_system_objects()
        self._registry.admission.follow(self._registry)
        if not self.state.is_restored:
            self.load(load, keep_uids=self.state.files.keep_uids)
        self._guard.set_up(self._registry)

    def _end_watches(self, kind: Kind) -> None:
        """What is watched is not what it was: clients begin anew, as upstream makes them."""
        for watcher, watched in self._watchers.items():
            if watched is kind:
                watcher.end()

    def _create_system_objects(self) -> None:
        """Four namespaces and two priority classes, as far as they are not there."""
        for name in _NAMESPACES:
            self._create("namespaces", {"metadata": {"name": name}})
        for name, description in _SYSTEM_CLASS_TEXTS.items():
            value: Json = {
                "metadata": {"name": name},
                "value": SYSTEM_PRIORITIES[name],
                "description": description,
            }
            self._create("priorityclasses", value, group="scheduling.k8s.io")

    def _create(self, plural: str, value: Json, group: str = "") -> None:
        kind = self.kinds.find(group, "v1", plural)
        assert kind is not None
        pipeline.ensure(self._registry, kind, value, manager=_MANAGER)

    async def _guarded(self, http: web.BaseRequest) -> web.StreamResponse:
        """Let a request in only if it may."""
        assert self._gate is not None
        try:
            leave = self._gate.enter(http, *split_target(http.raw_path))
        except ApiError as error:
            self._total += 1
            self._note(http, error.code)
            if isinstance(error, TooBusy):
                return response_to(too_busy(error))
            return response_to(explained(error, http.method, http.raw_path, http.headers))
        try:
            return await self._handle(http)
        finally:
            leave()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        if self._admin_endpoint and http.raw_path.startswith(admin.PATH):
            return await self._administer(http)
        if self.faults.of_requests:
            response = await self.faults.serve(http, self._committed)
        else:
            response = await self._committed(http)
        if isinstance(response, web.Response):  # a watch has been noted when it began
            self._note(http, response.status)
        return response

    async def _committed(self, http: web.BaseRequest) -> web.StreamResponse:
        """The answer, once all that it may tell of will outlive the server."""
        response = await self._answer(http)
        try:
            await self.state.settled()
        except StateError as error:
            if not response.prepared:
                return response_to(answers.of_error(InternalError(str(error))))
        return response

    async def _administer(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request about faults; what it asks for does not break its own connection."""
        keep(http.transport)
        try:
            body = await _read(http, self._clock)
            return response_to(admin.answer(self.faults, http.method, http.raw_path, body))
        except ApiError as error:
            return response_to(answers.of_error(error))

    def _note(self, http: web.BaseRequest, status: int) -> None:
        # The body as far as it was read: aiohttp keeps it here, and has no name for that.
        body = http._read_bytes or b""
        self._journal.handled(http.method, http.raw_path, http.headers, status, body)

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; whatever goes wrong becomes a Status."""
        self._total += 1
        warnings: list[str] = []
        try:
            with self._counted_in_flight():
                call = understood(self._registry, http.method, http.raw_path, http.headers)
                warnings = call.warnings  # sent even if the request is refused
                if self._gate is not None:
                    call.user = current_user()
                read = functools.partial(_read, http, self._clock)
                address = f"{self._host}:{self.port}"
                answer = await handle(self._registry, call, read, address=address)
                if not isinstance(answer, Watch):
                    return await _delivered(http, answer, warnings)
            return await self._watch(http, call.route.kind, answer, warnings)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            return response_to(explained(error, http.method, http.raw_path, http.headers), warnings)

    @contextlib.contextmanager
    def _counted_in_flight(self) -> Iterator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    async def _watch(
        self, http: web.BaseRequest, kind: Kind, watch: Watch, warnings: Iterable[str]
    ) -> web.StreamResponse:
        watcher, response = watch.watcher, stream_response(warnings)
        self._watchers[watcher] = kind
        try:
            await response.prepare(http)  # at once: clients wait for the headers
            self._note(http, response.status)
            write = self.state.guarded(response.write)
            async with self.faults.channel(http, watcher, write) as channel:
                await watcher.serve(channel.write, watch.timeout_seconds)
            with contextlib.suppress(ConnectionError):
                await response.write_eof()
        finally:
            del self._watchers[watcher]
        return response


async def _delivered(
    http: web.BaseRequest, answer: Answer, warnings: Iterable[str]
) -> web.Response:
    """Return the response, compressed if it is large and the client accepts that."""
    if answers.is_compressed_for(answer, http.headers.get(hdrs.ACCEPT_ENCODING, "")):
        answer = await asyncio.to_thread(answers.compressed, answer)
    return response_to(answer, warnings)


def _make_request(
    loop: asyncio.AbstractEventLoop,
    body_bytes_max: int,
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """A request as aiohttp makes it, but for the size of body it takes."""
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max
    )


async def _read(http: web.BaseRequest, clock: Clock) -> bytes:
    """Return the body of a request. Raises EntityTooLarge, RequestTimedOut."""
    if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        http.writer.output_size = 0  # the response has not begun
    try:
        return await read_patiently(http, clock)
    except web.HTTPRequestEntityTooLarge as error:
        raise EntityTooLarge(http.client_max_size) from error
