"""A local copy of the objects of one kind, and word of every change to it.

What an informer promises
-------------------------
- Its store becomes and stays equal to what the server has, unless the server cannot be reached or
  the informer is stopped. The states of one object appear in the order in which the server went
  through them; some may be left out. Between two objects there is no order.
- Handlers are told after the store has changed, one after another in the order in which they were
  added, each about every change, in order, in one synchronous call per change. A handler that
  raises is logged and counted; the others, and the store, never notice.
- `on_add(obj, is_initial=...)`: the object was not in the store. `is_initial` is true for what the
  first list brought, and for what the store held when the handler was added.
- `on_update(old, new)`: it was, and has changed. The same resource version once more (a watch that
  repeats itself, a list after a pause) is no change and is told to nobody.
- `on_delete(obj, final_state_unknown=...)`: it is gone. `obj` is its last state, under the resource
  version of its deletion; or, with `final_state_unknown`, the last state that we saw: the deletion
  itself was missed, and a list found the object missing. What was never in the store is not
  reported as deleted.
- `has_synced` is true once everything the first list brought has been delivered to every handler.

What it does not promise
------------------------
- That `old` and `new` of an update are the same object: if one was deleted and another of the same
  name was created while we did not look, that is one update. Compare the uids.
- That the store is no newer than what a handler is being told: after a list the store is exchanged
  at once, and the changes are told over some turns of the event loop, so that a hundred thousand of
  them do not hold everything up.
- That anything is repeated: there is no periodic resync.

Handlers must be quick, they run between two reads of the stream. Objects are frozen; share them.

Source: client-go `tools/cache/shared_informer.go` (the promise), `tools/cache/controller.go`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeVar

from scheduler.client.reflector import Reflector, ReflectorStatistics
from scheduler.client.resources import ApiObject, ListOptions, Resource, object_key
from scheduler.client.store import NAMESPACE_INDEX, IndexFunction, Lister, Store, by_namespace

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator, Callable, Mapping

    from scheduler.client.decoding import Page, WatchEvent
    from scheduler.client.reflector import Source
    from scheduler.client.rest import RestClient
    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)

#: How many deliveries of a list are made before other tasks get their turn.
_DELIVERIES_AT_ONCE: Final = 500


class OnAdd(Protocol[T_contra]):
    """Told of an object that is new to the store."""

    def __call__(self, obj: T_contra, /, *, is_initial: bool) -> None:
        """Take note of it."""
        ...


class OnDelete(Protocol[T_contra]):
    """Told of an object that is gone."""

    def __call__(self, obj: T_contra, /, *, final_state_unknown: bool) -> None:
        """Take note of it."""
        ...


@dataclass(frozen=True)
class InformerStatistics:
    """What an informer holds and has delivered. Deliveries count once, however many handlers."""

    objects: int
    handlers: int
    added: int
    updated: int
    deleted: int
    handler_errors: int
    synced: bool
    reflector: ReflectorStatistics


class HandlerRegistration:
    """A handler's place with an informer; give it back to `remove_event_handler`."""

    def __init__(self, name: str, synced: asyncio.Event) -> None:
        self._name = name
        self._synced = synced

    def __repr__(self) -> str:
        return f"<handler of {self._name}>"

    @property
    def has_synced(self) -> bool:
        """Whether the handler has been told of everything the first list brought."""
        return self._synced.is_set()


@dataclass(frozen=True)
class _Handler(Generic[T]):
    registration: HandlerRegistration
    on_add: OnAdd[T] | None
    on_update: Callable[[T, T], None] | None
    on_delete: OnDelete[T] | None


class _Distributor(Generic[T]):
    """Writes what a reflector finds into the store, then tells the handlers."""

    def __init__(self, name: str, store: Store[T], transform: Callable[[T], T] | None) -> None:
        self._name = name
        self._store = store
        self._transform = transform
        # Exchanged, never changed: a handler may add or remove handlers while being told.
        self._handlers: tuple[_Handler[T], ...] = ()
        self.synced = asyncio.Event()
        self.added = self.updated = self.deleted = self.errors = 0

    @property
    def handlers(self) -> int:
        """How many handlers there are."""
        return len(self._handlers)

    def add_handler(self, handler: _Handler[T]) -> None:
        """From now on; what the store holds already is told at once."""
        self._handlers = (*self._handlers, handler)
        for obj in self._store.list():
            self._tell_add((handler,), obj, is_initial=True)

    def remove_handler(self, registration: HandlerRegistration) -> None:
        """No more from now on, not even what is being told."""
        self._handlers = tuple(h for h in self._handlers if h.registration is not registration)

    async def replace(self, objects: list[T], resource_version: str, *, restarted: bool) -> None:
        """These objects, and no others, exist. See `ReflectorStore`."""
        if self._transform is not None:
            objects = [self._transform(obj) for obj in objects]
        handlers = self._handlers
        is_initial = not self.synced.is_set()
        before = self._store.replace(objects)
        changes = [(before.pop(object_key(obj), None), obj) for obj in objects]
        told = 0
        for gone in before.values():
            self.deleted += 1
            self._tell_delete(self._still(handlers), gone, final_state_unknown=True)
            told += 1
            if told % _DELIVERIES_AT_ONCE == 0:
                await asyncio.sleep(0)
        for old, new in changes:
            if old is None:
                self.added += 1
                self._tell_add(self._still(handlers), new, is_initial=is_initial)
            elif restarted or not _same_version(old, new):
                self.updated += 1
                self._tell_update(self._still(handlers), old, new)
            told += 1
            if told % _DELIVERIES_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.synced.set()

    def put(self, obj: T) -> None:
        """An object was added or changed."""
        if self._transform is not None:
            obj = self._transform(obj)
        old = self._store.put(obj)
        if old is None:
            self.added += 1
            self._tell_add(self._handlers, obj, is_initial=False)
        elif not _same_version(old, obj):
            self.updated += 1
            self._tell_update(self._handlers, old, obj)

    def delete(self, obj: T) -> None:
        """An object is gone."""
        if self._transform is not None:
            obj = self._transform(obj)
        if self._store.remove(object_key(obj)) is not None:
            self.deleted += 1
            self._tell_delete(self._handlers, obj, final_state_unknown=False)

    def bookmark(self, resource_version: str) -> None:
        """Nothing has changed: the reflector keeps the version."""

    def _still(self, handlers: tuple[_Handler[T], ...]) -> tuple[_Handler[T], ...]:
        """Those of `handlers` that are still there; the newer ones know the store already."""
        if handlers is self._handlers:
            return handlers
        return tuple(handler for handler in handlers if handler in self._handlers)

    def _tell_add(self, handlers: tuple[_Handler[T], ...], obj: T, *, is_initial: bool) -> None:
        for handler in handlers:
            if handler.on_add is not None:
                try:
                    handler.on_add(obj, is_initial=is_initial)
                except Exception:
                    self._log_error("on_add", obj)

    def _tell_update(self, handlers: tuple[_Handler[T], ...], old: T, new: T) -> None:
        for handler in handlers:
            if handler.on_update is not None:
                try:
                    handler.on_update(old, new)
                except Exception:
                    self._log_error("on_update", new)

    def _tell_delete(
        self, handlers: tuple[_Handler[T], ...], obj: T, *, final_state_unknown: bool
    ) -> None:
        for handler in handlers:
            if handler.on_delete is not None:
                try:
                    handler.on_delete(obj, final_state_unknown=final_state_unknown)
                except Exception:
                    self._log_error("on_delete", obj)

    def _log_error(self, callback: str, obj: T) -> None:
        self.errors += 1
        logger.exception("%s: a handler's %s failed on %s", self._name, callback, object_key(obj))


def _same_version(old: ApiObject, new: ApiObject) -> bool:
    return old.metadata.resource_version == new.metadata.resource_version


class Informer(Generic[T]):
    """A local copy of the objects of one kind; see the module for what it promises.

    `transform` is applied to every object before it is stored or told, for leaving out what nobody
    needs; it must keep the metadata. `indexers` adds indices to the store.
    """

    def __init__(
        self,
        source: Source[T],
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
        transform: Callable[[T], T] | None = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        watch_list: bool = True,
    ) -> None:
        self.name: Final = name
        self._store: Store[T] = Store(indexers)
        self._distributor = _Distributor(name, self._store, transform)
        self._reflector = Reflector(
            source, self._distributor, name=name, clock=clock, rng=rng, watch_list=watch_list
        )
        self.lister: Final = Lister(self._store)

    @property
    def has_synced(self) -> bool:
        """Whether everything the first list brought has been delivered."""
        return self._distributor.synced.is_set()

    @property
    def last_resource_version(self) -> str:
        """The version everything up to which is in the store; bookmarks count."""
        return self._reflector.last_resource_version

    def statistics(self) -> InformerStatistics:
        """What this informer holds and has delivered."""
        distributor = self._distributor
        return InformerStatistics(
            objects=len(self._store),
            handlers=distributor.handlers,
            added=distributor.added,
            updated=distributor.updated,
            deleted=distributor.deleted,
            handler_errors=distributor.errors,
            synced=self.has_synced,
            reflector=self._reflector.statistics(),
        )

    def add_event_handler(
        self,
        *,
        on_add: OnAdd[T] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: OnDelete[T] | None = None,
    ) -> HandlerRegistration:
        """Have a handler told of every change; of what is there already before this returns."""
        registration = HandlerRegistration(self.name, self._distributor.synced)
        self._distributor.add_handler(_Handler(registration, on_add, on_update, on_delete))
        return registration

    def remove_event_handler(self, registration: HandlerRegistration) -> None:
        """Tell a handler nothing more; harmless if it has been removed before."""
        self._distributor.remove_handler(registration)

    async def wait_for_sync(self) -> None:
        """Return once `has_synced` is true."""
        await self._distributor.synced.wait()

    async def run(self) -> NoReturn:
        """Keep the copy up to date until cancelled."""
        await self._reflector.run()


class _Selection(Generic[T]):
    """The objects of one kind that some selectors select, as a reflector's source."""

    def __init__(
        self, client: RestClient, resource: Resource[T], namespace: str, selectors: ListOptions
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selectors = selectors

    async def list(self, options: ListOptions) -> Page[T]:
        """One page."""
        return await self._client.list_page(
            self._resource, self._with_selectors(options), namespace=self._namespace
        )

    def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch, opened when first read."""
        return self._client.watch(
            self._resource, self._with_selectors(options), namespace=self._namespace
        )

    def _with_selectors(self, options: ListOptions) -> ListOptions:
        return replace(
            options,
            label_selector=self._selectors.label_selector,
            field_selector=self._selectors.field_selector,
        )


class InformerFactory:
    """Makes one informer per kind and selection, and runs them all in its owner's task group.

    The owner's task group is where a bug in an informer surfaces: it fails, and takes the rest down
    with it. What the server does wrong never gets that far.
    """

    def __init__(
        self, client: RestClient, *, clock: Clock, rng: random.Random, watch_list: bool = True
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._watch_list = watch_list
        self._informers: dict[tuple[object, ...], Informer[Any]] = {}
        self._tasks: dict[str, asyncio.Task[NoReturn]] = {}
        self._group: asyncio.TaskGroup | None = None

    def informer(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        transform: Callable[[T], T] | None = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
    ) -> Informer[T]:
        """The informer of a kind and selection: a new one, or the one that was made before.

        Namespaced kinds can always be listed by namespace. Raises ValueError for a transform or
        indexers that come too late, when the informer exists without them.
        """
        key = (resource, namespace, label_selector, field_selector)
        informer: Informer[T] | None = self._informers.get(key)
        if informer is not None:
            if transform is not None or indexers is not None:
                raise ValueError(
                    f"{informer.name}: this informer exists; give transform and indexers to the "
                    "call that makes it"
                )
            return informer
        selectors = ListOptions(label_selector=label_selector, field_selector=field_selector)
        indexers = dict(indexers or {})
        if resource.namespaced:
            indexers.setdefault(NAMESPACE_INDEX, by_namespace)
        informer = self._informers[key] = Informer(
            _Selection(self._client, resource, namespace, selectors),
            name=_name(resource, namespace, selectors),
            clock=self._clock,
            rng=self._rng,
            transform=transform,
            indexers=indexers,
            watch_list=self._watch_list,
        )
        if self._group is not None:
            self._start(informer, self._group)
        return informer

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run all informers, those to come too, as tasks of `group`."""
        if self._group is not None:
            raise RuntimeError("the informers have been started")
        self._group = group
        for informer in self._informers.values():
            self._start(informer, group)

    async def stop(self) -> None:
        """Stop all informers and wait until they have; what they hold can still be read."""
        tasks = [*self._tasks.values()]
        self._tasks.clear()
        self._group = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_for_sync(self) -> None:
        """Return once every informer has delivered its first list."""
        for informer in [*self._informers.values()]:
            await informer.wait_for_sync()

    def unsynced(self) -> list[str]:
        """The names of the informers that have not delivered their first list yet."""
        return [i.name for i in self._informers.values() if not i.has_synced]

    def statistics(self) -> dict[str, InformerStatistics]:
        """What each informer holds and has delivered, by name."""
        return {i.name: i.statistics() for i in self._informers.values()}

    def _start(self, informer: Informer[Any], group: asyncio.TaskGroup) -> None:
        self._tasks[informer.name] = group.create_task(
            informer.run(), name=f"informer {informer.name}"
        )


def _name(resource: Resource[T], namespace: str, selectors: ListOptions) -> str:
    parts = (
        resource.group_resource,
        f"in {namespace}" if namespace else "",
        f"with {selectors.label_selector}" if selectors.label_selector else "",
        f"where {selectors.field_selector}" if selectors.field_selector else "",
    )
    return " ".join(part for part in parts if part)
