"""The typed client: list, watch, get, create, patch, delete, bind.

One `RestClient` talks to one API server. It limits its own rate, and retries a request where that
is safe for any request: where the server names a delay, and where the connection of a read was
reset (the rule is in `retries`). It does not retry a write whose answer was lost: the write may
have been executed, and only the caller knows if a second execution does harm.
A watch is not rate limited, and opening one is retried as a GET is. An open watch is read until the
server ends it; the reflector opens the next one.

Source: client-go `rest/request.go`, `rest/with_retry.go`, `tools/pager/pager.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from scheduler.api.core import ObjectMeta, ObjectReference
from scheduler.client import protobuf
from scheduler.client.decoding import ObjectDecoder, Page, WatchEvent, decoder_of
from scheduler.client.errors import (
    ApiError,
    ConnectionFailed,
    DecodeError,
    Expired,
    StreamInterrupted,
    Unauthorized,
    WriteRefused,
    error_of_response,
)
from scheduler.client.flow_control import TokenBucket
from scheduler.client.kinds import PODS, ApiObject, ListOptions, Resource
from scheduler.client.objects import Binding
from scheduler.client.retries import (
    REQUEST_RETRIES_MAX,
    repeat,
    request_retry_delay_seconds,
    retry_after_seconds,
    retry_delay_seconds,
)
from scheduler.client.transport import Answer, Transport, WatchStream
from scheduler.clock import Turns, wait_for
from scheduler.klog import V1

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

    from scheduler.api.core import Pod
    from scheduler.client.connection import Connection
    from scheduler.client.errors import ClientError
    from scheduler.clock import Clock
    from scheduler.metrics import SchedulerMetrics

_log: Final = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)
R = TypeVar("R")

JSON: Final = "application/json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

#: A longer wait for the rate limit is logged.
_THROTTLED_SECONDS: Final = 1.0

_PAGE_SIZE: Final = 500
#: The code of a request without an answer, in metrics.
_NO_ANSWER: Final = "<error>"

_BINDINGS: Final = Resource("", "v1", "bindings", "Binding", Binding)
_DELETE_OPTIONS: Final = b'{"kind":"DeleteOptions","apiVersion":"v1"}'


class Subject(NamedTuple):
    """The object or objects of a request, for the text of an error."""

    group_resource: str = ""
    name: str = ""


_NO_SUBJECT: Final = Subject()


@dataclass(slots=True)
class _Try:
    code: str = _NO_ANSWER


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A whole list as of `resource_version`; `paginated` if it took more than one page."""

    items: list[T]
    resource_version: str
    paginated: bool = False


async def list_in_pages(
    fetch: Callable[[ListOptions], Awaitable[Page[T]]], options: ListOptions, *, page_size: int
) -> Listing[T]:
    """Fetch all pages of a list, which show the state of one moment.

    A `page_size` of 0 means one page without a limit. If the server has forgotten that moment
    before the last page (`Expired`), the whole list is fetched once more without a limit. Raises
    the other errors of `fetch` too.
    """
    request = replace(options, limit=options.limit or page_size)
    items: list[T] = []
    resource_version = ""
    while True:
        try:
            page = await fetch(request)
        except Expired:
            if not request.continue_token:
                raise
            whole = await fetch(replace(options, limit=0))
            return Listing(whole.items, whole.metadata.resource_version, paginated=True)
        # The version of the first page is that of the list.
        resource_version = resource_version or page.metadata.resource_version
        paginated = bool(request.continue_token)
        items.extend(page.items)
        if not page.metadata.continue_token:
            return Listing(items, resource_version, paginated=paginated)
        # The continue token stands for the version, which must not be sent beside it.
        request = replace(
            request,
            continue_token=page.metadata.continue_token,
            resource_version="",
            resource_version_match="",
        )


class RestClient:
    """A client of one API server; an async context manager.

    `qps` and `burst` limit requests as in client-go (0 means 5 and 10, a negative `qps` means no
    limit). `timeout_seconds` bounds every request but watches, including its retries, and is sent
    to the server; None means no bound, as in the scheduler except for its lease. Time is `clock`'s.
    `metrics` count the requests of a scheduler, under client-go's names. `write_refusal` is called
    before each write is sent, also before a retry; it returns the reason not to send it, or "".

    A client for a lease retries refused requests every `retry_seconds`, until the timeout and
    whatever delay the server asks for. The writes of another client of the process wait meanwhile,
    if that one `yields_to` the method `retries_end` of this one: they are not to be in its way.

    Every method raises ApiError (the server refused), ConnectionFailed (no answer), DecodeError
    (the answer is no valid object) or KubeconfigError (there are no credentials). A write raises
    WriteRefused if there is a `write_refusal`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        user_agent: str,
        qps: float = 50.0,
        burst: int = 100,
        timeout_seconds: float | None = None,
        metrics: SchedulerMetrics | None = None,
        write_refusal: Callable[[], str] = lambda: "",
        retry_seconds: float | None = None,
        yields_to: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._write_refusal = write_refusal
        self._retry_seconds = retry_seconds
        self._yields_to = yields_to
        self._no_retries = asyncio.Event()
        self._no_retries.set()
        self._transport = Transport(connection, user_agent=user_agent)
        self._identity = connection.identity
        self._metrics = metrics
        self._tls = connection.tls
        self._host = urlsplit(connection.base_url).netloc
        self._clock = clock
        self._turns = Turns(clock)
        self._bucket = TokenBucket(qps=qps or 5.0, burst=burst or 10, clock=clock)
        self._timeout_seconds = timeout_seconds
        self._decoders: dict[object, object] = {}

    async def __aenter__(self) -> RestClient:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._transport.__aexit__(*exception)

    async def list_page(self, resource: Resource[T], options: ListOptions) -> Page[T]:
        """Send one list request: for a page if `options.limit` is set, else for everything."""
        path, query = resource.collection_path(), options.query()
        body = await self.request("GET", path, query=query, subject=_subject(resource))
        url = self._transport.url(path, query)
        return await self._decoder(resource).page_in_turns(body, url=url, turns=self._turns)

    async def list_all(self, resource: Resource[T]) -> Listing[T]:
        """List all objects of a kind, in pages."""

        async def fetch(options: ListOptions) -> Page[T]:
            return await self.list_page(resource, options)

        return await list_in_pages(fetch, ListOptions(), page_size=_PAGE_SIZE)

    async def get(self, resource: Resource[T], name: str, *, namespace: str = "") -> T:
        """Read one object. Raises NotFound."""
        path = resource.path(name, namespace=namespace)
        body = await self.request("GET", path, subject=_subject(resource, name))
        return self._object(resource, body, path)

    async def create(self, resource: Resource[T], obj: T) -> bytes:
        """Create an object, and return it as the server sent it. Raises AlreadyExists, Invalid."""
        return await self.request(
            "POST",
            resource.collection_path(obj.metadata.namespace),
            body=resource.encode(obj),
            subject=_subject(resource, obj.metadata.name),
        )

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
        """Change some fields. `patch` is JSON as plain values."""
        path = resource.path(name, namespace=namespace, subresource=subresource)
        body = await self.request(
            "PATCH",
            path,
            body=msgspec.json.encode(patch),
            content_type=content_type,
            subject=_subject(resource, name),
        )
        return self._object(resource, body, path)

    async def edit(
        self,
        resource: Resource[T],
        name: str,
        edit: Callable[[bytes], bytes],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T | None:
        """Read an object in protobuf, and write the result of `edit` for the version that was read.

        Returns None if the server has no protobuf.
        """
        subject = _subject(resource, name)
        path = resource.path(name, namespace=namespace)
        body = await self.request("GET", path, accept=protobuf.PREFERRED, subject=subject)
        if not protobuf.is_object(body):
            return None
        body = protobuf.edited(body, edit)
        path = resource.path(name, namespace=namespace, subresource=subresource)
        body = await self.request(
            "PUT", path, body=body, content_type=protobuf.MEDIA_TYPE, subject=subject
        )
        return self._object(resource, body, path)

    async def delete(self, resource: Resource[T], name: str, *, namespace: str = "") -> None:
        """Delete an object. Raises NotFound.

        A bound pod gets a deletion timestamp, and is removed once its kubelet agrees.
        """
        await self.request(
            "DELETE",
            resource.path(name, namespace=namespace),
            body=_DELETE_OPTIONS,
            subject=_subject(resource, name),
        )

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node. Raises Conflict if it is bound or deleted, or has another uid."""
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
        self, resource: Resource[T], options: ListOptions
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield the events of a watch until the server ends it.

        Close the generator (`contextlib.aclosing`) if you leave it early. Raises, beside what every
        method raises, ApiError for an ERROR event, and StreamInterrupted if the stream breaks off,
        be it in the middle of an event; the events before are complete and valid.
        A watch whose connection is reset again and again before it opens is empty.
        """
        stream = await self._open_watch(
            resource.collection_path(), options.query(watch=True), _subject(resource)
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
        accept: str = JSON,
        subject: Subject = _NO_SUBJECT,
    ) -> bytes:
        """Send any request, and return the body of a good answer.

        For requests without a method here: discovery, reviews, answers that are not decoded.
        """
        seconds = self._timeout_seconds
        if seconds is not None:
            timeout = f"timeout={seconds:g}s"
            query = f"{query}&{timeout}" if query else timeout
        started = self._clock.monotonic()
        await self._take_token(method)
        request = self._repeat(
            lambda: self._send_once(method, path, query, body, content_type, accept, subject),
            method,
        )
        try:
            if seconds is None:
                return await request
            return await wait_for(request, seconds, self._clock)
        except TimeoutError:
            raise ConnectionFailed(f"{method} {path}: no answer within {seconds:g} s") from None
        finally:
            if self._metrics is not None:
                self._metrics.rest_client_request_duration.observe(
                    self._clock.monotonic() - started, self._host, method
                )

    async def retries_end(self) -> None:
        """Wait until no request of this client is being retried."""
        await self._no_retries.wait()

    async def _send_once(
        self,
        method: str,
        path: str,
        query: str,
        body: bytes | None,
        content_type: str,
        accept: str,
        subject: Subject,
    ) -> bytes:
        if method != "GET":
            if self._yields_to is not None:
                await self._yields_to()
            if reason := self._write_refusal():
                raise WriteRefused(f"{method} {path}: not sent, {reason}")
        self._refresh_tls()
        with self._counted(method) as tried:
            answer = await self._transport.send(
                method, path, query=query, body=body, content_type=content_type, accept=accept
            )
            tried.code = str(answer.status)
        if self._metrics is not None:
            sizes = self._metrics.rest_client_request_size, self._metrics.rest_client_response_size
            sizes[0].observe(len(body or b""), self._host, method)
            sizes[1].observe(len(answer.body), self._host, method)
        if answer.ok:
            return answer.body
        raise self._refusal(answer, method, subject)

    async def _open_watch(self, path: str, query: str, subject: Subject) -> WatchStream | None:
        async def open_once() -> WatchStream:
            self._refresh_tls()
            with self._counted("GET") as tried:
                answer = await self._transport.open_watch(path, query)
                if isinstance(answer, WatchStream):
                    tried.code = "200"
                    return answer
                tried.code = str(answer.status)
            raise self._refusal(answer, "GET", subject)

        try:
            return await self._repeat(open_once, "GET")
        except ConnectionFailed as error:
            if not error.reset:
                raise
            _log.warning("giving up on this watch: %s", error)
            return None

    async def _repeat(self, call: Callable[[], Awaitable[R]], method: str) -> R:
        own_seconds = self._retry_seconds

        async def wait_for_retry(seconds: float) -> None:
            self._no_retries.clear()
            await self._clock.sleep(seconds)
            await self._take_token(method)

        def delay_seconds(error: ClientError, _: int) -> float | None:
            seconds = request_retry_delay_seconds(error, is_read=method == "GET")
            if seconds is not None and self._metrics is not None:
                code = str(error.status) if isinstance(error, ApiError) else _NO_ANSWER
                self._metrics.rest_client_request_retries[code, self._host, method] += 1
            is_own = seconds is not None and own_seconds is not None
            return own_seconds if is_own else seconds

        try:
            return await repeat(
                call,
                retries_max=REQUEST_RETRIES_MAX if own_seconds is None else sys.maxsize,
                delay_seconds=delay_seconds,
                sleep=wait_for_retry,
            )
        finally:
            self._no_retries.set()

    async def _take_token(self, method: str) -> None:
        seconds = await self._bucket.take()
        if self._metrics is not None:
            self._metrics.rest_client_rate_limiter_duration.observe(seconds, self._host, method)
        if seconds > _THROTTLED_SECONDS:
            _log.log(V1, "Waited before sending request", {"delay": f"{seconds:.1f}s"})

    def _refresh_tls(self) -> None:
        reload = self._tls.refresh(self._clock.monotonic()) if self._tls is not None else None
        if reload is not None and self._metrics is not None:
            self._metrics.rest_client_transport_ca_reloads[reload.reason, reload.result] += 1

    @contextlib.contextmanager
    def _counted(self, method: str) -> Iterator[_Try]:
        """Count one request by the code of its answer."""
        tried = _Try()
        try:
            yield tried
        finally:
            if self._metrics is not None:
                self._metrics.rest_client_requests[tried.code, self._host, method] += 1

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
        if isinstance(error, Unauthorized):
            error.server, error.identity = self._transport.url(""), self._identity
        return error

    def _object(self, resource: Resource[T], body: bytes, path: str) -> T:
        return self._decoder(resource).object(body, url=self._transport.url(path))

    def _decoder(self, resource: Resource[T]) -> ObjectDecoder[T]:
        decoder = self._decoders.get(resource)
        if decoder is None:
            decoder = self._decoders[resource] = decoder_of(resource)
        # The decoder of a resource has the resource's type.
        return cast("ObjectDecoder[T]", decoder)


def _subject(resource: Resource[T], name: str = "") -> Subject:
    return Subject(resource.group_resource, name)


def _last_event(decoder: ObjectDecoder[T], stream: WatchStream) -> WatchEvent[T] | None:
    """Decode the last line, which has no line end. Raises StreamInterrupted for half an event."""
    try:
        return decoder.event(stream.unfinished, url=stream.url)
    except DecodeError as error:
        raise StreamInterrupted(f"{stream.url}: ended in the middle of an event") from error
