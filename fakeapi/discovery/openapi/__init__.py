"""OpenAPI documents, by which kubectl explains, validates and patches.

    /openapi/v3                       index: the documents of v3, each with a hash of its content
    /openapi/v3/api/v1                the core group; /openapi/v3/apis/GROUP/VERSION all others
    /openapi/v2                       all versions in one document, as JSON or protobuf

Documents are made on their first request and cached until a kind is added or removed. The first
such request imports the package. Source: kube-openapi pkg/handler and pkg/handler3.
"""

from __future__ import annotations

import email.utils
from typing import TYPE_CHECKING, Final

from fakeapi.discovery import documents
from fakeapi.discovery.openapi import document_v2, documents_v3
from fakeapi.http.answers import Answer
from fakeapi.http.negotiation import clauses
from fakeapi.types.errors import NotAcceptable
from fakeapi.types.media_types import JSON
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from fakeapi.discovery.documents import DocumentRequest
    from fakeapi.types.kind import KindTable

_V2: Final = "/openapi/v2"
_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: The form with an @ is not a valid media type, but clients send it.
_AS_PROTOBUF: Final = (_V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_AS_JSON: Final = (JSON, "application/*", "*/*")
_YEAR_SECONDS: Final = 365 * 24 * 3600


def answer(path: str, kinds: KindTable, request: DocumentRequest) -> Answer | None:
    """Return the answer to a path of OpenAPI, None for other paths. Raises NotAcceptable."""
    if path == _V2:
        return _answer_v2(kinds, request)
    if path == documents_v3.PREFIX:
        body = encode(documents_v3.index(kinds))
        return documents.document(body, JSON, documents.tag_of(body), request)
    if path.startswith(f"{documents_v3.PREFIX}/"):
        return _answer_v3(path.removeprefix(f"{documents_v3.PREFIX}/"), kinds, request)
    return None


def _answer_v3(section: str, kinds: KindTable, request: DocumentRequest) -> Answer | None:
    for group, version in kinds.versions():
        if documents_v3.section(group, version) == section:
            break
    else:
        return None
    _check_acceptable(request, _AS_JSON)
    tag = documents_v3.tag(kinds, group, version)
    headers: dict[str, str] = {}
    wanted = request.query.text("hash")
    if wanted and wanted != tag:
        location = {"Location": documents_v3.relative_url(group, version, tag)}
        return Answer(301, b"", JSON, location)
    if wanted:
        expires = email.utils.formatdate(request.now_seconds + _YEAR_SECONDS, usegmt=True)
        headers = {"Cache-Control": "public, immutable", "Expires": expires}
    key = f"OpenAPI v3 {section}"
    body = kinds.derived(key, lambda: encode(documents_v3.document(kinds, group, version)))
    return documents.document(body, JSON, tag, request, headers)


def _answer_v2(kinds: KindTable, request: DocumentRequest) -> Answer:
    accepted = _check_acceptable(request, (*_AS_PROTOBUF, *_AS_JSON))
    tags = [documents_v3.tag(kinds, group, version) for group, version in kinds.versions()]
    tag = documents.tag_of(encode(tags))
    if accepted in _AS_JSON:
        body = kinds.derived("OpenAPI v2 JSON", lambda: encode(document_v2.document(kinds)))
        return documents.document(body, JSON, tag, request)
    from fakeapi.discovery.openapi import gnostic  # imports google.protobuf

    body = kinds.derived(
        "OpenAPI v2 protobuf", lambda: gnostic.document(document_v2.document(kinds))
    )
    return documents.document(body, _V2_PROTOBUF, tag, request)


def _check_acceptable(request: DocumentRequest, offered: tuple[str, ...]) -> str:
    """Return the client's first media range that is offered. Raises NotAcceptable."""
    for clause in clauses(request.accept or "*/*"):
        if clause.media_range in offered:
            return clause.media_range
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {offered[0]}")
