"""All actors of a cluster, started and stopped together.

async with FakeApiServer(clock=clock) as server, Actors(server, kubelet=True) as actors:
    ...
    await actors.wait_until_idle()
    clock.advance(1)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from fakeapi.actors import client
from fakeapi.actors.budgets import DisruptionBudgets
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.endpoints import EndpointsController
from fakeapi.actors.garbage import GarbageCollector
from fakeapi.actors.kubelet import Kubelet, KubeletOptions
from fakeapi.actors.leader_elections import LeaderElections
from fakeapi.actors.namespaces import DefaultServiceAccounts, NamespaceCollector
from fakeapi.actors.node_lifecycle import NodeLifecycle, NodeLifecycleOptions
from fakeapi.actors.owners import owner_controllers
from fakeapi.actors.pod_group_protection import PodGroupProtection
from fakeapi.actors.resource_claims import ResourceClaims
from fakeapi.actors.resources import LEASE_CANDIDATES, POD_GROUPS
from fakeapi.actors.volume_protection import VolumeProtection
from fakeapi.actors.volumes import VolumeOptions, Volumes
from fakeapi.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.actors.resources import Resource
    from fakeapi.clock import Clock
    from fakeapi.server import FakeApiServer
    from fakeapi.store.journal import ObjectChange

_Options = TypeVar("_Options")


def _options(default: Callable[[], _Options], *, chosen: bool | _Options) -> _Options | None:
    """Return the options of an actor, None if it is not chosen."""
    if isinstance(chosen, bool):
        return default() if chosen else None
    return chosen


def _serves(server: FakeApiServer | None, resource: Resource) -> bool:
    group, version, plural = resource.group, resource.version, resource.plural
    return server is not None and server.kinds.find(group, version, plural) is not None


class Actors:
    """A context manager that runs actors, which are clients of a server over HTTP."""

    def __init__(
        self,
        server: FakeApiServer | None = None,
        *,
        url: str = "",
        clock: Clock | None = None,
        kubelet: bool | KubeletOptions = False,
        node_lifecycle: bool | NodeLifecycleOptions = False,
        garbage_collector: bool = False,
        owners: bool = False,
        endpoints: bool = False,
        disruption_budgets: bool = False,
        volumes: bool | VolumeOptions = False,
        devices: bool = False,
        elections: bool = False,
        events: bool = True,
        pod_groups: bool | None = None,
    ) -> None:
        """Choose the actors; they start when the context is entered.

        They connect to `url` (a proxy, another server), by default to the server itself, and use
        `clock`, by default the server's. Without a server `is_idle` misses changes that no watch
        has delivered yet. `events` are those that `kubectl describe` shows. With `pod_groups` (by
        default, if the server has these kinds) Jobs that are gangs get a Workload and a PodGroup,
        and deleted PodGroups lose their finalizer. `elections` needs the kind LeaseCandidate.

        Raises ValueError if there is neither server nor url.
        """
        if server is None and not url:
            raise ValueError("actors need a server or a url")
        self._server = server
        self._url = url
        self._clock: Clock = clock or (server.clock if server is not None else SystemClock())
        self._kubelet_options = _options(KubeletOptions, chosen=kubelet)
        self._lifecycle_options = _options(NodeLifecycleOptions, chosen=node_lifecycle)
        self._volume_options = _options(VolumeOptions, chosen=volumes)
        self._garbage_collector = garbage_collector
        self._owners = owners
        self._endpoints = endpoints
        self._disruption_budgets = disruption_budgets
        self._devices = devices
        self._elections = elections and (server is None or _serves(server, LEASE_CANDIDATES))
        self._events = events
        self._pod_groups = _serves(server, POD_GROUPS) if pod_groups is None else pod_groups
        self._exits = contextlib.AsyncExitStack()
        self._context: Context | None = None
        self._controllers: list[Controller] = []
        self._versions: dict[tuple[str, str], int] = {}
        self._progress = asyncio.Event()
        self.kubelet: Kubelet | None = None

    @property
    def is_idle(self) -> bool:
        """True if nothing happens until an object changes or time passes."""
        if self._context is None:
            return True
        if not all(controller.is_idle for controller in self._controllers):
            return False
        for resource, informer in self._context.informers.items():
            newest = self._versions.get((resource.group, resource.plural), 0)
            if not informer.has_synced or informer.version < newest:
                return False
        return True

    async def wait_until_idle(self) -> None:
        """Wait until `is_idle`; for ever, if the server cannot be reached."""
        while not self.is_idle:
            self._progress.clear()
            await self._progress.wait()

    async def __aenter__(self) -> Actors:
        """Start the actors; they work as soon as the caller awaits something."""
        own = self._server.loopback if self._server is not None and not self._url else None
        session = await self._exits.enter_async_context(client.new_session(own))
        if self._server is not None:
            self._exits.enter_context(self._server.listening(on_change=self._changed))
        url = self._url or (self._server.url if self._server is not None else "")
        self._context = Context(
            session, url, self._clock, self._progress.set, records_events=self._events
        )
        self._exits.push_async_callback(self._context.close)
        self._populate(self._context)
        for controller in self._controllers:
            self._exits.callback(controller.close)
            controller.start()
        self._context.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the actors, in the middle of their work if need be."""
        await self._exits.aclose()
        self._context = None

    def _populate(self, context: Context) -> None:
        if self._kubelet_options is not None:
            self.kubelet = Kubelet(context, self._kubelet_options)
            self._controllers += [self.kubelet, self.kubelet.heartbeats]
        if self._lifecycle_options is not None:
            nodes = NodeLifecycle(context, self._lifecycle_options)
            self._controllers += [nodes, nodes.eviction]
        if self._garbage_collector:
            collector = GarbageCollector(context)
            self._controllers += [collector, collector.discovery]
            self._controllers += [NamespaceCollector(context), DefaultServiceAccounts(context)]
            if self._pod_groups:
                self._controllers.append(PodGroupProtection(context))
        if self._owners:
            self._controllers += owner_controllers(context, pod_groups=self._pod_groups)
        if self._endpoints:
            self._controllers.append(EndpointsController(context))
        if self._disruption_budgets:
            self._controllers.append(DisruptionBudgets(context))
        if self._devices:
            self._controllers.append(ResourceClaims(context))
        if self._elections:
            self._controllers.append(LeaderElections(context))
        if self._volume_options is not None:
            self._controllers.append(Volumes(context, self._volume_options))
        if self._garbage_collector or self._volume_options is not None:
            self._controllers.append(VolumeProtection(context))

    def _changed(self, change: ObjectChange) -> None:
        self._versions[change.group, change.resource] = change.resource_version
