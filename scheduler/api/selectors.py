"""Label selectors: the scalar rule, written once.

All code that matches labels uses `Requirement`: code for one node or object calls `matches`,
vectorised code calls `accepts` once per distinct label value.
Source: apimachinery `pkg/labels/selector.go`, `pkg/apis/meta/v1/helpers.go`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from scheduler.api import field
from scheduler.api.field import FieldErrors
from scheduler.api.names import label_key_errors, label_value_errors
from scheduler.api.quantity import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from scheduler.api.core import LabelSelector
    from scheduler.api.field import FieldError

_INT64 = re.compile(r"[+-]?[0-9]+")

#: The check of the number of values, and its error text, by operator.
_VALUE_COUNT_RULES: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "In": (lambda n: n > 0, "for 'in', 'notin' operators, values set can't be empty"),
    "NotIn": (lambda n: n > 0, "for 'in', 'notin' operators, values set can't be empty"),
    "Exists": (lambda n: n == 0, "values set must be empty for exists and does not exist"),
    "DoesNotExist": (lambda n: n == 0, "values set must be empty for exists and does not exist"),
    "Gt": (lambda n: n == 1, "for 'Gt', 'Lt' operators, exactly one value is required"),
    "Lt": (lambda n: n == 1, "for 'Gt', 'Lt' operators, exactly one value is required"),
}


def parse_int64(text: str) -> int | None:
    """Parse a decimal integer of 64 bits; None if invalid. No blanks and `_`, unlike `int`."""
    if not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


class SelectorError(ValueError):
    """A label selector has an unknown operator."""


class Requirement:
    """One expression over a label: key, operator and values.

    `Requirement.parse` validates the parts as the API does; the constructor does not.
    """

    __slots__ = ("_number", "key", "operator", "values")

    def __init__(self, key: str, operator: str, values: tuple[str, ...] = ()) -> None:
        self.key = key
        self.operator = operator
        self.values = values
        self._number = parse_int64(values[0]) if operator in ("Gt", "Lt") and values else None

    @property
    def text(self) -> str:
        """A text for people: `disk=ssd`, `zone in (a, b)`, `gen > 3`, `no label gpu`."""
        key, values = self.key, ", ".join(self.values)
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{key}={values}"
            case "In" | "NotIn":
                return f"{key} {'in' if self.operator == 'In' else 'not in'} ({values})"
            case "Exists":
                return key
            case "DoesNotExist":
                return f"no label {key}"
        return f"{key} {'>' if self.operator == 'Gt' else '<'} {values}"

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def parse(key: str, operator: str, values: tuple[str, ...], *, path: str = "") -> Requirement:
        """Validate the parts, and return a requirement.

        Raises FieldErrors, which name the fields below `path`.
        """
        errors: list[FieldError] = []
        dot = f"{path}." if path else ""
        if texts := label_key_errors(key):
            errors.append(field.invalid(f"{dot}key", key, "; ".join(texts)))
        enough, text = _VALUE_COUNT_RULES[operator]
        if not enough(len(values)):
            # An empty list is null in an object from the API server.
            errors.append(field.invalid(f"{dot}values", values or None, text))
        if operator in ("Gt", "Lt"):
            errors += [
                field.invalid(
                    f"{dot}values[{index}]",
                    value,
                    "for 'Gt', 'Lt' operators, the value must be an integer",
                )
                for index, value in enumerate(values)
                if parse_int64(value) is None
            ]
        errors += [
            field.invalid(f"{dot}values[{index}][{key}]", value, "; ".join(texts))
            for index, value in enumerate(values)
            if (texts := label_value_errors(value))
        ]
        if errors:
            raise FieldErrors(errors)
        return Requirement(key, operator, values)

    def accepts(self, value: str | None) -> bool:
        """Return True if the value (None for a missing label) meets the requirement."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or self._number is None or (number := parse_int64(value)) is None:
            return False
        return number > self._number if self.operator == "Gt" else number < self._number

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels meets the requirement."""
        return self.accepts(labels.get(self.key))

    def __repr__(self) -> str:
        return f"Requirement({self.key!r}, {self.operator!r}, {self.values!r})"


class Selector:
    """All of its requirements must match; `NOTHING` matches nothing."""

    __slots__ = ("_nothing", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements: Final = tuple(requirements)
        self._nothing: Final = nothing

    @property
    def is_empty(self) -> bool:
        """True if it selects everything."""
        return not self.requirements and not self._nothing

    @property
    def wanted_labels(self) -> Collection[tuple[str, str]] | None:
        """Labels of which every selected object has at least one; None if there are none."""
        for requirement in self.requirements:
            if requirement.operator == "In":
                return {(requirement.key, value) for value in requirement.values}
        return None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels is selected."""
        if self._nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __repr__(self) -> str:
        return "Selector(nothing)" if self._nothing else f"Selector({self.requirements!r})"


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """Return a selector of objects with all of these labels, without validation."""
    return Selector(Requirement(key, "In", (value,)) for key, value in labels.items())


def parse_label_selector(selector: LabelSelector | None) -> Selector:
    """Parse the selector of an API object: None selects nothing, an empty one everything.

    Raises SelectorError or FieldErrors for the first invalid requirement.
    """
    if selector is None:
        return NOTHING
    requirements = [
        Requirement.parse(key, "In", (value,)) for key, value in selector.match_labels.items()
    ]
    for expression in selector.match_expressions:
        if expression.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            operator = field.quoted(expression.operator)
            raise SelectorError(f"{operator} is not a valid label selector operator")
        requirements.append(
            Requirement.parse(expression.key, expression.operator, expression.values)
        )
    return Selector(requirements) if requirements else EVERYTHING


def parse_selector_text(text: str) -> Selector:
    """Return a selector as kubectl reads it: `KEY=VALUE,KEY!=VALUE,KEY,!KEY`."""
    return Selector(map(_parse_requirement, text.split(",")))


def _parse_requirement(text: str) -> Requirement:
    key, equals, value = text.replace("==", "=").partition("=")
    negated = key.endswith("!") if equals else key.startswith("!")
    if not (key := key.strip("! ")):
        raise SelectorError(f"{text!r}: expected labels as in KEY=VALUE,KEY!=VALUE,KEY,!KEY")
    if equals:
        return Requirement(key, "NotIn" if negated else "In", (value.strip(),))
    return Requirement(key, "DoesNotExist" if negated else "Exists", ())
