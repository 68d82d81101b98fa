"""The server: composition of its parts, and the object that a test holds.

    async with FakeApiServer() as server:
        ...  # clients use server.url or server.kubeconfig

Several servers may live in one event loop. A write never awaits, so each one is atomic; a request
that waits (a list for a version, a watch) holds no lock.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeapi import private_file
from fakeapi.access.access import Access
from fakeapi.admission.selection import KNOWN, OFF, admission_chain
from fakeapi.clock import SystemClock
from fakeapi.crds.controller import DefinitionController
from fakeapi.crds.rules import with_definition_rules
from fakeapi.discovery.group_lists import checked_version, emulated
from fakeapi.faults import FaultOptions, Faults
from fakeapi.faults.server_faults import ServerFaults
from fakeapi.handler import HttpHandler
from fakeapi.http.connections import Connections
from fakeapi.http.port import Port
from fakeapi.kinds.built_in import served_kinds
from fakeapi.loading.load import load as load_objects
from fakeapi.loading.system_objects import create_system_objects, publish_server
from fakeapi.security.guard import Guard
from fakeapi.security.options import Security
from fakeapi.state import StateError
from fakeapi.state.keeper import Keeper, StateFiles
from fakeapi.state.replaying import replay
from fakeapi.store.expiry import EventExpiry
from fakeapi.store.journal import Journal
from fakeapi.store.registry import Registry
from fakeapi.store.store import LOG_BYTES, Store
from fakeapi.types.identity import IdSource
from fakeapi.types.kind import KindTable
from fakeapi.types.limits import Limits
from fakeapi.types.option import check_values, option

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from contextlib import AbstractContextManager

    from fakeapi.clock import Clock
    from fakeapi.faults import Fault
    from fakeapi.security.guard import Loopback
    from fakeapi.store.journal import HandledRequest, ObjectChange
    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.objects import Json

#: How long a watch that cannot be written to may delay the end of the server.
_SHUTDOWN_SECONDS: Final = 0.25
#: Resource versions begin at the time in units of 10 microseconds. No write rate overtakes that, so
#: a server that is started later never begins below the end of an earlier one.
_VERSIONS_PER_SECOND: Final = 100_000
#: Half of SQLite's largest integer: versions never outgrow it.
_VERSION_MAX: Final = 2**62
#: Options that are lists.
_NAMES: Final = (
    "enable_admission_plugins",
    "disable_admission_plugins",
    "admission_plugins",
    "runtime_config",
)
_KNOWN_PLUGINS: Final = ", ".join(plugin.name for plugin in KNOWN)
_DEFAULT_PLUGINS: Final = ", ".join(plugin.name for plugin in KNOWN if plugin.name not in OFF)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(Limits):
    """Options of a server's API, named like kube-apiserver's flags where it has such a flag.

    A list of admission plugins is names, or texts with commas between names.
    """

    enable_admission_plugins: Iterable[str] = option(
        (),
        "Plugins to run in addition to those that are on by default, with commas between them. "
        f"Known are {_KNOWN_PLUGINS}; on by default are {_DEFAULT_PLUGINS}.",
        metavar="NAMES",
    )
    disable_admission_plugins: Iterable[str] = option(
        (),
        "Plugins not to run although they are on by default; those of kube-apiserver that are not "
        "part of this server may be named, too.",
        metavar="NAMES",
    )
    admission_plugins: Iterable[str] | None = option(
        None,
        "Exactly the plugins to run; an empty text for none at all.",
        metavar="NAMES",
        repeated=True,
    )
    runtime_config: Iterable[str] = option(
        (),
        "API versions to turn on: api/alpha=true for all alpha versions, or one version, as "
        "scheduling.k8s.io/v1alpha2=true; with commas between them.",
        metavar="VERSION=true",
    )
    emulated_version: str = option(
        "1.36",
        "The version that /version names as emulated; all else is as in v1.36.",
        metavar="VERSION",
        parse=checked_version,
    )
    managed_fields: bool = option(
        True, "Record who wrote which field; without, only of objects that are applied."
    )
    event_log_size: int = option(
        10_000, "Changes of each resource that a watch may go back.", minimum=1
    )
    event_log_bytes: int = option(
        LOG_BYTES,
        "Bytes of changes of each resource that a watch may go back, counted as JSON.",
        minimum=1,
    )
    event_ttl_seconds: float = option(
        3600.0,
        "Delete Events so long after their last write; 0 to keep them.",
        flag="--event-ttl",
        metavar="SECONDS",
        minimum=0,
    )
    initial_resource_version: int | None = option(
        None,
        "First resource version; by default the time, so that versions grow over restarts.",
        type=int,
        minimum=1,
        maximum=_VERSION_MAX,
    )
    #: Number of requests that `FakeApiServer.requests` keeps.
    requests_kept: int = 0

    def __post_init__(self) -> None:
        """Make the options hashable, as keys of caches."""
        for name in _NAMES:
            names = getattr(self, name)
            if names is not None and not isinstance(names, str):
                object.__setattr__(self, name, tuple(names))


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of a server at one moment."""

    objects: int
    watchers: int
    #: Neither watches nor requests that a fault holds until its end.
    requests_in_flight: int
    requests_total: int
    #: Not those of watches that a fault stalls.
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
        port: int = 0,
        load: Iterable[Json | str | Path] = (),
        seed: int | None = None,
        clock: Clock | None = None,
        faults: FaultOptions | Iterable[Fault | Json | str | Path] = (),
        security: Security | None = None,
        state: StateFiles | None = None,
        options: ServerOptions | None = None,
    ) -> None:
        """Set up a server that listens once it is entered; port 0 picks a free one.

        `load` takes objects, files and directories. `seed` fixes uids, generated names and random
        faults. `faults` are values and files, or FaultOptions. `security` is the address to listen
        on, TLS, users, roles and limits. `state` are files of an earlier state or for a later one;
        a restored state replaces `load`. Raises
        {Load,Fault,State,Security,Admission,RuntimeConfig}Error, ValueError.
        """
        options = options or ServerOptions()
        check_values(options)
        fault_options = FaultOptions.from_value(faults)
        self._guard = Guard(security or Security())
        self._requested_port = port
        self._clock: Clock = clock or SystemClock()
        self._registry = _new_registry(options, self._clock, IdSource(seed))
        store = self._registry.store
        self._registry.extensions[Access] = self._guard.access
        self._journal = Journal(store, self._clock, requests_kept=options.requests_kept)
        self._expiry = EventExpiry(store, self._clock, options.event_ttl_seconds)
        self.state: Final = Keeper(state, store, self._clock, self._journal)
        with self.state.setting_up():
            self._set_up(load)
            self.faults: Final = Faults(self._registry, self._clock, fault_options, seed=seed)
        self._handler = HttpHandler(
            self._registry,
            self._journal,
            self.state,
            self.faults,
            gate=self._guard.gate,
            admin_endpoint=fault_options.admin_endpoint,
            address=lambda: f"{self._guard.options.host}:{self.port}",
        )

    def _set_up(self, given: Iterable[Json | str | Path]) -> None:
        """Create the first objects; a restored state only gets missing objects."""
        registry = self._registry
        if self.state.is_restored:
            registry.ids.continue_after(self.resource_version)
        registry.controllers = (DefinitionController,)
        for follow in registry.controllers:
            follow(registry)
        create_system_objects(registry)
        registry.admission.follow(registry)
        if not self.state.is_restored:
            self.load(given, keep_uids=self.state.files.keep_uids)
        self._guard.set_up(registry)

    @property
    def url(self) -> str:
        """The URL for clients, once the server is entered."""
        host = self._guard.options.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._guard.tls is None else 'https'}://{shown}:{self.port}"

    @property
    def port(self) -> int:
        """The port of the server, once the server is entered."""
        return self._port.number if self._port is not None else self._requested_port

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig as YAML, with an administrator's credentials if the server needs some."""
        return self._guard.kubeconfig(self.url)

    @property
    def loopback(self) -> Loopback:
        """TLS context and headers for a client in this process, which may do everything."""
        return self._guard.loopback

    def kubeconfig_for(self, user: str, groups: Iterable[str] = ()) -> str:
        """Return a kubeconfig for another user: with a new certificate, or the user's token.

        Raises SecurityError without TLS of the server's own and without a token of the user.
        """
        return self._guard.kubeconfig(self.url, user, groups)

    def write_kubeconfig(self, path: str | Path, *, user: str = "") -> Path:
        """Write a kubeconfig to a file, readable for its owner only; return its path.

        It is the administrator's, or that of `user` as `kubeconfig_for` makes it.
        """
        target = Path(path)
        text = self.kubeconfig_for(user) if user else self.kubeconfig
        private_file.replace(target, text.encode())
        return target

    @property
    def resource_version(self) -> int:
        """The newest resource version."""
        return self._registry.store.resource_version

    @property
    def clock(self) -> Clock:
        """The server's only source of time."""
        return self._clock

    @property
    def kinds(self) -> KindTable:
        """The kinds of the server; `kinds.add(Kind(...))` adds a kind at any time."""
        return self._registry.kinds

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """The newest answered requests, oldest first, at most `ServerOptions.requests_kept`.

        A watch is among them as soon as it has begun.
        """
        return self._journal.requests

    def listening(
        self,
        *,
        on_change: Callable[[ObjectChange], None] | None = None,
        on_request: Callable[[HandledRequest], None] | None = None,
    ) -> AbstractContextManager[None]:
        """Call back at once with each change and each answered request inside the block.

        The changes of a request come before the request. Callbacks must neither wait nor raise.
        """
        return self._journal.listening(on_change, on_request)

    def load(self, objects: Iterable[Json | str | Path], *, keep_uids: bool = False) -> int:
        """Store objects, from files and directories too; return their number.

        Nothing is stored if an object is refused. "-" is the standard input. With `keep_uids`
        objects keep their uids; else they and references to them get new uids. Raises LoadError.
        """
        return load_objects(
            self._registry, objects, keeps_uids=keep_uids, rehearses=not self.state.is_setting_up
        )

    def save_snapshot(self, path: str | Path | None = None) -> Path:
        """Write the state to a file, by default to `state.snapshot`. Raises StateError."""
        return self.state.save_snapshot(None if path is None else Path(path))

    async def replay(self, path: str | Path, *, speed: float = 1.0) -> int:
        """Repeat the changes of a recording; return their number. Raises StateError.

        The recorded pauses, on the server's clock, are divided by `speed`; 0 means no pauses.
        """
        return await replay(self._registry, Path(path), speed=speed)

    def object_keys(self) -> frozenset[tuple[ResourceKey, str]]:
        """Return all stored objects, each as its resource and its key in the resource."""
        return frozenset(
            (collection.resource, key)
            for collection in self._registry.store.collections()
            for key in collection.revisions
        )

    def remove_all_but(self, keys: Container[tuple[ResourceKey, str]]) -> int:
        """Remove all other objects at once, for the cleanup after a test; return their number.

        Grace periods and finalizers do not count. Watchers get DELETED events.
        """
        gone = [which for which in sorted(self.object_keys()) if which not in keys]
        for resource, key in gone:
            self._registry.store.remove(resource, key)
        return len(gone)

    def send_bookmarks(self) -> int:
        """Send a bookmark to every watch that allows them; return its resource version.

        A client with the bookmark has received every change up to that version.
        """
        for watcher in self._handler.watchers:
            watcher.send_bookmark()
        return self.resource_version

    def compact(self) -> None:
        """Forget all past changes: watches and lists of earlier versions get 410 Expired."""
        self._registry.store.compact()

    def statistics(self) -> Statistics:
        """Return the counts of this moment."""
        store, stalled, handler = self._registry.store, self.faults.stalled, self._handler
        return Statistics(
            objects=sum(len(collection.revisions) for collection in store.collections()),
            watchers=len(handler.watchers),
            requests_in_flight=handler.requests_in_flight + self.faults.requests_delayed,
            requests_total=handler.requests_total,
            undelivered_watch_events=sum(
                watcher.undelivered for watcher in handler.watchers if watcher not in stalled
            ),
            resource_version=store.resource_version,
            requests_held=self.faults.requests_held,
            watches_stalled=len(stalled),
        )

    async def __aenter__(self) -> FakeApiServer:
        """Start to listen. Raises OSError if the address is not available, or StateError.

        Files that the server overwrites are opened last: a failed start leaves them as they are.
        """
        security = self._guard.options
        self._connections = Connections(
            self._handler,
            clock=self._clock,
            body_bytes_max=security.max_request_bytes,
            limits=self._registry.limits,
        )
        self._port = Port(
            self._connections, security.host, self._requested_port, tls=self._guard.tls
        )
        try:
            await self._port.open()
            publish_server(self._registry, self._port.address, self.port)
            self.state.commit()
            self.faults.begin_log()
            self.state.begin()
        except (OSError, StateError):
            self._port.close()
            self.abandon()
            raise
        self._expiry.start()
        self.faults.server_started(ServerFaults(self._port, self._registry.store, self._clock))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop: no new connections, watches end, requests finish; save the state.

        Raises StateError if the state cannot be saved.
        """
        assert self._port is not None
        assert self._connections is not None
        self._expiry.stop()
        self.faults.server_stopping()
        self._port.close()
        self._handler.end_watches()
        self._connections.pre_shutdown()  # idle connections close, busy ones after their answer
        await self._connections.shutdown(_SHUTDOWN_SECONDS)
        await self._port.closed()
        self.state.close()

    def abandon(self) -> None:
        """Close the files of a server that will not be entered, and leave them as they are."""
        self.faults.server_stopping()
        self.state.abandon()


def _new_registry(options: ServerOptions, clock: Clock, ids: IdSource) -> Registry:
    """Return the empty state of a server. Raises AdmissionError, RuntimeConfigError."""
    first_version = options.initial_resource_version
    if first_version is None:
        first_version = int(clock.now() * _VERSIONS_PER_SECOND)
    return Registry(
        KindTable(with_definition_rules(served_kinds(options.runtime_config))),
        Store(
            resource_version=first_version,
            log_size=options.event_log_size,
            log_bytes=options.event_log_bytes,
        ),
        clock,
        ids,
        admission_chain(
            options.admission_plugins,
            options.enable_admission_plugins,
            options.disable_admission_plugins,
        ),
        options.managed_fields,
        limits=options,
        version=emulated(options.emulated_version),
    )
