"""Label and field selectors: their text forms, the JSON form of label selectors, and matching.

Sources: k8s.io/apimachinery pkg/labels/selector.go, pkg/fields/selector.go and
pkg/apis/meta/v1/helpers.go of v0.36.3. Errors are `SelectorError` with upstream's text.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.client_text import parse_int
from fakeapi.types.kind import DEFAULT_FIELDS
from fakeapi.types.objects import mapping, mappings, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_BINARY_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_SET_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_TOKEN = re.compile(r"[(),]|==|!=|[=<>!]|[^\s()!,=<>]+", re.ASCII)
_SPECIAL: Final = frozenset("=!(),<>")
_FIELD_OPERATOR = re.compile(r"!=|==?").search
_ESCAPED_OR_COMMA = re.compile(r"\\.|,", re.DOTALL).finditer
#: What a value may not contain as it is.
_ESCAPED: Final = ("\\", ",", "=")
_ESCAPES = re.compile(r"\\(.?)|[,=]", re.DOTALL).sub
#: Operators that hold for an object without the label.
_NEGATIVE: Final = ("notin", "!")
#: Of several numbers, the one that implies the others.
_STRICTEST: Final = {"gt": max, "lt": min}


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
        number, limit = _integer(value), _integer(next(iter(self.values), ""))
        if number is None or limit is None:
            return False
        return number > limit if self.operator == "gt" else number < limit


def _integer(value: object) -> int | None:
    """Return the number of a label's value, None if it is none of 64 bits."""
    try:
        return parse_int(value, bits=64) if isinstance(value, str) else None
    except ValueError:
        return None


class LabelSelector:
    """All conditions must hold; without conditions everything matches.

    A client may send 100,000 conditions, so there is one for each key and operator, and those that
    hold for objects without a label are looked up by the labels of the object.
    """

    __slots__ = ("_excluded", "_required", "matches_nothing")

    def __init__(
        self, requirements: Iterable[Requirement] = (), *, matches_nothing: bool = False
    ) -> None:
        self.matches_nothing = matches_nothing
        self._required: list[Requirement] = []
        self._excluded: dict[str, list[Requirement]] = {}
        for requirement in _merged(requirements):
            if requirement.operator in _NEGATIVE:
                self._excluded.setdefault(requirement.key, []).append(requirement)
            else:
                self._required.append(requirement)

    def matches(self, labels: Mapping[str, object]) -> bool:
        if self.matches_nothing:
            return False
        for requirement in self._required:
            if not requirement.matches(labels):
                return False
        if not self._excluded:
            return True
        return all(
            requirement.matches(labels)
            for key in self._excluded.keys() & labels.keys()
            for requirement in self._excluded[key]
        )

    @property
    def is_everything(self) -> bool:
        return not self._required and not self._excluded and not self.matches_nothing


def _merged(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    """Yield one requirement for each key and operator."""
    groups: dict[tuple[str, str], list[frozenset[str]]] = {}
    for one in requirements:
        groups.setdefault((one.key, one.operator), []).append(one.values)
    for (key, operator), values in groups.items():
        if operator == "in":
            wanted = frozenset.intersection(*values)
        else:
            wanted = frozenset.union(*values)
            if operator in _STRICTEST:
                wanted = frozenset([_STRICTEST[operator](wanted, key=_order)])
        yield Requirement(key, operator, wanted)


def _order(value: str) -> int:
    return _integer(value) or 0


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
    return LabelSelector(requirements)


def parse_label_selector(source: str) -> LabelSelector:
    """Parse a `labelSelector` parameter. Raises SelectorError."""
    return LabelSelector(_LabelParser(source).parse()) if source else EVERYTHING


def _requirement(key: str, operator: str, values: list[str]) -> Requirement:
    complaints = names.qualified_name(key)
    if complaints:
        raise SelectorError(f'key: Invalid value: "{key}": {"; ".join(complaints)}')
    if operator in ("gt", "lt") and _integer(values[0] if values else "") is None:
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
        self._tokens = _TOKEN.findall(source)
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


def _is_identifier(token: str | None) -> bool:
    return token is not None and token[0] not in _SPECIAL


@dataclasses.dataclass(frozen=True, slots=True)
class FieldTerm:
    """The conditions on one field: a value that it must have, or values that it must not have."""

    read: Callable[[Json], str]
    values: frozenset[str]
    negated: bool

    def matches(self, obj: Json) -> bool:
        value = self.read(obj)
        if self.negated:
            return value not in self.values
        return value in self.values and len(self.values) == 1


def parse_field_selector(source: str, kind: Kind) -> tuple[FieldTerm, ...]:
    """Parse a `fieldSelector`; all its terms must hold. Raises SelectorError."""
    values: dict[tuple[str, bool], set[str]] = {}
    for label, sign, value in _field_terms(source):
        values.setdefault((label, sign == "!="), set()).add(value)
    return tuple(
        FieldTerm(_reader(kind, label), frozenset(some), negated)
        for (label, negated), some in values.items()
    )


def is_field_selector(source: str) -> bool:
    """True if the text is a `fieldSelector`; its fields are not checked."""
    try:
        _field_terms(source)
    except SelectorError:
        return False
    return True


def exact_match(source: str, label: str) -> str:
    """Return the value that a `fieldSelector` demands of a field; empty if none, or if invalid."""
    try:
        terms = _field_terms(source)
    except SelectorError:
        return ""
    return next((value for field, sign, value in terms if field == label and sign != "!="), "")


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


def _field_terms(source: str) -> list[tuple[str, str, str]]:
    """Return field, operator and value of each term, in order. Raises SelectorError."""
    terms = []
    for part in sorted(filter(None, _split_terms(source))):
        found = _FIELD_OPERATOR(part)
        if found is None:
            raise SelectorError(f"invalid selector: '{source}'; can't understand '{part}'")
        terms.append((part[: found.start()], found[0], _ESCAPES(_unescape, part[found.end() :])))
    return terms


def _split_terms(source: str) -> list[str]:
    """Return what stands between commas without a backslash."""
    terms, begin = [], 0
    for found in _ESCAPED_OR_COMMA(source):
        if found[0] == ",":
            terms.append(source[begin : found.start()])
            begin = found.end()
    return [*terms, source[begin:]]


def _unescape(found: re.Match[str]) -> str:
    """Return the character that a backslash stands before. Raises SelectorError for any other."""
    if found[1] in _ESCAPED:
        return found[1]
    if found[0] in ",=":
        why = f"unescaped character in value: {ord(found[0])}"
    else:
        why = f"invalid escape sequence: {found[0]}"
    raise SelectorError(f"invalid field selector: {why}")
