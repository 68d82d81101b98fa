"""Pods held at Permit and pods in PreBind, against upstream's own cases."""

import asyncio

import pytest

from scheduler.framework import Status
from scheduler.metrics import SchedulerMetrics
from scheduler.runtime import PodsInPreBind, WaitingPods
from scheduler.snapshot import PodInfo
from scheduler.testing import VirtualClock, make_pod
from tests.upstream.loading import Case, cases

TOPIC = "framework_runtime"
POD = PodInfo(make_pod())


async def _act(pods: WaitingPods, actions: list[str]) -> list[bool]:
    """Return the pod's answer to each rejection and preemption."""
    waiting = pods.get(POD.uid)
    assert waiting is not None
    answers = []
    for action in actions:
        verb, _, plugin = action.partition(" ")
        if verb == "allow":
            waiting.allow(plugin)
        elif verb == "wait":
            assert await waiting.wait() is None
        elif verb == "reject":
            answers.append(waiting.reject(plugin, "reject message"))
        else:
            answers.append(waiting.preempt(plugin, "preempted"))
    return answers


@pytest.mark.parametrize("case", cases(TOPIC, "waiting_pods"))
async def test_a_pod_that_is_allowed_stays_so(case: Case) -> None:
    pods = WaitingPods(VirtualClock(), SchedulerMetrics())
    pods.add(POD, {"plugin1": 10})
    assert await _act(pods, case["actions"]) == case["answers"]
    assert await pods.wait_on_permit(POD.uid) is None


@pytest.mark.parametrize("case", cases(TOPIC, "wait_on_permit"))
async def test_wait_on_permit(case: Case) -> None:
    pods = WaitingPods(VirtualClock(), SchedulerMetrics())
    pods.add(POD, {"permit-plugin": 10})
    wait = asyncio.ensure_future(pods.wait_on_permit(POD.uid))
    await asyncio.sleep(0)
    assert await _act(pods, case["actions"]) == case["answers"]
    status = await wait
    wanted = case.get("status")
    if wanted is None:
        assert status is None
        return
    assert status is not None
    found = {"code": str(status.code), "reasons": list(status.reasons), "plugin": status.plugin}
    assert found == wanted


@pytest.mark.parametrize("case", cases(TOPIC, "pods_in_pre_bind"))
async def test_pods_in_pre_bind(case: Case) -> None:
    pods, may_finish = PodsInPreBind(), asyncio.Event()

    async def work() -> Status | None:
        try:
            await may_finish.wait()
        except asyncio.CancelledError:
            # With `finish` the plugin ignores the cancellation and succeeds.
            if "finish" not in case["actions"]:
                raise
        return None

    run = asyncio.ensure_future(pods.run(POD.uid, work()))
    await asyncio.sleep(0)
    pod = pods.get(POD.uid)
    assert pod is not None
    await asyncio.sleep(0)
    answers = []
    for action in case["actions"]:
        if action == "find":
            answers.append(pods.get(POD.uid) is not None)
        elif action == "cancel":
            answers.append(pod.cancel_pod("test cancel"))
        else:
            may_finish.set()
            await asyncio.wait([run])
    may_finish.set()
    status = await run
    if case.get("outcome"):
        assert ("Success" if status is None else str(status.code)) == case["outcome"]
