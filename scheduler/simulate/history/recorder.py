"""Record a cluster as a history: list and watch all kinds that the scheduler knows.

After a broken watch the reflector lists again: the changes meanwhile are then one change of each
object, at the time of the list. Kinds that the server does not have, or that may not be read, are
unseen.
"""

from __future__ import annotations

import asyncio
import functools
import random
from typing import TYPE_CHECKING, Any, Final

from scheduler.client import NODES, PODS
from scheduler.client.informer import InformerFactory, Required
from scheduler.client.kinds import KINDS, GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.unstructured import Unstructured
    from scheduler.client import RestClient
    from scheduler.client.informer import Informer
    from scheduler.client.kinds import Resource
    from scheduler.clock import Clock
    from scheduler.simulate.history.format import HistoryWriter


class Recorder:
    """Writes the objects of a cluster, and then each change, until it is stopped."""

    def __init__(self, client: RestClient, writer: HistoryWriter, *, clock: Clock) -> None:
        self._writer: Final = writer
        self._clock: Final = clock
        self._factory: Final = InformerFactory(client, clock=clock, rng=random.Random())
        self._started: float | None = None
        self._informers: Final[dict[str, Informer[Unstructured]]] = {}
        self.changes = 0
        for resource in KINDS.values():
            self._informers[resource.group_resource] = self._informer(resource)

    def _informer(self, resource: Resource[Any]) -> Informer[Unstructured]:
        # As an unstructured kind, so that all fields are recorded.
        name = GroupVersionResource(resource.group, resource.version, resource.plural)
        informer = self._factory.discovered(name)
        informer.required = Required.NO
        written = functools.partial(self._write, resource.group_resource)
        informer.add_event_handler(
            on_add=lambda obj, is_initial: written("ADDED", obj),
            on_update=lambda old, new: written("MODIFIED", new),
            on_delete=lambda obj, final_state_unknown: written("DELETED", obj),
        )
        return informer

    @property
    def unseen(self) -> list[str]:
        """The kinds that the server does not have, or that may not be read."""
        return [name for name, informer in self._informers.items() if not informer.is_available]

    async def run(self, stop: asyncio.Event, *, on_start: Callable[[], None]) -> None:
        """Record until `stop` is set; `on_start` is called once all kinds are listed."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._watch())
            synced = group.create_task(self._factory.wait_for_sync())
            stopped = group.create_task(stop.wait())
            await asyncio.wait((synced, stopped), return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                self._write_all()
                on_start()
                await stopped
            synced.cancel()
            work.cancel()

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as informers:
            self._factory.start(informers)

    def _write_all(self) -> None:
        """Write the objects as they are at the start: nodes first, pods last."""
        self._started = self._clock.monotonic()
        order = [NODES.group_resource, *self._informers.keys() - {PODS.plural, NODES.plural}]
        for resource in (order[0], *sorted(order[1:]), PODS.group_resource):
            for obj in self._informers[resource].lister.list():
                self._write(resource, "ADDED", obj)

    def _write(self, resource: str, change: str, obj: Unstructured) -> None:
        if self._started is None:
            return  # written at the start
        seconds = self._clock.monotonic() - self._started
        self._writer.write(seconds, change, resource, obj)
        self.changes += 1
