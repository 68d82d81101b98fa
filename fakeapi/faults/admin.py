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
    from collections.abc import Mapping

    from fakeapi.faults.injector import Faults
    from fakeapi.faults.model import Fault
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
    match method, rest:
        case "GET", "":
            current = faults.current
            injected = {fault.name: faults.count(fault.name) for fault in current}
            return answers.of(200, {"faults": to_builtins(current), "injected": injected})
        case "POST", "":
            return answers.of(201, {"faults": to_builtins(_added(faults, body))})
        case "DELETE", "":
            removed = faults.current
            faults.clear()
            return answers.of(200, {"faults": to_builtins(removed)})
        case "GET", "log":
            return answers.of(200, {"log": msgspec.to_builtins(faults.log)})
        case "GET", "script":
            return answers.of(200, {"faults": to_builtins(faults.script())})
        case "DELETE", name if name not in ("log", "script"):
            if not faults.remove(name):
                raise _NoSuchFault(f"no fault is called {name!r}")
            return answers.success(200)
    raise MethodNotAllowed


def _added(faults: Faults, body: Body) -> tuple[Fault, ...]:
    """Set the faults of a body. Raises BadRequest, UnsupportedMediaType."""
    try:
        return faults.add(faults_of(_value(body)))
    except (ValueError, FaultError) as error:
        raise BadRequest(str(error)) from error


def _value(body: Body) -> object:
    """Return the value of a body. Raises ValueError, UnsupportedMediaType."""
    if body.content_type == JSON:
        return body.json()
    if body.content_type == YAML:
        return body.yaml()
    raise unsupported(f"{JSON}, {YAML}")
