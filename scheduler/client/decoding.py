"""From bytes to typed objects: single answers, pages of lists, lines of watches.

JSON is decoded directly into the declared type, which skips all fields that are not declared. The
client spends most of its time here: at the start it decodes up to 150,000 pods. In Kubernetes
`null` means an absent field (Go servers write `"creationTimestamp": null`), but a typed decoder
refuses it. If the fast path fails, the value is decoded without types, nulls are dropped, and the
rest is converted; only if that fails too is the value invalid. (A map loses a key whose value is
null; Go would keep it with an empty text. Servers that store typed objects send no such map.)

A watch line is decoded once, directly into the event. Its kind is checked by its first bytes, which
are the same for every known server. A line that begins differently is decoded in a slower way,
through `msgspec.Raw`, with the same result.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from scheduler.api.core import Pod
from scheduler.api.unstructured import Unstructured
from scheduler.client.errors import ApiError, DecodeError, error_of_status
from scheduler.client.kinds import ApiObject, Resource
from scheduler.client.objects import ApiStatus, ListMeta

if TYPE_CHECKING:
    from scheduler.clock import Turns

_log: Final = logging.getLogger(__name__)

#: A list of this size takes some 20 ms.
_LARGE_BYTES: Final = 4 * 2**20

T = TypeVar("T", bound=ApiObject)
D = TypeVar("D")


class EventType(enum.Enum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One event of a watch.

    DELETED has the last state of the object, with the resource version of its deletion. BOOKMARK
    has only a resource version (and perhaps the annotation that ends initial events). ERROR becomes
    an exception.
    """

    type: EventType
    object: T


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A list or a part of one; `metadata.continue_token` is set if more pages follow."""

    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[T] = []


class _RawEvent(msgspec.Struct, gc=False):
    """A watch line whose object is not decoded."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


class _RawPage(msgspec.Struct, gc=False):
    """A list whose items are not decoded."""

    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct, gc=False, rename="camel"):
    """The kind of any object."""

    kind: str = ""
    api_version: str = ""


_RAW_EVENTS: Final = msgspec.json.Decoder(_RawEvent)
_RAW_PAGES: Final = msgspec.json.Decoder(_RawPage)
_HEADS: Final = msgspec.json.Decoder(_Head)


class ObjectDecoder(Generic[T]):
    """Decodes objects of one kind. Every method raises DecodeError, which names `url`."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        kind: type[T] = resource.type
        self._objects = msgspec.json.Decoder(kind, dec_hook=_unstructured)
        self._pages = msgspec.json.Decoder(Page[kind], dec_hook=_unstructured)  # type: ignore[valid-type]
        self._events = msgspec.json.Decoder(WatchEvent[kind], dec_hook=_unstructured)  # type: ignore[valid-type]
        # The order in which the real server and every known fake write these fields.
        head = f'"object":{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
        self._prefixes: dict[EventType, bytes] = {
            kind_of_event: f'{{"type":"{kind_of_event.value}",{head}'.encode()
            for kind_of_event in EventType
            if kind_of_event is not EventType.ERROR
        }

    def object(self, body: bytes, *, url: str) -> T:
        """Decode the answer to `get` or to a write."""
        return _decode(self._objects, body, url=url, kind=self._resource.kind)

    def page(self, body: bytes, *, url: str) -> Page[T]:
        """Decode a list. Raises DecodeError for a `Table` or a list of another kind."""
        page = _decode(self._pages, body, url=url, kind=f"{self._resource.kind}List")
        self._check_kind(page.kind, url=url)
        return page

    async def page_in_turns(self, body: bytes, *, url: str, turns: Turns) -> Page[T]:
        """Decode a list as `page` does; a large one object by object, among other tasks."""
        if len(body) < _LARGE_BYTES:
            return self.page(body, url=url)
        page = _decode(_RAW_PAGES, body, url=url, kind=f"{self._resource.kind}List")
        self._check_kind(page.kind, url=url)
        items: list[T] = []
        for item in page.items or ():
            items.append(self.object(bytes(item), url=url))
            await turns.let_others_run()
        return Page(page.kind, page.metadata, items)

    def _check_kind(self, kind: str, *, url: str) -> None:
        expected = f"{self._resource.kind}List"
        if self._resource.type is Unstructured and kind != "Table":
            # A CustomResourceDefinition may name the kind of its lists; discovery does not have it.
            return
        if kind not in {expected, ""}:
            raise DecodeError(
                url=url, kind=expected, detail=f"expected kind {expected}, got {kind!r}"
            )

    def event(self, line: bytes, *, url: str) -> WatchEvent[T] | None:
        """Decode a watch line; log an object of another kind, and return None.

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
            _log.error(
                "%s: skipping a watch event with an unexpected object: expected %s %s, got %s %s",
                url,
                self._resource.api_version,
                self._resource.kind,
                head.api_version or "no apiVersion",
                head.kind or "and no kind",
            )
            return None
        return WatchEvent(kind_of_event, self.object(body, url=url))


class JsonKeepingDecoder(ObjectDecoder[T]):
    """Decodes objects that keep their JSON, in the form in which extenders receive it.

    That is the form of upstream's typed objects: without `kind` and `apiVersion`, and since 1.36 a
    pod without managed fields.
    """

    def object(self, body: bytes, *, url: str) -> T:
        obj = super().object(body, url=url)
        whole = msgspec.json.decode(body, type=dict[str, Any])
        whole.pop("kind", None)
        whole.pop("apiVersion", None)
        if isinstance(obj, Pod) and not self._resource.keeps_managed_fields:
            whole.get("metadata", {}).pop("managedFields", None)
        msgspec.structs.force_setattr(obj, "json", msgspec.json.encode(whole))  # type: ignore[arg-type]
        return obj

    def page(self, body: bytes, *, url: str) -> Page[T]:
        page = _decode(_RAW_PAGES, body, url=url, kind=f"{self._resource.kind}List")
        self._check_kind(page.kind, url=url)
        items = [self.object(bytes(item), url=url) for item in page.items or ()]
        return Page(page.kind, page.metadata, items)

    def event(self, line: bytes, *, url: str) -> WatchEvent[T] | None:
        return self._event_slowly(line, url=url)


def decoder_of(resource: Resource[T]) -> ObjectDecoder[T]:
    """Return a decoder of the objects of a kind."""
    return JsonKeepingDecoder(resource) if resource.keeps_json else ObjectDecoder(resource)


def _unstructured(kind: type, value: object) -> object:
    """Decode an object of a kind without a type of its own; return any other value as it is."""
    return Unstructured(value) if kind is Unstructured and isinstance(value, dict) else value


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
        return msgspec.convert(_without_nulls(untyped), decoder.type, dec_hook=_unstructured)
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
        status = msgspec.json.decode(body, type=ApiStatus)
    except msgspec.DecodeError:
        status = ApiStatus()
    if status.kind != "Status":
        shown = body[:200].decode("utf-8", "replace")
        return ApiError(500, "", f"the watch ended with an error that is no Status: {shown}")
    return error_of_status(status)
