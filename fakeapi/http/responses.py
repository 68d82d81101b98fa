"""aiohttp responses made of answers.

A large body is written in pieces, each once the client has read most of the piece before, so that
the transport never buffers the whole body. Clients with equal large answers share one in memory.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from fakeapi.http.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Size of the pieces of a large body; smaller bodies are written whole.
PIECE_BYTES: Final = 64 * 1024
#: Bytes at the start of a body, part of its cache key: in lists they hold the resource version.
_HEAD_BYTES: Final = 256
#: Characters of all warnings of an answer, and of each if they are more; upstream's numbers.
_WARNINGS_LENGTH_MAX: Final = 4096
_WARNING_LENGTH_MAX: Final = 256
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def response_to(answer: Answer, warnings: Iterable[str] = ()) -> web.Response:
    """Return the response that carries an answer."""
    headers = _headers(answer, warnings)
    return web.Response(status=answer.code, body=answer.body, headers=headers)


class AnswersInFlight:
    """Large answers that are being written; equal answers are one object."""

    def __init__(self) -> None:
        self._answers: weakref.WeakValueDictionary[tuple[int, bytes], Answer] = (
            weakref.WeakValueDictionary()
        )

    def shared(self, answer: Answer) -> Answer:
        """Return an equal answer that is being written, or this one."""
        body = answer.body
        if len(body) <= PIECE_BYTES:
            return answer
        key = (len(body), body[:_HEAD_BYTES])
        found = self._answers.get(key)
        if found is not None and found == answer:
            return found
        self._answers[key] = answer
        return answer


class LargeResponse(web.Response):
    """A response that writes its body in pieces."""

    def __init__(self, answer: Answer, warnings: Iterable[str] = ()) -> None:
        super().__init__(status=answer.code, body=answer.body, headers=_headers(answer, warnings))
        self._answer: Answer | None = answer  # keeps the answer in `AnswersInFlight`

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the body; each piece waits until the transport's buffer has room."""
        assert isinstance(self.body, bytes)
        body = memoryview(self.body)
        for start in range(0, len(body), PIECE_BYTES):
            await self.write(body[start : start + PIECE_BYTES])
        await web.StreamResponse.write_eof(self, data)
        # The connection keeps its last response until the next request.
        self.body = self._answer = None


def stream_response(warnings: Iterable[str]) -> web.StreamResponse:
    """Return the response of a watch, which has yet to be prepared."""
    response = web.StreamResponse(headers=_headers(Answer(200, b""), warnings))
    response.enable_chunked_encoding()
    return response


def _headers(answer: Answer, warnings: Iterable[str]) -> CIMultiDict[str]:
    headers = CIMultiDict({hdrs.CONTENT_TYPE: answer.content_type})
    for warning in _shortened(warnings):
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", _one_line(f'299 - "{quoted}"'))
    for name, value in answer.headers.items():
        headers.add(name, _one_line(value))
    return headers


def _shortened(warnings: Iterable[str]) -> list[str]:
    """Return the warnings without repeats, cut and dropped if they are too long.

    Source: pkg/endpoints/filters/warning.go of k8s.io/apiserver v0.36.3.
    """
    distinct = list(dict.fromkeys(filter(None, warnings)))
    if sum(map(len, distinct)) <= _WARNINGS_LENGTH_MAX:
        return distinct
    shown: list[str] = []
    length = 0
    for warning in distinct:
        if length >= _WARNINGS_LENGTH_MAX:
            break
        shown.append(warning[:_WARNING_LENGTH_MAX])
        length += len(shown[-1])
    return shown


def _one_line(value: str) -> str:
    """Replace what a header's value cannot hold: it must not begin another header."""
    return _FORBIDDEN.sub(" ", value)
