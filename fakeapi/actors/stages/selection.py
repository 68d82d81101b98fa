"""Which object is in a Stage, how long it stays, and how the choice falls among several Stages.

Source: pkg/utils/expression and pkg/utils/lifecycle of KWOK.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
from typing import TYPE_CHECKING, Final, Protocol

from fakeapi.actors.stages.jq import JqError
from fakeapi.actors.templates.sprig import duration_seconds
from fakeapi.crds import cel_rules
from fakeapi.types import times
from fakeapi.types.objects import Json, mapping, metadata_of

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from fakeapi.actors.stages.jq import Query

__all__ = ["Amount", "CelQuery", "Delay", "JqQuery", "Observed", "Requirement", "Selector"]


class Observed:
    """An object as expressions see it."""

    def __init__(self, obj: Json) -> None:
        self.obj = obj


class Expression(Protocol):
    """Something in a language of expressions."""

    def __call__(self, observed: Observed) -> list[object]:
        """What comes out of it, nothing if it cannot be evaluated for that object."""


@dataclasses.dataclass(frozen=True, slots=True)
class JqQuery:
    """An expression in jq; what is null is no result, and after an error there is none."""

    query: Query

    def __call__(self, observed: Observed) -> list[object]:
        """Return its results; numbers are floats, as Go decodes JSON."""
        try:
            found = [one for one in self.query(observed.obj) if one is not None]
        except JqError:
            return []
        return [float(one) if type(one) is int else one for one in found]


@dataclasses.dataclass(frozen=True, slots=True)
class CelQuery:
    """An expression in CEL, where `self` is the object."""

    text: str

    def __call__(self, observed: Observed) -> list[object]:
        """Its one result, none if it cannot be evaluated."""
        try:
            return [cel_rules.result_of(self.text, observed.obj)]
        except Exception:
            return []


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One of matchExpressions. Numbers out of the object are equal to no value, as in KWOK."""

    expression: Expression
    operator: str  # In, NotIn, Exists, DoesNotExist; empty: what comes out must be true
    values: frozenset[str] = frozenset()

    def matches(self, observed: Observed) -> bool:
        """Whether the object is as required."""
        found = self.expression(observed)
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
    """Labels and annotations that an object must have, and expressions that must hold."""

    labels: Json
    annotations: Json
    requirements: Sequence[Requirement]

    def matches(self, observed: Observed) -> bool:
        """Whether the object is in the Stage."""
        metadata = metadata_of(observed.obj)
        for wanted, field in ((self.labels, "labels"), (self.annotations, "annotations")):
            present = mapping(metadata.get(field))
            if any(present.get(key) != value for key, value in wanted.items()):
                return False
        return all(requirement.matches(observed) for requirement in self.requirements)


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """A number, or an expression that makes one; None if neither says anything."""

    value: float | None = None
    expression: Expression | None = None

    def seconds(self, observed: Observed, now: float) -> float | None:
        """A duration: of Go's form, or a time that it lasts until."""
        if self.expression is None:
            return self.value
        found = next(iter(self.expression(observed)), None)
        if isinstance(found, datetime.timedelta):
            return found.total_seconds()
        if not isinstance(found, str):
            return self.value
        if not found:
            return None
        until = _time(found)
        if until is not None:
            return until - now
        seconds = duration_seconds(found)
        return self.value if seconds is None else seconds

    def weight(self, observed: Observed) -> int | None:
        """A weight: a number, or a text that is one."""
        given = None if self.value is None else int(self.value)
        if self.expression is None:
            return given
        found = next(iter(self.expression(observed)), None)
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
    """What strconv.ParseInt makes of a text, in the base that its prefix says."""
    try:
        return int(re.sub(r"^([+-]?0)(?=[0-7])", r"\1o", text), 0)
    except ValueError:
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Delay:
    """How long an object stays in a Stage; `jitter` is the longest, not what is added."""

    duration: Amount
    jitter: Amount | None = None

    def seconds(self, observed: Observed, now: float, chance: random.Random) -> float:
        """The time between the two, by chance."""
        least = self.duration.seconds(observed, now)
        if least is None:
            return 0.0
        most = None if self.jitter is None else self.jitter.seconds(observed, now)
        if most is None:
            return least
        return most if most <= least else least + chance.random() * (most - least)
