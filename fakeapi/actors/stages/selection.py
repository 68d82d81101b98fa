"""Selectors, delays and weights of Stages, and the queries they use.

Source: pkg/utils/expression and pkg/utils/lifecycle of KWOK.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
from typing import TYPE_CHECKING, Final, Protocol

from fakeapi.crds import cel_rules
from fakeapi.types import times
from fakeapi.types.durations import parse_duration
from fakeapi.types.objects import Json, mapping, metadata_of

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


class Expression(Protocol):
    """A query of an object in jq or CEL."""

    def __call__(self, obj: Json) -> list[object]:
        """Return the results, none after an error."""


class QueryError(ValueError):
    """An expression is not jq or CEL, or the package that evaluates it is not installed."""


class _Results(Protocol):
    def all(self) -> list[object]: ...


class _Program(Protocol):
    def input_value(self, value: object) -> _Results: ...


class JqQuery:
    """A query in jq, evaluated by the package `jq`; null is no result. Raises QueryError."""

    def __init__(self, text: str) -> None:
        try:
            import jq
        except ImportError as error:
            why = "jq is evaluated by the package jq: pip install 'kubesched[kwok]'"
            raise QueryError(why) from error
        try:
            self._program: _Program = jq.compile(text)
        except ValueError as error:
            raise QueryError(" ".join(str(error).split())) from error

    def __call__(self, obj: Json) -> list[object]:
        """Return the results; numbers are floats, as Go decodes JSON."""
        try:
            found = self._program.input_value(obj).all()
        except ValueError:
            return []
        return [float(one) if type(one) is int else one for one in found if one is not None]


class CelQuery:
    """An expression in CEL, where `self` is the object. Raises QueryError."""

    def __init__(self, text: str) -> None:
        if why := cel_rules.why_not_evaluated(text):
            raise QueryError(why)
        self._text = text

    def __call__(self, obj: Json) -> list[object]:
        try:
            return [cel_rules.result_of(self._text, obj)]
        except Exception:
            return []


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One of matchExpressions. A number in the object equals none of `values`, as in KWOK."""

    expression: Expression
    operator: str  # In, NotIn, Exists, DoesNotExist; empty: the result must be true
    values: frozenset[str] = frozenset()

    def matches(self, obj: Json) -> bool:
        found = self.expression(obj)
        if not self.operator:
            return found == [True]
        if self.operator in ("Exists", "DoesNotExist"):
            return bool(found) == (self.operator == "Exists")
        is_in = any(_comparable(one) in self.values for one in found)
        return is_in == (self.operator == "In")


def _comparable(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """The labels and annotations that an object must have, and further requirements."""

    labels: Json
    annotations: Json
    requirements: Sequence[Requirement]

    def matches(self, obj: Json) -> bool:
        metadata = metadata_of(obj)
        for wanted, field in ((self.labels, "labels"), (self.annotations, "annotations")):
            present = mapping(metadata.get(field))
            if any(present.get(key) != value for key, value in wanted.items()):
                return False
        return all(requirement.matches(obj) for requirement in self.requirements)


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """A duration or a weight: an expression, or `value` where it has no result."""

    value: float | None = None
    expression: Expression | None = None

    def seconds(self, obj: Json, now: float) -> float | None:
        """Return the seconds of a duration, or until a time in RFC 3339; None without a value."""
        if self.expression is None:
            return self.value
        found = next(iter(self.expression(obj)), None)
        if isinstance(found, datetime.timedelta):
            return found.total_seconds()
        if not isinstance(found, str):
            return self.value
        if not found:
            return None
        until = _time(found)
        if until is not None:
            return until - now
        try:
            return parse_duration(found)
        except ValueError:
            return self.value

    def weight(self, obj: Json) -> int | None:
        """Return the weight, a number or a string of digits; None without a value."""
        given = None if self.value is None else int(self.value)
        if self.expression is None:
            return given
        found = next(iter(self.expression(obj)), None)
        if isinstance(found, str):
            return _whole_number(found)
        if isinstance(found, int | float) and math.isfinite(found):
            return int(found)
        return given


_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _time(text: str) -> float | None:
    if not _RFC3339.fullmatch(text):
        return None
    try:
        return times.epoch_seconds(text)
    except ValueError:
        return None


def _whole_number(text: str) -> int | None:
    """Parse as strconv.ParseInt with base 0 does: the prefix gives the base."""
    try:
        return int(re.sub(r"^([+-]?0)(?=[0-7])", r"\1o", text), 0)
    except ValueError:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Delay:
    """The time an object stays in a Stage: at least `duration`, at most `jitter`."""

    duration: Amount
    jitter: Amount | None = None

    def seconds(self, obj: Json, now: float, chance: random.Random) -> float:
        """Draw a time between the two."""
        least = self.duration.seconds(obj, now)
        if least is None:
            return 0.0
        most = None if self.jitter is None else self.jitter.seconds(obj, now)
        if most is None:
            return least
        return most if most <= least else least + chance.random() * (most - least)
