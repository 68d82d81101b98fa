"""Faults of requests: before, instead of and after the work of the server.

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
from fakeapi.faults import statuses
from fakeapi.faults.request_info import name_in, request_info
from fakeapi.http import answers
from fakeapi.http.connections import broken, read_body
from fakeapi.store.listing import listing
from fakeapi.store.views import status_event
from fakeapi.types.errors import ApiError, Expired, ResourceVersionTooLarge
from fakeapi.types.media_types import JSON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeapi.clock import Clock
    from fakeapi.decoding.routes import Route
    from fakeapi.faults.active import ActiveFaults, Applied
    from fakeapi.faults.model import Garble
    from fakeapi.faults.request_info import RequestInfo
    from fakeapi.store.registry import Registry

    Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_LIST_TOO_OLD: Final = "The resourceVersion for the provided list is too old."
#: Where the initial events of a stale watch-list wait for their watch, in the same task.
_initial_events: Final = contextvars.ContextVar("initial_events", default=b"")


def initial_events() -> bytes:
    """Return the initial events of this task's stale watch-list; empty otherwise."""
    return _initial_events.get()


class RequestFaults:
    """Answers requests for the server while faults of requests are set.

    `delayed` and `held` count requests that wait: for time to pass, or for their fault's end.
    """

    def __init__(
        self,
        active: ActiveFaults,
        registry: Registry,
        clock: Clock,
    ) -> None:
        self._active = active
        self._registry = registry
        self._clock = clock
        self.delayed = 0
        self.held = 0

    async def serve(self, http: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        """Answer a request under the faults; `serve` carries it out."""
        try:
            return await self._serve(http, serve)
        except ApiError as error:  # as the server would have answered
            return _response(error)

    async def _serve(self, http: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        info = request_info(http, self._registry)
        if info.verb == "create" and not info.name and self._active.asks_for_names:
            info = info._replace(name=name_in(await read_body(http, self._clock)))
        all_applied = self._active.apply_to_request(info)
        delays = [applied for applied in all_applied if applied.fault.delay is not None]
        for applied in delays:
            if applied.fault.delay is not None and not applied.fault.delay.after_write:
                await self._wait(applied)
        other = next((s for s in all_applied if s.fault.kind not in ("delay", "observe")), None)
        response = await (
            serve(http) if other is None else self._answered(other, http, info, serve)
        )
        for applied in delays:
            if applied.fault.delay is not None and applied.fault.delay.after_write:
                await self._wait(applied)
        return response

    async def _wait(self, applied: Applied) -> None:
        """Wait for the drawn time, at most until the fault's end."""
        over = asyncio.Event()
        forget = applied.active_fault.on_end(over.set)
        if applied.seconds is None:
            self.held += 1
            try:
                await over.wait()
            finally:
                self.held -= 1
                forget()
            return
        timer = self._clock.call_later(applied.seconds, over.set)
        self.delayed += 1
        try:
            await over.wait()
        finally:
            self.delayed -= 1
            timer.cancel()
            forget()

    async def _answered(
        self, applied: Applied, http: web.BaseRequest, info: RequestInfo, serve: Serve
    ) -> web.StreamResponse:
        fault = applied.fault
        if fault.answer is not None:
            error = statuses.failure(fault.answer, info, self._registry.store.resource_version)
            return await self._lost(http, info, serve, error, carry_out=fault.answer.after_write)
        if fault.reset is not None:
            await self._lost(http, info, serve, None, carry_out=fault.reset.after_write)
            return broken(http, reset=not fault.reset.close)
        if fault.garble is not None:
            return await _garbled(http, await serve(http), fault.garble)
        if fault.expire is not None:
            if info.verb == "list" or fault.expire.as_answer:
                return _response(Expired(_LIST_TOO_OLD))
            return await _expired_watch(http, info, self._registry.store.resource_version)
        if fault.stale is not None:
            return await self._stale(applied, http, info, serve)
        return _response(statuses.refused_watch_list())

    async def _lost(
        self,
        http: web.BaseRequest,
        info: RequestInfo,
        serve: Serve,
        error: ApiError | None,
        *,
        carry_out: bool,
    ) -> web.StreamResponse:
        """Return the error instead of the answer; `carry_out` serves the request before."""
        if carry_out and info.verb != "watch":
            await serve(http)
        elif http.method not in ("GET", "HEAD"):
            await read_body(http, self._clock)
        return web.Response() if error is None else _response(error)

    async def _stale(
        self, applied: Applied, http: web.BaseRequest, info: RequestInfo, serve: Serve
    ) -> web.StreamResponse:
        """Serve a list or watch at an older version; other requests as they are."""
        route = info.route
        if route is None or info.query.text("continue"):
            return await serve(http)
        wanted = info.query.text("resourceVersion")
        if info.verb == "watch" and not info.initial_events and wanted not in ("", "0"):
            return await serve(http)
        version = self._stale_version(applied, route)
        named = statuses.version_in(wanted)
        if named > version:
            return _response(ResourceVersionTooLarge(named, version))
        if info.verb == "watch":
            return await self._stale_watch(http, info, route, version, serve)
        changed = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        if wanted == "0":
            changed["limit"] = ""
        return await serve(_asked(http, changed))

    def _stale_version(self, applied: Applied, route: Route) -> int:
        stale = applied.fault.stale
        assert stale is not None
        if stale.changes is None:
            return applied.active_fault.version
        log = self._registry.collection(route.kind).log
        if log.end == log.first:
            return self._registry.store.resource_version
        return log.at(max(log.first, log.end - stale.changes)).resource_version - 1

    async def _stale_watch(
        self,
        http: web.BaseRequest,
        info: RequestInfo,
        route: Route,
        version: int,
        serve: Serve,
    ) -> web.StreamResponse:
        """Serve a watch whose initial events are the state at the version."""
        options = list_options(info.query, route.kind, route.namespace, watch=True, name=route.name)
        past = ListOptions(
            selection=options.selection, resource_version=str(version), match="Exact"
        )
        collection, view = self._registry.collection(route.kind), self._registry.view(route.kind)
        revisions = listing(self._registry.store, collection, past).revisions
        events = [view.added(revision) for revision in revisions]
        if options.send_initial_events and options.allow_bookmarks:
            events.append(view.bookmark(version, ends_initial_events=True))
        dropped = {"sendInitialEvents": "", "resourceVersionMatch": ""}
        token = _initial_events.set(b"".join(events))
        try:
            return await serve(_asked(http, {"resourceVersion": str(version), **dropped}))
        finally:
            _initial_events.reset(token)


def _asked(http: web.BaseRequest, changed: dict[str, str]) -> web.BaseRequest:
    """Return the request with other parameters; empty ones are left out."""
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
    http: web.BaseRequest, info: RequestInfo, current_version: int
) -> web.StreamResponse:
    """Answer as upstream at the start of a watch: 200, one ERROR event, the end."""
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: JSON})
    await response.prepare(http)
    wanted = info.query.text("resourceVersion") or "0"
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
