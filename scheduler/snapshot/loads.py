"""What nodes offer and have given away, dictionary-encoded, and what rules say of it.

Whether a pod fits on a node, and how well, depends on the node's *load* alone: what it offers of
each resource and what its pods have asked for. Many nodes have the same load, and a scheduling
cycle changes that of one; so a rule is asked about each distinct load once, and the answers are
gathered. The least recently used rules are forgotten.

Codes and answers live as long as the set of columns does: a resource that is new to the table
changes what a load is, and everything starts afresh.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import numpy as np

from scheduler.snapshot.columns import ABSENT, IntArray, Interned, uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.snapshot.nodes import Nodes

#: Rules whose answers are kept; the least recently used one goes first.
RULES_MAX: Final = 64

#: Up to this many loads, looking for a row with each of them beats sorting the rows.
_FEW: Final = 8

_INT64: Final = np.iinfo(np.int64)


class LoadRule(Hashable, Protocol):
    """What a rule says of nodes by their load. Equal rules must be equal objects."""

    def __call__(self, nodes: Nodes) -> IntArray:
        """An integer for each of these nodes; nodes of equal load must get the same."""
        ...


R = TypeVar("R", bound=LoadRule)


class _Answers:
    """What one rule has said, by code; right for the first `known` codes."""

    __slots__ = ("by_code", "highest", "known", "lowest", "rule", "version")

    def __init__(self, rule: LoadRule, version: int) -> None:
        self.rule: Final = rule
        self.by_code: IntArray = np.zeros(0, dtype=np.int64)
        self.known = 0
        self.version = version
        #: Between these all answers lie, those for loads that are no more included.
        self.lowest = _INT64.max
        self.highest = _INT64.min


class Loads:
    """The loads of a table's rows. `columns` are all that a load is made of."""

    def __init__(self, columns: Sequence[IntArray], capacity: int) -> None:
        self._columns: Final = tuple(columns)
        self._loads: Final[Interned[tuple[int, ...]]] = Interned(capacity)
        self._answers: Final[dict[LoadRule, _Answers]] = {}

    def set_row(self, row: int) -> None:
        """Note a row's load as it is now."""
        self._loads.set(row, tuple([column.item(row) for column in self._columns]))

    def ask(
        self, rule: R, rows: slice | IntArray, nodes_at: Callable[[IntArray], Nodes]
    ) -> tuple[R, IntArray]:
        """What a rule says of some rows; `nodes_at` shows rows to it.

        Also returns the rule that has been asked: an equal one, if there was one before.
        """
        answers = self._answers.pop(rule, None)
        if answers is None or answers.version != self._loads.version:
            if len(self._answers) >= RULES_MAX:
                del self._answers[next(iter(self._answers))]
            answers = _Answers(rule, self._loads.version)
        codes = self._loads.codes
        if answers.known < len(self._loads.values):
            self._complete(answers, nodes_at)
        self._answers[rule] = answers
        chosen = codes[rows]
        if answers.lowest == answers.highest:
            return cast("R", answers.rule), uniform(len(chosen), np.int64(answers.lowest))
        return cast("R", answers.rule), answers.by_code.take(chosen)

    def _complete(self, answers: _Answers, nodes_at: Callable[[IntArray], Nodes]) -> None:
        values = self._loads.values
        new = [code for code in range(answers.known, len(values)) if values[code] is not None]
        by_code = np.zeros(len(values), dtype=np.int64)
        by_code[: answers.known] = answers.by_code
        if new:
            said = answers.rule(nodes_at(self._rows_with(new)))
            by_code[new] = said
            answers.lowest = min(answers.lowest, int(said.min()))
            answers.highest = max(answers.highest, int(said.max()))
        answers.by_code = by_code
        answers.known = len(values)

    def _rows_with(self, codes: list[int]) -> IntArray:
        """For each of these codes a row that has it."""
        all_codes = self._loads.codes
        if len(codes) <= _FEW:
            rows = [int((all_codes == code).argmax()) for code in codes]
            return np.array(rows, dtype=np.int64)
        first_row = np.full(len(self._loads.values) + 1, ABSENT, dtype=np.int64)
        first_row[all_codes] = np.arange(len(all_codes))
        return first_row[codes]
