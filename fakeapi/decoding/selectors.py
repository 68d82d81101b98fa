"""Label and field selectors: their text forms, the JSON form of label selectors, and matching.

Sources: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go and
pkg/apis/meta/v1/helpers.go of v0.36.3. Errors are `SelectorError` with upstream's text.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.kind import DEFAULT_FIELDS
from fakeapi.types.objects import mapping, mappings, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_BINARY_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_SET_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII).fullmatch
_TOKEN = re.compile(r"\s*([(),]|[=<>!]+|[^\s()!,=<>]+)", re.ASCII)
_SPECIAL: Final = frozenset("=!(),<>")


class SelectorError(ValueError):
    """A selector is invalid; the message is upstream's."""


class UnknownLabelError(SelectorError):
    """A field selector has a field that the kind does not index."""


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `operator` is one of in, notin, exists, !, gt, lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, object]) -> bool:
        """True if the labels meet the condition; a missing key meets `notin` and `!`."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        if not isinstance(value, str) or not _INTEGER(value):
            return False
        limit = int(next(iter(self.values)))
        return int(value) > limit if self.operator == "gt" else int(value) < limit


@dataclasses.dataclass(frozen=True, slots=True)
class LabelSelector:
    """All conditions must hold; without conditions everything matches."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    def matches(self, labels: Mapping[str, object]) -> bool:
        if self.matches_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.matches_nothing


EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(matches_nothing=True)


def label_selector_of(selector: object) -> LabelSelector:
    """Read a metav1.LabelSelector: None selects nothing, {} everything. Raises SelectorError."""
    if not isinstance(selector, dict):
        return NOTHING
    requirements = [
        Requirement(key, "in", frozenset([text(value)]))
        for key, value in mapping(selector.get("matchLabels")).items()
    ]
    for expression in mappings(selector.get("matchExpressions")):
        operator = _SET_OPERATORS.get(text(expression.get("operator")))
        if operator is None:
            raise SelectorError(
                f'"{text(expression.get("operator"))}" is not a valid label selector operator'
            )
        requirements.append(
            _requirement(text(expression.get("key")), operator, texts(expression.get("values")))
        )
    return LabelSelector(tuple(requirements))


def parse_label_selector(source: str) -> LabelSelector:
    """Parse a `labelSelector` parameter. Raises SelectorError."""
    return LabelSelector(tuple(_LabelParser(source).parse())) if source else EVERYTHING


def _requirement(key: str, operator: str, values: list[str]) -> Requirement:
    complaints = names.qualified_name(key)
    if complaints:
        raise SelectorError(f'key: Invalid value: "{key}": {"; ".join(complaints)}')
    if operator in ("gt", "lt") and not _INTEGER(values[0] if values else ""):
        raise SelectorError(
            f'values[0]: Invalid value: "{values[0] if values else ""}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    for index, value in enumerate(sorted(values)):
        complaints = names.label_value(value)
        if complaints:
            raise SelectorError(
                f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(complaints)}'
            )
    return Requirement(key, operator, frozenset(values))


class _LabelParser:
    """Recursive descent over the tokens; None is the end of the text."""

    _OPERATORS: Final = {
        "in": "in",
        "notin": "notin",
        "=": "in",
        "==": "in",
        "!=": "notin",
        ">": "gt",
        "<": "lt",
    }

    def __init__(self, source: str) -> None:
        self._tokens = _tokens(source)
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            token = self._peek()
            if token is None:
                return requirements
            if not (_is_identifier(token) or token == "!"):
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._parse_requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            separator = self._next()
            if separator is None:
                return requirements
            if separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            follower = self._peek()
            if not (_is_identifier(follower) or follower == "!"):
                raise SelectorError(f"found '{follower or ''}', expected: identifier after ','")

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _next(self) -> str | None:
        token = self._peek()
        self._position += 1
        return token

    def _parse_requirement(self) -> Requirement:
        token = self._next()
        absent = token == "!"
        key = self._next() if absent else token
        if not _is_identifier(key):
            raise SelectorError(f"found '{key or ''}', expected: identifier")
        assert key is not None
        complaints = names.qualified_name(key)
        if complaints:
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(complaints)}')
        if absent or self._peek() in (None, ","):
            return Requirement(key, "!" if absent else "exists")
        sign = self._next()
        operator = self._OPERATORS.get(sign or "")
        if operator is None:
            raise SelectorError(f"found '{sign or ''}', expected: {_BINARY_OPERATORS}")
        values = self._parse_values() if sign in ("in", "notin") else [self._parse_value()]
        return _requirement(key, operator, values)

    def _parse_value(self) -> str:
        token = self._peek()
        if token is None or token == ",":
            return ""
        self._next()
        if not _is_identifier(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _parse_values(self) -> list[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token or ''}' expected: '('")
        values: list[str] = []
        expects_value = True
        while True:
            token = self._next()
            if token == ")":
                return [*values, ""] if expects_value else values
            if token == ",":
                if expects_value:
                    values.append("")
                expects_value = True
            elif _is_identifier(token) and expects_value:
                assert token is not None
                values.append(token)
                expects_value = False
            elif expects_value:
                raise SelectorError(f"found '{token or ''}', expected: ',', ')' or identifier")
            else:
                raise SelectorError(f"found '{token or ''}', expected: ',' or ')'")


def _tokens(source: str) -> list[str]:
    tokens = []
    position = 0
    source = source.rstrip()
    while position < len(source):
        found = _TOKEN.match(source, position)
        if found is None:
            break
        tokens += _split_signs(found[1])
        position = found.end()
    return tokens


def _split_signs(token: str) -> list[str]:
    """Split a run of signs greedily: '===' is '==' and '='."""
    if token[0] not in "=<>!" or len(token) == 1:
        return [token]
    head = token[:2] if token[:2] in ("==", "!=") else token[0]
    return [head, *(_split_signs(token[len(head) :]) if token[len(head) :] else [])]


def _is_identifier(token: str | None) -> bool:
    return token is not None and token[0] not in _SPECIAL


@dataclasses.dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on one field."""

    read: Callable[[Json], str]
    value: str
    negated: bool
    label: str

    def matches(self, obj: Json) -> bool:
        return (self.read(obj) == self.value) is not self.negated


def parse_field_selector(source: str, kind: Kind) -> tuple[FieldTerm, ...]:
    """Parse a `fieldSelector`; all its terms must hold. Raises SelectorError."""
    terms = []
    for part in sorted(_split_terms(source)):
        if not part:
            continue
        label, sign, raw = _split_term(source, part)
        terms.append((label, sign, _unescape(raw)))
    return tuple(
        FieldTerm(_reader(kind, label), value, sign == "!=", label) for label, sign, value in terms
    )


def is_field_selector(source: str) -> bool:
    """True if the text is a `fieldSelector`; its fields are not checked."""
    try:
        for part in filter(None, _split_terms(source)):
            _unescape(_split_term(source, part)[2])
    except SelectorError:
        return False
    return True


def _reader(kind: Kind, label: str) -> Callable[[Json], str]:
    fields = DEFAULT_FIELDS if kind.fields is None else kind.fields
    read = fields.get(label)
    if read is not None:
        return read
    if kind.fields is None:
        raise UnknownLabelError(
            f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    raise UnknownLabelError(f"field label not supported: {label}")


def _split_terms(source: str) -> list[str]:
    return re.findall(r"(?:^|(?<=,))((?:\\.|[^,\\]|\\$)*)", source) if source else []


def _split_term(source: str, part: str) -> tuple[str, str, str]:
    found = re.search(r"!=|==|=", part)
    if found is None:
        raise SelectorError(f"invalid selector: '{source}'; can't understand '{part}'")
    return part[: found.start()], found[0], part[found.end() :]


def _unescape(value: str) -> str:
    result = []
    escaped = False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise SelectorError(
                    f"invalid field selector: invalid escape sequence: \\{character}"
                )
            result.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            raise SelectorError(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            result.append(character)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(result)
