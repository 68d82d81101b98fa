"""Answers: status code, body and headers, independent of the HTTP library."""

from __future__ import annotations

import functools
import gzip
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from fakeapi.types.errors import ApiError, BadTarget
from fakeapi.types.media_types import JSON, YAML
from fakeapi.types.objects import Json, encode, metadata_of, name_of
from fakeapi.types.records import Record

if TYPE_CHECKING:
    from fakeapi.http.negotiation import Accepted
    from fakeapi.http.presentation import Presentation
    from fakeapi.types.kind import Kind

PLAIN_TEXT: Final = "text/plain; charset=utf-8"
#: Smaller bodies are sent as they are, whatever the client asks for; upstream's numbers.
_GZIP_FROM_BYTES: Final = 128 * 1024
_GZIP_LEVEL: Final = 1
_INDENTATION: Final = 2
#: The emitter in Python needs half a second for a text of a MiB.
_YamlDumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Answer(Record, frozen=True, weakref=True):
    """Status code, body and headers of a response."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def of(code: int, value: object) -> Answer:
    """Return the answer with a JSON value."""
    return Answer(code, encode(value))


def of_error(error: ApiError) -> Answer:
    """Return the Status of an error, with Retry-After if the client may retry."""
    if isinstance(error, BadTarget):
        return Answer(error.code, error.message.encode(), PLAIN_TEXT)
    headers = {}
    if error.retry_after_seconds:
        headers["Retry-After"] = str(error.retry_after_seconds)
    return Answer(error.code, encode(error.status()), headers=headers)


def not_a_page() -> Answer:
    """Return the answer to an unknown path: plain text, as upstream's."""
    return Answer(404, b"404 page not found\n", PLAIN_TEXT)


@functools.cache
def success(code: int) -> Answer:
    """Return a Status of success without details."""
    return of(code, {**_SUCCESS, "code": code})


_SUCCESS: Final[Json] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def deleted_status(kind: Kind, obj: Json) -> Answer:
    """Return the Status of a delete, for kinds that do not return the deleted object."""
    details: Json = {"name": name_of(obj)}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    details["uid"] = metadata_of(obj).get("uid")
    return of(200, {**_SUCCESS, "details": details})


def presented(answer: Answer, shown: Presentation) -> Answer:
    """Return the answer of a verb in the negotiated form. Raises NotAcceptable."""
    accepted = shown.accepted
    if accepted.is_plain or answer.content_type != JSON:
        return answer
    return written(msgspec.structs.replace(answer, body=shown.body(answer.body)), accepted)


def written(answer: Answer, accepted: Accepted) -> Answer:
    """Return an answer in JSON as YAML or indented, if that was negotiated."""
    if answer.content_type != JSON:
        return answer
    if accepted.media_type == YAML:
        value = msgspec.json.decode(answer.body)
        text: str = yaml.dump(value, Dumper=_YamlDumper, allow_unicode=True)
        return msgspec.structs.replace(answer, body=text.encode(), content_type=YAML)
    if accepted.pretty:
        indented = msgspec.json.format(answer.body, indent=_INDENTATION)
        return msgspec.structs.replace(answer, body=indented)
    return answer


def is_compressed_for(answer: Answer, accept_encoding: str) -> bool:
    """Return True if upstream compresses such an answer for this Accept-Encoding."""
    if len(answer.body) <= _GZIP_FROM_BYTES or "Content-Encoding" in answer.headers:
        return False
    return any(token.strip() == "gzip" for token in accept_encoding.split(","))


def compressed(answer: Answer) -> Answer:
    """Return the answer with a gzip body. This is slow, and may run in another thread."""
    headers = {**answer.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    body = gzip.compress(answer.body, _GZIP_LEVEL, mtime=0)
    return msgspec.structs.replace(answer, body=body, headers=headers)
