"""The state of one server, and the values that one step of a write passes to the next."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from fakeapi.store.numbers import NumbersHeld
from fakeapi.store.store import Revision, object_key
from fakeapi.store.views import View
from fakeapi.types import gotext, times
from fakeapi.types.errors import BadRequest, Forbidden, NotFound
from fakeapi.types.limits import DEFAULT
from fakeapi.types.names import path_segment
from fakeapi.types.objects import Json, metadata_of, text
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.clock import Clock
    from fakeapi.decoding.options import WriteOptions
    from fakeapi.store.store import Collection, Store
    from fakeapi.types.identity import IdSource
    from fakeapi.types.kind import Allocation, Kind, KindTable, ResourceKey
    from fakeapi.types.limits import Limits

_T = TypeVar("_T")


class Admission(Protocol):
    """The admission plugins of a server; see `fakeapi.admission`."""

    def mutate(self, review: Review) -> None:
        """Let the plugins change the object. Raises ApiError if a plugin denies it."""

    def validate(self, review: Review) -> None:
        """Let the plugins validate the finished object. Raises ApiError if a plugin denies it."""

    def for_another_store(self) -> Admission:
        """Return the same plugins for another store, without the state of this store."""

    def follow(self, registry: Registry, /) -> None:
        """Let the plugins read the state and follow its changes."""


@dataclasses.dataclass(slots=True)
class Registry:
    """The state of one server and the parts that change it."""

    kinds: KindTable
    store: Store
    clock: Clock
    ids: IdSource
    admission: Admission
    #: True if objects have managedFields from the start, not only from their first apply.
    tracks_fields: bool = True
    views: dict[tuple[str, str, str], View] = dataclasses.field(default_factory=dict)
    #: The numbers that the objects of a resource hold.
    numbers: dict[ResourceKey, NumbersHeld] = dataclasses.field(default_factory=dict)
    limits: Limits = DEFAULT
    #: True if new Services keep the addresses that they have from another server.
    keeps_service_addresses: bool = False
    #: Called with the registry or a copy of it; each follows the objects of a kind.
    controllers: tuple[Callable[[Registry], object], ...] = ()
    #: State that other packages keep for this server, by its type (`extension`).
    extensions: dict[type, object] = dataclasses.field(default_factory=dict)
    #: The document /version; empty for that of the release.
    version: Json = dataclasses.field(default_factory=dict)

    def extension(self, kind: type[_T]) -> _T:
        """Return this server's object of type `kind`, made by `kind()` on first use."""
        instance = self.extensions.get(kind)
        if not isinstance(instance, kind):
            instance = self.extensions[kind] = kind()
        return instance

    def now(self) -> str:
        """Return the current time as a metav1.Time."""
        return times.timestamp(self.clock.now())

    def view(self, kind: Kind) -> View:
        """Return the wire form of a kind's objects."""
        key = (kind.group, kind.version, kind.plural)
        view = self.views.get(key)
        if view is None or view.kind is not kind:
            view = self.views[key] = View(kind)
        return view

    def numbers_of(self, kind: Kind, allocation: Allocation) -> NumbersHeld:
        """Return the numbers that the objects of a kind hold now."""
        held = self.numbers.get(kind.storage_key)
        if held is None:
            held = NumbersHeld(self.collection(kind), allocation.numbers_of)
            self.numbers[kind.storage_key] = held
        held.follow()
        return held

    def collection(self, kind: Kind) -> Collection:
        return self.store.collection(kind.storage_key)

    def find(self, kind: Kind, namespace: str, name: str) -> Revision:
        """Return an object's newest revision. Raises NotFound; BadRequest for invalid names."""
        revision = self.newest(kind, namespace, name)
        if revision is None:
            raise NotFound(kind.plural, kind.group, name)
        return revision

    def newest(self, kind: Kind, namespace: str, name: str) -> Revision | None:
        """Return an object's newest revision or None. Raises BadRequest for invalid names."""
        revision = self.store.get(kind.storage_key, namespace, name)
        if revision is None:
            problems = path_segment(name)
            if problems:
                shown = gotext.quoted(name)
                raise BadRequest(f"Name parameter invalid: {shown}: {';'.join(problems)}")
        return revision


class Target(Record, frozen=True):
    """The target of a write, from the URL and the query."""

    kind: Kind
    namespace: str
    name: str
    options: WriteOptions
    subresource: str = ""
    #: The field manager; None leaves managedFields as they are.
    manager: str | None = None
    #: The verb of the request; empty for writes of the server's own.
    verb: str = ""
    #: Warnings to send with the answer.
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def key(self) -> str:
        """Return the key in the collection."""
        return object_key(self.namespace, self.name)


class Written(Record, frozen=True):
    """The result of a write. `revision` is None if nothing is stored (dry run, object gone)."""

    object: Json
    revision: Revision | None = None
    created: bool = False


class Operation(enum.Enum):
    """The operation of an admission review."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"

    # Members are compared by identity; Enum's own hash is slow.
    __hash__ = object.__hash__


class Review(Record, frozen=True):
    """One write under review. `object` is the new state; for a delete, the present state."""

    registry: Registry
    target: Target
    operation: Operation
    object: Json
    old: Json | None = None

    @property
    def resource(self) -> ResourceKey:
        return self.target.kind.resource_key

    def forbid(self, why: str) -> Forbidden:
        """Return the error of a denied write."""
        kind = self.target.kind
        metadata = metadata_of(self.object)
        name = self.target.name or text(metadata.get("name")) or text(metadata.get("generateName"))
        return Forbidden(kind.plural, kind.group, name or "Unknown", why)
