"""aiohttp responses made of answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from fakeapi.http.answers import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.http.answers import Answer


_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def response_to(answer: Answer, warnings: Iterable[str] = ()) -> web.Response:
    """Return the response that carries an answer."""
    headers = _headers(answer.content_type, warnings)
    headers.extend({name: _one_line(value) for name, value in answer.headers.items()})
    return web.Response(status=answer.code, body=answer.body, headers=headers)


def stream_response(warnings: Iterable[str]) -> web.StreamResponse:
    """Return the response of a watch, which has yet to be prepared."""
    response = web.StreamResponse(headers=_headers(JSON, warnings))
    response.enable_chunked_encoding()
    return response


def _headers(content_type: str, warnings: Iterable[str]) -> CIMultiDict[str]:
    headers = CIMultiDict({hdrs.CONTENT_TYPE: content_type})
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", _one_line(f'299 - "{quoted}"'))
    return headers


def _one_line(value: str) -> str:
    """Replace what a header's value cannot hold: it must not begin another header."""
    return _FORBIDDEN.sub(" ", value)
