"""Status patches carry what has changed, in the form a server can merge."""

from typing import Any

from msgspec.structs import replace

from scheduler.api.core import Pod, PodCondition
from scheduler.api_calls import PodStatusPatchCall
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.testing import make_pod

NOW = "2026-11-21T08:00:00Z"
UNSCHEDULABLE = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")


def _pod(*conditions: PodCondition, nominated: str = "", generation: int = 1) -> Pod:
    pod = make_pod("pod", nominated_node_name=nominated)
    return replace(
        pod,
        metadata=replace(pod.metadata, generation=generation),
        status=replace(pod.status, conditions=conditions),
    )


def _patch(pod: Pod, condition: Condition | None = None, node: str | None = None) -> Any:
    info = None if node is None else NominatingInfo(node, NominatingMode.OVERRIDE)
    return PodStatusPatchCall(pod, condition, info).patch(NOW)


KNOWN = PodCondition(
    type="PodScheduled",
    status="False",
    reason="Unschedulable",
    message="0/1 nodes are available",
    observed_generation=1,
)


def test_the_first_condition_is_sent_whole() -> None:
    assert _patch(_pod(), UNSCHEDULABLE) == {
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": NOW,
                    "message": "0/1 nodes are available",
                    "observedGeneration": 1,
                    "reason": "Unschedulable",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ]
        }
    }


def test_a_condition_beside_others_names_them_all_in_order() -> None:
    patch = _patch(_pod(PodCondition(type="Ready", status="False")), UNSCHEDULABLE)
    order = patch["status"]["$setElementOrder/conditions"]
    assert order == [{"type": "Ready"}, {"type": "PodScheduled"}]
    assert [c["type"] for c in patch["status"]["conditions"]] == ["PodScheduled"]


def test_a_changed_condition_carries_the_generation_of_a_newer_spec() -> None:
    patch = _patch(_pod(KNOWN, generation=2), UNSCHEDULABLE, "a")
    assert patch["status"]["nominatedNodeName"] == "a"
    assert patch["status"]["conditions"] == [{"observedGeneration": 2, "type": "PodScheduled"}]
    condition = UNSCHEDULABLE._replace(message="other")
    (changes,) = _patch(_pod(KNOWN, generation=2), condition)["status"]["conditions"]
    assert changes == {"message": "other", "observedGeneration": 2, "type": "PodScheduled"}
