"""Fields of a stored object that may change: most of a pod's spec may not."""

from typing import Any

import pytest

from ..api_client import STRATEGIC, ApiClient
from ..objects import CONFIG_MAPS, NODES, PODS, config_map, pod

GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
IN_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"
EXPRESSION = {"key": "zone", "operator": "In", "values": ["a", "b"]}
OTHER = {"key": "disk", "operator": "Exists"}


def node_affinity(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {IN_REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 5},
        {"schedulerName": "foo"},
        {"terminationGracePeriodSeconds": 1},
        {"nodeName": "n1"},
        {"nodeSelector": {"a": "b"}},
        {"affinity": node_affinity({"matchExpressions": [EXPRESSION]})},
        {"hostNetwork": True},
        {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        {"restartPolicy": "Never"},
        {"overhead": {"cpu": "1"}},
    ],
)
async def test_most_of_a_pods_spec_is_fixed(api: ApiClient, change: dict[str, Any]) -> None:
    created = await api.create(PODS, pod("p"))
    reply = await api.patch(f"{PODS}/p", {"spec": change}, STRATEGIC)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == [(FORBIDDEN, "spec")]
    assert (
        "pod updates may not change fields other than `spec.containers[*].image`" in reply.message
    )
    assert (await api.get(f"{PODS}/p")).body == created


async def test_a_nodes_name_is_never_put(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    created["spec"]["nodeName"] = "n1"
    assert (await api.put(f"{PODS}/p", created)).code == 422
    bound = await api.create(PODS, pod("q", spec={"nodeName": "n1"}))
    for node in ("n2", ""):
        bound["spec"]["nodeName"] = node
        assert (await api.put(f"{PODS}/q", bound)).code == 422


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "image": "y"}]},
        {"activeDeadlineSeconds": 100},
        {"tolerations": [{"key": "mine", "operator": "Exists"}]},
    ],
)
async def test_some_of_it_may_change(api: ApiClient, change: dict[str, Any]) -> None:
    created = await api.create(PODS, pod("p"))
    if "tolerations" in change:
        change = {"tolerations": created["spec"]["tolerations"] + change["tolerations"]}
    reply = await api.patch(f"{PODS}/p", {"spec": change}, STRATEGIC)
    assert (reply.code, reply.body["metadata"]["generation"]) == (200, 2)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [(None, 100, 200), (100, 50, 200), (100, 100, 200), (100, 200, 422), (100, None, 422)],
)
async def test_a_deadline_only_comes_closer(
    api: ApiClient, before: int | None, after: int | None, code: int
) -> None:
    spec = {} if before is None else {"activeDeadlineSeconds": before}
    await api.create(PODS, pod("p", spec=spec))
    reply = await api.patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": after}})
    assert reply.code == code
    if code == 422:
        assert reply.causes == [(INVALID, "spec.activeDeadlineSeconds")]


async def test_tolerations_are_only_added_and_their_seconds_changed(api: ApiClient) -> None:
    mine = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    created = await api.create(PODS, pod("p", spec={"tolerations": [mine]}))
    tolerations = created["spec"]["tolerations"]
    longer = [{**tolerations[0], "tolerationSeconds": 9}, *tolerations[1:]]
    assert (await api.patch(f"{PODS}/p", {"spec": {"tolerations": longer}})).code == 200
    removed = await api.patch(f"{PODS}/p", {"spec": {"tolerations": tolerations[1:]}})
    assert (removed.code, removed.causes) == (422, [(FORBIDDEN, "spec.tolerations")])


async def test_dropped_default_tolerations_come_back(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    reply = await api.patch(f"{PODS}/p", {"spec": {"tolerations": []}})
    assert reply.body == created


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ({}, {"nodeSelector": {"a": "b"}}, 200),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}, 200),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, 422),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": None}, 422),
        ({}, {"affinity": node_affinity({"matchExpressions": [EXPRESSION]})}, 200),
        (
            {"affinity": node_affinity({"matchExpressions": [EXPRESSION]})},
            {"affinity": node_affinity({"matchExpressions": [EXPRESSION, OTHER]})},
            200,
        ),
        (
            {"affinity": node_affinity({"matchExpressions": [EXPRESSION]})},
            {"affinity": node_affinity({"matchExpressions": [OTHER]})},
            422,
        ),
        (
            {"affinity": node_affinity({"matchExpressions": [EXPRESSION]})},
            {"affinity": node_affinity(
                {"matchExpressions": [EXPRESSION]}, {"matchExpressions": [OTHER]}
            )},
            422,
        ),
        ({"affinity": node_affinity({"matchExpressions": [EXPRESSION]})}, {"affinity": None}, 422),
        ({}, {"priorityClassName": "system-node-critical"}, 422),
    ],
)  # fmt: skip
async def test_a_gated_pod_may_be_tied_to_fewer_nodes(
    api: ApiClient, before: dict[str, Any], after: dict[str, Any], code: int
) -> None:
    await api.create(PODS, pod("p", spec={**GATED, **before}))
    assert (await api.patch(f"{PODS}/p", {"spec": after})).code == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"unschedulable": True}, 200),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, 200),
        ({"podCIDRs": ["10.1.0.0/24"]}, 200),  # podCIDR, which stays, is the one that counts
        ({"podCIDR": "10.1.0.0/24"}, 422),
        ({"providerID": "other"}, 422),
    ],
)
async def test_nodes_keep_their_addresses(
    api: ApiClient, change: dict[str, Any], code: int
) -> None:
    spec = {"podCIDRs": ["10.0.0.0/24"], "providerID": "mine"}
    await api.create(NODES, {"metadata": {"name": "n"}, "spec": spec})
    assert (await api.patch(f"{NODES}/n", {"spec": change})).code == code


async def test_an_immutable_config_map_stays_as_it_is(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, {**config_map("c", {"a": "1"}), "immutable": True})
    reply = await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
    assert (reply.code, reply.causes) == (422, [(FORBIDDEN, "data")])
    assert (await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"a": "b"}}})).code == 200


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"volumeName": "v"}, 200),
        ({"resources": {"requests": {"storage": "2Gi"}}}, 422),
        ({"accessModes": ["ReadWriteMany"]}, 422),
    ],
)
async def test_a_claim_gets_its_volume_once(
    api: ApiClient, change: dict[str, Any], code: int
) -> None:
    await api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": CLAIM})
    assert (await api.patch(f"{CLAIMS}/c", {"spec": change})).code == code
    if code == 200:
        again = await api.patch(f"{CLAIMS}/c", {"spec": {"volumeName": "w"}})
        assert (again.code, again.causes) == (422, [(FORBIDDEN, "spec")])


async def test_a_bound_claim_may_grow_if_its_class_allows(api: ApiClient) -> None:
    elastic = {"metadata": {"name": "elastic"}, "provisioner": "x", "allowVolumeExpansion": True}
    await api.create("/apis/storage.k8s.io/v1/storageclasses", elastic)
    spec = {**CLAIM, "storageClassName": "elastic"}
    await api.create(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    await api.patch(f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}})
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert (await api.patch(f"{CLAIMS}/c", larger)).code == 200
    grown = {"status": {"capacity": {"storage": "2Gi"}}}
    assert (await api.patch(f"{CLAIMS}/c/status", grown)).code == 200
    smaller = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    reply = await api.patch(f"{CLAIMS}/c", smaller)
    assert (reply.code, reply.causes) == (
        422,
        [(FORBIDDEN, "spec.resources.requests.storage")],
    )


async def test_the_spec_of_a_volume_attachment_is_fixed(api: ApiClient) -> None:
    path = "/apis/storage.k8s.io/v1/volumeattachments"
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    await api.create(path, {"metadata": {"name": "x"}, "spec": spec})
    assert (await api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})).code == 200
    reply = await api.patch(f"{path}/x", {"spec": {"nodeName": "m"}})
    assert (reply.code, reply.causes) == (422, [(INVALID, "spec")])
