"""The reasons in the messages of unschedulable pods."""

import pytest

from conformance.judge.reasons import reasons_of


@pytest.mark.parametrize(
    "tail",
    [
        "",
        " no new claims to deallocate",
        " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims found.",
    ],
)
def test_reasons_are_taken_from_the_messages(tail: str) -> None:
    messages = {
        "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory." + tail: 3,
        "0/3 nodes are available: 3 Insufficient cpu.": 1,
        'running PreFilter plugin "X": it broke': 1,
    }
    assert reasons_of(messages) == (
        ("Insufficient cpu", 4, 1.5),
        ("Insufficient memory", 3, 2.0),
        ('running PreFilter plugin "X": it broke', 1, 0.0),
    )


def test_a_reason_with_a_number_in_it_keeps_it() -> None:
    message = "0/1 nodes are available: 1 node(s) had untolerated taint(s), 2 more."
    assert [reason for reason, _, _ in reasons_of({message: 1})] == [
        "more",
        "node(s) had untolerated taint(s)",
    ]
