"""Status patches carry what has changed, in the form a server can merge."""

from typing import Any

import pytest
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


def test_a_new_message_is_all_that_is_sent_of_a_known_condition() -> None:
    condition = UNSCHEDULABLE._replace(message="0/2 nodes are available")
    assert _patch(_pod(KNOWN), condition)["status"] == {
        "$setElementOrder/conditions": [{"type": "PodScheduled"}],
        "conditions": [{"message": "0/2 nodes are available", "type": "PodScheduled"}],
    }


def test_only_a_change_of_the_status_is_a_transition() -> None:
    condition = UNSCHEDULABLE._replace(status="True", reason="", message="")
    (changes,) = _patch(_pod(KNOWN), condition)["status"]["conditions"]
    assert changes == {
        "lastTransitionTime": NOW,
        "message": None,
        "reason": None,
        "status": "True",
        "type": "PodScheduled",
    }


def test_that_a_condition_still_holds_of_a_newer_spec_is_no_news() -> None:
    """`UpdatePodCondition` compares everything but the generation."""
    assert _patch(_pod(KNOWN, generation=2), UNSCHEDULABLE) is None


def test_a_changed_condition_carries_the_generation_of_a_newer_spec() -> None:
    patch = _patch(_pod(KNOWN, generation=2), UNSCHEDULABLE, "a")
    assert patch["status"]["nominatedNodeName"] == "a"
    assert patch["status"]["conditions"] == [{"observedGeneration": 2, "type": "PodScheduled"}]
    condition = UNSCHEDULABLE._replace(message="other")
    (changes,) = _patch(_pod(KNOWN, generation=2), condition)["status"]["conditions"]
    assert changes == {"message": "other", "observedGeneration": 2, "type": "PodScheduled"}


@pytest.mark.parametrize(
    ("pod", "condition", "node"),
    [
        (_pod(KNOWN), UNSCHEDULABLE, None),
        (_pod(KNOWN, nominated="a"), UNSCHEDULABLE, "a"),
        (_pod(), None, ""),
        (_pod(), None, None),
    ],
)
def test_nothing_is_sent_when_nothing_changes(
    pod: Pod, condition: Condition | None, node: str | None
) -> None:
    assert _patch(pod, condition, node) is None


def test_a_nomination_is_set_and_cleared() -> None:
    assert _patch(_pod(), node="a") == {"status": {"nominatedNodeName": "a"}}
    assert _patch(_pod(nominated="a"), node="") == {"status": {"nominatedNodeName": None}}


def test_a_nomination_that_is_left_alone_is_not_sent() -> None:
    info = NominatingInfo("b", NominatingMode.NOOP)
    pod = _pod(nominated="a")
    assert PodStatusPatchCall(pod, None, info).patch(NOW) is None
