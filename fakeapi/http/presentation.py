"""Objects in the negotiated form: whole, as their metadata only, or as rows of a table.

Verbs return whole objects; `Presentation` converts their bodies and events. Source: apiserver
pkg/endpoints/handlers/response.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fakeapi.http.negotiation import PLAIN, included_object
from fakeapi.printing.tables import columns_of, row, table
from fakeapi.types import gotext
from fakeapi.types.errors import NotAcceptable
from fakeapi.types.objects import Json, encode, mapping, mappings, metadata_of
from fakeapi.types.records import MutableRecord

if TYPE_CHECKING:
    from fakeapi.clock import Clock
    from fakeapi.decoding.options import Query, Selection
    from fakeapi.http.negotiation import Accepted
    from fakeapi.store.store import Change, Revision
    from fakeapi.store.views import View
    from fakeapi.types.kind import Kind

_decode = msgspec.json.Decoder(Json).decode


class Presentation(MutableRecord):
    """The form of objects of one kind in the answer to one request."""

    kind: Kind
    accepted: Accepted
    clock: Clock
    includes: str = "Metadata"
    #: True to send the columns of a table; a watch sends them once.
    headers: bool = True

    @property
    def is_whole(self) -> bool:
        """True if objects are not converted."""
        return not self.accepted.target

    def body(self, whole: bytes) -> bytes:
        """Convert the body of an answer: an object, a list or a Status. Raises NotAcceptable."""
        if self.is_whole:
            return whole
        value = _decode(whole)
        if value.get("kind") == "Status":
            return whole
        return encode(self._list(value) if "items" in value else self._object(value))

    def event(self, whole: bytes) -> bytes:
        """Convert an event of a watch, which is one line."""
        event = _decode(whole)
        obj = mapping(event.get("object"))
        if obj.get("kind") == "Status" or self.accepted.target == "PartialObjectMetadataList":
            return whole  # upstream's watch falls back to the object it cannot convert
        shown = self._object(obj)
        self.headers = False
        return encode({"type": event.get("type"), "object": shown}) + b"\n"

    @property
    def _api_version(self) -> str:
        return f"meta.k8s.io/{self.accepted.version}"

    def _object(self, obj: Json) -> Json:
        if self.accepted.target == "PartialObjectMetadata":
            return self._partial(obj)
        if self.accepted.target != "Table":
            raise NotAcceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list "
                f"({self._go_type('')})"
            )
        version = metadata_of(obj).get("resourceVersion")
        metadata: Json = {"resourceVersion": version} if version else {}
        return self._table(metadata, [obj], str(obj.get("kind")))

    def _list(self, value: Json) -> Json:
        metadata, items = metadata_of(value), mappings(value.get("items"))
        if self.accepted.target == "Table":
            return self._table(metadata, items)
        if self.accepted.target == "PartialObjectMetadata":
            raise NotAcceptable(
                "you requested PartialObjectMetadata, but the requested object is a list "
                f"({self._go_type('List')})"
            )
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": self._api_version,
            "metadata": metadata,
            "items": [self._partial(item) for item in items],
        }

    def _partial(self, obj: Json) -> Json:
        return {
            "kind": "PartialObjectMetadata",
            "apiVersion": self._api_version,
            "metadata": metadata_of(obj),
        }

    def _table(self, metadata: Json, items: list[Json], body_kind: str = "") -> Json:
        kind, columns, now = self.kind, columns_of(self.kind, body_kind), self.clock.now()
        to_stored = kind.to_stored or (lambda obj: obj)
        rows = [
            {**row(kind, columns, to_stored(obj), now), "object": self._beside_row(obj)}
            for obj in items
        ]
        return table(self._api_version, metadata, columns if self.headers else None, rows)

    def _beside_row(self, obj: Json) -> Json | None:
        if self.includes == "None":
            return None
        if self.includes == "Metadata":
            return self._partial(obj)
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **obj}

    def _go_type(self, suffix: str) -> str:
        """Return Go's name of the type, for upstream's message."""
        if not self.kind.schema:
            return f"*unstructured.Unstructured{suffix}"
        package = gotext.internal_package(self.kind.group)
        return f"*{package}.{self.kind.kind}{suffix}"


class PresentedView:
    """The view of a watch that sends metadata or tables."""

    def __init__(self, view: View, shown: Presentation) -> None:
        self._view = view
        self._shown = shown

    def added(self, revision: Revision) -> bytes:
        return self._shown.event(self._view.added(revision))

    def bookmark(self, resource_version: int, *, ends_initial_events: bool) -> bytes:
        return self._shown.event(
            self._view.bookmark(resource_version, ends_initial_events=ends_initial_events)
        )

    def event(self, change: Change, selection: Selection) -> bytes:
        whole = self._view.event(change, selection)
        return self._shown.event(whole) if whole else whole


def presentation(kind: Kind, accepted: Accepted, query: Query, clock: Clock) -> Presentation:
    """Return the presentation for a request. Raises BadRequest for a bad `includeObject`."""
    if accepted is PLAIN or not accepted.target:
        return Presentation(kind, accepted, clock)
    includes = included_object(query) if accepted.target == "Table" else ""
    return Presentation(kind, accepted, clock, includes)
