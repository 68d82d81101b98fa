"""The verdict on each member of a pod group when the search for the group has ended."""

from typing import cast

import pytest

from scheduler.cycle.attempt import CLEAR_NOMINATED_NODE, Attempt
from scheduler.cycle.pod_group.results import SUCCESS, UNSCHEDULABLE, MemberResult, PodGroupResult
from scheduler.cycle.pod_group.submit import Verdict, verdict
from scheduler.cycle.schedule_one import Found
from scheduler.framework import (
    Code,
    NominatingInfo,
    NominatingMode,
    Status,
    unresolvable,
    unschedulable,
)

REJECTED = unschedulable("no room for the group")
FAILED = Status(Code.ERROR, "another member failed")
OWN_FAILURE = Status(Code.ERROR, "this member failed")
OWN_REJECTION = unresolvable("this member fits nowhere")
HOST = NominatingInfo("node", NominatingMode.OVERRIDE)


@pytest.mark.parametrize(
    ("group", "waits", "own", "preempts", "expected"),
    [
        (None, False, None, False, Verdict()),
        (None, False, OWN_REJECTION, False, Verdict(OWN_REJECTION, None)),
        (None, False, REJECTED, True, Verdict(unschedulable(UNSCHEDULABLE, ""))),
        (REJECTED, False, None, False, Verdict(unschedulable(UNSCHEDULABLE, ""))),
        (REJECTED, False, REJECTED, True, Verdict(unschedulable(UNSCHEDULABLE, ""))),
        (REJECTED, False, OWN_REJECTION, False, Verdict(OWN_REJECTION, None)),
        (REJECTED, True, None, False, Verdict(REJECTED, HOST)),
        (REJECTED, True, OWN_REJECTION, True, Verdict(OWN_REJECTION, None)),
        (FAILED, False, None, False, Verdict(FAILED, CLEAR_NOMINATED_NODE)),
        (FAILED, False, OWN_REJECTION, False, Verdict(FAILED, CLEAR_NOMINATED_NODE)),
        (FAILED, True, OWN_FAILURE, False, Verdict(OWN_FAILURE, CLEAR_NOMINATED_NODE)),
    ],
)
def test_a_member_is_bound_only_if_it_and_its_group_fit(
    group: Status | None, waits: bool, own: Status | None, preempts: bool, expected: Verdict
) -> None:
    member = MemberResult(
        attempt=cast("Attempt", None),
        found=Found(None, own, nominating_info=None),
        host="node",
        status=own,
        permit_status=SUCCESS,
        requires_preemption=preempts,
    )
    result = PodGroupResult(status=group, waiting_on_preemption=waits)
    assert verdict(result, member) == expected
