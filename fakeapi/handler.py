"""HTTP requests around `requests.handle`: security, faults, durable state, streams of watches.

gate ──► faults ──► handle ──► commit ──► response or stream
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web

from fakeapi.access.users import current_user
from fakeapi.decoding.bodies import Body
from fakeapi.faults import admin
from fakeapi.http import answers
from fakeapi.http.connections import read_body
from fakeapi.http.port import keep
from fakeapi.http.responses import (
    PIECE_BYTES,
    AnswersInFlight,
    LargeResponse,
    response_to,
    stream_response,
)
from fakeapi.requests.call import understood
from fakeapi.requests.handle import Watch, explained, handle
from fakeapi.security.gate import too_busy
from fakeapi.state import StateError
from fakeapi.types.errors import ApiError, InternalError, TooBusy, UnknownResource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from fakeapi.access.attributes import Attributes
    from fakeapi.faults import Faults
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.security.gate import Gate
    from fakeapi.state.keeper import Keeper
    from fakeapi.store.journal import Journal
    from fakeapi.store.registry import Registry
    from fakeapi.store.watch import Watcher
    from fakeapi.types.kind import Kind

    _Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpHandler:
    """Answers the requests of one server; `requests_*` are counts, `watchers` the open watches."""

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        state: Keeper,
        faults: Faults,
        *,
        gate: Gate | None,
        admin_endpoint: bool,
        address: Callable[[], str],
    ) -> None:
        """`address` returns host and port of the server, for documents that contain them."""
        self._registry = registry
        self._journal = journal
        self._state = state
        self._faults = faults
        self._gate = gate
        self._admin_endpoint = admin_endpoint
        self._address = address
        # In order of arrival: the order of events must not depend on where objects lie in memory.
        self.watchers: Final[dict[Watcher, Kind]] = {}
        self._in_flight = AnswersInFlight()
        self.requests_in_flight = 0
        self.requests_total = 0
        registry.kinds.listeners[self] = self._end_watches_of

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request if the gate lets it in."""
        if self._gate is None:
            return await self._handle(http, self._committed)
        try:
            attributes = self._understood(http).attributes
            leave = self._gate.enter(http, attributes)
        except Exception as error:  # noqa: BLE001 - every request has an answer
            self.requests_total += 1
            answer = too_busy(error) if isinstance(error, TooBusy) else self._refusal(error, http)
            self._note(http, answer.code)
            return response_to(answer)
        try:
            committed = functools.partial(self._committed, authorized=attributes)
            return await self._handle(http, committed)
        finally:
            leave()

    def _understood(self, http: web.BaseRequest) -> Call:
        return understood(self._registry, http.method, http.raw_path, http.headers)

    def _refusal(self, error: Exception, http: web.BaseRequest) -> Answer:
        limits = self._registry.limits
        return explained(error, http.method, http.raw_path, http.headers, limits)

    def end_watches(self) -> None:
        """End all watches after the events that are already in the log."""
        for watcher in self.watchers:
            watcher.end()

    def _end_watches_of(self, kind: Kind) -> None:
        """End the watches of a kind that has changed: clients list again, as upstream has it."""
        for watcher, watched in self.watchers.items():
            if watched is kind:
                watcher.end()

    async def _handle(self, http: web.BaseRequest, committed: _Handler) -> web.StreamResponse:
        if self._admin_endpoint and http.raw_path.startswith(admin.PATH):
            return await self._administer(http)
        if self._faults.of_requests:
            response = await self._faults.serve(http, committed)
        else:
            response = await committed(http)
        if isinstance(response, web.Response):  # a watch was noted when it began
            self._note(http, response.status)
        return response

    async def _administer(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request about faults; an outage that it sets does not break its connection."""
        keep(http.transport)
        try:
            raw = await read_body(http, self._registry.clock)
            body = Body(raw, http.content_type, self._registry.limits)
            return response_to(
                admin.answer(self._faults, http.method, http.raw_path, http.headers, body)
            )
        except ApiError as error:
            return response_to(answers.of_error(error))

    async def _committed(
        self, http: web.BaseRequest, authorized: Attributes | None = None
    ) -> web.StreamResponse:
        """Return the response once every change that it may show is committed."""
        response = await self._answer(http, authorized)
        try:
            await self._state.settled()
        except StateError as error:
            if not response.prepared:
                return response_to(answers.of_error(InternalError(str(error))))
        return response

    async def _answer(
        self, http: web.BaseRequest, authorized: Attributes | None
    ) -> web.StreamResponse:
        """Answer one request; every error becomes a Status.

        A fault may have held the request while its kind came or went. The request is refused if it
        now means something other than the authorizer has allowed.
        """
        self.requests_total += 1
        warnings: list[str] = []
        try:
            self.requests_in_flight += 1
            try:
                call = self._understood(http)
                warnings = call.warnings  # sent even if the request is refused
                if authorized is not None and call.attributes != authorized:
                    raise UnknownResource
                if self._gate is not None:
                    call.user = current_user()
                read = functools.partial(read_body, http, self._registry.clock)
                answer = await handle(self._registry, call, read, address=self._address())
                if not isinstance(answer, Watch):
                    answer = await self._delivered(http, self._in_flight.shared(answer))
                    is_large = len(answer.body) > PIECE_BYTES and http.method != hdrs.METH_HEAD
                    return (LargeResponse if is_large else response_to)(answer, warnings)
            finally:
                self.requests_in_flight -= 1
            return await self._watch(http, call.route.kind, answer, warnings)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - every request has an answer
            return response_to(self._refusal(error, http), warnings)

    async def _watch(
        self, http: web.BaseRequest, kind: Kind, watch: Watch, warnings: Iterable[str]
    ) -> web.StreamResponse:
        watcher, response = watch.watcher, stream_response(warnings)
        self.watchers[watcher] = kind
        try:
            await response.prepare(http)  # at once: clients wait for the headers
            self._note(http, response.status)
            write = self._state.guarded(response.write)
            async with self._faults.channel(http, watcher, write) as channel:
                await watcher.serve(channel.write, watch.timeout_seconds)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client has left
        finally:
            del self.watchers[watcher]
        return response

    async def _delivered(self, http: web.BaseRequest, answer: Answer) -> Answer:
        """Return the answer, compressed if it is large and the client accepts that."""
        if not answers.is_compressed_for(answer, http.headers.get(hdrs.ACCEPT_ENCODING, "")):
            return answer
        return self._in_flight.shared(await asyncio.to_thread(answers.compressed, answer))

    def _note(self, http: web.BaseRequest, status: int) -> None:
        # The body as far as it was read: aiohttp has no public name for it.
        body = http._read_bytes or b""
        self._journal.handled(http.method, http.raw_path, http.headers, status, body)
