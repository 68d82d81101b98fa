"""A local copy of a resource, kept by list and watch, with handlers for its changes.

    list ──> diff with the copy ──> watch from there ──broken──> watch from the last version
      ^                                   │ 410 Gone, an ERROR event
      └───────────────────────────────────┘

Source: the contract of client-go tools/cache (reflector, shared informer) of v0.36.3.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import sys
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.types.objects import mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.actors.client import Client
    from fakeapi.actors.resources import Resource
    from fakeapi.clock import Clock

    #: Gets the object before and after a change, None where it does not exist.
    Handler = Callable[[Object | None, Object | None], None]

_BACKOFF_SECONDS: Final = (0.0, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A write that must be in the informer's copy before the actor decides again."""

    key: str
    uid: str
    version: int  # 0: the object was deleted
    lists_begun: int


class Informer:
    """The copy of one resource; handlers get the old and the new object, or None."""

    def __init__(
        self, client: Client, resource: Resource, clock: Clock, progress: Callable[[], None]
    ) -> None:
        self.resource: Final = resource
        self.objects: Final[dict[str, Object]] = {}
        self.version = 0
        self.has_synced = False
        self._client = client
        self._clock = clock
        self._progress = progress
        self._handlers: list[Handler] = []
        self._namespaces: collections.defaultdict[str, dict[str, Object]] = collections.defaultdict(
            dict
        )
        self._lists_begun = 0
        self._newest_list = 0  # the number of the newest list that has arrived
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def subscribe(self, handler: Handler) -> None:
        """Call a handler for the objects that exist, and for every change."""
        self._handlers.append(handler)
        for obj in list(self.objects.values()):
            handler(None, obj)

    def get(self, namespace: str, name: str) -> Object | None:
        """Return the object of this name, None if there is none."""
        return self.objects.get(f"{namespace}/{name}" if namespace else name)

    def of_namespace(self, namespace: str) -> Iterable[Object]:
        """Return the objects of a namespace."""
        return list(self._namespaces[namespace].values()) if namespace in self._namespaces else ()

    def note_write(self, obj: Object) -> Note:
        """Return the note of a write whose answer was this object."""
        return Note(obj.key, obj.uid, obj.version, self._lists_begun)

    def note_delete(self, obj: Object) -> Note:
        """Return the note of the deletion of this object."""
        return Note(obj.key, obj.uid, 0, self._lists_begun)

    async def wait_for(self, note: Note) -> None:
        """Wait until the copy contains a write."""
        await self._wait(lambda: self._has_seen(note))

    async def synced(self) -> None:
        """Wait for the first list."""
        await self._wait(lambda: self.has_synced)

    async def _wait(self, is_met: Callable[[], bool]) -> None:
        while not is_met():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((is_met, future))
            await future

    def abandon(self) -> None:
        """End all waits: the resource is no longer served."""
        self.has_synced = True
        self._newest_list = sys.maxsize
        self._advanced()

    def _has_seen(self, note: Note) -> bool:
        if self._newest_list > note.lists_begun:
            return True
        if note.version:
            return self.version >= note.version
        metadata = self.objects.get(note.key, NOTHING).metadata
        return metadata.get("uid") != note.uid or metadata.get("deletionTimestamp") is not None

    async def run(self) -> None:
        """List and watch until cancelled; retry with growing delays."""
        failures = 0
        needs_list = True
        while True:
            try:
                if needs_list:
                    await self._list()
                    needs_list = False
                before = self.version
                await self._watch()
                failures = 0 if self.version > before else failures + 1
            except ActorApiError as error:
                needs_list = needs_list or error.code == 410
                failures += 1
            except _NeedsListError:
                needs_list = True
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        seconds = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1] if failures else 0.0
        await self._clock.sleep(seconds)

    async def _list(self) -> None:
        self._lists_begun += 1
        begun = self._lists_begun
        answer = await self._client.list_all(self.resource)
        present: dict[str, Object] = {}
        kind = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        for content in mappings(answer.get("items")):
            item = Object({**kind, **content})
            present[item.key] = item
        for key in [key for key in self.objects if key not in present]:
            self._remove(key)
        for key, item in present.items():
            old = self.objects.get(key)
            if old is None or old.version != item.version:
                self._store(key, item)
        self.version = answer.version
        self._newest_list = begun
        self.has_synced = True
        self._advanced()

    async def _watch(self) -> None:
        async with self._client.watch(self.resource, str(self.version)) as events:
            async for event in events:
                self._take(text(event.get("type")), Object(mapping(event.get("object"))))

    def _take(self, kind: str, obj: Object) -> None:
        if kind == "ERROR":
            raise _NeedsListError
        version, key = obj.version, obj.key
        if kind != "BOOKMARK" and version <= self.version:
            return  # seen already
        if kind in ("ADDED", "MODIFIED"):
            self._store(key, obj)
        elif kind == "DELETED":
            self._remove(key, obj)
        self.version = max(self.version, version)
        self._advanced()

    def _store(self, key: str, obj: Object) -> None:
        old = self.objects.get(key)
        if old is not None and old.uid != obj.uid:
            self._remove(key)  # replaced by another; its deletion was missed
            old = None
        self.objects[key] = obj
        self._namespaces[obj.namespace][key] = obj
        self._notify(old, obj)

    def _remove(self, key: str, final: Object | None = None) -> None:
        old = self.objects.pop(key, None)
        if old is None:
            return
        self._namespaces[old.namespace].pop(key, None)
        self._notify(final or old, None)

    def _notify(self, old: Object | None, new: Object | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _advanced(self) -> None:
        waiting, self._waiting = self._waiting, []
        for is_met, future in waiting:
            if not is_met():
                self._waiting.append((is_met, future))
            elif not future.done():
                future.set_result(None)
        self._progress()


class _NeedsListError(Exception):
    """The watch ended with an error: a new list is needed."""
