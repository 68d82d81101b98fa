"""From bytes to typed objects: single answers, pages of lists, lines of watches.

Decoding goes straight from JSON into the declared type, which skips every field nobody reads and is
where the client spends its time: 150,000 pods pass through here at the start. One case needs a
second look: Kubernetes lets `null` stand for an absent field (Go servers write
`"creationTimestamp": null`), and a typed decoder does not. If the fast path fails, the value is
decoded without types, nulls are dropped, and the rest is converted; only what fails then is wrong.
(A map loses a key whose value is null, where Go would keep it with an empty text. No server that
stores typed objects sends one.)

A watch line is read once, straight into the event, and its kind is checked by comparing the first
bytes with what every known server writes. Lines that begin differently take a slower way, through
`msgspec.Raw`, to the same result.
"""

from __future__ import annotations

import enum
import logging
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.client.errors import ApiError, DecodeError, error_of_status
from scheduler.client.resources import ApiObject, Resource
from scheduler.client.wire import ListMeta, Status

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
D = TypeVar("D")


class EventType(enum.Enum):
    """What a watch says happened."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One thing a watch tells.

    DELETED carries the object as it last was, under the resource version of its deletion. BOOKMARK
    carries nothing but a resource version (and perhaps the annotation that ends initial events).
    ERROR is never handed on: it becomes an exception.
    """

    type: EventType
    object: T


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A list, or a part of one: `metadata.continue_token` says whether more is to come."""

    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[T] = []


class _RawEvent(msgspec.Struct, gc=False):
    """A watch line of which only the type is known yet."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Head(msgspec.Struct, gc=False, rename="camel"):
    """As much of any object as says what it is."""

    kind: str = ""
    api_version: str = ""


_RAW_EVENTS: Final = msgspec.json.Decoder(_RawEvent)
_HEADS: Final = msgspec.json.Decoder(_Head)


class ObjectDecoder(Generic[T]):
    """Decodes objects of one kind. Every method raises DecodeError, naming `url`."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        kind: type[T] = resource.type
        self._objects = msgspec.json.Decoder(kind)
        self._pages = msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]
        self._events = msgspec.json.Decoder(WatchEvent[kind])  # type: ignore[valid-type]
        # The order in which the real server and every known fake write these fields.
        head = f'"object":{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
        self._prefixes: dict[EventType, bytes] = {
            kind_of_event: f'{{"type":"{kind_of_event.value}",{head}'.encode()
            for kind_of_event in EventType
            if kind_of_event is not EventType.ERROR
        }

    def object(self, body: bytes, *, url: str) -> T:
        """One object, as `get` and the writes answer it."""
        return _decode(self._objects, body, url=url, kind=self._resource.kind)

    def page(self, body: bytes, *, url: str) -> Page[T]:
        """A list. A `Table`, or a list of some other kind, is an error."""
        expected = f"{self._resource.kind}List"
        page = _decode(self._pages, body, url=url, kind=expected)
        if page.kind not in {expected, ""}:
            raise DecodeError(
                url=url, kind=expected, detail=f"expected kind {expected}, got {page.kind!r}"
            )
        return page

    def event(self, line: bytes, *, url: str) -> WatchEvent[T] | None:
        """A watch line; None for an object of another kind, which is logged and has no effect.

        Raises ApiError for the ERROR that ends a watch.
        """
        try:
            event: WatchEvent[T] = self._events.decode(line)
        except msgspec.DecodeError:
            return self._event_slowly(line, url=url)
        prefix = self._prefixes.get(event.type)
        if prefix is not None and line.startswith(prefix):
            return event
        return self._event_slowly(line, url=url)

    def _event_slowly(self, line: bytes, *, url: str) -> WatchEvent[T] | None:
        try:
            raw = _RAW_EVENTS.decode(line)
        except msgspec.DecodeError as error:
            raise DecodeError(url=url, kind="WatchEvent", detail=str(error)) from error
        body = bytes(raw.object)
        if raw.type == EventType.ERROR.value:
            raise _error_in_stream(body)
        try:
            kind_of_event = EventType(raw.type)
        except ValueError:
            detail = f"expected a type of watch event, got {raw.type!r}"
            raise DecodeError(url=url, kind="WatchEvent", detail=detail) from None
        head = _decode(_HEADS, body, url=url, kind=self._resource.kind)
        if (head.kind, head.api_version) != (self._resource.kind, self._resource.api_version):
            logger.error(
                "%s: skipping a watch event with an unexpected object: expected %s %s, got %s %s",
                url,
                self._resource.api_version,
                self._resource.kind,
                head.api_version or "no apiVersion",
                head.kind or "and no kind",
            )
            return None
        return WatchEvent(kind_of_event, self.object(body, url=url))


def _decode(decoder: msgspec.json.Decoder[D], body: bytes, *, url: str, kind: str) -> D:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return _decode_without_nulls(decoder, body, url=url, kind=kind)
    except msgspec.DecodeError as error:
        raise DecodeError(url=url, kind=kind, detail=str(error)) from error


def _decode_without_nulls(
    decoder: msgspec.json.Decoder[D], body: bytes, *, url: str, kind: str
) -> D:
    try:
        untyped: object = msgspec.json.decode(body)
        return msgspec.convert(_without_nulls(untyped), decoder.type)
    except msgspec.DecodeError as error:
        raise DecodeError(url=url, kind=kind, detail=str(error)) from error


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _error_in_stream(body: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status":
        shown = body[:200].decode("utf-8", "replace")
        return ApiError(500, "", f"the watch ended with an error that is no Status: {shown}")
    return error_of_status(status)
