"""All actors of a cluster, started and stopped together; a test holds them in its hands.

async with FakeApiServer(clock=clock) as server, Actors(server, kubelet=True) as actors:
    ...
    await actors.wait_until_idle()
    clock.advance(1)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from fakeapi.actors import client
from fakeapi.actors.budgets import DisruptionBudgets
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.garbage import GarbageCollector
from fakeapi.actors.heartbeats import NodeLeases
from fakeapi.actors.kubelet import Kubelet, KubeletOptions
from fakeapi.actors.namespaces import NamespaceCollector
from fakeapi.actors.node_lifecycle import NodeLifecycle, NodeLifecycleOptions
from fakeapi.actors.owners import owner_controllers
from fakeapi.actors.volume_protection import VolumeProtection
from fakeapi.actors.volumes import VolumeOptions, Volumes
from fakeapi.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fakeapi.actors.stages.reading import Stage
    from fakeapi.clock import Clock
    from fakeapi.server import FakeApiServer
    from fakeapi.store.journal import ObjectChange


def _stages_of(paths: Iterable[Path]) -> list[Stage]:
    """Read KWOK Stages, whose package is imported only then. Raises StageError."""
    paths = list(paths)
    if not paths:
        return []
    from fakeapi.actors.stages import read_stages

    return [stage for path in paths for stage in read_stages(path)]


class Actors:
    """Actors that live beside a server and know it over HTTP only; a context manager."""

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
        disruption_budgets: bool = False,
        volumes: bool | VolumeOptions = False,
        stages: Iterable[Path] = (),
        events: bool = True,
    ) -> None:
        """Choose the actors; they begin when this is entered.

        They speak to `url` if it is given (a proxy, another server), else to the server itself, and
        live on `clock`, else on the server's. Without a server `is_idle` cannot know of news that
        is still on its way. `stages` are files of KWOK Stages, or directories of them. With
        `events` they write the events that `kubectl describe` shows.

        Raises ValueError if there is neither server nor url, or StageError.
        """
        if server is None and not url:
            raise ValueError("actors need a server or a url")
        self._server = server
        self._url = url
        self._clock: Clock = clock or (server.clock if server is not None else SystemClock())
        self._kubelet_wish = kubelet
        self._lifecycle_wish = node_lifecycle
        self._collects = garbage_collector
        self._owns = owners
        self._budgets = disruption_budgets
        self._volumes_wish = volumes
        self._stages = _stages_of(stages)
        self._events = events
        self._exits = contextlib.AsyncExitStack()
        self._context: Context | None = None
        self._controllers: list[Controller] = []
        self._versions: dict[tuple[str, str], int] = {}
        self._progress = asyncio.Event()
        self.kubelet: Kubelet | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way until an object changes or time passes."""
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
        """Return once nothing is under way; never, if the server is out of reach for good."""
        while not self.is_idle:
            self._progress.clear()
            await self._progress.wait()

    async def __aenter__(self) -> Actors:
        """Begin; the actors do their first work as soon as they are let."""
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
        """Stop in the midst of whatever they do."""
        await self._exits.aclose()
        self._context = None

    def _populate(self, context: Context) -> None:
        wish = self._kubelet_wish
        if wish:
            self.kubelet = Kubelet(context, KubeletOptions() if wish is True else wish)
            self._controllers += [self.kubelet, self.kubelet.heartbeats]
        lifecycle = self._lifecycle_wish
        if lifecycle:
            options = NodeLifecycleOptions() if lifecycle is True else lifecycle
            nodes = NodeLifecycle(context, options)
            self._controllers += [nodes, nodes.eviction]
        if self._collects:
            collector = GarbageCollector(context)
            self._controllers += [collector, collector.discovery, NamespaceCollector(context)]
        if self._owns:
            self._controllers += owner_controllers(context)
        if self._budgets:
            self._controllers.append(DisruptionBudgets(context))
        if self._stages:
            from fakeapi.actors.stages import Stages

            self._controllers.append(Stages(context, self._stages))
        if not wish and any(stage.kind == "Node" for stage in self._stages):
            self._controllers.append(NodeLeases(context))
        volumes = self._volumes_wish
        if volumes:
            self._controllers += [
                Volumes(context, VolumeOptions() if volumes is True else volumes),
                VolumeProtection(context),
            ]

    def _changed(self, change: ObjectChange) -> None:
        self._versions[change.group, change.resource] = change.resource_version
