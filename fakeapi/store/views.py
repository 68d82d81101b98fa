"""The wire form of stored objects: one API version's view, as JSON bytes.

The stored form is encoded once per revision; kind and apiVersion are put in front of those bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fakeapi.types.objects import encode, with_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.decoding.options import Selection
    from fakeapi.store.store import Change, Revision
    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_NO_EVENT = b""


class EventView(Protocol):
    """The events of a watch as bytes: `View`, or a form that the client requests."""

    def added(self, revision: Revision) -> bytes:
        """Return the ADDED event of an object that existed before the watch."""

    def bookmark(self, resource_version: int, *, ends_initial_events: bool) -> bytes:
        """Return a BOOKMARK event: all changes up to this version have been sent."""

    def event(self, change: Change, selection: Selection) -> bytes:
        """Return the event of a change, empty for a change outside of the selection."""


class View:
    """The wire form of one kind in its API version."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        head = encode({"kind": kind.kind, "apiVersion": kind.api_version})
        self._head = head[:-1] + b","
        self._list_head = encode({"kind": kind.list_kind_name, "apiVersion": kind.api_version})[:-1]
        self._signature = (kind.group, kind.version)

    def whole(self, obj: Json) -> Json:
        """Return the object with kind and apiVersion."""
        shown = self.kind.from_stored(obj) if self.kind.from_stored else obj
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **shown}

    def item(self, revision: Revision) -> bytes:
        """Return the object as an item of a list: without kind and apiVersion."""
        if self.kind.from_stored:
            return encode(self.kind.from_stored(revision.object))
        return revision.json()

    def body(self, revision: Revision) -> bytes:
        """Return the object as the body of an answer."""
        return self._head + self.item(revision)[1:]

    def body_of(self, obj: Json) -> bytes:
        """Return an object that is not stored (dry run, deleted) as the body of an answer."""
        return encode(self.whole(obj))

    def listing(self, metadata: Json, revisions: Iterable[Revision]) -> bytes:
        """Return a list with this metadata."""
        items = b",".join([self.item(revision) for revision in revisions])
        return b"".join(
            (self._list_head, b',"metadata":', encode(metadata), b',"items":[', items, b"]}")
        )

    def added(self, revision: Revision) -> bytes:
        return self._event(b"ADDED", self.body(revision))

    def bookmark(self, resource_version: int, *, ends_initial_events: bool) -> bytes:
        metadata: Json = {"resourceVersion": str(resource_version)}
        if ends_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self._event(b"BOOKMARK", self._head + encode({"metadata": metadata})[1:])

    def event(self, change: Change, selection: Selection) -> bytes:
        """Return the event of a change, empty for a change outside of the selection.

        An object that enters the selection is ADDED; an object that leaves it is DELETED with its
        old content and the new version. Encoded once for all watchers with the same selection.
        """
        key = (self._signature, selection.signature)
        encoded = change.encoded.get(key)
        if encoded is None:
            encoded = change.encoded[key] = self._encoded_event(change, selection)
        return encoded

    def _encoded_event(self, change: Change, selection: Selection) -> bytes:
        if selection.namespace and not change.key.startswith(f"{selection.namespace}/"):
            return _NO_EVENT
        if selection.is_everything:
            return self._shared_event(change, change.type)
        was = change.previous is not None and selection.matches(change.previous.object)
        is_now = change.current is not None and selection.matches(change.current.object)
        if is_now:
            return self._shared_event(change, "MODIFIED" if was else "ADDED")
        return self._shared_event(change, "DELETED") if was else _NO_EVENT

    def _shared_event(self, change: Change, event_type: str) -> bytes:
        """Return the event of a type, cached for watchers with different selections."""
        key = (self._signature, event_type)
        encoded = change.encoded.get(key)
        if encoded is None:
            encoded = self._event(event_type.encode(), self._event_object(change, event_type))
            change.encoded[key] = encoded
        return encoded

    def _event_object(self, change: Change, event_type: str) -> bytes:
        if event_type != "DELETED" or change.type == "DELETED":
            return self.body(change.revision)
        assert change.previous is not None, "it has left the selection"
        gone = with_metadata(change.previous.object, resourceVersion=str(change.resource_version))
        return self.body_of(gone)

    def _event(self, event_type: bytes, body: bytes) -> bytes:
        return b"".join((b'{"type":"', event_type, b'","object":', body, b"}\n"))


def status_event(status: Json) -> bytes:
    """Return an ERROR event with a Status, which ends a watch."""
    return encode({"type": "ERROR", "object": status}) + b"\n"
