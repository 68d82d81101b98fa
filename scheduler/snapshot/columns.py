"""Columns of the node table: one array per fact, and dictionary encoding for everything textual.

A text (or tuple, or set) that describes a node is stored once, and each row holds its small integer
*code*; -1 means no value. A function of the text is then called once per distinct text, and its
results are gathered by code, so that thousands of rows cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, NewType, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CodeArray = NDArray[np.int32]

#: The position of a node in a node table, from 0; in the snapshot's table also its position in
#: scheduling order.
Row = NewType("Row", int)
#: The number by which the pod indexes identify a node: its row in the cache's table. A node keeps
#: its slot until it is deleted; then another node may get it.
Slot = NewType("Slot", int)
#: The number of a hypothetical node in a dry run, from 0: its row in the what-if table.
World = NewType("World", int)

S = TypeVar("S", bound=np.generic)
V = TypeVar("V", bound=Hashable)

#: The code of a row that has no value.
ABSENT: Final = -1

_FALSE: Final = np.False_

#: Up to this many combinations of flags, removing those that do not occur costs more than it saves.
_COMBINATIONS_MAX: Final = 16

#: A dictionary with fewer values is not compacted.
_COMPACT_MIN: Final = 64


def grown(array: NDArray[S], capacity: int, fill: int = 0) -> NDArray[S]:
    """Return a longer copy of a column, the new rows filled."""
    longer = np.full(capacity, fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def seen_from(column: NDArray[S], rows: slice | IntArray) -> NDArray[S]:
    """Return some rows of a column, read-only: plugins must not write to the snapshot.

    Copies are read-only too: the rows decide whether the result is a copy.
    """
    seen = column[rows] if isinstance(rows, slice) else column.take(rows)
    seen.setflags(write=False)
    return seen


def uniform(length: int, value: S) -> NDArray[S]:
    """Return a read-only array of equal values that takes the memory of one value.

    Most scores and filters have the same result for all nodes; `uniform_value` finds such arrays.
    """
    array: NDArray[S] = np.ndarray((length,), value.dtype, np.array(value), strides=(0,))
    array.flags.writeable = False
    return array


def uniform_value(array: NDArray[S]) -> S | None:
    """Return the value of an array made by `uniform`; None for other arrays and empty ones."""
    if array.strides == (0,) and len(array):
        value: S = array[0]
        return value
    return None


def run_starts(values: IntArray) -> BoolArray:
    """Flag the first entry of each run of equal values; five times faster than `np.diff`."""
    starts = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts


def encode_flags(flags: Sequence[BoolArray]) -> tuple[IntArray, list[tuple[bool, ...]]]:
    """Dictionary-encode the combination of flags of each row.

    Returns a code per row and the combinations that occur, by code. There must be at least one
    array of flags. Takes a few passes per array, whatever the number of combinations.
    """
    codes = flags[0].astype(np.int64)
    combinations: list[tuple[bool, ...]] = [(False,), (True,)]
    for index, flag in enumerate(flags):
        if index:
            codes += codes
            codes += flag
            combinations = [(*c, there) for c in combinations for there in (False, True)]
        if len(combinations) < _COMBINATIONS_MAX and index + 1 < len(flags):
            continue  # while there are so few, those that do not occur cost less than finding them
        used = np.bincount(codes, minlength=len(combinations)).nonzero()[0]
        if len(used) < len(combinations):
            renumbered = np.zeros(len(combinations), dtype=np.int64)
            renumbered[used] = np.arange(len(used))
            codes = renumbered.take(codes)
            combinations = [combinations[code] for code in used.tolist()]
    return codes, combinations


class Interned(Generic[V]):
    """A dictionary-encoded column: a code per row, and the distinct values.

    Values that no row has any more keep their code until they are half of the dictionary; then it
    is compacted. Codes are therefore valid only until the next `set`.
    """

    def __init__(self, capacity: int) -> None:
        self.codes: CodeArray = np.full(capacity, ABSENT, dtype=np.int32)
        self.values: list[V | None] = []
        self._index: dict[V, int] = {}
        self._references: list[int] = []

    def set(self, row: int, value: V | None) -> None:
        """Set the value of a row; None removes it."""
        old = int(self.codes[row])
        code = ABSENT if value is None else self._intern(value)
        if code == old:
            return
        self.codes[row] = code
        if code != ABSENT:
            self._references[code] += 1
        if old != ABSENT:
            self._references[old] -= 1
            if not self._references[old]:
                self._retire(old)

    def code_of(self, value: V) -> int:
        """Return the code of a value; `ABSENT` if no row has it."""
        return self._index.get(value, ABSENT)

    def resize(self, capacity: int) -> None:
        """Grow the column to this many rows."""
        self.codes = grown(self.codes, capacity, fill=ABSENT)

    def rearranged(self, rows: IntArray, old_rows: IntArray, capacity: int) -> Interned[V]:
        """Return a column whose `rows` have the values of the `old_rows` of this column."""
        column: Interned[V] = Interned(capacity)
        column.codes[rows] = self.codes[old_rows]
        column.values = list(self.values)
        column._index = dict(self._index)
        used = column.codes[column.codes != ABSENT]
        column._references = np.bincount(used, minlength=len(self.values)).tolist()
        for code, value in enumerate(self.values):
            if value is not None and not column._references[code]:
                column._drop(code)
        column._compact_if_mostly_dead()
        return column

    def gathered(self, rows: slice | IntArray) -> Interned[V]:
        """Return a read-only column of some rows, renumbered from 0.

        The result shares this column's dictionary and is valid until this column's next `set`.
        """
        column: Interned[V] = Interned(0)
        column.codes = seen_from(self.codes, rows)
        column.values = self.values
        column._index = self._index
        return column

    def view(self, rows: slice | IntArray) -> Codes[V]:
        return Codes(seen_from(self.codes, rows), self)

    def _intern(self, value: V) -> int:
        code = self._index.get(value)
        if code is None:
            code = len(self.values)
            self._index[value] = code
            self.values.append(value)
            self._references.append(0)
        return code

    def _drop(self, code: int) -> None:
        value = self.values[code]
        assert value is not None, "a code is removed once"
        del self._index[value]
        self.values[code] = None

    def _retire(self, code: int) -> None:
        self._drop(code)
        self._compact_if_mostly_dead()

    def _compact_if_mostly_dead(self) -> None:
        if len(self.values) > _COMPACT_MIN and len(self._index) * 2 < len(self.values):
            self._compact()

    def _compact(self) -> None:
        new_codes = np.full(len(self.values) + 1, ABSENT, dtype=np.int32)
        live = sorted(self._index.values())
        new_codes[live] = np.arange(len(live), dtype=np.int32)
        self.codes = new_codes[self.codes]
        self.values = [self.values[code] for code in live]
        self._references = [self._references[code] for code in live]
        self._index = {value: code for code, value in enumerate(self.values) if value is not None}


class Codes(Generic[V]):
    """A dictionary-encoded column as a plugin gets it: one value or None per row in view.

    `where` and `map` call a function once per distinct value, and with None for missing values.
    """

    __slots__ = ("_column", "codes")

    def __init__(self, codes: CodeArray, column: Interned[V]) -> None:
        self.codes: Final = codes
        self._column: Final = column

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> V | None:
        code = self.codes[index]
        return None if code == ABSENT else self._column.values[code]

    @property
    def values(self) -> list[V | None]:
        """Every distinct value by its code; None for codes that no row has any more."""
        return self._column.values

    @property
    def present(self) -> BoolArray:
        """True for rows with a value."""
        return self.codes >= 0

    def where(self, accepts: Callable[[V | None], bool]) -> BoolArray:
        """Return True for rows whose value is accepted."""
        values = self._column.values
        answers = np.zeros(len(values) + 1, dtype=np.bool_)
        for code, value in enumerate(values):
            if value is not None:
                answers[code] = accepts(value)
        answers[ABSENT] = accepts(None)
        if not answers.any():
            return uniform(len(self.codes), _FALSE)
        return cast("BoolArray", answers.take(self.codes, mode="wrap"))

    def isin(self, values: Iterable[V]) -> BoolArray:
        """Return True for rows with one of these values; cheaper than `where` for rare values."""
        wanted = [code for value in values if (code := self._column.code_of(value)) != ABSENT]
        if not wanted:
            return uniform(len(self.codes), _FALSE)
        if len(wanted) == 1:
            return cast("BoolArray", self.codes == wanted[0])
        answers = np.zeros(len(self._column.values) + 1, dtype=np.bool_)
        answers[wanted] = True
        return cast("BoolArray", answers.take(self.codes, mode="wrap"))

    @overload
    def map(self, numbers: Mapping[V, int], default: int = 0) -> IntArray: ...

    @overload
    def map(self, numbers: Callable[[V | None], int]) -> IntArray: ...

    def map(
        self, numbers: Mapping[V, int] | Callable[[V | None], int], default: int = 0
    ) -> IntArray:
        """Return an integer per row, by a table (with a default) or by a function of the value."""
        values = self._column.values
        if isinstance(numbers, Mapping):
            answers = [default] * (len(values) + 1)
            for key, answer in numbers.items():
                if (code := self._column.code_of(key)) != ABSENT:
                    answers[code] = answer
        else:
            absent = numbers(None)
            answers = [absent if value is None else numbers(value) for value in values]
            answers.append(absent)
        if answers.count(answers[ABSENT]) == len(answers):
            return uniform(len(self.codes), np.int64(answers[ABSENT]))
        return np.array(answers, dtype=np.int64).take(self.codes, mode="wrap")
