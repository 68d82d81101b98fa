"""Faults of requests: what happens before the server carries one out, instead of it, and after it.

delay ---> answer, reset, expire, refuse  ---> [carried out] ---> answer, reset  ---> delay
           instead of the answer               stale: at an        instead of it       after_write
                                               older version       garble: damaged
"""

from __future__ import annotations

import asyncio
import contextvars
import urllib.parse
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from yarl import URL

from fakeapi.decoding.options import ListOptions, list_options
from fakeapi.faults import wording
from fakeapi.faults.facts import name_in, request_facts
from fakeapi.http import answers
from fakeapi.http.connections import read_body
from fakeapi.http.transport import broken
from fakeapi.store.listing import listing
from fakeapi.store.views import status_event
from fakeapi.types.errors import ApiError, Expired, ResourceVersionTooLarge
from fakeapi.types.media_types import JSON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeapi.clock import Clock
    from fakeapi.decoding.routes import Route
    from fakeapi.faults.book import Book, RequestFacts, Strike
    from fakeapi.faults.model import Garble
    from fakeapi.store.registry import Registry

    Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

__all__ = ["RequestFaults", "initial_events"]

_LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
#: Where the initial events of a stale watch-list wait for their watch, in the same task.
_initial_events: Final = contextvars.ContextVar("initial_events", default=b"")


def initial_events() -> bytes:
    """What this task's watch has to say first as a fault has made it stale; empty otherwise."""
    return _initial_events.get()


class RequestFaults:
    """Answers requests for the server while faults of requests are set.

    `delayed` and `held` count requests that wait: for time to pass, or for their fault's end.
    """

    def __init__(
        self,
        book: Book,
        registry: Registry,
        clock: Clock,
    ) -> None:
        self._book = book
        self._registry = registry
        self._clock = clock
        self.delayed = 0
        self.held = 0

    async def serve(self, http: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        """Answer a request, as the faults want it; `serve` carries it out."""
        try:
            return await self._serve(http, serve)
        except ApiError as error:  # what the server would have said to it, had it come so far
            return _response(error)

    async def _serve(self, http: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        facts = request_facts(http, self._registry.kinds)
        if facts.verb == "create" and not facts.name and self._book.asks_for_names:
            facts = facts._replace(name=name_in(await read_body(http, self._clock)))
        strikes = self._book.struck_request(facts)
        delays = [strike for strike in strikes if strike.fault.delay is not None]
        for strike in delays:
            if strike.fault.delay is not None and not strike.fault.delay.after_write:
                await self._wait(strike)
        other = next((s for s in strikes if s.fault.kind not in ("delay", "observe")), None)
        response = await (serve(http) if other is None else self._struck(other, http, facts, serve))
        for strike in delays:
            if strike.fault.delay is not None and strike.fault.delay.after_write:
                await self._wait(strike)
        return response

    async def _wait(self, strike: Strike) -> None:
        """For as long as chance has drawn, at most until the fault's end."""
        over = asyncio.Event()
        forget = strike.set_fault.on_end(over.set)
        if strike.seconds is None:
            self.held += 1
            try:
                await over.wait()
            finally:
                self.held -= 1
                forget()
            return
        timer = self._clock.call_later(strike.seconds, over.set)
        self.delayed += 1
        try:
            await over.wait()
        finally:
            self.delayed -= 1
            timer.cancel()
            forget()

    async def _struck(
        self, strike: Strike, http: web.BaseRequest, facts: RequestFacts, serve: Serve
    ) -> web.StreamResponse:
        fault = strike.fault
        if fault.answer is not None:
            error = wording.failure(fault.answer, facts, self._registry.store.resource_version)
            return await self._lost(http, facts, serve, error, carry_out=fault.answer.after_write)
        if fault.reset is not None:
            await self._lost(http, facts, serve, None, carry_out=fault.reset.after_write)
            return broken(http, reset=not fault.reset.close)
        if fault.garble is not None:
            return await _garbled(http, await serve(http), fault.garble)
        if fault.expire is not None:
            if facts.verb == "list" or fault.expire.as_answer:
                return _response(Expired(_LIST_TOO_OLD))
            return await _expired_watch(http, facts, self._registry.store.resource_version)
        if fault.stale is not None:
            return await self._stale(strike, http, facts, serve)
        return _response(wording.refused_watch_list())

    async def _lost(
        self,
        http: web.BaseRequest,
        facts: RequestFacts,
        serve: Serve,
        error: ApiError | None,
        *,
        carry_out: bool,
    ) -> web.StreamResponse:
        """The failure instead of the answer; the request is read, and if asked for carried out."""
        if carry_out and facts.verb != "watch":
            await serve(http)
        elif http.method not in ("GET", "HEAD"):
            await read_body(http, self._clock)
        return web.Response() if error is None else _response(error)

    async def _stale(
        self, strike: Strike, http: web.BaseRequest, facts: RequestFacts, serve: Serve
    ) -> web.StreamResponse:
        """The request, asked at an older version; what does not list anything stays as it is."""
        route = facts.route
        if route is None or facts.query.text("continue"):
            return await serve(http)
        wanted = facts.query.text("resourceVersion")
        if facts.verb == "watch" and not facts.initial_events and wanted not in ("", "0"):
            return await serve(http)
        version = self._stale_version(strike, route)
        if wanted.isdecimal() and int(wanted) > version:
            return _response(ResourceVersionTooLarge(int(wanted), version))
        if facts.verb == "watch":
            return await self._stale_watch(http, facts, route, version, serve)
        changed = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        if wanted == "0":
            changed["limit"] = ""
        return await serve(_asked(http, changed))

    def _stale_version(self, strike: Strike, route: Route) -> int:
        stale = strike.fault.stale
        assert stale is not None
        if stale.changes is None:
            return strike.set_fault.version
        log = self._registry.collection(route.kind).log
        if log.end == log.first:
            return self._registry.store.resource_version
        return log.at(max(log.first, log.end - stale.changes)).resource_version - 1

    async def _stale_watch(
        self,
        http: web.BaseRequest,
        facts: RequestFacts,
        route: Route,
        version: int,
        serve: Serve,
    ) -> web.StreamResponse:
        """Its initial events are the state at the version; it goes on with what came after."""
        options = list_options(
            facts.query, route.kind, route.namespace, watch=True, name=route.name
        )
        past = ListOptions(
            selection=options.selection, resource_version=str(version), match="Exact"
        )
        collection, view = self._registry.collection(route.kind), self._registry.view(route.kind)
        found = listing(self._registry.store, collection, past).revisions
        events = [view.added(revision) for revision in found]
        if options.send_initial_events and options.allow_bookmarks:
            events.append(view.bookmark(version, ends_initial_events=True))
        dropped = {"sendInitialEvents": "", "resourceVersionMatch": ""}
        token = _initial_events.set(b"".join(events))
        try:
            return await serve(_asked(http, {"resourceVersion": str(version), **dropped}))
        finally:
            _initial_events.reset(token)


def _asked(http: web.BaseRequest, changed: dict[str, str]) -> web.BaseRequest:
    """The same request with other parameters; empty ones are left out."""
    path, _, text = http.raw_path.partition("?")
    parameters = urllib.parse.parse_qs(text, keep_blank_values=True)
    parameters.update({name: [value] for name, value in changed.items()})
    query = urllib.parse.urlencode(
        [(name, value) for name, values in parameters.items() for value in values if value]
    )
    return http.clone(rel_url=URL(f"{path}?{query}", encoded=True))


def _response(error: ApiError) -> web.Response:
    answer = answers.of_error(error)
    headers = {**answer.headers, hdrs.CONTENT_TYPE: answer.content_type}
    return web.Response(status=answer.code, body=answer.body, headers=headers)


async def _expired_watch(
    http: web.BaseRequest, facts: RequestFacts, current_version: int
) -> web.StreamResponse:
    """Upstream's way to say so at the start of a watch: 200, one ERROR event, the end."""
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: JSON})
    await response.prepare(http)
    wanted = facts.query.text("resourceVersion") or "0"
    error = Expired(f"too old resource version: {wanted} ({current_version})")
    await response.write(status_event(error.status()))
    await response.write_eof()
    return response


async def _garbled(
    http: web.BaseRequest, response: web.StreamResponse, garble: Garble
) -> web.StreamResponse:
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return response  # a watch: it has been sent already
    body = response.body
    if garble.how == "empty":
        response.body = b""
    elif garble.how == "not_json":
        response.body = body[: len(body) // 2]
    else:
        half = web.StreamResponse(status=response.status, headers=response.headers)
        half.content_length = len(body)
        await half.prepare(http)
        await half.write(body[: len(body) // 2])
        return broken(http, reset=True)
    return response
