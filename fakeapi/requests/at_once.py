"""Requests that nothing need be waited for, from their bytes to the bytes of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs

from fakeapi.http import answers
from fakeapi.http.responses import CLOSE, header_pairs, in_one_piece
from fakeapi.requests.front import Inquiry, explained
from fakeapi.types.errors import RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.http.answers import Answer
    from fakeapi.http.heads import Plain
    from fakeapi.store.journal import Journal
    from fakeapi.store.registry import Registry

__all__ = ["AtOnce"]


class AtOnce:
    """Answers verbs on single objects while nothing stands between them and the registry.

    `is_open` tells whether that is so: no users to tell apart, no faults, no disk to wait for.
    """

    def __init__(
        self,
        registry: Registry,
        journal: Journal,
        body_bytes_max: int,
        is_open: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._journal = journal
        self._body_bytes_max = body_bytes_max
        self.is_open = is_open
        #: How many requests it has answered.
        self.answered = 0

    def answer(self, plain: Plain) -> bytes | None:
        """The whole response; None, and nothing is done, if it takes time or belongs elsewhere."""
        method, target, headers = plain.method, plain.target, plain.fields.values
        warnings: list[str] = []
        try:
            inquiry = Inquiry.of(self._registry, method, target, headers)
            route = inquiry.route
            if route is None or inquiry.waits or len(plain.body) > self._body_bytes_max:
                return None
            shown = inquiry.shown(route)
            request = inquiry.request(route, plain.body)
            warnings = request.warnings  # which come even if the request is refused
            answer = inquiry.perform(request, shown)
        except Exception as error:
            answer = explained(error, method, target, headers)
        if answers.is_compressed_for(answer, headers.get(hdrs.ACCEPT_ENCODING, "")):
            answer = answers.compressed(answer)
        self._note(plain, answer)
        pairs = header_pairs(answer, warnings)
        return in_one_piece(answer.code, answer.body, pairs, is_head=method == hdrs.METH_HEAD)

    def too_slow(self, plain: Plain) -> bytes:
        """The response to a request whose body does not come; the connection is closed after it."""
        answer = answers.of_error(RequestTimedOut())
        self._note(plain, answer)
        is_head = plain.method == hdrs.METH_HEAD
        return in_one_piece(answer.code, answer.body, header_pairs(answer), CLOSE, is_head=is_head)

    def _note(self, plain: Plain, answer: Answer) -> None:
        self.answered += 1
        method, target, headers = plain.method, plain.target, plain.fields.values
        self._journal.handled(method, target, headers, answer.code, plain.body)
