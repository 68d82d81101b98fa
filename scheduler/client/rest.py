"""The typed client: list, watch, get, create, update, patch, delete, bind.

One `RestClient` talks to one API server, paces itself, and asks again where asking again is safe
for whatever was asked: where the server says when, and where the connection of a read broke
(`retries` has the rule). A write whose answer got lost is never repeated here: it may have been
carried out, and whether doing it twice does harm is for the caller to know.
A watch is not paced, and is opened again where a GET would be; once open, it is read until the
server ends it, and continuing is the reflector's business.

Source: client-go `rest/request.go`, `rest/with_retry.go`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import msgspec

from scheduler.api.core import ObjectMeta, ObjectReference
from scheduler.client.decoding import ObjectDecoder, Page, WatchEvent
from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    DecodeError,
    StreamInterrupted,
    error_of_response,
)
from scheduler.client.pacing import TokenBucket
from scheduler.client.paging import Listing, list_in_pages
from scheduler.client.resources import PODS, ApiObject, ListOptions, Resource
from scheduler.client.retries import (
    REQUEST_RETRIES_MAX,
    repeat,
    request_retry_delay_seconds,
    retry_after_seconds,
    retry_delay_seconds,
)
from scheduler.client.transport import Answer, Transport, WatchStream
from scheduler.client.wire import Binding, DeleteOptions, Preconditions
from scheduler.clock import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from scheduler.api.core import Pod
    from scheduler.client.connection import Connection
    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
R = TypeVar("R")

JSON: Final = "application/json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

#: Waiting longer than this for the rate limit is worth a line in the log.
_THROTTLED_SECONDS: Final = 1.0

_PAGE_SIZE: Final = 500

_EVERYTHING: Final = ListOptions()

_BINDINGS: Final = Resource("", "v1", "bindings", "Binding", Binding)
_DELETE_PREAMBLE: Final = b'{"kind":"DeleteOptions","apiVersion":"v1"'

#: Told of every attempt: method, HTTP code (or `<error>`), seconds. For metrics.
RequestObserver = Callable[[str, str, float], None]


@dataclass(frozen=True)
class RestStatistics:
    """What a client has done so far. `requests` counts attempts, watches apart."""

    requests: int
    retries: int
    watches: int
    throttled_seconds: float


class Subject(NamedTuple):
    """What a request is about, for the words of an error."""

    group_resource: str = ""
    name: str = ""


_NOTHING: Final = Subject()


class RestClient:
    """A client of one API server; an async context manager.

    `qps` and `burst` limit requests as client-go does (0 means 5 and 10, a negative `qps` means no
    limit). `connections_max` bounds the pool for all but watches; 0 means no bound.
    `timeout_seconds` bounds every request but watches, retries and all, and is told to the server;
    None waits for as long as it takes, as the scheduler does but for its lease. Time is `clock`'s.

    Every method raises ApiError (the server said no), ConnectionFailed (no answer), DecodeError (an
    answer that makes no sense) or KubeconfigError (no credentials to be had).
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        user_agent: str = "kubesched",
        qps: float = 50.0,
        burst: int = 100,
        connections_max: int = 100,
        timeout_seconds: float | None = None,
        observe: RequestObserver | None = None,
    ) -> None:
        self._transport = Transport(
            connection, user_agent=user_agent, connections_max=connections_max
        )
        self._clock = clock
        self._bucket = TokenBucket(qps=qps or 5.0, burst=burst or 10, clock=clock)
        self._timeout_seconds = timeout_seconds
        self._observe = observe
        self._decoders: dict[object, object] = {}
        self._requests = 0
        self._retries = 0
        self._watches = 0
        self._throttled_seconds = 0.0

    async def __aenter__(self) -> RestClient:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._transport.__aexit__(*exception)

    def statistics(self) -> RestStatistics:
        """What this client has done so far."""
        return RestStatistics(
            requests=self._requests,
            retries=self._retries,
            watches=self._watches,
            throttled_seconds=self._throttled_seconds,
        )

    async def list_page(
        self, resource: Resource[T], options: ListOptions = _EVERYTHING, *, namespace: str = ""
    ) -> Page[T]:
        """One list request: everything, or a page if `options.limit` says so."""
        path, query = resource.collection_path(namespace), options.query()
        body = await self.request("GET", path, query=query, subject=_about(resource))
        return self._decoder(resource).page(body, url=self._transport.url(path, query))

    async def list_all(
        self,
        resource: Resource[T],
        options: ListOptions = _EVERYTHING,
        *,
        namespace: str = "",
        page_size: int = _PAGE_SIZE,
    ) -> Listing[T]:
        """Everything there is, fetched in pages."""

        async def fetch(page: ListOptions) -> Page[T]:
            return await self.list_page(resource, page, namespace=namespace)

        return await list_in_pages(fetch, options, page_size=page_size)

    async def get(
        self, resource: Resource[T], name: str, *, namespace: str = "", subresource: str = ""
    ) -> T:
        """One object. Raises NotFound."""
        path = resource.path(name, namespace=namespace, subresource=subresource)
        body = await self.request("GET", path, subject=_about(resource, name))
        return self._object(resource, body, path)

    async def create(self, resource: Resource[T], obj: T) -> T:
        """Make an object in the namespace its metadata names. Raises AlreadyExists, Invalid."""
        path = resource.collection_path(obj.metadata.namespace)
        body = await self.request(
            "POST",
            path,
            body=resource.encode(obj),
            subject=_about(resource, obj.metadata.name),
        )
        return self._object(resource, body, path)

    async def update(self, resource: Resource[T], obj: T, *, subresource: str = "") -> T:
        """Replace an object, or one side of it. Raises Conflict if it has changed meanwhile.

        The object is sent as its type declares it: for kinds of which the type leaves fields out,
        patch instead.
        """
        metadata = obj.metadata
        path = resource.path(metadata.name, namespace=metadata.namespace, subresource=subresource)
        body = await self.request(
            "PUT", path, body=resource.encode(obj), subject=_about(resource, metadata.name)
        )
        return self._object(resource, body, path)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: object,
        *,
        namespace: str = "",
        subresource: str = "",
        content_type: str = STRATEGIC_MERGE_PATCH,
    ) -> T:
        """Change some fields. `patch` is JSON as plain values, or already encoded as bytes."""
        path = resource.path(name, namespace=namespace, subresource=subresource)
        body = await self.request(
            "PATCH",
            path,
            body=patch if isinstance(patch, bytes) else msgspec.json.encode(patch),
            content_type=content_type,
            subject=_about(resource, name),
        )
        return self._object(resource, body, path)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str = "",
        uid: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object; with `uid`, only that very one. Raises NotFound, Conflict.

        A bound pod is only marked by this, and goes when its kubelet says so.
        """
        options = DeleteOptions(
            grace_period_seconds=grace_period_seconds,
            preconditions=Preconditions(uid=uid) if uid else None,
        )
        fields = msgspec.json.encode(options)
        await self.request(
            "DELETE",
            resource.path(name, namespace=namespace),
            body=_DELETE_PREAMBLE + (b"}" if fields == b"{}" else b"," + fields[1:]),
            subject=_about(resource, name),
        )

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node. Raises Conflict if it is bound, deleted, or another pod by now."""
        metadata = pod.metadata
        binding = Binding(
            metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )
        await self.request(
            "POST",
            PODS.path(metadata.name, namespace=metadata.namespace, subresource="binding"),
            body=_BINDINGS.encode(binding),
            subject=Subject("pods", metadata.name),
        )

    async def watch(
        self, resource: Resource[T], options: ListOptions, *, namespace: str = ""
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What happens to objects, until the server ends the watch.

        Close the generator (`contextlib.aclosing`) when leaving it early. Raises, besides what
        every method does, ApiError for an ERROR event, and StreamInterrupted if the stream breaks
        off, be it in the middle of an event: whatever was yielded before is whole and valid.
        If the connection keeps breaking before there is a stream, the watch is simply empty.
        """
        stream = await self._open_watch(
            resource.collection_path(namespace), options.query(watch=True), _about(resource)
        )
        if stream is None:
            return
        decode = self._decoder(resource).event
        url = stream.url
        with contextlib.closing(stream):
            while lines := await stream.lines():
                for line in lines:
                    event = decode(line, url=url) if line else None
                    if event is not None:
                        yield event
            if stream.unfinished:
                event = _last_event(self._decoder(resource), stream)
                if event is not None:
                    yield event

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes | None = None,
        content_type: str = JSON,
        subject: Subject = _NOTHING,
    ) -> bytes:
        """Any request, paced and repeated as the module says; the body of a good answer.

        For what has no method here: discovery, health, answers nobody decodes.
        """
        await self._take_token()
        seconds = self._timeout_seconds
        if seconds is not None:
            timeout = f"timeout={seconds:g}s"
            query = f"{query}&{timeout}" if query else timeout
        request = self._repeat(
            lambda: self._send_once(method, path, query, body, content_type, subject),
            is_read=method == "GET",
        )
        if seconds is None:
            return await request
        try:
            return await wait_for(request, seconds, self._clock)
        except TimeoutError:
            raise ConnectionFailed(f"{method} {path}: no answer within {seconds:g} s") from None

    async def _send_once(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes | None,
        content_type: str,
        subject: Subject,
    ) -> bytes:
        self._requests += 1
        started, code = self._clock.monotonic(), "<error>"
        try:
            answer = await self._transport.send(
                method, path, query=query, body=body, content_type=content_type
            )
            code = str(answer.status)
        finally:
            if self._observe is not None:
                self._observe(method, code, self._clock.monotonic() - started)
        if answer.ok:
            return answer.body
        raise self._refusal(answer, method, subject)

    async def _open_watch(self, path: str, query: str, subject: Subject) -> WatchStream | None:
        self._watches += 1

        async def open_once() -> WatchStream:
            answer = await self._transport.open_watch(path, query)
            if isinstance(answer, WatchStream):
                return answer
            raise self._refusal(answer, "GET", subject)

        try:
            return await self._repeat(open_once, is_read=True)
        except ConnectionFailed as error:
            if not error.reset:
                raise
            logger.warning("giving up on this watch: %s", error)
            return None

    async def _repeat(self, call: Callable[[], Awaitable[R]], *, is_read: bool) -> R:
        return await repeat(
            call,
            retries_max=REQUEST_RETRIES_MAX,
            delay_seconds=lambda error, _: request_retry_delay_seconds(error, is_read=is_read),
            sleep=self._wait_for_retry,
        )

    async def _wait_for_retry(self, seconds: float) -> None:
        self._retries += 1
        await self._clock.sleep(seconds)
        await self._take_token()

    async def _take_token(self) -> None:
        seconds = await self._bucket.take()
        if seconds:
            self._throttled_seconds += seconds
            if seconds > _THROTTLED_SECONDS:
                logger.info("waited %.1f s for the client's own rate limit", seconds)

    def _refusal(self, answer: Answer, method: str, subject: Subject) -> ApiError:
        header, now = answer.headers.get("Retry-After", ""), self._clock.now()
        error = error_of_response(
            answer.status,
            answer.body,
            content_type=answer.headers.get("Content-Type", ""),
            method=method,
            group_resource=subject.group_resource,
            name=subject.name,
            retry_after_seconds=retry_after_seconds(header, now=now),
        )
        error.retry_delay_seconds = retry_delay_seconds(answer.status, header, now=now)
        return error

    def _object(self, resource: Resource[T], body: bytes, path: str) -> T:
        return self._decoder(resource).object(body, url=self._transport.url(path))

    def _decoder(self, resource: Resource[T]) -> ObjectDecoder[T]:
        decoder = self._decoders.get(resource)
        if decoder is None:
            decoder = self._decoders[resource] = ObjectDecoder(resource)
        # The decoder under a resource is of the resource's type.
        return cast("ObjectDecoder[T]", decoder)


def _about(resource: Resource[T], name: str = "") -> Subject:
    return Subject(resource.group_resource, name)


def _last_event(decoder: ObjectDecoder[T], stream: WatchStream) -> WatchEvent[T] | None:
    """The event of a last line without an end; half an event raises StreamInterrupted."""
    try:
        return decoder.event(stream.unfinished, url=stream.url)
    except DecodeError as error:
        raise StreamInterrupted(f"{stream.url}: ended in the middle of an event") from error
