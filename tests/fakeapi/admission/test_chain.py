"""Admission: priority, tolerations, limits, runtime classes, namespaces."""

from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from ..api_client import ApiClient
from ..objects import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, config_map, pod, with_resources

RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
LIMIT_RANGES = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


async def priority_class(api: ApiClient, name: str, value: int, **more: Any) -> None:
    await api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **more})


async def test_priority_comes_from_the_class(api: ApiClient) -> None:
    await priority_class(api, "high", 1000, preemptionPolicy="Never")
    spec = (await api.create(PODS, pod("p", spec={"priorityClassName": "high"})))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


@pytest.mark.parametrize(
    ("name", "value"),
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)],
)
async def test_the_systems_classes_are_there_from_the_start(
    api: ApiClient, name: str, value: int
) -> None:
    spec = (await api.create(PODS, pod("p", spec={"priorityClassName": name})))["spec"]
    assert spec["priority"] == value
    reply = await api.delete(f"{PRIORITY_CLASSES}/{name}")
    assert (reply.code, reply.reason) == (403, "Forbidden")


async def test_the_default_class_is_for_pods_that_name_none(api: ApiClient) -> None:
    await priority_class(api, "usual", 7, globalDefault=True)
    spec = (await api.create(PODS, pod("p")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)
    second = {"metadata": {"name": "second"}, "value": 8, "globalDefault": True}
    reply = await api.post(PRIORITY_CLASSES, second)
    assert reply.code == 403
    assert reply.message.endswith(
        "PriorityClass usual is already marked as default. Only one default can exist"
    )
    note = {"metadata": {"annotations": {"a": "b"}}}
    assert (await api.patch(f"{PRIORITY_CLASSES}/usual", note)).code == 200


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; priority "
            "admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given "
            "PriorityClass name",
        ),
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
async def test_pods_that_admission_refuses(
    api: ApiClient, spec: dict[str, Any], words: str
) -> None:
    reply = await api.post(PODS, pod("p", spec=spec))
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert reply.message == f'pods "p" is forbidden: {words}'
    assert reply.body["details"] == {"name": "p", "kind": "pods"}


async def test_a_pod_without_a_name_is_refused_by_its_prefix(api: ApiClient) -> None:
    reply = await api.post(PODS, pod("", spec={"priority": 7}, generateName="web-"))
    assert reply.message.startswith('pods "web-" is forbidden')


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {"name": "x"}, "value": 1_000_000_001}, "value"),
        ({"metadata": {"name": "system-x"}, "value": 1}, "metadata.name"),
    ],
)
async def test_some_priorities_are_the_systems_own(
    api: ApiClient, body: dict[str, Any], field: str
) -> None:
    reply = await api.post(PRIORITY_CLASSES, body)
    assert (reply.code, reply.causes) == (422, [("FieldValueForbidden", field)])


async def test_a_classs_value_is_fixed(api: ApiClient) -> None:
    await priority_class(api, "x", 1)
    reply = await api.patch(f"{PRIORITY_CLASSES}/x", {"value": 2})
    assert (reply.code, reply.causes) == (422, [("FieldValueForbidden", "value")])
    described = await api.patch(f"{PRIORITY_CLASSES}/x", {"description": "d"})
    assert described.code == 200


async def test_an_update_may_leave_the_priority_out(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    for field in ("priority", "preemptionPolicy"):
        del created["spec"][field]
    reply = await api.put(f"{PODS}/p", created)
    assert (reply.code, reply.body["spec"]["priority"]) == (200, 0)


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], ["unreachable"]),
    ],
)
async def test_pods_tolerate_a_lost_node_for_five_minutes_by_default(
    api: ApiClient, tolerations: list[dict[str, str]], added: list[str]
) -> None:
    created = await api.create(PODS, pod("p", spec={"tolerations": tolerations}))
    found = created["spec"]["tolerations"][len(tolerations) :]
    assert [item["key"].rpartition("/")[2] for item in found] == added


async def test_a_limit_range_gives_defaults_and_notes_it(api: ApiClient) -> None:
    limits = [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
    ]
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    created = await api.create(PODS, pod("p"))
    resources = created["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
    assert created["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
        )
    }
    assert created["status"]["qosClass"] == "Burstable"
    other = await api.create("/api/v1/namespaces/kube-system/pods", pod("p"))
    assert other["spec"]["containers"][0]["resources"] == {}


async def test_a_limit_range_does_not_change_existing_pods(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    limits = [{"type": "Container", "default": {"cpu": "1"}}]
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    reply = await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert (reply.code, reply.body["spec"]) == (200, created["spec"])


@pytest.mark.parametrize(
    ("item", "resources", "words"),
    [
        (
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"type": "Container", "min": {"memory": "64Mi"}},
            {"requests": {"memory": "32Mi"}},
            "minimum memory usage per Container is 64Mi, but request is 32Mi",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Pod", "max": {"cpu": "1"}},
            {},
            "maximum cpu usage per Pod is 1.  No limit is specified",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"memory": "2"}},
            {},
            "memory max limit to request ratio per Container is 2, "
            "but no request is specified or request is 0",
        ),
    ],
)
async def test_a_limit_range_sets_bounds(
    api: ApiClient, item: dict[str, Any], resources: dict[str, Any], words: str
) -> None:
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    reply = await api.post(PODS, pod("p", spec=with_resources(**resources)))
    assert (reply.code, reply.message) == (403, f'pods "p" is forbidden: {words}')


@pytest.mark.parametrize("bound", [{"min": {"cpu": "1"}}, {"max": {"cpu": "1"}}])
@pytest.mark.parametrize("ratio", [{}, {"maxLimitRequestRatio": {"cpu": "1"}}])
async def test_the_bounds_of_a_limit_range_are_allowed_themselves(
    api: ApiClient, bound: dict[str, Any], ratio: dict[str, Any]
) -> None:
    item = {"type": "Container", **bound, **ratio}
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    await api.create(PODS, pod("p", spec=with_resources(**resources)))


async def test_a_claim_must_be_as_large_as_the_range_demands(api: ApiClient) -> None:
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}}
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    reply = await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    assert reply.code == 403
    assert reply.message.endswith("minimum storage usage per PersistentVolumeClaim is 2Gi, "
                                  "but request is 1Gi")  # fmt: skip


async def test_a_runtime_class_adds_overhead_selector_and_tolerations(api: ApiClient) -> None:
    mine = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}
    await api.create(
        RUNTIME_CLASSES,
        {
            "metadata": {"name": "gvisor"},
            "handler": "runsc",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [mine]},
        },
    )
    spec = {"runtimeClassName": "gvisor", "nodeSelector": {"disk": "ssd"}}
    created = (await api.create(PODS, pod("p", spec=spec)))["spec"]
    assert created["overhead"] == {"cpu": "250m"}
    assert created["nodeSelector"] == {"disk": "ssd", "sandbox": "yes"}
    assert mine in created["tolerations"]
    conflict = await api.post(PODS, pod("q", spec={**spec, "nodeSelector": {"sandbox": "no"}}))
    assert conflict.code == 403
    assert "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes" in conflict.message
    other = await api.post(PODS, pod("q", spec={**spec, "overhead": {"cpu": "1"}}))
    assert other.message.endswith("doesn't match RuntimeClass's defined Overhead")
    same = await api.post(PODS, pod("q", spec={**spec, "overhead": {"cpu": "0.25"}}))
    assert same.code == 201


THEIRS = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}


async def class_with_their_toleration(api: ApiClient) -> None:
    scheduling = {"tolerations": [THEIRS]}
    metadata = {"name": "r"}
    await api.create(
        RUNTIME_CLASSES, {"metadata": metadata, "handler": "r", "scheduling": scheduling}
    )


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        ({**THEIRS, "effect": "NoExecute"}, [THEIRS]),
        ({**THEIRS, "key": "other"}, [THEIRS]),
        ({"key": "sandbox", "operator": "Exists"}, []),  # it includes theirs
        (THEIRS, []),
    ],
)
async def test_tolerations_that_another_one_includes_are_not_added(
    api: ApiClient, mine: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    await class_with_their_toleration(api)
    spec = {"runtimeClassName": "r", "tolerations": [mine]}
    found = (await api.create(PODS, pod("p", spec=spec)))["spec"]["tolerations"]
    assert [item for item in found if "tolerationSeconds" not in item] == [mine, *others]


async def test_a_toleration_that_the_classs_own_includes_goes(api: ApiClient) -> None:
    await class_with_their_toleration(api)
    narrow = {**THEIRS, "operator": "Equal", "value": "v"}
    spec = {"runtimeClassName": "r", "tolerations": [narrow]}
    found = (await api.create(PODS, pod("p", spec=spec)))["spec"]["tolerations"]
    assert [item for item in found if "tolerationSeconds" not in item] == [THEIRS]


async def test_a_claim_without_a_class_gets_the_default_one(api: ApiClient) -> None:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name, noted in (("other", {}), ("usual", mark)):
        await api.create(
            STORAGE_CLASSES,
            {"metadata": {"name": name, "annotations": noted}, "provisioner": "p"},
        )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    created = await api.create(CLAIMS, {"metadata": {"name": "a"}, "spec": spec})
    assert created["spec"]["storageClassName"] == "usual"
    none = {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": ""}}
    assert (await api.create(CLAIMS, none))["spec"]["storageClassName"] == ""


async def test_of_several_default_classes_the_newest_counts_then_the_name(
    api: ApiClient, clock: ManualClock
) -> None:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in ("a", "c", "b"):
        metadata = {"name": name, "annotations": mark}
        await api.create(STORAGE_CLASSES, {"metadata": metadata, "provisioner": "p"})
        if name == "a":
            clock.advance(10)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    created = await api.create(CLAIMS, {"metadata": {"name": "x"}, "spec": spec})
    assert created["spec"]["storageClassName"] == "b"


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: ApiClient) -> None:
    reply = await api.post("/api/v1/namespaces/nope/configmaps", config_map("c"))
    assert (reply.code, reply.message) == (404, 'namespaces "nope" not found')


async def test_four_namespaces_are_there_from_the_start(api: ApiClient) -> None:
    assert (await api.get(NAMESPACES)).names == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


async def test_nodes_are_not_tainted_by_default(
    api: ApiClient, session: aiohttp.ClientSession
) -> None:
    assert (await api.create(NODES, {"metadata": {"name": "n"}}))["spec"] == {}
    async with FakeApiServer(
        options=ServerOptions(enable_admission_plugins=["TaintNodesByCondition"])
    ) as server:
        tainting = ApiClient(session, server.url)
        created = await tainting.create(NODES, {"metadata": {"name": "n"}})
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        assert created["spec"]["taints"] == [taint]
        ready = await tainting.patch(f"{NODES}/n", {"spec": {"taints": None}})
        assert ready.body["spec"] == {}


async def test_a_pod_created_on_a_node_gets_the_zone_label_of_the_node(api: ApiClient) -> None:
    labels = {"topology.kubernetes.io/zone": "z1"}
    await api.create(NODES, {"metadata": {"name": "n1", "labels": labels}})
    created = await api.create(PODS, pod("p", spec={"nodeName": "n1"}))
    assert created["metadata"]["labels"] == labels
    await api.create(NODES, {"metadata": {"name": "n2"}})
    created = await api.create(PODS, pod("q", spec={"nodeName": "n2"}))
    assert "labels" not in created["metadata"]
