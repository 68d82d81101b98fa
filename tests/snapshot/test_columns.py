"""Dictionary-encoded columns: codes, references, compaction, rules called once per value."""

import itertools

import numpy as np
import pytest

from scheduler.snapshot.columns import (
    ABSENT,
    Codes,
    Interned,
    encode_flags,
    grown,
    seen_from,
    uniform,
    uniform_value,
)

ALL = slice(0, 4)


def _column(*values: str | None, capacity: int = 0) -> Interned[str]:
    column: Interned[str] = Interned(capacity or len(values))
    for row, value in enumerate(values):
        column.set(row, value)
    return column


def _read(column: Interned[str]) -> list[str | None]:
    codes = column.view(slice(0, len(column.codes)))
    return [codes[row] for row in range(len(codes))]


def test_rows_have_the_values_that_were_set() -> None:
    column = _column("a", None, "b", "a")
    assert _read(column) == ["a", None, "b", "a"]
    assert column.codes.tolist() == [0, ABSENT, 1, 0]
    column.set(0, "c")
    column.set(2, None)
    column.set(3, "a")
    assert _read(column) == ["c", None, None, "a"]


def test_a_value_that_no_row_holds_any_more_has_no_code() -> None:
    column = _column("a", "b")
    column.set(0, "b")
    assert column.code_of("a") == ABSENT
    assert column.values == [None, "b"]
    column.set(0, "a")
    assert _read(column) == ["a", "b"]


def test_a_value_may_be_anything_hashable_the_empty_ones_too() -> None:
    column: Interned[tuple[str, ...]] = Interned(2)
    column.set(0, ())
    assert column.view(slice(0, 2))[0] == ()
    assert column.view(slice(0, 2)).present.tolist() == [True, False]


def test_the_dictionary_is_compacted_once_half_of_it_is_dead() -> None:
    column: Interned[str] = Interned(2)
    column.set(1, "stays")
    sizes = []
    for number in range(500):
        column.set(0, f"v{number}")
        sizes.append(len(column.values))
    assert _read(column) == ["v499", "stays"]
    assert column.code_of("stays") == column.codes[1]
    assert column.code_of("v498") == ABSENT
    assert max(sizes) < 100
    assert len(column.values) < 70


def test_room_for_more_rows_leaves_the_old_ones_alone() -> None:
    column = _column("a", "b")
    column.resize(4)
    assert _read(column) == ["a", "b", None, None]


def test_a_rearranged_column_holds_the_same_values_in_other_places() -> None:
    column = _column("a", "b", "c", "a")
    rows, old_rows = np.array([0, 2]), np.array([3, 1])
    moved = column.rearranged(rows, old_rows, 3)
    assert _read(moved) == ["a", None, "b"]
    assert moved.code_of("c") == ABSENT
    assert _read(column) == ["a", "b", "c", "a"]
    # References were counted anew: the last row to give up a value retires it.
    moved.set(0, None)
    assert moved.code_of("a") == ABSENT


def test_a_column_that_is_rearranged_again_and_again_does_not_grow() -> None:
    """Nodes that come and go, each with a hostname of its own, never give a row another value."""
    column: Interned[str] = Interned(16)
    for number in range(500):
        column = column.rearranged(np.arange(15), np.arange(1, 16), 16)
        column.set(15, f"host-{number}")
    assert _read(column) == [f"host-{number}" for number in range(484, 500)]
    assert len(column.values) <= 65


CODES = _column("a", None, "b", "a").view(ALL)


def test_codes_are_a_sequence_of_values() -> None:
    assert len(CODES) == 4
    assert [CODES[i] for i in range(4)] == ["a", None, "b", "a"]
    assert CODES.present.tolist() == [True, False, True, True]


def test_where_calls_the_rule_once_per_distinct_value_and_for_missing_values() -> None:
    asked: list[str | None] = []

    def rule(value: str | None) -> bool:
        asked.append(value)
        return value in ("a", None)

    assert CODES.where(rule).tolist() == [True, True, False, True]
    assert sorted(asked, key=str) == [None, "a", "b"]
    assert CODES.where(lambda value: value is not None).tolist() == [True, False, True, True]
    assert CODES.where(lambda value: False).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ((), [False, False, False, False]),
        (("a",), [True, False, False, True]),
        (("a", "b"), [True, False, True, True]),
        (("b", "unknown"), [False, False, True, False]),
        (("unknown",), [False, False, False, False]),
    ],
)
def test_isin_never_holds_for_rows_without_a_value(
    values: tuple[str, ...], rows: list[bool]
) -> None:
    assert CODES.isin(values).tolist() == rows


def test_map_takes_a_table_and_a_default_for_missing_keys() -> None:
    assert CODES.map({"a": 5, "unknown": 9}).tolist() == [5, 0, 0, 5]
    assert CODES.map({"a": 5}, -1).tolist() == [5, -1, -1, 5]
    assert CODES.map({}, 7).tolist() == [7, 7, 7, 7]


def test_map_takes_a_rule() -> None:
    assert CODES.map(lambda v: 0 if v is None else ord(v)).tolist() == [97, 0, 98, 97]
    mapped = CODES.map(lambda v: 3)
    assert mapped.tolist() == [3, 3, 3, 3]
    assert mapped.dtype == np.int64


def test_a_rule_is_not_called_for_values_that_are_out_of_use() -> None:
    column = _column("gone", "a")
    column.set(0, "a")
    codes = column.view(slice(0, 2))
    assert codes.where(lambda v: {"a": True, None: False}[v]).tolist() == [True, True]
    assert codes.map(lambda v: {"a": 1, None: 0}[v]).tolist() == [1, 1]


def test_results_for_no_rows_are_empty() -> None:
    none: Codes[str] = _column("a").view(slice(0, 0))
    assert none.where(lambda v: True).tolist() == []
    assert none.isin(["a"]).tolist() == []
    assert none.map({"a": 1}).tolist() == []


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([1, 2])], ids=["slice", "index"])
def test_a_view_of_a_column_is_read_only(rows: slice | np.ndarray) -> None:
    column = np.arange(5)
    seen = seen_from(column, rows)
    assert seen.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 7
    column[1] = 3


@pytest.mark.parametrize("rows", [slice(0, 2), np.array([0, 1])], ids=["slice", "index"])
def test_codes_cannot_be_written_to(rows: slice | np.ndarray) -> None:
    with pytest.raises(ValueError, match="read-only"):
        _column("a", "b").view(rows).codes[0] = 1


def test_a_grown_array_is_a_copy_with_the_new_rows_filled() -> None:
    old = np.array([1, 2])
    new = grown(old, 4, fill=9)
    new[0] = 5
    assert new.tolist() == [5, 2, 9, 9]
    assert old.tolist() == [1, 2]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_flags_are_encoded_by_their_combinations(count: int) -> None:
    rows = list(itertools.product((False, True), repeat=count))
    # Leave some combinations out, and let others come twice.
    rows = [row for row in rows if sum(row) != 2] + rows[:1]
    codes, combinations = encode_flags([np.array(column) for column in zip(*rows, strict=True)])
    assert [combinations[code] for code in codes.tolist()] == rows
    assert sorted(combinations) == combinations == sorted(set(rows))


def test_a_uniform_array_acts_like_any_other_and_returns_its_value() -> None:
    array = uniform(3, np.int64(7))
    assert array.tolist() == [7, 7, 7]
    assert (array + np.arange(3)).tolist() == [7, 8, 9]
    assert array[np.array([True, False, True])].tolist() == [7, 7]
    assert uniform_value(array) == 7
    assert uniform_value(array[:1]) == 7
    assert uniform_value(array.copy()) is None
    assert uniform_value(uniform(0, np.int64(7))) is None
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_result_that_is_equal_for_all_rows_is_uniform() -> None:
    column: Interned[str] = Interned(3)
    for row in range(3):
        column.set(row, "a")
    codes = column.view(slice(0, 3))
    assert uniform_value(codes.map(lambda value: 5)) == 5
    none = codes.where(lambda value: value == "b")
    assert none.tolist() == [False] * 3
    assert uniform_value(none) == np.False_
    assert codes.isin(["c"]).tolist() == [False] * 3
