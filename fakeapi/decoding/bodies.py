"""Request bodies: media types, JSON, YAML and protobuf, and the checks on kind and apiVersion.

Errors are ApiError with the texts of apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.decoding.parsing import check_width, load_json, load_yaml
from fakeapi.types import gotext, protobuf
from fakeapi.types.client_text import cached
from fakeapi.types.errors import BadRequest, Invalid, UnsupportedMediaType, invalid, unhandled
from fakeapi.types.limits import DEFAULT, Limits
from fakeapi.types.media_types import JSON, PROTOBUF, YAML
from fakeapi.types.objects import Json, name_of, text
from fakeapi.types.records import MutableRecord
from fakeapi.types.schema import DecodeError, decode, json_type, unknown_fields

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind, KindTable

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
_SERVED: Final = f"{JSON}, {YAML}, {PROTOBUF}"
_SERVED_CUSTOM: Final = f"{JSON}, {YAML}"
#: The part of a body that an error shows.
_SHOWN_BYTES: Final = 30
_SCHEME: Final = "pkg/api/legacyscheme/scheme.go:30"
_META_SCHEME: Final = "pkg/apis/meta/internalversion/scheme/register.go:27"
_DELETE_OPTIONS: Final = "DeleteOptions"
_TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


class Body(MutableRecord):
    """The body of a request, its media type, and the limits of the server."""

    raw: bytes = b""
    content_type: str = JSON
    limits: Limits = DEFAULT
    #: False once a YAML text is read that has no key twice.
    may_repeat_keys: bool = True

    def json(self) -> object:
        """Return the value of a JSON text. Raises ValueError."""
        return load_json(self.raw, self.limits)

    def yaml(self) -> object:
        """Return the value of a YAML text. Raises ValueError with one line."""
        value, self.may_repeat_keys = load_yaml(self.raw, self.limits)
        return value


@cached(512)
def media_type(header: str) -> str:
    """Return the media type of a Content-Type header without parameters; the default is JSON."""
    return header.partition(";")[0].strip().lower() or JSON


def parse(body: Body, expected: str, *, served: str = _SERVED) -> object:
    """Return the JSON value of a body; `expected` is the kind, for errors. Raises ApiError."""
    if body.content_type == JSON:
        try:
            return body.json()
        except ValueError as error:
            raise _not_json(body.raw, expected, str(error)) from error
    if body.content_type == YAML:
        try:
            return body.yaml()
        except ValueError as error:
            raise _unrecognized(body.raw, expected, str(error)) from error
    raise unsupported(served)


def unsupported(served: str) -> UnsupportedMediaType:
    """Return the error for a body whose media type is not served."""
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {served}"
    )


def _not_json(raw: bytes, expected: str, problem: str) -> BadRequest:
    return _unrecognized(raw, expected, f"couldn't get version/kind; json parse error: {problem}")


def _unrecognized(raw: bytes, expected: str, problem: str) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {expected}): {problem} "
        f"({_summary(raw)})"
    )


def _summary(raw: bytes) -> str:
    """Return the beginning of a body: JSON as it is, any other in hexadecimal."""
    shown = raw[:_SHOWN_BYTES]
    text = shown.decode(errors="replace") if raw[:1] == b"{" else shown.hex()
    if len(raw) > _SHOWN_BYTES:
        text += " ..."
    return text or "<empty>"


def parse_object(body: Body, kind: Kind, kinds: KindTable) -> Json:
    """Return the object of the body of a create or update. Raises ApiError."""
    if body.content_type == PROTOBUF and kind.schema:
        envelope = _opened(body.raw, kind.kind)
        check_kind(
            {"kind": envelope.kind, "apiVersion": envelope.api_version},
            kind.kind,
            kind.api_version,
            kinds,
        )
        return _message(envelope, kind.kind, kind.version, kind.schema, body.limits)
    value = parse(body, kind.kind, served=_SERVED if kind.schema else _SERVED_CUSTOM)
    said = _said_kind(body.raw, value, kind.kind)
    if kind.structure is None:
        check_kind(said, kind.kind, kind.api_version, kinds)
    else:
        _check_custom_kind(body.raw, said, kind)
    return said


def _said_kind(raw: bytes, value: object, expected: str) -> Json:
    """Return the object if its kind and apiVersion are strings. Raises BadRequest.

    To Go null, such as an empty YAML text, is an empty object.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        given = f"{json_type(value)} into Go value of type {_TYPE_META}"
        raise _not_json(raw, expected, f"json: cannot unmarshal {given}")
    for name in ("kind", "apiVersion"):
        given_value = value.get(name)
        if given_value is not None and not isinstance(given_value, str):
            why = f"json: cannot unmarshal {json_type(given_value)} into Go struct field .{name}"
            raise _not_json(raw, expected, f"{why} of type string")
    return value


def _check_custom_kind(raw: bytes, value: Json, kind: Kind) -> None:
    """Check kind and apiVersion of a custom object, which are required. Raises ApiError."""
    if not value.get("kind"):
        raise _unrecognized(raw, kind.kind, missing_kind(raw.decode(errors="replace")))
    check_custom_kind(value, kind)


def missing_kind(shown: str) -> str:
    """Return the error text for an object without a kind."""
    return f"Object 'Kind' is missing in '{shown}'"


def check_custom_kind(value: Json, kind: Kind) -> None:
    """Check kind and apiVersion of a custom object. Raises BadRequest or Invalid."""
    version, given = text(value.get("apiVersion")), text(value.get("kind"))
    if version != kind.api_version:
        expected = f"the expected API version ({kind.api_version})"
        raise BadRequest(f"the API version in the data ({version}) does not match {expected}")
    if given != kind.kind:
        error = invalid("kind", given, f"must be {kind.kind}")
        raise Invalid(given, kind.group, name_of(value), [error])


def _opened(raw: bytes, expected: str) -> protobuf.Envelope:
    try:
        return protobuf.open_envelope(raw)
    except protobuf.WireError as error:
        raise _unrecognized(raw, expected, str(error)) from error


def _message(
    envelope: protobuf.Envelope, kind: str, version: str, type_name: str, limits: Limits
) -> Json:
    """Return the object of an envelope of the right kind. Raises ApiError."""
    try:
        value = protobuf.decode_message(type_name, envelope.message, values_max=limits.max_values)
        check_width(value, limits)
    except (protobuf.WireError, ValueError) as error:
        raise unhandled(kind, version, error) from error
    return value


def apply_configuration(body: Body) -> Json:
    """Return the object of the body of a server-side apply, in YAML. Raises BadRequest."""
    try:
        value = body.yaml()
    except ValueError as error:
        raise BadRequest(f"error decoding YAML: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        why = "while decoding JSON: json: cannot unmarshal into Go value of type "
        raise BadRequest(
            f"error decoding YAML: error unmarshaling JSON: {why}map[string]interface {{}}"
        )
    return value


def check_kind(value: Json, kind: str, api_version: str, kinds: KindTable) -> None:
    """Check kind and apiVersion of a body, both of which may be missing. Raises BadRequest."""
    given_kind = text(value.get("kind")) or kind
    given_version = text(value.get("apiVersion")) or api_version
    if (given_kind, given_version) == (kind, api_version):
        return
    short = given_version.rpartition("/")[2]
    if kinds.find_kind(given_version, given_kind) is None:
        why = (
            f'no kind "{given_kind}" is registered for version "{given_version}" '
            f'in scheme "{_SCHEME}"'
        )
    else:
        package = gotext.internal_package(api_version.rpartition("/")[0])
        why = f"converting ({short}.{given_kind}) to ({package}.{kind}): unknown conversion"
    raise unhandled(given_kind, short, why, expected=kind)


def unknown_in(kind: Kind, value: Json) -> list[str]:
    """Return a finding for each field that the kind does not have."""
    if kind.structure is not None:
        return [f'unknown field "{name}"' for name in kind.structure.unknown_fields(value)]
    schema_name = kind.schema or "meta/v1.ObjectMeta"
    body: object = value if kind.schema else value.get("metadata")
    names = unknown_fields(schema_name, body, "" if kind.schema else "metadata")
    return [f'unknown field "{name}"' for name in names]


def decode_side_object(
    body: Body,
    kind: str,
    type_name: str,
    *,
    unknown: list[str] | None = None,
    versions: tuple[str, ...] = (),
    kinds: KindTable | None = None,
) -> Json:
    """Return a body that is not stored: a Binding, an Eviction, DeleteOptions. Raises ApiError.

    Findings about unknown fields are appended to `unknown`. With `kinds`, kind and apiVersion must
    be `kind` and one of `versions`; the first of `versions` is the default.
    """
    value: object
    if body.content_type == PROTOBUF:
        envelope = _opened(body.raw, kind)
        value = _message(envelope, kind, "v1", type_name, body.limits)
        said: Json = {"kind": envelope.kind, "apiVersion": envelope.api_version}
    else:
        value = said = _said_kind(body.raw, parse(body, kind), kind)
    if kinds is not None and said.get("apiVersion") not in versions[1:]:
        check_kind(said, kind, versions[0], kinds)
    is_options = kind == _DELETE_OPTIONS
    given = text(value.get("kind")) or kind
    if is_options and given != kind:
        version = text(value.get("apiVersion")) or "v1"
        why = f'no kind "{given}" is registered for version "{version}"'
        raise BadRequest(f'{why} in scheme "{_META_SCHEME}"')
    dropped: list[str] = []
    try:
        obj = decode(type_name, value, dropped)
    except DecodeError as error:
        refused = BadRequest(str(error)) if is_options else unhandled(kind, "v1", error)
        raise refused from error
    if dropped and unknown is not None:
        unknown += [f'unknown field "{name}"' for name in unknown_fields(type_name, value)]
    return obj
