"""The parts of a captured case: claims of pods, groups, and the outcome of each pod."""

from typing import Any

import pytest

from conformance.api import Json
from conformance.capture.build import captured, document_of
from conformance.capture.cluster import kept_part
from conformance.errors import InputError

NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "2", "pods": "9"}},
}


def pod(name: str, *, node: str = "", **fields: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
        **fields,
    }


def claim(owner: str, *, controller: bool = True) -> Json:
    """A claim of devices that is allocated for a pod."""
    reference = {"kind": "Pod", "name": owner, "controller": controller}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"{owner}-claim",
            "namespace": "default",
            "ownerReferences": [reference],
        },
        "spec": {"devices": {"requests": [{"name": "r"}]}},
        "status": {"allocation": {"devices": {"results": []}}},
    }


def condition(status: str, reason: str = "", message: str = "") -> Json:
    entry = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
    return {"conditions": [{"type": "Ready", "status": "False"}, entry]}


def test_a_claim_of_a_pod_comes_after_it_and_is_not_allocated_yet() -> None:
    found = captured(
        [NODE, pod("web"), claim("web"), pod("runs", node="a"), claim("runs"), claim("gone")],
        names=["default/web"],
        anonymises=False,
    )
    assert [each["metadata"]["name"] for each in found.waiting] == ["web", "web-claim"]  # type: ignore[index]
    assert "status" not in found.waiting[1]
    allocated = [each for each in found.cluster if each["kind"] == "ResourceClaim"]
    assert [each["metadata"]["name"] for each in allocated] == ["runs-claim", "gone-claim"]  # type: ignore[index]
    assert all("status" in each for each in allocated)
    create = document_of(found, "c")["cases"][0]["steps"][0]["create"]  # type: ignore[index]
    assert [[*entry] for entry in create] == [["pod"], ["object", "controlled_by"]]
    assert create[1]["controlled_by"] == "default/web"


def test_a_claim_without_a_controlling_pod_is_there_before() -> None:
    items = [NODE, pod("web"), claim("web", controller=False)]
    found = captured(items, anonymises=False)
    assert [each["kind"] for each in found.cluster] == ["Node", "ResourceClaim"]
    assert [each["kind"] for each in found.waiting] == ["Pod"]


@pytest.mark.parametrize(
    ("fields", "expectation"),
    [
        ({"node": "a"}, {"bound_to": "a"}),
        ({}, {"not_bound": True}),
        ({"status": condition("False", "SchedulerError")}, {"not_bound": True}),
        ({"status": condition("False", "SchedulingGated")}, {"gated": True}),
        (
            {"status": condition("False", "Unschedulable", "0/1 nodes. preemption: 0/1")},
            {"unschedulable": {"message_prefix": "0/1 nodes."}},
        ),
    ],
)
def test_the_outcome_of_a_pod_is_expected(fields: dict[str, Any], expectation: Json) -> None:
    found = captured([NODE, pod("web", **fields)], names=["default/web"], anonymises=False)
    assert found.expectations == [{"pod": "web", **expectation}]


def test_a_pod_that_has_ended_is_of_no_interest() -> None:
    over = pod("web", status={"phase": "Succeeded"})
    with pytest.raises(InputError, match="pod default/web has ended"):
        captured([NODE, over], names=["default/web"])
    assert kept_part(pod("other", node="a", status={"phase": "Failed"})) is None


def test_only_the_controller_by_which_a_pod_is_spread_is_kept() -> None:
    references = [
        {"kind": "Workflow", "name": "w", "controller": True},
        {"kind": "ReplicaSet", "name": "web", "controller": True, "apiVersion": "apps/v1"},
    ]
    web = pod("web")
    web["metadata"]["ownerReferences"] = references
    sets = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
        }
        for name in ("web", "other")
    ]
    found = captured([NODE, web, *sets], anonymises=False)
    assert [each["metadata"]["name"] for each in found.cluster] == ["a", "web"]  # type: ignore[index]
    (kept,) = found.waiting[0]["metadata"]["ownerReferences"]  # type: ignore[index]
    assert (kept["kind"], kept["name"]) == ("ReplicaSet", "web")
