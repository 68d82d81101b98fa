"""Faults over HTTP, for programs outside of the server's process.

    GET    /_fakeapi/faults          the faults that are set, and the number of their injections
    POST   /_fakeapi/faults          set a fault, a list of them, or the content of a file
    DELETE /_fakeapi/faults          remove all
    DELETE /_fakeapi/faults/NAME     remove one
    GET    /_fakeapi/faults/log      the injections, in order
    GET    /_fakeapi/faults/script   faults that repeat the injections, without randomness

Bodies are JSON or YAML, as the Content-Type names it. A request with an Origin comes from a web
page and is refused. Requests to these paths are no API requests: no fault applies to them, and they
are not counted. The connection of a POST survives the outage that the POST sets, so it still
reaches a server that refuses all other connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.decoding.bodies import Body, unsupported
from fakeapi.faults.files import faults_of, to_builtins
from fakeapi.faults.model import FaultError
from fakeapi.http import answers
from fakeapi.types.errors import ApiError, BadRequest, MethodNotAllowed
from fakeapi.types.media_types import JSON, YAML

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeapi.faults.injector import Faults
    from fakeapi.http.answers import Answer

#: The path of all of these.
PATH: Final = "/_fakeapi/faults"


class _NoSuchFault(ApiError):
    """No fault has that name."""

    code = 404
    reason = "NotFound"


class _ForeignOrigin(ApiError):
    """The request was sent by a web page."""

    code = 403
    reason = "Forbidden"


def answer(
    faults: Faults, method: str, path: str, headers: Mapping[str, str], body: Body
) -> Answer:
    """Answer a request to a path below PATH. Raises ApiError."""
    if "Origin" in headers:
        raise _ForeignOrigin("requests of web pages (with the header Origin) are not served")
    rest = path.partition("?")[0][len(PATH) :].strip("/")
    by_method = _ANSWERS.get(rest) or {"DELETE": _remove}
    act = by_method.get(method)
    if act is None:
        raise MethodNotAllowed
    return act(faults, rest, body)


def _value(body: Body) -> object:
    """Return the value of a body. Raises ValueError, UnsupportedMediaType."""
    if body.content_type == JSON:
        return body.json()
    if body.content_type == YAML:
        return body.yaml()
    raise unsupported(f"{JSON}, {YAML}")


def _list(faults: Faults, rest: str, body: Body) -> Answer:
    del rest, body
    current = faults.current
    injected = {fault.name: faults.count(fault.name) for fault in current}
    return answers.of(200, {"faults": to_builtins(current), "injected": injected})


def _add(faults: Faults, rest: str, body: Body) -> Answer:
    del rest
    try:
        added = faults.add(faults_of(_value(body)))
    except (ValueError, FaultError) as error:
        raise BadRequest(str(error)) from error
    return answers.of(201, {"faults": to_builtins(added)})


def _clear(faults: Faults, rest: str, body: Body) -> Answer:
    del rest, body
    removed = faults.current
    faults.clear()
    return answers.of(200, {"faults": to_builtins(removed)})


def _remove(faults: Faults, rest: str, body: Body) -> Answer:
    del body
    if not faults.remove(rest):
        raise _NoSuchFault(f"no fault is called {rest!r}")
    return answers.success(200)


def _log(faults: Faults, rest: str, body: Body) -> Answer:
    del rest, body
    return answers.of(200, {"log": msgspec.to_builtins(faults.log)})


def _script(faults: Faults, rest: str, body: Body) -> Answer:
    del rest, body
    return answers.of(200, {"faults": to_builtins(faults.script())})


_ANSWERS: Final[dict[str, dict[str, Callable[[Faults, str, Body], Answer]]]] = {
    "": {"GET": _list, "POST": _add, "DELETE": _clear},
    "log": {"GET": _log},
    "script": {"GET": _script},
}
