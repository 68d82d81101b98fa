"""From a call to its answer: documents, verbs, lists and watches."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import hdrs

from fakeapi.decoding import routes
from fakeapi.decoding.bodies import Body
from fakeapi.decoding.options import split_target
from fakeapi.decoding.routes import Route
from fakeapi.discovery.documents import DocumentRequest
from fakeapi.http import answers, negotiation
from fakeapi.http.answers import Answer
from fakeapi.requests import dispatch
from fakeapi.requests.call import with_indentation
from fakeapi.types.client_text import shortened
from fakeapi.types.durations import parse_duration
from fakeapi.types.errors import (
    ApiError,
    BadRequest,
    InternalError,
    Invalid,
    NotAcceptable,
    UnknownResource,
)
from fakeapi.types.media_types import JSON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.store.watch import Watcher
    from fakeapi.types.limits import Limits

_log: Final = logging.getLogger("fakeapi")
#: Answers from this size on are converted to YAML, tables or metadata in a thread.
_LARGE_BYTES: Final = 64 * 1024
#: Methods whose bodies are not read.
_WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})


class Watch(NamedTuple):
    """A watch that is ready to be served, until its time limit."""

    watcher: Watcher
    timeout_seconds: float


async def handle(
    registry: Registry, call: Call, read: Callable[[], Awaitable[bytes]], *, address: str
) -> Answer | Watch:
    """Answer a call. Raises ApiError.

    Lists, large answers, the deletion of many objects, and `read`, which returns the body, may
    wait. A write of one object does not. `address` is the server's, for documents.
    """
    if not call.is_long_running:
        _check_timeout(call.query.text("timeout"))
    if not isinstance(call.found, Route):
        return _document(registry, call, address)
    verb = dispatch.verb_of(call)
    shown = call.presentation(registry)
    if call.method not in _WITHOUT_BODY:
        call.body = Body(await read(), call.content_type, registry.limits)
        found = routes.resolve(call.path, registry.kinds)
        if found != call.found:  # the kind has changed or gone while the body arrived
            if not isinstance(found, Route):
                raise UnknownResource
            call.found = found
            verb, shown = dispatch.verb_of(call), call.presentation(registry)
    if call.verb == "watch":
        return Watch(*dispatch.watcher(registry, call, shown))
    made = dispatch.list_objects(registry, call) if verb is None else verb(registry, call)
    answer = made if isinstance(made, Answer) else await made
    if shown.accepted.is_plain or len(answer.body) < _LARGE_BYTES:
        return answers.presented(answer, shown)
    return await asyncio.to_thread(answers.presented, answer, shown)


def _check_timeout(text: str) -> None:
    """Check the client's `timeout`, which has no effect here. Raises BadRequest.

    Source: `parseTimeout` of apiserver pkg/endpoints/filters/request_deadline.go.
    """
    if not text:
        return
    try:
        parse_duration(text)
    except ValueError as error:
        raise BadRequest(f"invalid timeout specified in the request URL - {error}") from error


def _document(registry: Registry, call: Call, address: str) -> Answer:
    request = DocumentRequest(
        call.query,
        accept=call.headers.get(hdrs.ACCEPT, ""),
        if_none_match=call.headers.get(hdrs.IF_NONE_MATCH, ""),
        address=address,
        now_seconds=registry.clock.now(),
    )
    return dispatch.document(call, registry, request)


def explained(
    error: Exception, method: str, target: str, headers: Mapping[str, str], limits: Limits
) -> Answer:
    """Return the Status of an error in the form that the client accepts; log unexpected errors.

    Of many errors in fields it shows `max_errors_length` characters.
    """
    if not isinstance(error, ApiError):
        _log.error("%s %s failed", method, shortened(target), exc_info=error)
        error = InternalError(repr(error))
    if isinstance(error, Invalid):
        error = error.within(limits.max_errors_length)
    answer = answers.of_error(error)
    if answer.content_type != JSON:
        return answer
    try:
        accepted = negotiation.negotiate(headers.get(hdrs.ACCEPT, ""))
    except NotAcceptable:
        accepted = negotiation.PLAIN
    query = split_target(target, limits)[1]
    return answers.written(answer, with_indentation(accepted, query, headers))
