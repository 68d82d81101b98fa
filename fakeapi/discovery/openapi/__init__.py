"""OpenAPI: what the server serves, described so that kubectl explains, checks and patches by it.

    /openapi/v3                       where the documents of v3 are, each with the hash of its state
    /openapi/v3/api/v1                the core group; /openapi/v3/apis/GROUP/VERSION all others
    /openapi/v2                       everything in one, as JSON or protobuf

Documents are made when they are first asked for and forgotten when a kind comes or goes.
Source: kube-openapi pkg/handler and pkg/handler3.
"""

from __future__ import annotations

import email.utils
from typing import TYPE_CHECKING, Final

from fakeapi.discovery import documents
from fakeapi.discovery.openapi import document_v2, documents_v3, gnostic
from fakeapi.http.answers import JSON, Answer, encode
from fakeapi.types.errors import NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.discovery.documents import Asked
    from fakeapi.types.kind import KindTable

_V2: Final = "/openapi/v2"
_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: The form with an @ is no legal media type, yet the one that is asked for.
_AS_PROTOBUF: Final = (_V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_AS_JSON: Final = (JSON, "application/*", "*/*")
_YEAR_SECONDS: Final = 365 * 24 * 3600


def answer(path: str, kinds: KindTable, asked: Asked) -> Answer | None:
    """The answer to a path of OpenAPI, None if it is none. Raises NotAcceptable."""
    if path == _V2:
        return _answer_v2(kinds, asked)
    if path == documents_v3.PREFIX:
        body = encode(documents_v3.index(kinds))
        return documents.document(body, JSON, documents.tag_of(body), asked)
    if path.startswith(f"{documents_v3.PREFIX}/"):
        return _answer_v3(path.removeprefix(f"{documents_v3.PREFIX}/"), kinds, asked)
    return None


def _answer_v3(section: str, kinds: KindTable, asked: Asked) -> Answer | None:
    for group, version in kinds.versions():
        if documents_v3.section(group, version) == section:
            break
    else:
        return None
    _check_acceptable(asked, _AS_JSON)
    tag = documents_v3.tag(kinds, group, version)
    headers: dict[str, str] = {}
    given = asked.query.text("hash")
    if given and given != tag:
        location = {"Location": documents_v3.relative_url(group, version, tag)}
        return Answer(301, b"", JSON, location)
    if given:
        expires = email.utils.formatdate(asked.now_seconds + _YEAR_SECONDS, usegmt=True)
        headers = {"Cache-Control": "public, immutable", "Expires": expires}
    key = f"OpenAPI v3 {section}"
    body = _made(kinds, key, lambda: encode(documents_v3.document(kinds, group, version)))
    return documents.document(body, JSON, tag, asked, headers)


def _answer_v2(kinds: KindTable, asked: Asked) -> Answer:
    accepted = _check_acceptable(asked, (*_AS_PROTOBUF, *_AS_JSON))
    tags = [documents_v3.tag(kinds, group, version) for group, version in kinds.versions()]
    tag = documents.tag_of(encode(tags))
    if accepted in _AS_JSON:
        body = _made(kinds, "OpenAPI v2 JSON", lambda: encode(document_v2.document(kinds)))
        return documents.document(body, JSON, tag, asked)
    body = _made(
        kinds, "OpenAPI v2 protobuf", lambda: gnostic.document(document_v2.document(kinds))
    )
    return documents.document(body, _V2_PROTOBUF, tag, asked)


def _check_acceptable(asked: Asked, offered: tuple[str, ...]) -> str:
    """The first media range of the client that can be served. Raises NotAcceptable."""
    for media_range, _ in asked.media_ranges():
        if media_range in offered:
            return media_range
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {offered[0]}")


def _made(kinds: KindTable, key: str, make: Callable[[], bytes]) -> bytes:
    """What was made before under that key, or is made now."""
    found = kinds.derived.get(key)
    if not isinstance(found, bytes):
        found = kinds.derived[key] = make()
    return found
