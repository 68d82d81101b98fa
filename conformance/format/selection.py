"""Select cases: by patterns of their names, by an expression over their labels, by shard.

-k filter/taint          id (`area/name`) with this text at the beginning of a word
-k 'requeue/*volume*'    id that matches the wildcards
-l 'preemption and not (slow or faults)'
--shard 2/4              the second of four parts
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from .case import Case
    from .version import Version

_WILDCARDS: Final = re.compile(r"[*?\[]")
_TOKEN: Final = re.compile(r"\s*(?:(?P<sign>[()])|(?P<word>[A-Za-z0-9][-A-Za-z0-9_.]*))")
_OPERATORS: Final = frozenset({"and", "or", "not"})
_SHARD: Final = re.compile(r"([0-9]+)/([0-9]+)")

#: Returns True for the words of a case that is selected.
Test: TypeAlias = "Callable[[AbstractSet[str]], bool]"


def select(cases: Sequence[Case], *patterns: str, option: str = "-k") -> list[Case]:
    """Return the cases that match a pattern. Raises InputError for a pattern without a match.

    A pattern is an id, which matches one case only; or it has wildcards (`*`, `?`, `[...]`) and
    matches the whole id; or it occurs in the id where a word begins. Case is ignored. Errors name
    the `option`.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        ids = {case.id for case in cases if _matches(case.id, pattern.lower())}
        if not ids:
            raise InputError(f"{option}: no case matches {pattern!r}; {_hint(cases, pattern)}")
        chosen |= {pattern.lower()} if pattern.lower() in ids else ids
    return [case for case in cases if case.id in chosen]


def _hint(cases: Iterable[Case], pattern: str) -> str:
    words = [word for case in cases for word in (case.id, case.name, f"{case.area}/")]
    close = difflib.get_close_matches(pattern.lower(), words, 1)
    return f"did you mean {close[0]}?" if close else "--list shows all"


def _matches(case_id: str, pattern: str) -> bool:
    if _WILDCARDS.search(pattern):
        return fnmatch.fnmatchcase(case_id, pattern)
    return re.search(rf"(?:^|[/-]){re.escape(pattern)}", case_id) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A choice of cases. `only` are ids; None means all. `shard` is (number, number of shards)."""

    patterns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    expression: str | None = None
    only: frozenset[str] | None = None
    shard: tuple[int, int] = (1, 1)

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """Return the chosen cases in their order. Raises InputError if there are none."""
        chosen = select(cases, *self.patterns) if self.patterns else [*cases]
        if self.skipped:
            skipped = {case.id for case in select(cases, *self.skipped, option="--skip")}
            chosen = [case for case in chosen if case.id not in skipped]
        if self.expression is not None:
            words = frozenset[str]().union(*(case.words for case in cases))
            test = parse_expression(self.expression, words)
            chosen = [case for case in chosen if test(case.words)]
        if self.only is not None:
            chosen = [case for case in chosen if case.id in self.only]
        number, count = self.shard
        chosen = chosen[number - 1 :: count]
        if not chosen:
            raise InputError("no case is selected")
        return chosen


def parse_shard(text: str) -> tuple[int, int]:
    """Parse `NUMBER/COUNT`. Raises InputError."""
    match = _SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"--shard: expected a part such as 1/4, got {text!r}")
    return int(match[1]), int(match[2])


class _Token(NamedTuple):
    text: str
    column: int


def parse_expression(text: str, words: AbstractSet[str]) -> Test:
    """Parse an expression of `and`, `or`, `not`, parentheses and words.

    Raises InputError with the column of the mistake, also for a word that is not in `words`.
    """
    return _Parser(text, words).parse()


class _Parser:
    """A parser by recursive descent; `or` binds weaker than `and`, `and` weaker than `not`."""

    def __init__(self, text: str, words: AbstractSet[str]) -> None:
        self._text = text
        self._known = words
        self._tokens = self._split()

    def parse(self) -> Test:
        test = self._either()
        if self._tokens[0].text:
            raise self._unexpected("and, or, or the end")
        return test

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                column = len(self._text) - len(self._text[position:].lstrip())
                raise self._error(column, f"unexpected {self._text[column]!r}")
            kind = match.lastgroup or ""
            tokens.append(_Token(match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("", end)]

    def _take(self, *wanted: str) -> bool:
        if self._tokens[0].text not in wanted:
            return False
        self._tokens.pop(0)
        return True

    def _either(self) -> Test:
        tests = [self._all()]
        while self._take("or"):
            tests.append(self._all())
        return lambda words: any(test(words) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._take("and"):
            tests.append(self._one())
        return lambda words: all(test(words) for test in tests)

    def _one(self) -> Test:
        if self._take("not"):
            test = self._one()
            return lambda words: not test(words)
        if self._take("("):
            test = self._either()
            if not self._take(")"):
                raise self._unexpected("and, or, or )")
            return test
        word, column = self._tokens[0]
        if not word or word in _OPERATORS or word == ")":
            raise self._unexpected("a word, not, or (")
        if word not in self._known:
            raise self._error(column, self._unknown(word))
        self._tokens.pop(0)
        return lambda words: word in words

    def _unknown(self, word: str) -> str:
        close = difflib.get_close_matches(word, self._known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"no case has the label, level, feature or area {word!r}{hint}"

    def _unexpected(self, expected: str) -> InputError:
        word, column = self._tokens[0]
        return self._error(column, f"expected {expected}, got {repr(word) if word else 'the end'}")

    def _error(self, column: int, problem: str) -> InputError:
        return InputError(f"-l: column {column + 1}: {problem}, in: {self._text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The cases that hold for a scheduler. `features` of None means all."""

    version: Version
    features: frozenset[str] | None = None

    def why_not(self, case: Case) -> str | None:
        """Return a reason why the case does not hold, or None."""
        if case.since is not None and self.version.is_before(case.since):
            return f"holds since {case.since}, the scheduler has {self.version}"
        if case.until is not None and self.version.is_after(case.until):
            return f"holds until {case.until}, the scheduler has {self.version}"
        if self.features is not None and case.feature and case.feature not in self.features:
            return f"belongs to the feature {case.feature}, which is not supported"
        return None


def features_in(cases: Iterable[Case], names: str | None) -> frozenset[str] | None:
    """Parse names with commas between them; None stays None.

    Raises InputError for a feature without a case.
    """
    if names is None:
        return None
    features = {case.feature for case in cases} - {""}
    chosen = frozenset(name.strip() for name in names.split(","))
    for name in sorted(chosen - features):
        there = ", ".join(sorted(features))
        raise InputError(f"--supported-features: no case has {name!r}; there are {there}")
    return chosen
