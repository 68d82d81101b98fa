"""The base of all actors: a work queue of keys, informers, and writes that return when seen.

An actor decides from the copies of its informers. Before it handles a key again, it waits until the
copies contain its own writes for that key, so that no pod is created twice because an event is
late. Upstream's controllers have expectations for this.

Source: client-go util/workqueue of v0.36.3 (`WorkQueue`).
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import itertools
import logging
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import MERGE, STRATEGIC, ActorApiError, Client
from fakeapi.actors.informer import Informer
from fakeapi.actors.objects import NOTHING, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import aiohttp

    from fakeapi.actors.informer import Handler, Note
    from fakeapi.actors.resources import Resource
    from fakeapi.clock import Clock, Timer
    from fakeapi.types.objects import Json

_WORKERS: Final = 4
_RETRY_SECONDS: Final = 0.005
_RETRY_SECONDS_MAX: Final = 1000.0
_notes: contextvars.ContextVar[list[tuple[Informer, Note]] | None] = contextvars.ContextVar(
    "notes", default=None
)
_logger = logging.getLogger(__name__)


class WorkQueue:
    """Keys in order of arrival, each at most once; a key is never handled by two workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: collections.deque[str] = collections.deque()
        self._queued: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, tuple[float, Timer]] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        self._arrived = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """True if no key is queued or being handled; keys with a delay do not count."""
        return not self._queued and not self._busy

    def add(self, key: str) -> None:
        """Queue a key, unless it is queued already."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.append(key)
            self._arrived.set()

    def add_after(self, key: str, seconds: float) -> None:
        """Queue a key after a delay; of several delays the shortest counts."""
        if seconds <= 0:
            self.add(key)
            return
        when = self._clock.now() + seconds
        planned = self._timers.get(key)
        if planned is not None:
            if planned[0] <= when:
                return
            planned[1].cancel()
        self._timers[key] = (when, self._clock.call_later(seconds, lambda: self._due(key)))

    def retry(self, key: str) -> None:
        """Queue a key after a failure, with a delay that doubles each time."""
        delay = min(_RETRY_SECONDS * 2 ** min(self._failures[key], 30), _RETRY_SECONDS_MAX)
        self._failures[key] += 1
        self.add_after(key, delay)

    def succeeded(self, key: str) -> None:
        """Reset the delay of retries."""
        self._failures.pop(key, None)

    async def take(self) -> str:
        """Return the next key; the caller must call `done`."""
        while not self._ready:
            self._arrived.clear()
            await self._arrived.wait()
        key = self._ready.popleft()
        self._queued.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: str) -> None:
        """End the handling of a key; queue it if it was added meanwhile."""
        self._busy.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Cancel all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, key: str) -> None:
        del self._timers[key]
        self.add(key)


class Context:
    """Everything that actors share: the session, the clock, one informer for each resource."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        clock: Clock,
        progress: Callable[[], None],
        *,
        records_events: bool,
    ) -> None:
        self.clock: Final = clock
        self.records_events: Final = records_events
        self.serial: Final = itertools.count().__next__
        self.progress: Final = progress
        self.informers: Final[dict[Resource, Informer]] = {}
        self._session = session
        self._url = url
        self._tasks: set[asyncio.Task[None]] = set()
        self._informer_tasks: dict[Resource, asyncio.Task[None]] = {}
        self._has_started = False

    def client(self, name: str) -> Client:
        """Return a client with this name in its user agent."""
        return Client(self._session, self._url, name)

    def informer(self, resource: Resource) -> Informer:
        """Return the informer of a resource; it starts with the actors, or now."""
        informer = self.informers.get(resource)
        if informer is None:
            informer = Informer(self.client("informer"), resource, self.clock, self.progress)
            self.informers[resource] = informer
            if self._has_started:
                self._run(informer)
        return informer

    def forget(self, resource: Resource) -> None:
        """Stop the informer of a resource that is no longer served."""
        informer = self.informers.pop(resource, None)
        if informer is not None:
            informer.abandon()
        task = self._informer_tasks.pop(resource, None)
        if task is not None:
            task.cancel()

    def start(self) -> None:
        """Start the informers."""
        self._has_started = True
        for informer in self.informers.values():
            self._run(informer)

    def _run(self, informer: Informer) -> None:
        self._informer_tasks[informer.resource] = self.spawn(informer.run())

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the actors do."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel everything that was spawned."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Controller:
    """An actor: `sync` brings the object of a key to its wanted state."""

    name = "controller"

    def __init__(self, context: Context) -> None:
        self.context: Final = context
        self.clock: Final = context.clock
        self.client: Final = context.client(self.name)
        self.queue: Final = WorkQueue(context.clock)
        self._needed: Final[list[Informer]] = []
        self._own_writes: dict[str, list[tuple[Informer, Note]]] = {}

    async def sync(self, key: str) -> None:
        """Handle a key. Raises ActorApiError for a retry, as all methods that write do."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        """True if nothing happens until an object changes or time passes."""
        return self.queue.is_idle

    def informer(self, resource: Resource, on_change: Handler | None = None) -> Informer:
        """Return an informer; `sync` is not called before it has listed its objects."""
        informer = self.context.informer(resource)
        if informer not in self._needed:
            self._needed.append(informer)
        if on_change is not None:
            informer.subscribe(on_change)
        return informer

    def follow(self, resource: Resource, prefix: str = "") -> Informer:
        """Return an informer, and queue the key of each object that changes, after a prefix."""
        return self.informer(
            resource, lambda old, new: self.queue.add(prefix + (new or old or NOTHING).key)
        )

    def start(self) -> None:
        """Start the workers."""
        for _ in range(_WORKERS):
            self.context.spawn(self._work())

    def close(self) -> None:
        """Cancel the timers of the queue."""
        self.queue.close()

    async def create(self, resource: Resource, obj: Json) -> Object:
        """Create an object."""
        return self._noted(resource, await self.client.create(resource, obj))

    async def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Object:
        """Update an object or a subresource of it."""
        answer = await self.client.update(resource, obj, subresource=subresource)
        return self._noted(resource, answer)

    async def update_status(self, resource: Resource, obj: Object, status: Json) -> Object:
        """Update the status if it differs."""
        if obj.status == status:
            return obj
        return await self.update(resource, {**obj, "status": status}, subresource="status")

    async def patch(
        self,
        resource: Resource,
        obj: Object,
        patch: Json,
        *,
        subresource: str = "",
        content_type: str = MERGE,
        if_unchanged: bool = False,
    ) -> Object:
        """Patch an object or a subresource of it; a conflict if it has changed, on request."""
        answer = await self.client.patch(
            resource,
            obj,
            patch,
            subresource=subresource,
            content_type=content_type,
            if_unchanged=if_unchanged,
        )
        return self._noted(resource, answer)

    async def patch_status(
        self, resource: Resource, obj: Object, status: Json, *, if_unchanged: bool = False
    ) -> Object:
        """Patch the fields of the status that differ; conditions of other types stay."""
        changes = {name: value for name, value in status.items() if obj.status.get(name) != value}
        if not changes:
            return obj
        return await self.patch(
            resource,
            obj,
            {"status": changes},
            subresource="status",
            content_type=STRATEGIC,
            if_unchanged=if_unchanged,
        )

    async def delete(self, resource: Resource, obj: Object, **options: object) -> None:
        """Delete an object; no-op if it is gone or replaced by another."""
        try:
            await self.client.delete(resource, obj, **options)
        except ActorApiError as error:
            if error.code not in (404, 409):
                raise
        else:
            notes, informer = _notes.get(), self.context.informers.get(resource)
            if notes is not None and informer is not None:
                notes.append((informer, informer.note_delete(obj)))

    def _noted(self, resource: Resource, answer: Object) -> Object:
        notes, informer = _notes.get(), self.context.informers.get(resource)
        if notes is not None and informer is not None:
            notes.append((informer, informer.note_write(answer)))
        return answer

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._wait_for_copies(key)
                await self._sync(key)
            finally:
                self.queue.done(key)
                self.context.progress()

    async def _wait_for_copies(self, key: str) -> None:
        """Wait for the first lists, and for the earlier writes for this key."""
        for informer in self._needed:
            await informer.synced()
        for informer, note in self._own_writes.pop(key, ()):
            await informer.wait_for(note)

    async def _sync(self, key: str) -> None:
        notes: list[tuple[Informer, Note]] = []
        _notes.set(notes)
        try:
            await self.sync(key)
        except ActorApiError as error:
            if error.code != 404 or error.reason != "NotFound":
                _logger.info("%s: %s: %s", self.name, key, error)
            self.queue.retry(key)
        except Exception:
            _logger.exception("%s: %s", self.name, key)
            self.queue.retry(key)
        else:
            self.queue.succeeded(key)
        if notes:
            self._own_writes[key] = notes
