"""The explanation of pods with resource claims: their devices, and the obstacles."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.explain.cli import main

GPU = "gpu.example.com"
NODE = {
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


def device_class(name: str = "gpu", **spec: object) -> dict[str, object]:
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(*devices: dict[str, object], **spec: object) -> dict[str, object]:
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": "a", "pool": pool, "devices": devices, **spec}
    return {"kind": "ResourceSlice", "metadata": {"name": f"slice-{len(spec)}"}, "spec": spec}


def device(name: str, model: str = "a100", **more: object) -> dict[str, object]:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def exactly(count: int = 1, **more: object) -> dict[str, object]:
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    return {"name": f"r{count}", "exactly": exact}


def claim(name: str, *requests: dict[str, object], **devices: object) -> dict[str, object]:
    spec = {"devices": {"requests": requests, **devices}}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "uid": name}, "spec": spec}


def pod(name: str, claim_name: str) -> dict[str, object]:
    entry = {"name": "devices", "resourceClaimName": claim_name}
    spec = {"containers": [{"name": "c", "image": "app"}], "resourceClaims": [entry]}
    return {"kind": "Pod", "metadata": {"name": name, "uid": name}, "spec": spec}


def explained(tmp_path: Path, *objects: dict[str, Any]) -> list[dict[str, Any]]:
    documents = []
    for obj in (NODE, *objects):
        group = "v1" if obj["kind"] in ("Node", "Pod") else "resource.k8s.io/v1"
        metadata = dict(obj["metadata"])
        if obj["kind"] in ("Pod", "ResourceClaim"):
            metadata["namespace"] = "default"
        documents.append(json.dumps({"apiVersion": group, **obj, "metadata": metadata}))
    path = tmp_path / "cluster.yaml"
    path.write_text("\n---\n".join(documents), encoding="utf-8")
    result = CliRunner().invoke(main, ["--manifests", str(path), "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)["pods"]


def test_a_pod_is_shown_with_its_devices(tmp_path: Path) -> None:
    (found,) = explained(
        tmp_path,
        device_class(),
        resource_slice(device("x"), device("y")),
        claim("mine", exactly(2)),
        pod("one", "mine"),
    )
    assert found["reserved"] == [f"devices for claim default/mine: {GPU}/a/x, {GPU}/a/y"]


def reasons(tmp_path: Path, *objects: dict[str, Any]) -> list[str]:
    """Return the obstacles of the last pod."""
    found = explained(tmp_path, *objects)[-1]
    assert found["result"] == "unschedulable"
    (node,) = found["nearest"]
    return [change["text"] for change in node["changes"]]


def test_the_failing_request_is_named_with_the_holders_of_its_devices(tmp_path: Path) -> None:
    is_a100 = {"cel": {"expression": f'device.attributes["{GPU}"].model == "a100"'}}
    tainted = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(device("x"), device("y", "t4"), device("z", **tainted)),
        claim("first", exactly()),
        claim("second", exactly(2, selectors=[is_a100])),
        pod("one", "first"),
        pod("two", "second"),
    )
    assert found == [
        "claim default/second, request r2 needs 2 of the devices of class gpu: 2 of 3 match its "
        "selectors, allocated 1 of these (to default/first), tainted 1 (k=v:NoSchedule)"
    ]


def test_a_constraint_that_cannot_be_met_is_named(tmp_path: Path) -> None:
    constraint = {"matchAttribute": f"{GPU}/model"}
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(device("x"), device("y", "t4")),
        claim("mine", exactly(2), constraints=[constraint]),
        pod("one", "mine"),
    )
    assert found == [
        f"claim default/mine: no free devices have equal values of {GPU}/model (all requests)"
    ]


def test_counters_that_ran_out_are_shown(tmp_path: Path) -> None:
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": "6"}}}]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "card", "counters": {"memory": {"value": "10"}}}]
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(
            device("x", consumesCounters=consumes),
            device("y", consumesCounters=consumes),
            pool=pool,
        ),
        resource_slice(pool=pool, sharedCounters=counters),
        claim("mine", exactly(2)),
        pod("one", "mine"),
    )
    assert found == [f"pool {GPU}/a, counter set card has left: memory 10"]


def test_capacity_that_ran_out_is_shown(tmp_path: Path) -> None:
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(device("x", **shared)),
        claim("first", exactly(capacity={"requests": {"memory": "6Gi"}})),
        claim("second", exactly(capacity={"requests": {"memory": "6Gi"}})),
        pod("one", "first"),
        pod("two", "second"),
    )
    assert found == [
        "claim default/second, request r1 needs 1 of the devices of class gpu: 1 of 1 match its "
        "selectors, without enough capacity 1"
    ]


def test_pools_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    requests = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount"}}
    requests["exactly"]["count"] = 1  # type: ignore[index]
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(device("x"), pool=pool),
        claim("mine", requests),
        pod("one", "mine"),
    )
    assert found[0] == f"pool {GPU}/a is being updated: not all its slices are there"
    found = reasons(
        tmp_path,
        device_class(),
        resource_slice(device("x"), device("x")),
        claim("mine", requests),
        pod("one", "mine"),
    )
    assert found[0] == f"pool {GPU}/a is invalid: duplicate device name x"


@pytest.mark.parametrize(
    ("selector", "condition", "text"),
    [
        ("b", {}, "claim default/mine has devices that this node cannot reach"),
        (
            "a",
            {"bindingConditions": ["ready"]},
            "claim default/mine has devices that are not ready",
        ),
    ],
)
def test_allocated_claims_may_be_out_of_reach(
    tmp_path: Path, selector: str, condition: dict[str, object], text: str
) -> None:
    mine = claim("mine", exactly())
    field = {"key": "metadata.name", "operator": "In", "values": [selector]}
    result = {"request": "r1", "driver": GPU, "pool": "a", "device": "x", **condition}
    mine["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "other", "uid": "other"}],
    }
    found = reasons(tmp_path, device_class(), mine, pod("one", "mine"))
    assert found == [text]
