"""A local copy of the objects of one kind, and handlers of their changes.

What an informer promises
-------------------------
- Its store becomes and stays equal to the state of the server, unless the server cannot be reached
  or the informer is stopped. The states of one object appear in the server's order; some may be
  left out. The changes of different objects are in no order.
- Handlers are called after the store has changed, in the order in which they were added, once for
  every change, synchronously. An exception of a handler is logged; it affects neither the other
  handlers nor the store.
- `on_add(obj, is_initial=...)`: the object was not in the store. `is_initial` is true for the
  objects of the first list.
- `on_update(old, new)`: the object has changed. The same resource version once more (a watch that
  repeats itself, a list after a pause) is no change.
- `on_delete(obj, final_state_unknown=...)`: the object is deleted. `obj` is its last state, with
  the resource version of its deletion. With `final_state_unknown` the deletion itself was missed: a
  list did not contain the object, and `obj` is the last state in the store. Objects that were never
  in the store are not reported.
- `has_synced` is true once the handlers were called for everything that the first list contained.
- A kind that does not exist, or that may not be read, has no objects. The reflector keeps trying;
  once the list succeeds, its objects are added. `Required` decides whether `wait_for_sync` waits
  for such a kind.

What it does not promise
------------------------
- That `old` and `new` of an update are the same object: a deletion and the creation of another
  object of that name, both missed, are one update. Compare the uids.
- That the store is no newer than the change that a handler is called for: a list replaces the store
  at once, and the handlers are called over several iterations of the event loop, so that a hundred
  thousand changes do not block it.
- That anything is repeated: there is no periodic resync.

Handlers must be quick: they run between two reads of the stream. Objects are frozen; share them.

Source: client-go `tools/cache/shared_informer.go` (the promise), `tools/cache/controller.go`.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from scheduler.client.discovery import DiscoveredKind
from scheduler.client.kinds import ApiObject, ListOptions, Resource, object_key
from scheduler.client.reflector import Reflector
from scheduler.client.store import Store
from scheduler.clock import Turns
from scheduler.metrics.scheduler_metrics import EventTimer

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractContextManager

    from scheduler.api.unstructured import Unstructured
    from scheduler.client.decoding import Page, WatchEvent
    from scheduler.client.kinds import GroupVersionResource
    from scheduler.client.reflector import Source
    from scheduler.client.rest import RestClient
    from scheduler.clock import Clock
    from scheduler.metrics import SchedulerMetrics

_log: Final = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T", bound=ApiObject)
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)

#: How many changes of a list are handled before other tasks get their turn.
_CHANGES_AT_ONCE: Final = 500


class Required(enum.IntEnum):
    """The kinds without which nothing may be scheduled."""

    #: Neither a kind that does not exist nor one that may not be read is waited for.
    NO = 0
    #: A kind that may not be read is waited for. One that does not exist has no objects.
    IF_SERVED = 1
    #: The kind has to exist and to be readable.
    YES = 2


class OnAdd(Protocol[T_contra]):
    """A handler of added objects."""

    def __call__(self, obj: T_contra, /, *, is_initial: bool) -> None: ...


class OnDelete(Protocol[T_contra]):
    """A handler of deleted objects."""

    def __call__(self, obj: T_contra, /, *, final_state_unknown: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Handlers(Generic[T]):
    on_add: OnAdd[T] | None
    on_update: Callable[[T, T], None] | None
    on_delete: OnDelete[T] | None


class Informer(Generic[T]):
    """A local copy of the objects of one kind; the module describes the promises.

    `transform` is applied to every object before it is stored; it must keep the metadata's name,
    namespace and version.
    """

    def __init__(
        self,
        source: Source[T],
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        self.name: Final = name
        self.lister: Final[Store[T]] = Store()
        #: False while the kind does not exist or may not be read.
        self.is_available = True
        #: To be set before `run`.
        self.required = Required.YES
        #: Measures the handling of each change, and of each list. To be set before `run`.
        self.timer: AbstractContextManager[None] = nullcontext()
        self._transform = transform
        self._turns = Turns(clock)
        self._handlers: list[_Handlers[T]] = []
        self._has_synced = False
        self._may_start = asyncio.Event()
        self._reflector = Reflector(source, self, name=name, clock=clock, rng=rng)

    @property
    def has_synced(self) -> bool:
        """True once the handlers were called for everything that the first list contained."""
        return self._has_synced

    @property
    def may_start(self) -> bool:
        """True once scheduling need not wait for this kind."""
        return self._may_start.is_set()

    @property
    def last_resource_version(self) -> str:
        """The version of the last change or bookmark in the store."""
        return self._reflector.last_resource_version

    def add_event_handler(
        self,
        *,
        on_add: OnAdd[T] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: OnDelete[T] | None = None,
    ) -> None:
        """Call these handlers for every change; add handlers before the informer runs."""
        self._handlers.append(_Handlers(on_add, on_update, on_delete))

    def on_change(self, function: Callable[[T | None, T | None], None]) -> None:
        """Call a function with each object before and after a change; None where there is none."""
        self.add_event_handler(
            on_add=lambda new, *, is_initial: function(None, new),
            on_update=function,
            on_delete=lambda old, *, final_state_unknown: function(old, None),
        )

    async def wait_for_sync(self) -> None:
        """Return once `may_start` is true."""
        await self._may_start.wait()

    async def run(self) -> NoReturn:
        """Keep the copy up to date until cancelled."""
        await self._reflector.run()

    # The reflector calls these.

    async def replace(self, objects: list[T], *, restarted: bool) -> None:
        """Replace the contents of the store by `objects`, and call the handlers for each change.

        With `restarted` the server's history began anew: an object with an old version may have
        changed all the same.
        """
        if self._transform is not None:
            transformed = []
            for obj in objects:
                transformed.append(self._transform(obj))
                await self._turns.let_others_run()
            objects = transformed
        is_initial = not self._has_synced
        with self.timer:
            before = self.lister.replace(objects)
            await self._turns.let_others_run()
            handled = 0
            for gone in [old for key, old in before.items() if key not in self.lister]:
                self._call_on_delete(gone, final_state_unknown=True)
                handled += 1
                if handled % _CHANGES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            for new in objects:
                old = before.get(object_key(new))
                if old is None:
                    self._call_on_add(new, is_initial=is_initial)
                elif restarted or not _same_version(old, new):
                    self._call_on_update(old, new)
                handled += 1
                if handled % _CHANGES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        self.is_available = self._has_synced = True
        self._may_start.set()

    def unavailable(self, *, is_served: bool) -> None:
        """Take note that the kind does not exist, or with `is_served` that it may not be read."""
        self.is_available = False
        if self.required <= (Required.NO if is_served else Required.IF_SERVED):
            self._may_start.set()

    def put(self, obj: T) -> None:
        """Add or replace an object, and call the handlers."""
        if self._transform is not None:
            obj = self._transform(obj)
        with self.timer:
            old = self.lister.put(obj)
            if old is None:
                self._call_on_add(obj, is_initial=False)
            elif not _same_version(old, obj):
                self._call_on_update(old, obj)

    def delete(self, obj: T) -> None:
        """Remove an object, whose last state is `obj`, and call the handlers."""
        if self._transform is not None:
            obj = self._transform(obj)
        with self.timer:
            if self.lister.remove(object_key(obj)) is not None:
                self._call_on_delete(obj, final_state_unknown=False)

    def _call_on_add(self, obj: T, *, is_initial: bool) -> None:
        for handlers in self._handlers:
            self._call("on_add", obj, handlers.on_add, obj, is_initial=is_initial)

    def _call_on_update(self, old: T, new: T) -> None:
        for handlers in self._handlers:
            self._call("on_update", new, handlers.on_update, old, new)

    def _call_on_delete(self, obj: T, *, final_state_unknown: bool) -> None:
        for handlers in self._handlers:
            self._call(
                "on_delete", obj, handlers.on_delete, obj, final_state_unknown=final_state_unknown
            )

    def _call(
        self, name: str, obj: T, call: Callable[P, None] | None, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        try:
            if call is not None:
                call(*args, **kwargs)
        except Exception:  # noqa: BLE001 - an error of one handler is not another's
            _log.exception("%s: a handler's %s failed on %s", self.name, name, object_key(obj))


def _same_version(old: ApiObject, new: ApiObject) -> bool:
    return old.metadata.resource_version == new.metadata.resource_version


@dataclass(frozen=True, slots=True)
class _Selection(Generic[T]):
    """The source of an informer: the objects of one kind that a field selector selects."""

    client: RestClient
    resource: Resource[T]
    field_selector: str

    async def list(self, options: ListOptions) -> Page[T]:
        options = replace(options, field_selector=self.field_selector)
        return await self.client.list_page(self.resource, options)

    def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[T], None]:
        options = replace(options, field_selector=self.field_selector)
        return self.client.watch(self.resource, options)


class InformerFactory:
    """Makes one informer for each kind, and runs them all in its owner's task group.

    A bug in an informer fails the task group. Errors of the server never do.
    """

    def __init__(self, client: RestClient, *, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._informers: list[Informer[Any]] = []
        self._by_resource: dict[Resource[Any], Informer[Any]] = {}

    def informer(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Informer[T]:
        """Make the informer of a kind, before `start`."""
        name = resource.group_resource
        informer = Informer(
            _Selection(self._client, resource, field_selector),
            name=f"{name} where {field_selector}" if field_selector else name,
            clock=self._clock,
            rng=self._rng,
            transform=transform,
        )
        self._by_resource[resource] = informer
        return self._add(informer)

    def discovered(self, name: GroupVersionResource) -> Informer[Unstructured]:
        """Make the informer of a kind that the server's discovery has to find, before `start`."""
        return self._add(
            Informer(
                DiscoveredKind(self._client, name),
                name=name.group_resource,
                clock=self._clock,
                rng=self._rng,
            )
        )

    def _add(self, informer: Informer[T]) -> Informer[T]:
        self._informers.append(informer)
        return informer

    def measure(self, metrics: SchedulerMetrics) -> None:
        """Measure the informers of known kinds, before `start`, as client-go does since v1.37."""
        # As upstream, the plural is made of the kind: `storageclasss`.
        measured = {
            ("kube-scheduler", of.group, of.version, f"{of.kind.lower()}s"): informer
            for of, informer in self._by_resource.items()
        }
        for key, informer in measured.items():
            latency = metrics.informer_processing_latency.of(*key)
            informer.timer = EventTimer(metrics.stopwatch, latency, 0.0)
        metrics.informer_queued_items.read = lambda: [(key, 0) for key in measured]
        # The last 15 digits, as a float has no more.
        metrics.informer_store_resource_version.read = lambda: [
            (key, int(version[-15:]))
            for key, informer in measured.items()
            if (version := informer.last_resource_version).isdecimal()
        ]

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run all informers as tasks of `group`."""
        for informer in self._informers:
            group.create_task(informer.run(), name=f"informer {informer.name}")

    @property
    def has_synced(self) -> bool:
        """True once scheduling need not wait for any kind."""
        return all(informer.may_start for informer in self._informers)

    async def wait_for_sync(self) -> None:
        """Return once `has_synced` is true."""
        for informer in self._informers:
            await informer.wait_for_sync()
