"""Verdicts on one node, on many at once, and on all of a search."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.framework import status as verdicts
from scheduler.framework.status import (
    Code,
    NodeToStatus,
    Rejections,
    Status,
    pending,
    reject,
    reject_by,
    reject_together,
    skip,
    unresolvable,
    unschedulable,
    wait,
)

FULL = unschedulable("full")
TAINTED = unresolvable("tainted")


def test_codes_have_upstreams_numbers_and_names() -> None:
    assert [(int(code), str(code)) for code in Code] == [
        (0, "Success"),
        (1, "Error"),
        (2, "Unschedulable"),
        (3, "UnschedulableAndUnresolvable"),
        (4, "Wait"),
        (5, "Skip"),
        (6, "Pending"),
    ]


@pytest.mark.parametrize(
    ("status", "code", "predicate"),
    [
        (unschedulable("a"), Code.UNSCHEDULABLE, "is_rejected"),
        (unresolvable("a"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "is_rejected"),
        (pending("a"), Code.PENDING, "is_rejected"),
        (skip(), Code.SKIP, "is_skip"),
        (wait(5, "a"), Code.WAIT, "is_wait"),
        (Status(Code.SUCCESS), Code.SUCCESS, "is_success"),
        (verdicts.error(ValueError("a")), Code.ERROR, None),
    ],
)
def test_a_verdict_is_one_kind_of_verdict(status: Status, code: Code, predicate: str) -> None:
    assert status.code == code
    kinds = ("is_success", "is_skip", "is_wait", "is_rejected")
    assert [kind for kind in kinds if getattr(status, kind)] == [predicate] * bool(predicate)


def test_all_reasons_make_one_message() -> None:
    assert unschedulable("a", "b").message == "a, b"
    assert unschedulable().message == ""


def test_an_error_keeps_its_cause() -> None:
    cause = ValueError("no good")
    failure = verdicts.error(cause, "reading: ")
    assert failure.message == "reading: no good"
    assert failure.cause is cause
    assert failure.with_plugin("P").cause is cause


def test_a_verdict_carries_the_name_of_the_plugin_it_was_given_last() -> None:
    named = wait(5, "a").with_plugin("P")
    assert (named.plugin, named.timeout_seconds, named.reasons) == ("P", 5, ("a",))
    assert named.with_plugin("P") is named
    assert named.with_plugin("Q").plugin == "Q"


def test_verdicts_are_equal_by_code_reasons_and_plugin() -> None:
    assert unschedulable("a") == unschedulable("a")
    assert hash(unschedulable("a")) == hash(unschedulable("a"))
    assert unschedulable("a") != unresolvable("a")
    assert unschedulable("a") != unschedulable("b")
    assert unschedulable("a") != unschedulable("a").with_plugin("P")
    assert unschedulable("a") != "a"


def test_a_message_can_be_put_behind_a_prefix() -> None:
    status = unschedulable("a", "b").with_plugin("P").with_reasons_before("waiting: ")
    assert (status.message, status.plugin, status.code) == ("waiting: a, b", "P", FULL.code)


def _mask(text: str) -> np.ndarray:
    return np.array([letter == "x" for letter in text])


def _read(rejections: Rejections | None, total: int) -> list[Status | None]:
    if rejections is None:
        return [None] * total
    assert rejections.passed.tolist() == [s is None for s in map(rejections.status, range(total))]
    return [rejections.status(i) for i in range(total)]


def test_nodes_are_rejected_for_one_reason() -> None:
    assert _read(reject(_mask("x-x"), FULL), 3) == [FULL, None, FULL]
    assert reject(_mask("---"), FULL) is None
    assert reject(_mask(""), FULL) is None


@pytest.mark.parametrize(
    ("full", "tainted", "expected"),
    [
        ("x--", "-x-", [FULL, TAINTED, None]),
        ("xx-", "-xx", [FULL, FULL, TAINTED]),
        ("---", "x--", [TAINTED, None, None]),
        ("---", "---", [None, None, None]),
    ],
)
def test_of_several_reasons_the_first_one_stands(
    full: str, tainted: str, expected: list[Status | None]
) -> None:
    assert _read(reject_by((_mask(full), FULL), (_mask(tainted), TAINTED)), 3) == expected


def test_reject_by_finds_nothing_where_nothing_holds() -> None:
    assert reject_by((_mask("--"), FULL)) is None


def _together(verdicts: Sequence[tuple[str, Status]]) -> list[Status | None]:
    """The specification of `reject_together`, one node at a time."""
    nodes: list[Status | None] = []
    for flags in zip(*(text for text, _ in verdicts), strict=True):
        holding = [v for (_, v), flag in zip(verdicts, flags, strict=True) if flag == "x"]
        reasons = itertools.chain.from_iterable(status.reasons for status in holding)
        codes = [status.code for status in holding]
        nodes.append(Status(max(codes), *reasons) if holding else None)
    return nodes


@pytest.mark.parametrize(
    "flags",
    [
        ("x-x", "xx-", "---"),
        ("xxx", "xxx", "xxx"),
        ("---", "---", "---"),
        ("x--", "-x-", "--x"),
        ("xx-", "---", "x--"),
        ("-", "x", "x"),
    ],
)
def test_all_reasons_that_hold_for_a_node_stand_together(flags: tuple[str, str, str]) -> None:
    given = list(zip(flags, (FULL, unschedulable("no port"), unresolvable()), strict=True))
    rejections = reject_together(*((_mask(text), status) for text, status in given))
    assert _read(rejections, len(flags[0])) == _together(given)


def _statuses(*names: str) -> NodeToStatus:
    return NodeToStatus(names, {name: row for row, name in enumerate(names)})


def test_a_node_without_a_status_of_its_own_has_that_of_the_absent() -> None:
    statuses = _statuses("a", "b")
    statuses.set("a", FULL)
    assert statuses.get("a") == FULL
    assert statuses.get("b") == unresolvable()
    assert statuses.get("unknown") == unresolvable()
    statuses.absent_nodes_status = TAINTED
    assert statuses.get("b") == TAINTED
    assert len(statuses) == 1


def test_the_last_status_of_a_node_stands() -> None:
    statuses = _statuses("a")
    statuses.set("a", FULL)
    statuses.set("a", TAINTED)
    assert statuses.get("a") == TAINTED
    assert len(statuses) == 1
    assert statuses.statuses() == [(TAINTED, 1)]


def test_a_status_of_an_unknown_node_is_counted() -> None:
    statuses = _statuses("a", "b")
    statuses.set("elsewhere", FULL)
    assert len(statuses) == 1
    assert statuses.statuses() == [(FULL, 1)]
    assert statuses.reasons(2) == dict.fromkeys(FULL.reasons, 1)


def test_rejections_are_recorded_row_by_row_and_passes_left_alone() -> None:
    statuses = _statuses("a", "b", "c", "d")
    statuses.set("c", TAINTED)
    rejections = Rejections(np.array([0, -1, 1], dtype=np.int32), [FULL, TAINTED])
    statuses.set_rows(np.array([3, 2, 0]), rejections)
    assert list(statuses.items()) == [("a", TAINTED), ("c", TAINTED), ("d", FULL)]
    assert sorted(count for _, count in statuses.statuses()) == [1, 1, 1]


def test_reasons_are_counted_over_all_nodes() -> None:
    statuses = _statuses("a", "b", "c", "d")
    statuses.absent_nodes_status = unresolvable("left out")
    statuses.set("a", unschedulable("no cpu", "no memory"))
    statuses.set("b", unschedulable("no cpu"))
    assert statuses.reasons(4) == {"no cpu": 2, "no memory": 1, "left out": 2}
    assert statuses.reasons(2) == {"no cpu": 2, "no memory": 1}


def test_one_node_alone_can_be_in_question() -> None:
    statuses = NodeToStatus.from_one("n", FULL)
    assert list(statuses.items()) == [("n", FULL)]
