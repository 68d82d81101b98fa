"""Answers as Go's `net/http` and the Kubernetes server library write them, to the byte.

Source: Go `net/http/server.go` (`Error`, `NotFound`), apiserver `responsewriters/errors.go`,
`negotiation/negotiate.go` (`isPrettyPrint`), apimachinery `pkg/api/errors/errors.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from scheduler.api.field import GO_JSON_ESCAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}
_COMMON: Final = {"Cache-Control": "no-cache, private", "Server": "kubesched"}
#: Programs in front of which a person sits.
_INTERACTIVE: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


def text_reply(text: str, *, status: int = 200, nosniff: bool = True) -> web.Response:
    """Plain text, as a health check answers it; browsers are told to take it for what it is."""
    headers = _NOSNIFF if nosniff else None
    return bytes_reply(text.encode(), content_type=_TEXT, status=status, headers=headers)


def error_reply(text: str, *, status: int) -> web.Response:
    """An error in words: a line of plain text."""
    return text_reply(f"{text}\n", status=status)


def not_found() -> web.Response:
    """What is said of a path that leads nowhere."""
    return error_reply("404 page not found", status=404)


def empty_reply() -> web.Response:
    """Return 200 without a body."""
    return web.Response(headers=_COMMON)


def json_reply(value: object) -> web.Response:
    """A value as JSON."""
    return bytes_reply(go_json(value), content_type=_JSON, headers=_NOSNIFF)


def bytes_reply(
    body: bytes, *, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Any body; what is said here is never to be kept by a cache."""
    return web.Response(
        body=body,
        status=status,
        headers={**_COMMON, "Content-Type": content_type, **(headers or {})},
    )


def status_reply(
    request: web.BaseRequest,
    *,
    code: int,
    reason: str,
    message: str,
    details: Mapping[str, str] | None = None,
) -> web.Response:
    """A failure as a `metav1.Status`, indented where a person reads it."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = details
    body = go_json({**status, "code": code})
    if _for_people(request):
        body = msgspec.json.format(body, indent=2)
    else:
        body += b"\n"
    headers = _NOSNIFF if code == 403 else None
    return bytes_reply(body, content_type=_JSON, status=code, headers=headers)


def go_json(value: object) -> bytes:
    """JSON in Go's spelling, which escapes what could be taken for HTML."""
    return msgspec.json.encode(value).decode().translate(GO_JSON_ESCAPES).encode()


def sanitized(text: str) -> str:
    """A text in which nothing can be taken for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _for_people(request: web.BaseRequest) -> bool:
    wish = request.query.get("pretty", "")
    if wish:
        return wish in _TRUE
    return request.headers.get("User-Agent", "").startswith(_INTERACTIVE)
