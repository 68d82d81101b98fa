"""Requests in the plain form that nearly all have; whatever else HTTP allows is left to aiohttp.

Clients send the same lines again and again, so each request line and each block of header lines is
understood once. The form is narrower than what aiohttp's parser takes, and means the same to both:

    METHOD /target HTTP/1.1                     one of six methods, characters of a URL
    Name: value                                 printable ASCII; no name twice, a Host
                                                no body but one of a known length, no other protocol

net/http takes targets in UTF-8 as they come, which neither does: `in_ascii` escapes them first.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

__all__ = ["HEAD_BYTES_MAX", "Fields", "Plain", "in_ascii", "read"]

#: Below aiohttp's limits of a line, so that those never matter to a plain request.
HEAD_BYTES_MAX: Final = 8000
_FIELDS_MAX: Final = 64
_LENGTH_DIGITS_MAX: Final = 9
_LINE: Final = re.compile(
    rb"(GET|HEAD|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/._~!$&'()*+,;=:@%?-]*) HTTP/1\.1\r\n"
)
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_FIELD: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*): *([!-~](?:[ -~]*[!-~])?)?")
#: Headers that change how a request is read or what becomes of its connection.
_SPECIAL: Final = frozenset(
    {"Connection", "Expect", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
)
_METHODS: Final = {
    name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
}


class Fields(NamedTuple):
    """Header lines: their values by name (`Content-Type`), and the length of the body."""

    values: dict[str, str]
    body_bytes: int


class Plain(NamedTuple):
    """A request, as far as it has come: the body may be incomplete."""

    method: str
    target: str
    fields: Fields
    body: bytes

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there."""
        return len(self.body) == self.fields.body_bytes


def read(data: bytes) -> Plain | None:
    """The request that the bytes begin with if they hold its head and nothing after its body."""
    end = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
    start = data.find(b"\r\n", 0, end) + 2
    line = _line(data[:start]) if start > 2 else None
    fields = _fields(data[start : end + 2]) if line is not None else None
    if line is None or fields is None:
        return None
    body = data[end + 4 :]
    return Plain(line[0], line[1], fields, body) if len(body) <= fields.body_bytes else None


def in_ascii(data: bytes) -> bytes:
    """The beginning of a request with its first line escaped where that is not ASCII."""
    line, end, rest = data.partition(b"\r\n")
    if not end or line.isascii():
        return data
    return _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest


@functools.lru_cache(maxsize=1024)
def _line(data: bytes) -> tuple[str, str] | None:
    """Method and target of a request line."""
    found = _LINE.fullmatch(data)
    return None if found is None else (_METHODS[found[1]], found[2].decode("ascii"))


@functools.lru_cache(maxsize=1024)
def _fields(block: bytes) -> Fields | None:
    """Header lines that say nothing unusual."""
    try:
        lines = block.decode("ascii").split("\r\n")[:-1]
    except UnicodeDecodeError:
        return None
    matches = [_FIELD.fullmatch(line) for line in lines]
    values = {match[1].title(): match[2] or "" for match in matches if match is not None}
    if len(values) != len(lines) or len(lines) > _FIELDS_MAX:  # not understood, or said twice
        return None
    if values.get("Connection", "").lower() == "keep-alive":  # as it is anyway
        del values["Connection"]
    length = values.get("Content-Length", "0")
    is_length = length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX
    if not is_length or "Host" not in values or not _SPECIAL.isdisjoint(values):
        return None
    return Fields(values, int(length))
