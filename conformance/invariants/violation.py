"""A violation of an invariant, and the table of invariants."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..api import Json
    from ..format.case import Case
    from ..run.observation import Observation
    from .history import History

    Check: TypeAlias = Callable[[History], Iterable["Violation"]]
    Observe: TypeAlias = Callable[[Case], Observation]
    Comparison: TypeAlias = Callable[[Case, Observe], Iterable["Violation"]]


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One violation, in words. `step` is the place of the step; empty means the end.

    `expect` is the expectation, in the case format, that the scheduler does not meet after that
    step of `case`; without `case`, of the observed case.
    """

    text: str
    step: str
    expect: Json
    case: Case | None = None
    invariant: str = ""


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """An invariant: its name, its sentence and its source.

    It is a function of one history (`check`), or compares runs of related cases (`comparison`).
    """

    name: str
    sentence: str
    source: str
    check: Check | None = None
    comparison: Comparison | None = None


#: All invariants by name, in the order of their definition.
INVARIANTS: Final[dict[str, Invariant]] = {}


def invariant(source: str) -> Callable[[Check], Check]:
    """Register a function of a history as an invariant. Its docstring's first line is shown."""
    return _registered(source, "check")


def comparison(source: str) -> Callable[[Comparison], Comparison]:
    """Register a function that runs related cases as an invariant."""
    return _registered(source, "comparison")


def _registered(source: str, field: str) -> Callable[[Any], Any]:
    def register(function: Callable[..., Iterable[Violation]]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*arguments: object) -> Iterator[Violation]:
            for violation in function(*arguments):
                yield replace(violation, invariant=function.__name__)

        INVARIANTS[function.__name__] = Invariant(
            name=function.__name__, sentence=_sentence(function), source=source, **{field: named}
        )
        return named

    return register


def _sentence(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").strip().split("\n")[0]
