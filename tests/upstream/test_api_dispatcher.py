"""Upstream's cases for the queue of API calls and for the calls: see `call_stage` for the steps."""

import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api_calls import RELEVANCES, CallQueue, PodStatusPatchCall, QueuedCall
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.testing import VirtualClock
from tests.upstream.call_stage import CallStage
from tests.upstream.loading import Case, Fields, cases, pod

STATUS_PATCHES = cases("api_dispatcher", "pod_status_patch")


@pytest.mark.parametrize(
    "case", [*cases("api_dispatcher", "call_queue"), *cases("api_dispatcher", "lifecycle")]
)
def test_every_step_has_upstreams_result(case: Case) -> None:
    CallStage(case).play()


def _of(function: str) -> list[object]:
    prefix = f"TestPodStatusPatchCall_{function}["
    return [param for param in STATUS_PATCHES if param.id.startswith(prefix)]


def _wishes(fields: Fields) -> tuple[Condition | None, NominatingInfo]:
    status, node_name = fields.get("condition"), fields.get("nominate")
    condition = None if status is None else Condition("PodScheduled", status, "", "")
    if node_name is None:
        return condition, NominatingInfo("", NominatingMode.NOOP)
    return condition, NominatingInfo(node_name, NominatingMode.OVERRIDE)


def _call(case: Case, name: str = "call") -> PodStatusPatchCall:
    return PodStatusPatchCall(pod(case["pod"]), *_wishes(case[name]))


@pytest.mark.parametrize("case", _of("IsNoOp"))
def test_is_no_op(case: Case) -> None:
    assert _call(case).is_no_op is case["no_op"]


@pytest.mark.parametrize("case", _of("Merge"))
def test_merged_calls_want_what_upstreams_do(case: Case) -> None:
    merged = _call(case).merged(_call(case, "older"))
    assert (merged.condition, merged.nominating_info) == _wishes(case["merged"])


@pytest.mark.parametrize("case", _of("Sync"))
def test_a_queued_call_is_synced_as_upstreams(case: Case) -> None:
    queue, queued = CallQueue(RELEVANCES), QueuedCall(_call(case), print)
    queue.add(queued)
    if case.get("under_way"):
        queue.pop()
    known = pod(case["pod"])
    seen = replace(known, status=replace(known.status, nominated_node_name=case["seen"]))
    ahead = queue.sync_pod(seen)
    assert isinstance(queued.call, PodStatusPatchCall)
    assert queued.call.pod.status.nominated_node_name == case["starts_from"]
    assert ahead.status.nominated_node_name == case["ahead"]


class _Client:
    """A fake client that records calls."""

    def __init__(self) -> None:
        self.patches = 0
        self.bound: list[str] = []

    async def patch(self, resource: object, name: str, patch: Fields, **options: str) -> None:
        self.patches += 1

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bound = [pod.key, node_name]


@pytest.mark.parametrize("case", _of("Execute"))
async def test_a_call_sends_upstreams_patch(case: Case) -> None:
    client, (condition, info) = _Client(), _wishes(case["call"])
    dispatcher = ApiDispatcher(client, VirtualClock())  # type: ignore[arg-type] # takes notes
    assert await dispatcher.patch_pod_status(
        pod(case["pod"]), condition=condition, nominating_info=info
    )
    assert client.patches == case["patches"]


@pytest.mark.parametrize("case", cases("api_dispatcher", "pod_binding"))
async def test_pod_binding(case: Case) -> None:
    client = _Client()
    dispatcher = ApiDispatcher(client, VirtualClock())  # type: ignore[arg-type] # takes notes
    await dispatcher.bind(pod(case["pod"]), case["node"])
    assert client.bound == case["bound"]
