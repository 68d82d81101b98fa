"""Documents that describe the server: discovery and OpenAPI, cached by their entity tag."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Final

from fakeapi.http.answers import Answer

if TYPE_CHECKING:
    from fakeapi.decoding.options import Query

_TAG_DIGITS: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class DocumentRequest:
    """The parts of a request that a document depends on.

    `address` is where the server listens, `now_seconds` the time since 1970.
    """

    query: Query
    accept: str = ""
    if_none_match: str = ""
    address: str = ""
    now_seconds: float = 0.0


def tag_of(content: bytes) -> str:
    """Return the entity tag of a body, without quotes."""
    return hashlib.sha512(content).hexdigest().upper()[:_TAG_DIGITS]


def document(
    body: bytes,
    media_type: str,
    tag: str,
    request: DocumentRequest,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Return the document, or 304 if the client has it already."""
    quoted = f'"{tag}"'
    all_headers = {"ETag": quoted, "Vary": "Accept", **(headers or {})}
    tags = [part.strip().removeprefix("W/") for part in request.if_none_match.split(",")]
    if quoted in tags:
        return Answer(304, b"", media_type, all_headers)
    return Answer(200, body, media_type, all_headers)
