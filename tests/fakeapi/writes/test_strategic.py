"""Strategic merge patch: merge keys, directives, order.

Expectations follow apimachinery pkg/util/strategicpatch/patch_test.go and the requests that
kube-scheduler was seen to send.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi.types.errors import ApiError
from fakeapi.writes.strategic import strategic_merge

from ..api_client import STRATEGIC, ApiClient
from ..objects import BUDGETS, NODES, PODS, pod

POD = "core/v1.Pod"
MERGED = yaml.safe_load((Path(__file__).parent / "strategic.yaml").read_text("utf-8"))


def conditions(*types: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": name, "status": "True", **more} for name in types]


async def test_the_schedulers_status_patches_merge_conditions_by_type(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    unschedulable = {
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "0/2 nodes are available",
        "observedGeneration": 1,
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
    first = {"status": {"conditions": [unschedulable]}}
    await api.patch(f"{PODS}/p/status", first, STRATEGIC)
    # The same failure with another message: only what changed, and the merge key.
    second = {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"message": "0/3 nodes are available", "type": "PodScheduled"}],
        }
    }
    await api.patch(f"{PODS}/p/status", second, STRATEGIC)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    third = {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
            "conditions": [target],
            "nominatedNodeName": "n2",
        }
    }
    reply = await api.patch(f"{PODS}/p/status", third, STRATEGIC)
    assert reply.code == 200
    status = reply.body["status"]
    assert status["nominatedNodeName"] == "n2"
    assert status["conditions"][0] == {**unschedulable, "message": "0/3 nodes are available"}
    assert status["conditions"][1]["type"] == "DisruptionTarget"
    cleared = await api.patch(
        f"{PODS}/p/status", {"status": {"nominatedNodeName": None}}, STRATEGIC
    )
    assert "nominatedNodeName" not in cleared.body["status"]
    assert len(cleared.body["status"]["conditions"]) == 2


async def test_taints_are_replaced_whole(api: ApiClient) -> None:
    old = {"key": "old", "effect": "NoSchedule"}
    await api.create(NODES, {"metadata": {"name": "n"}, "spec": {"taints": [old]}})
    new = {"key": "new", "effect": "NoSchedule"}
    reply = await api.patch(f"{NODES}/n", {"spec": {"taints": [new]}}, STRATEGIC)
    assert reply.body["spec"]["taints"] == [new]
    none = await api.patch(f"{NODES}/n", {"spec": {"taints": None}}, STRATEGIC)
    assert none.body["spec"] == {}


async def test_the_selector_of_a_disruption_budget_is_replaced_whole(api: ApiClient) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await api.create(BUDGETS, {"metadata": {"name": "pdb"}, "spec": spec})
    change = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    reply = await api.patch(f"{BUDGETS}/pdb", change, STRATEGIC)
    assert reply.body["spec"]["selector"] == {"matchLabels": {"c": "d"}}


async def test_a_node_is_cordoned_and_uncordoned(api: ApiClient) -> None:
    await api.create(NODES, {"metadata": {"name": "n"}})
    reply = await api.patch(f"{NODES}/n", {"spec": {"unschedulable": True}}, STRATEGIC)
    assert reply.body["spec"] == {"unschedulable": True}
    reply = await api.patch(f"{NODES}/n", {"spec": {"unschedulable": None}}, STRATEGIC)
    assert reply.body["spec"] == {}


async def test_an_image_is_changed_by_the_containers_name(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    change = {"spec": {"containers": [{"name": "c", "image": "y"}]}}
    reply = await api.patch(f"{PODS}/p", change, STRATEGIC)
    (container,) = reply.body["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("y", "Always")


@pytest.mark.parametrize("case", MERGED, ids=lambda case: str(case["patch"]))
def test_a_strategic_patch_merges_as_upstreams(case: dict[str, Any]) -> None:
    before = repr(case["original"])
    assert strategic_merge(case["original"], case["patch"], POD) == case["result"]
    assert repr(case["original"]) == before


def test_ports_merge_by_container_port() -> None:
    original = {"ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]}
    patch = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    merged = strategic_merge(original, patch, "core/v1.Container")
    assert merged["ports"] == [
        {"containerPort": 80, "name": "web", "hostPort": 8080},
        {"containerPort": 81},
    ]


def test_spread_constraints_merge_by_topology_key() -> None:
    original = {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]}
    patch = {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2}]}
    merged = strategic_merge(original, patch, "core/v1.PodSpec")
    assert merged["topologySpreadConstraints"] == [{"topologyKey": "zone", "maxSkew": 2}]


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "does not contain declared merge key: name",
        ),
        ({"spec": {"nope": {"a": 1}}}, 500, 'unable to find api field in struct PodSpec'),
        ({"spec": {"$patch": "explode"}}, 400, "unknown patch type: explode"),
        ({"spec": {"$retainKeys": "x"}}, 400, "must be a list"),
        ({"spec": {"$retainKeys": ["a"], "hostNetwork": True}}, 400, "$retainKeys"),
        (
            {"spec": {
                "$setElementOrder/containers": [{"name": "z"}], "containers": [{"name": "a"}]
            }},
            400,
            "not consistent",
        ),
        ({"spec": {"$setElementOrder/containers": "x"}}, 400, "must be a list"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}, 400, "must be a list"),
    ],
)  # fmt: skip
def test_patches_that_make_no_sense(patch: Any, code: int, words: str) -> None:
    original = {
        "metadata": {"finalizers": ["a"]},
        "spec": {"containers": [{"name": "a"}], "nope": {"b": 1}},
    }
    with pytest.raises(ApiError) as caught:
        strategic_merge(original, patch, POD)
    assert caught.value.code == code
    assert words in caught.value.message
