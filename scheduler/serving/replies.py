"""Answers as Go's `net/http` and the Kubernetes server library write them, to the byte.

Source: Go `net/http/server.go` (`Error`, `NotFound`), apiserver `responsewriters/errors.go`,
`negotiation/negotiate.go` (`isPrettyPrint`), apimachinery `pkg/api/errors/errors.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from scheduler.api.field import GO_JSON_ESCAPES
from scheduler.config.encode import go_yaml
from scheduler.serving.negotiation import negotiated

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}
_COMMON: Final = {"Cache-Control": "no-cache, private", "Server": "kubesched"}
#: Clients whose output people read: they get indented JSON.
_INTERACTIVE: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


def text_reply(text: str, *, status: int = 200, nosniff: bool = True) -> web.Response:
    """Return plain text; `nosniff` keeps browsers from guessing a type."""
    headers = _NOSNIFF if nosniff else None
    return bytes_reply(text.encode(), content_type=_TEXT, status=status, headers=headers)


def error_reply(text: str, *, status: int) -> web.Response:
    """Return an error as a line of plain text."""
    return text_reply(f"{text}\n", status=status)


def not_found() -> web.Response:
    """Return Go's 404."""
    return error_reply("404 page not found", status=404)


def empty_reply() -> web.Response:
    """Return 200 without a body."""
    return web.Response(headers=_COMMON)


def json_reply(value: object) -> web.Response:
    """Return a value as JSON."""
    return bytes_reply(_go_json(value), content_type=_JSON, headers=_NOSNIFF)


def bytes_reply(
    body: bytes, *, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return any body, which caches must not keep."""
    return web.Response(
        body=body,
        status=status,
        headers={**_COMMON, "Content-Type": content_type, **(headers or {})},
    )


def status_reply(
    request: web.BaseRequest,
    *,
    code: int,
    message: str,
    reason: str = "",
    details: Mapping[str, str] | None = None,
) -> web.Response:
    """Return a failure as a `metav1.Status`, in JSON or YAML as the client accepts it."""
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    headers = _NOSNIFF if code == 403 else None
    content = {**status, "code": code}
    choice = negotiated(
        request.headers.get("Accept") or _JSON, (_JSON, _YAML), allows=lambda _, kind: kind is None
    )
    if choice is not None and choice.media_type == _YAML:
        body = go_yaml(content).encode()
        return bytes_reply(body, content_type=_YAML, status=code, headers=headers)
    return json_object_reply(
        request,
        content,
        content_type=_JSON,
        status=code,
        headers=headers,
        is_pretty=choice is None or choice.is_pretty,
    )


def json_object_reply(
    request: web.BaseRequest,
    content: Mapping[str, object],
    *,
    content_type: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    is_pretty: bool = False,
) -> web.Response:
    """Return an object of the Kubernetes API as JSON, indented for people or if `is_pretty`."""
    body = _go_json(content)
    if is_pretty or _for_people(request):
        body = msgspec.json.format(body, indent=2)
    else:
        body += b"\n"
    return bytes_reply(body, content_type=content_type, status=status, headers=headers)


def _go_json(value: object) -> bytes:
    """Return JSON as Go writes it: characters of HTML are escaped."""
    return msgspec.json.encode(value).decode().translate(GO_JSON_ESCAPES).encode()


def sanitized(text: str) -> str:
    """Return a text with the characters of HTML escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _for_people(request: web.BaseRequest) -> bool:
    if pretty := request.query.get("pretty", ""):
        return pretty in _TRUE
    return request.headers.get("User-Agent", "").startswith(_INTERACTIVE)
