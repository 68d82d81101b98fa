"""Patches of a pod's status and their retries, against upstream's own cases."""

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler.api.core import ObjectMeta, PodCondition
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup, PodGroupStatus
from scheduler.api_calls import PodStatusPatchCall
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import Conflict, ConnectionRefused
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.testing import VirtualClock, make_pod
from tests.upstream.loading import Case, Fields, cases


@pytest.mark.parametrize("case", cases("schedule_one", "update_pod"))
def test_update_pod(case: Case) -> None:
    """Times of the last probe are left out: the scheduler never sets one."""
    pod = make_pod("foo", nominated_node_name=case.get("nominated", ""))
    conditions = msgspec.convert(case["conditions"], tuple[PodCondition, ...])
    pod = msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, conditions=conditions)
    )
    name = case.get("nominating")
    info = None if name is None else NominatingInfo(name, NominatingMode.OVERRIDE)
    call = PodStatusPatchCall(pod, Condition(**case["condition"]), info)
    patch: Any = call.patch("now")
    if patch is not None:
        for condition in patch["status"].get("conditions", ()):
            condition.pop("lastProbeTime", None)
    assert patch == case.get("patch")


class _Server:
    """A fake client: refuses the scripted number of connections, then accepts a patch."""

    def __init__(self, answers: list[str]) -> None:
        self._answers = iter(answers)
        self.patches: list[Fields] = []

    async def patch(self, resource: object, name: str, patch: Fields, **options: str) -> None:
        answer = next(self._answers)
        if answer == "refused":
            raise ConnectionRefused("connection refused")
        if answer == "conflict":
            raise Conflict(409, "Conflict", "the object has been modified")
        self.patches.append(patch)


@pytest.mark.parametrize("case", cases("scheduler_util", "patch_status"))
async def test_patch_status(case: Case) -> None:
    clock, server = VirtualClock(), _Server(case["answers"])
    dispatcher = ApiDispatcher(server, clock)  # type: ignore[arg-type] # it only patches
    write = dispatcher.patch_pod_status(
        make_pod(),
        condition=Condition("PodScheduled", "False", "", ""),
        nominating_info=None,
    )
    tried, _ = await asyncio.gather(write, clock.advance(1), return_exceptions=True)
    if case.get("raises"):
        assert isinstance(tried, ConnectionRefused)
        assert server.patches == []
    else:
        assert tried is True
        (patch,) = server.patches
        (condition,) = patch["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")


@pytest.mark.parametrize("case", cases("scheduler_util", "patch_pod_group_status"))
async def test_patch_pod_group_status(case: Case) -> None:
    """`before` and `written` are the status, reason and message of the group's condition."""
    clock, server = VirtualClock(), _Server(case["answers"])
    old = [PodCondition(POD_GROUP_SCHEDULED, *case["before"])] if "before" in case.fields else []
    group = PodGroup(
        metadata=ObjectMeta(namespace="ns", name="pg1", uid="pg1"),
        status=PodGroupStatus(tuple(old)),
    )
    dispatcher = ApiDispatcher(server, clock)  # type: ignore[arg-type] # it only patches
    condition = Condition(POD_GROUP_SCHEDULED, *case["written"])
    write = dispatcher.patch_pod_group_status(group, condition=condition)
    tried, _ = await asyncio.gather(write, clock.advance(1), return_exceptions=True)
    assert isinstance(tried, ConnectionRefused) == case.get("raises", False)
    assert len(server.patches) == case["patches"]
    for patch in server.patches:
        (sent,) = patch["status"]["conditions"]
        names = ("status", "reason", "message")
        assert [sent[name] for name in names] == case["written"]
