"""Functions of the framework for plugins that filter and score all nodes at once."""

import itertools

import numpy as np
import pytest

from scheduler.api.core import Node, Pod
from scheduler.framework import Code, Status, reject_together, unresolvable, unschedulable
from scheduler.framework.arithmetic import default_normalize_score, percent
from scheduler.framework.events import as_kind
from scheduler.snapshot.columns import Interned, encode_flags
from scheduler.testing import make_node, make_pod

SMALL, FULL, HOPELESS = unschedulable("small"), unschedulable("full"), unresolvable()


def flags(text: str) -> np.ndarray:
    return np.array([letter == "x" for letter in text])


def test_a_node_is_rejected_with_all_reasons_that_hold() -> None:
    found = reject_together(
        (flags(".xx.x"), SMALL), (flags("..xx."), FULL), (flags("....x"), HOPELESS)
    )
    assert found is not None
    assert [found.status(index) for index in range(5)] == [
        None,
        SMALL,
        unschedulable("small", "full"),
        FULL,
        unresolvable("small"),
    ]


def test_no_status_is_made_for_a_combination_that_does_not_occur() -> None:
    found = reject_together((flags("xx."), SMALL), (flags("xx."), FULL), (flags("..."), HOPELESS))
    assert found is not None
    assert [status.reasons for status in found.statuses] == [("small", "full")]


def test_all_nodes_may_be_rejected() -> None:
    found = reject_together((flags("xx"), SMALL), (flags(".x"), FULL))
    assert found is not None
    assert not found.passed.any()
    assert found.status(0) == SMALL


def test_nothing_flagged_is_no_rejection() -> None:
    assert reject_together((flags("..."), SMALL), (flags("..."), FULL)) is None


def test_the_worse_code_stands() -> None:
    worse = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "never")
    found = reject_together((flags("x"), worse), (flags("x"), SMALL))
    assert found is not None
    assert found.status(0) == unresolvable("never", "small")


@pytest.mark.parametrize("count", [1, 2, 3, 70])
def test_each_combination_of_flags_has_a_code_of_its_own(count: int) -> None:
    rows = list(itertools.islice(itertools.product((False, True), repeat=count), 40))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    codes, combinations = encode_flags(columns)
    assert [combinations[code] for code in codes] == rows
    assert sorted(set(codes.tolist())) == list(range(len(combinations)))


def test_percentages_are_cut_not_rounded() -> None:
    found = percent(np.array([0, 1, 2, 3]), np.array([3, 3, 3, 3]), whole_max=3)
    assert found.tolist() == [0.0, 33.0, 66.0, 100.0]


def test_scores_below_zero_have_no_highest() -> None:
    assert default_normalize_score(np.array([-3, -1])).tolist() == [-3, -1]
    assert default_normalize_score(np.array([-3, 0]), reverse=True).tolist() == [100, 100]


def test_a_hint_gets_the_objects_it_asked_for() -> None:
    pod, node = make_pod(), make_node()
    assert as_kind(Pod, None, pod) == (None, pod)
    assert as_kind(Node, node, None) == (node, None)
    with pytest.raises(TypeError, match="expected Pod, but got Node"):
        as_kind(Pod, pod, node)


def test_a_column_can_be_mapped_by_a_rule() -> None:
    column: Interned[str] = Interned(4)
    for row, value in enumerate(["a", "b", None, "a"]):
        column.set(row, value)
    codes = column.view(slice(0, 4))
    assert codes.map(lambda value: 1 if value is None else ord(value)).tolist() == [97, 98, 1, 97]
    assert codes.map({"b": 7}, default=3).tolist() == [3, 7, 3, 3]
    assert codes.map(lambda value: 5).tolist() == [5, 5, 5, 5]


def test_a_rule_is_not_called_for_a_value_that_is_out_of_use() -> None:
    column: Interned[str] = Interned(2)
    column.set(0, "a")
    column.set(1, "b")
    column.set(1, None)
    asked: list[str | None] = []

    def rule(value: str | None) -> int:
        asked.append(value)
        return 0

    column.view(slice(0, 2)).map(rule)
    assert asked == [None, "a"]
