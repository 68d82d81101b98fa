"""The state of one server, and the values that a write passes through its steps."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from fakeapi.store.store import Revision, object_key
from fakeapi.store.views import View
from fakeapi.types import gotext, times
from fakeapi.types.errors import BadRequest, Forbidden, NotFound
from fakeapi.types.names import path_segment
from fakeapi.types.objects import Json, metadata_of, text
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.clock import Clock
    from fakeapi.decoding.options import WriteOptions
    from fakeapi.store.store import Collection, Store
    from fakeapi.types.identity import IdSource
    from fakeapi.types.kind import Kind, KindTable, ResourceKey

_T = TypeVar("_T")


class Admission(Protocol):
    """The admission plugins of a server; see `fakeapi.admission`."""

    def mutate(self, review: Review) -> None:
        """Let the plugins change the object. Raises ApiError if one refuses it."""

    def validate(self, review: Review) -> None:
        """Let the plugins judge the finished object. Raises ApiError if one refuses it."""

    def afresh(self) -> Admission:
        """Return the same plugins for another store, without what they know of this one."""

    def follow(self, registry: Registry, /) -> None:
        """Let the plugins read the state and follow its changes."""


@dataclasses.dataclass(slots=True)
class Registry:
    """The state of one server and the rules it works by."""

    kinds: KindTable
    store: Store
    clock: Clock
    ids: IdSource
    admission: Admission
    #: True if objects have managedFields from the start, not only from their first apply.
    tracks_fields: bool = True
    views: dict[tuple[str, str, str], View] = dataclasses.field(default_factory=dict)
    #: Whether new Services come with addresses that another server has given them.
    keeps_service_addresses: bool = False
    #: Called with the registry, or a copy of it, to follow its objects.
    controllers: tuple[Callable[[Registry], object], ...] = ()
    #: State that other rooms keep for this server, by its type (`extension`).
    extensions: dict[type, object] = dataclasses.field(default_factory=dict)

    def extension(self, kind: type[_T]) -> _T:
        """Return the one `kind` of this server; it is made by `kind()` on first use."""
        found = self.extensions.get(kind)
        if not isinstance(found, kind):
            found = self.extensions[kind] = kind()
        return found

    def now(self) -> str:
        """The current time as a metav1.Time."""
        return times.timestamp(self.clock.now())

    def view(self, kind: Kind) -> View:
        """The wire form of a kind's objects."""
        key = (kind.group, kind.version, kind.plural)
        found = self.views.get(key)
        if found is None or found.kind is not kind:
            found = self.views[key] = View(kind)
        return found

    def collection(self, kind: Kind) -> Collection:
        """Where a kind's objects are."""
        return self.store.collection(kind.storage_key)

    def find(self, kind: Kind, namespace: str, name: str) -> Revision:
        """The newest revision of an object. Raises NotFound, or BadRequest if it is no name."""
        found = self.newest(kind, namespace, name)
        if found is None:
            raise NotFound(kind.plural, kind.group, name)
        return found

    def newest(self, kind: Kind, namespace: str, name: str) -> Revision | None:
        """The newest revision of an object if it is there. Raises BadRequest if it is no name."""
        found = self.store.get(kind.storage_key, namespace, name)
        if found is None:
            problems = path_segment(name)
            if problems:
                shown = gotext.quoted(name)
                raise BadRequest(f"Name parameter invalid: {shown}: {';'.join(problems)}")
        return found


class Target(Record, frozen=True):
    """What a write is aimed at, from the URL and the query."""

    kind: Kind
    namespace: str
    name: str
    options: WriteOptions
    subresource: str = ""
    #: Who owns what the write changes; None leaves managedFields as the object has them.
    manager: str | None = None
    #: Warnings for the writer, sent with the answer.
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def key(self) -> str:
        """The key in the collection."""
        return object_key(self.namespace, self.name)


class Written(Record, frozen=True):
    """The outcome of a write; `revision` is None if nothing is stored (dry run, object gone)."""

    object: Json
    revision: Revision | None = None
    created: bool = False


class Operation(enum.Enum):
    """What the request is about to do."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"

    # Members are one object each; what enum itself does for this is not quick.
    __hash__ = object.__hash__


class Review(Record, frozen=True):
    """One write under review. `object` is the new state, on a delete the present one."""

    registry: Registry
    target: Target
    operation: Operation
    object: Json
    old: Json | None = None

    @property
    def resource(self) -> ResourceKey:
        """The resource that is written."""
        return self.target.kind.resource_key

    def forbid(self, why: str) -> Forbidden:
        """The refusal to raise."""
        kind = self.target.kind
        metadata = metadata_of(self.object)
        name = self.target.name or text(metadata.get("name")) or text(metadata.get("generateName"))
        return Forbidden(kind.plural, kind.group, name or "Unknown", why)
