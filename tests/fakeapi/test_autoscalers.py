"""HorizontalPodAutoscalers in both versions: one object, two views.

autoscaler_versions.json is what `legacyscheme.Scheme.Convert` of Kubernetes v1.36.3 makes of an
autoscaler that has everything: `given` in v2, `v1` of that, and `v2` of that again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .api_client import MERGE

if TYPE_CHECKING:
    from .api_client import ApiClient

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
RECORDED = json.loads(
    Path(__file__).with_name("autoscaler_versions.json").read_text(encoding="utf-8")
)


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "h"}, "spec": {"maxReplicas": 5, "scaleTargetRef": TARGET, **spec}}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def said(obj: dict[str, Any]) -> dict[str, Any]:
    """What an autoscaler says of itself, without what the server says of it."""
    return {"annotations": obj["metadata"].get("annotations"), **parts(obj)}


def parts(obj: dict[str, Any]) -> dict[str, Any]:
    return {"spec": obj["spec"], "status": obj["status"]}


async def given(api: ApiClient, path: str, obj: dict[str, Any]) -> None:
    """Create it with its status."""
    await api.create(path, obj)
    patched = await api.patch(f"{path}/h/status", {"status": obj["status"]})
    assert patched.code == 200, patched.message


async def test_v1_shows_what_it_has_no_field_for_as_upstream_does(api: ApiClient) -> None:
    await given(api, V2, RECORDED["given"])
    assert said((await api.get(f"{V1}/h")).body) == said(RECORDED["v1"])


async def test_what_v1_was_told_in_annotations_is_there_in_v2(api: ApiClient) -> None:
    await given(api, V1, RECORDED["v1"])
    hidden = RECORDED["v1"]["metadata"]["annotations"]
    status = {"status": RECORDED["v1"]["status"], "metadata": {"annotations": hidden}}
    assert (await api.patch(f"{V1}/h/status", status)).code == 200
    assert said((await api.get(f"{V2}/h")).body) == said(RECORDED["v2"])


async def test_an_old_client_scales_on_cpu(api: ApiClient) -> None:
    made = await api.create(V1, autoscaler(targetCPUUtilizationPercentage=50))
    assert made["apiVersion"] == "autoscaling/v1"
    assert (made["spec"]["targetCPUUtilizationPercentage"], made["spec"]["minReplicas"]) == (50, 1)
    assert "annotations" not in made["metadata"]
    new = (await api.get(f"{V2}/h")).body
    assert new["apiVersion"] == "autoscaling/v2"
    assert new["spec"]["metrics"] == [cpu(50)]
    assert new["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_without_any_metric_it_is_80_percent_of_cpu(api: ApiClient) -> None:
    made = await api.create(V1, autoscaler())
    assert made["spec"]["targetCPUUtilizationPercentage"] == 80


@pytest.mark.parametrize("text", ["", "abc", "[]", "{}", '[{"type": 1}]', '["x"]'])
async def test_annotations_that_say_nothing_are_dropped(api: ApiClient, text: str) -> None:
    names = ("metrics", "behavior", "current-metrics", "conditions")
    obj = autoscaler(targetCPUUtilizationPercentage=50)
    obj["metadata"]["annotations"] = {f"{PREFIX}{name}": text for name in names}
    made = await api.create(V1, obj)
    assert "annotations" not in made["metadata"]
    assert (await api.get(f"{V2}/h")).body["spec"]["metrics"] == [cpu(50)]


async def test_a_patch_through_v1_keeps_what_only_v2_knows(api: ApiClient) -> None:
    memory = {"type": "AverageValue", "averageValue": "1Gi"}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": memory}}
    await api.create(V2, autoscaler(metrics=[cpu(60), metric]))
    change = {"spec": {"maxReplicas": 9, "targetCPUUtilizationPercentage": 70}}
    assert (await api.patch(f"{V1}/h", change, MERGE)).code == 200
    spec = (await api.get(f"{V2}/h")).body["spec"]
    assert (spec["maxReplicas"], spec["metrics"]) == (9, [metric, cpu(70)])


async def test_each_version_watches_the_same_object(api: ApiClient) -> None:
    async with api.watch(V1) as old, api.watch(V2) as new:
        await api.create(V2, autoscaler())
        seen = [await stream.next() for stream in (old, new)]
    assert [event and event["object"]["apiVersion"] for event in seen] == [
        "autoscaling/v1",
        "autoscaling/v2",
    ]


async def test_who_applied_in_v1_owns_it_in_v1(api: ApiClient) -> None:
    whole = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", **autoscaler()}
    kind = "application/apply-patch+yaml"
    for path, manager in ((V1, "old"), (V2, "new")):
        whole["apiVersion"] = path.split("/namespaces")[0].removeprefix("/apis/")
        made = await api.patch(f"{path}/h", whole, kind, fieldManager=manager)
        assert made.code in (200, 201), made.message
    entries = (await api.get(f"{V1}/h")).body["metadata"]["managedFields"]
    assert {(entry["manager"], entry["apiVersion"]) for entry in entries} == {
        ("old", "autoscaling/v1"),
        ("new", "autoscaling/v2"),
    }


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"maxReplicas": 0}, ("FieldValueRequired", "spec.maxReplicas")),
        ({"maxReplicas": -1, "minReplicas": None}, ("FieldValueInvalid", "spec.maxReplicas")),
        ({"minReplicas": 0}, ("FieldValueInvalid", "spec.minReplicas")),
        ({"minReplicas": 6}, ("FieldValueInvalid", "spec.maxReplicas")),
        ({"scaleTargetRef": {"name": "d"}}, ("FieldValueRequired", "spec.scaleTargetRef.kind")),
        ({"scaleTargetRef": {"kind": "D"}}, ("FieldValueRequired", "spec.scaleTargetRef.name")),
        (
            {"scaleTargetRef": {"kind": "D", "name": "a/b"}},
            ("FieldValueInvalid", "spec.scaleTargetRef.name"),
        ),
        (
            {"scaleTargetRef": {"kind": "D", "name": "a", "apiVersion": "v1"}},
            ("FieldValueInvalid", "spec.scaleTargetRef.apiVersion"),
        ),
    ],
)
async def test_bounds_and_targets_are_checked(
    api: ApiClient, spec: dict[str, Any], cause: tuple[str, str]
) -> None:
    refused = await api.post(V2, autoscaler(**spec))
    assert refused.code == 422
    assert cause in refused.causes


async def test_whom_it_scaled_before_it_goes_on_to_scale(api: ApiClient) -> None:
    core = {"kind": "ReplicationController", "name": "rc", "apiVersion": "v1"}
    await api.create(V2, autoscaler(scaleTargetRef=core))
    assert (await api.patch(f"{V2}/h", {"spec": {"maxReplicas": 6}})).code == 200
    other = {"spec": {"scaleTargetRef": {"kind": "Pod"}}}
    refused = await api.patch(f"{V2}/h", other)
    assert refused.causes == [("FieldValueInvalid", "spec.scaleTargetRef.apiVersion")]
