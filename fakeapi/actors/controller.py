"""What all actors have in common: informers, a queue of keys, and writes that are waited for.

An actor decides from the copies of its informers. Before it decides on a key again it waits until
the copies tell of what it wrote for that key: no pod is made twice because news is late. That is
what upstream's controllers call expectations.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import MERGE, ActorApiError, Client
from fakeapi.actors.informer import Informer
from fakeapi.actors.objects import key_of, status_of
from fakeapi.actors.work import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import aiohttp

    from fakeapi.actors.informer import Note
    from fakeapi.actors.resources import Resource
    from fakeapi.clock import Clock
    from fakeapi.types.objects import Json

_WORKERS: Final = 4
_written: contextvars.ContextVar[list[tuple[Informer, Note]] | None] = contextvars.ContextVar(
    "written", default=None
)
_log = logging.getLogger("fakeapi.actors")


class Context:
    """What actors share: the session, the clock, one informer for each resource."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        clock: Clock,
        progress: Callable[[], None],
        *,
        records_events: bool = True,
    ) -> None:
        self.clock: Final = clock
        self.records_events: Final = records_events
        self.serial: Final = itertools.count().__next__
        self.progress: Final = progress
        self.informers: Final[dict[Resource, Informer]] = {}
        self._session = session
        self._url = url
        self._tasks: set[asyncio.Task[None]] = set()
        self._informing: dict[Resource, asyncio.Task[None]] = {}
        self._runs = False

    def client(self, name: str) -> Client:
        """A client under that name."""
        return Client(self._session, self._url, name)

    def informer(self, resource: Resource) -> Informer:
        """The informer of a resource, which begins when the actors do, or now."""
        informer = self.informers.get(resource)
        if informer is None:
            informer = Informer(self.client("informer"), resource, self.clock, self.progress)
            self.informers[resource] = informer
            if self._runs:
                self._run(informer)
        return informer

    def forget(self, resource: Resource) -> None:
        """End the informer of a resource that is no longer served."""
        informer = self.informers.pop(resource, None)
        if informer is not None:
            informer.abandon()
        task = self._informing.pop(resource, None)
        if task is not None:
            task.cancel()

    def start(self) -> None:
        """Let the informers begin."""
        self._runs = True
        for informer in self.informers.values():
            self._run(informer)

    def _run(self, informer: Informer) -> None:
        self._informing[informer.resource] = self.spawn(informer.run())

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine until the actors end."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End everything that was spawned."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Controller:
    """One actor: a queue of keys, and `sync`, which does for a key what is to be done."""

    name = "controller"

    def __init__(self, context: Context) -> None:
        self.context: Final = context
        self.clock: Final = context.clock
        self.client: Final = context.client(self.name)
        self.queue: Final = WorkQueue(context.clock)
        self._needed: Final[list[Informer]] = []
        self._notes: dict[str, list[tuple[Informer, Note]]] = {}

    async def sync(self, key: str) -> None:
        """Do what is to be done for a key; raises ActorApiError to be called again later."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way until an object changes or time passes."""
        return self.queue.is_idle

    def informer(self, resource: Resource) -> Informer:
        """The informer of a resource, which this actor does not work without."""
        informer = self.context.informer(resource)
        if informer not in self._needed:
            self._needed.append(informer)
        return informer

    def follow(self, resource: Resource) -> Informer:
        """An informer whose objects are the keys."""
        informer = self.informer(resource)
        informer.subscribe(self._enqueue)
        return informer

    def start(self) -> None:
        """Begin to work."""
        for _ in range(_WORKERS):
            self.context.spawn(self._work())

    def close(self) -> None:
        """Forget what was planned."""
        self.queue.close()

    async def create(self, resource: Resource, obj: Json) -> Json:
        """Create an object. Raises ActorApiError."""
        return self._noted(resource, await self.client.create(resource, obj))

    async def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        """Update an object, or its status. Raises ActorApiError."""
        answer = await self.client.update(resource, obj, subresource=subresource)
        return self._noted(resource, answer)

    async def update_status(self, resource: Resource, obj: Json, status: Json) -> Json:
        """Give the object that status unless it has it. Raises ActorApiError."""
        if status_of(obj) == status:
            return obj
        return await self.update(resource, {**obj, "status": status}, subresource="status")

    async def patch(
        self,
        resource: Resource,
        obj: Json,
        patch: Json,
        *,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> Json:
        """Patch an object. Raises ActorApiError."""
        answer = await self.client.patch(
            resource, obj, patch, subresource=subresource, content_type=content_type
        )
        return self._noted(resource, answer)

    async def delete(self, resource: Resource, obj: Json, **options: object) -> None:
        """Delete an object; one that is gone, or is another by now, is left alone.

        Raises ActorApiError.
        """
        try:
            await self.client.delete(resource, obj, **options)
        except ActorApiError as error:
            if error.code not in (404, 409):
                raise
        else:
            notes, informer = _written.get(), self.context.informers.get(resource)
            if notes is not None and informer is not None:
                notes.append((informer, informer.note_delete(obj)))

    def _noted(self, resource: Resource, answer: Json) -> Json:
        notes, informer = _written.get(), self.context.informers.get(resource)
        if notes is not None and informer is not None:
            notes.append((informer, informer.note_write(answer)))
        return answer

    def _enqueue(self, old: Json | None, new: Json | None) -> None:
        self.queue.add(key_of(new or old or {}))

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._prepare(key)
                await self._sync(key)
            finally:
                self.queue.done(key)
                self.context.progress()

    async def _prepare(self, key: str) -> None:
        """Wait until the copies are there and tell of what was done for this key before."""
        for informer in self._needed:
            if not informer.has_synced:
                await informer.synced()
        for informer, note in self._notes.pop(key, ()):
            await informer.wait_for(note)

    async def _sync(self, key: str) -> None:
        notes: list[tuple[Informer, Note]] = []
        _written.set(notes)
        try:
            await self.sync(key)
        except ActorApiError as error:
            if error.code != 404 or error.reason != "NotFound":
                _log.info("%s: %s: %s", self.name, key, error)
            self.queue.retry(key)
        except Exception:
            _log.exception("%s: %s", self.name, key)
            self.queue.retry(key)
        else:
            self.queue.succeeded(key)
        if notes:
            self._notes[key] = notes
