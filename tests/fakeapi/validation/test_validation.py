"""Validation: upstream's causes of refusals that exchanges/*.yaml do not record."""

from typing import Any

import pytest

from ..api_client import ApiClient
from ..objects import BUDGETS, CONFIG_MAPS, NODES, PODS, config_map, pod, with_resources

REQUIRED, INVALID = "FieldValueRequired", "FieldValueInvalid"
DUPLICATE, UNSUPPORTED = "FieldValueDuplicate", "FieldValueNotSupported"
FORBIDDEN, MISSING = "FieldValueForbidden", "FieldValueNotFound"

C = {"name": "c", "image": "x"}
RESOURCES = "spec.containers[0].resources"
IN_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IN_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{IN_REQUIRED}.nodeSelectorTerms"
ANTI = f"spec.affinity.podAntiAffinity.{IN_REQUIRED}[0]"
SPREAD = "spec.topologySpreadConstraints[0]"


def node_affinity(*terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {IN_REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(**requirement: Any) -> dict[str, Any]:
    return node_affinity({"matchExpressions": [requirement]})


def anti_affinity(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {IN_REQUIRED: [term]}}}


def spread(**more: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint | more]}


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{**C, **more}]}


CONTAINERS = [
    (
        {"initContainers": [{**C, "name": "i", "readinessProbe": {}}]},
        [(FORBIDDEN, "spec.initContainers[0].readinessProbe")],
    ),
    (
        container(ports=[{"containerPort": 1, "hostPort": 70000, "protocol": "ICMP"}]),
        [
            (INVALID, "spec.containers[0].ports[0].hostPort"),
            (UNSUPPORTED, "spec.containers[0].ports[0].protocol"),
        ],
    ),
    (
        {"hostNetwork": True, **container(ports=[{"containerPort": 1, "hostPort": 2}])},
        [(INVALID, "spec.containers[0].ports[0].hostPort")],
    ),
]

AMOUNTS = [
    (
        with_resources(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
        [(INVALID, f"{RESOURCES}.requests")],
    ),
    (
        {"resources": {"requests": {"ephemeral-storage": "1"}}},
        [(UNSUPPORTED, "spec.resources.requests[ephemeral-storage]")],
    ),
]  # fmt: skip

SCHEDULING = [
    ({"restartPolicy": "Foo"}, [(UNSUPPORTED, "spec.restartPolicy")]),
    ({"dnsPolicy": "Foo"}, [(UNSUPPORTED, "spec.dnsPolicy")]),
    ({"nodeSelector": {"a b": "c"}}, [(INVALID, "spec.nodeSelector")]),
    ({"nodeName": "Bad_"}, [(INVALID, "spec.nodeName")]),
    ({"hostname": "a.b"}, [(INVALID, "spec.hostname")]),
    (
        expression(key="a", operator="In"),
        [(REQUIRED, f"{TERMS}[0].matchExpressions[0].values")],
    ),
    (
        expression(key="a", operator="Exists", values=["x"]),
        [(FORBIDDEN, f"{TERMS}[0].matchExpressions[0].values")],
    ),
    (
        expression(key="a", operator="Gt", values=["1", "2"]),
        [(REQUIRED, f"{TERMS}[0].matchExpressions[0].values")],
    ),
    (
        expression(key="a", operator="Near", values=["x"]),
        [(INVALID, f"{TERMS}[0].matchExpressions[0].operator")],
    ),
    (
        anti_affinity(labelSelector={"matchLabels": {"a": "b"}}),
        [(REQUIRED, f"{ANTI}.topologyKey")] + [(INVALID, f"{ANTI}.topologyKey")] * 2,
    ),
    (
        anti_affinity(
            topologyKey="z",
            labelSelector={
                "matchLabels": {"k": "v"},
                "matchExpressions": [{"key": "k", "operator": "Exists"}],
            },
            matchLabelKeys=["k"],
        ),
        [(INVALID, f"{ANTI}[0]")],
    ),
    (
        anti_affinity(topologyKey="z", labelSelector={"matchLabels": {"a": "b c"}}),
        [(INVALID, f"{ANTI}.labelSelector.matchLabels")],
    ),
    (anti_affinity(topologyKey="z", namespaces=["A"]), [(INVALID, f"{ANTI}.namespace")]),
    (
        {"tolerations": [{"key": "k", "operator": "Gt"}]},
        [(INVALID, "spec.tolerations[0].value")] * 2,
    ),
    (
        {"tolerations": [
            {"key": "k", "operator": "Gt", "value": "007"},
            {"key": "k", "operator": "Lt", "value": "9223372036854775808"},
            {"key": "k", "operator": "Lt", "value": "much"},
        ]},
        [(INVALID, f"spec.tolerations[{index}].value") for index in (0, 1, 2, 2)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "causes"), CONTAINERS + AMOUNTS + SCHEDULING)
async def test_pods_that_are_refused(
    api: ApiClient, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    reply = await api.post(PODS, pod("v", spec=spec), dryRun="All")
    assert (reply.code, reply.reason) == (422, "Invalid"), reply.body
    assert sorted(reply.causes) == sorted(causes)
    assert (reply.body["details"]["kind"], reply.body["details"]["name"]) == ("Pod", "v")
    assert reply.message.startswith('Pod "v" is invalid: ')


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerName": "Bad Name"},
        expression(key="a", operator="Gt", values=["x"]),
        with_resources(limits={"example.com/gpu": "1"}),
        spread(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["k"]),
        {"resources": {"requests": {"cpu": "1"}}},
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "k", "operator": "Gt", "value": "-9223372036854775808"}]},
        {
            "volumes": [{"name": "v"}],
            **container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
        },
        {"resourceClaims": [{"name": "r", "resourceClaimName": "a"}],
         **with_resources(claims=[{"name": "r"}])},
    ],
)  # fmt: skip
async def test_pods_that_are_accepted_however_odd(api: ApiClient, spec: dict[str, Any]) -> None:
    reply = await api.post(PODS, pod("v", spec=spec), dryRun="All")
    assert reply.code == 201, reply.body


TAINT = {"key": "a", "effect": "NoSchedule"}
CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
STORAGE = "/apis/storage.k8s.io/v1"
PV_SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
           "hostPath": {"path": "/a"}}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}}
OTHERS = [
    (NODES, {"spec": {"taints": [{"key": "a", "effect": "Foo"}]}},
     [(UNSUPPORTED, "metadata.taints[0].effect")]),
    (NODES, {"spec": {"taints": [{"key": "a"}]}}, [(REQUIRED, "metadata.taints[0].effect")]),
    (NODES, {"spec": {"taints": [TAINT, TAINT]}}, [(DUPLICATE, "metadata.taints[1]")]),
    (NODES, {"status": {"capacity": {"cpu": "-1"}}},
     [(INVALID, "status.capacity.cpu"), (INVALID, "status.allocatable.cpu")]),
    (BUDGETS, {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, [(INVALID, "spec")]),
    (BUDGETS, {"spec": {"minAvailable": "150%"}}, [(INVALID, "spec.minAvailable")]),
    (BUDGETS, {"spec": {"maxUnavailable": "101%"}}, [(INVALID, "spec.maxUnavailable")]),
    (BUDGETS, {"spec": {"minAvailable": "half"}}, [(INVALID, "spec.minAvailable")]),
    (BUDGETS, {"spec": {"unhealthyPodEvictionPolicy": "X"}},
     [(UNSUPPORTED, "spec.unhealthyPodEvictionPolicy")]),
    (CONFIG_MAPS, {"data": {"a b": "1"}}, [(INVALID, "data[a b]")]),
    (CONFIG_MAPS, {"data": {"a": "x" * (1024 * 1024 + 1)}}, [("FieldValueTooLong", "")]),
    (f"{CORE}/persistentvolumeclaims", {"spec": {}},
     [(REQUIRED, "spec.accessModes"), (REQUIRED, "spec.resources[storage]")]),
    ("/api/v1/persistentvolumes",
     {"spec": {"accessModes": ["Any"], "capacity": {"storage": "1Gi"}, "nfs": {}}},
     [(UNSUPPORTED, "spec.accessModes")]),
    ("/api/v1/persistentvolumes",
     {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}},
     [(REQUIRED, "spec")]),
    ("/api/v1/persistentvolumes",
     {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
               "hostPath": {"path": "/a"}, "nfs": {"server": "s", "path": "/a"}}},
     [(FORBIDDEN, "spec.nfs")]),
    (f"{STORAGE}/storageclasses", {"volumeBindingMode": "Later"},
     [(REQUIRED, "provisioner"), (UNSUPPORTED, "volumeBindingMode")]),
    (f"{STORAGE}/csinodes", {"spec": {"drivers": [{"name": "d"}]}},
     [(REQUIRED, "spec.drivers[0].nodeID")]),
    (f"{STORAGE}/volumeattachments", {"spec": {"attacher": "a", "nodeName": "n"}},
     [(REQUIRED, "spec.source")]),
    (f"{STORAGE}/volumeattachments",
     {"spec": {"nodeName": "n",
               "source": {"persistentVolumeName": "v", "inlineVolumeSpec": PV_SPEC}}},
     [(REQUIRED, "spec.attacher"), (FORBIDDEN, "spec.source")]),
    ("/apis/node.k8s.io/v1/runtimeclasses", {}, [(REQUIRED, "handler")]),
    (f"{APPS}/replicasets", {"spec": {"template": TEMPLATE}},
     [(REQUIRED, "spec.selector"), (INVALID, "spec.template.metadata.labels")]),
    (f"{APPS}/replicasets",
     {"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": TEMPLATE}},
     [(INVALID, "spec.template.metadata.labels")]),
    (f"{APPS}/deployments",
     {"spec": {"selector": {"matchLabels": {"a": "b"}},
               "template": {**TEMPLATE, "spec": {"containers": []}}}},
     [(REQUIRED, "spec.template.spec.containers")]),
    (f"{CORE}/replicationcontrollers",
     {"spec": {"selector": {"a": "z"}, "template": TEMPLATE}},
     [(INVALID, "spec.template.metadata.labels")]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "causes"), OTHERS)
async def test_other_objects_that_are_refused(
    api: ApiClient, path: str, body: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    reply = await api.post(path, {"metadata": {"name": "x"}, **body}, dryRun="All")
    assert (reply.code, reply.reason) == (422, "Invalid"), reply.body
    assert sorted(reply.causes) == sorted(causes)


@pytest.mark.parametrize(
    ("mounted", "template", "causes"),
    [
        ("data", {}, []),
        ("data", {"volumes": [{"name": "data", "emptyDir": {}}]}, []),
        ("own", {"volumes": [{"name": "own", "emptyDir": {}}]}, []),
        ("data", {"hostname": "a_b", "subdomain": "a_b"}, []),
        ("other", {}, [(MISSING, "spec.template.spec.containers[0].volumeMounts[0].name")]),
    ],
)
async def test_pods_of_a_stateful_set_are_checked_as_its_controller_will_make_them(
    api: ApiClient, mounted: str, template: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mount = {"name": mounted, "mountPath": "/m"}
    pods = container(volumeMounts=[mount]) | template
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pods},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    body = {"metadata": {"name": "x"}, "spec": spec}
    reply = await api.post(f"{APPS}/statefulsets", body, dryRun="All")
    assert reply.code == (422 if causes else 201), reply.body
    assert reply.causes == causes


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        ({"name": ""}, (REQUIRED, "metadata.name")),
        ({"name": "X_y"}, (INVALID, "metadata.name")),
        ({"name": "x" * 254}, (INVALID, "metadata.name")),
        ({"labels": {"a b": "c"}}, (INVALID, "metadata.labels")),
        ({"labels": {"a": "b c"}}, (INVALID, "metadata.labels")),
        ({"annotations": {"a b": "c"}}, (INVALID, "metadata.annotations")),
        ({"annotations": {"a": "x" * 262144}}, ("FieldValueTooLong", "metadata.annotations")),
        ({"finalizers": ["plain"]}, (INVALID, "metadata.finalizers[0]")),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, (INVALID, "metadata.finalizers")),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            (INVALID, "metadata.ownerReferences.uid"),
        ),
        ({"generateName": "Bad_", "name": ""}, (INVALID, "metadata.generateName")),
    ],
)
async def test_metadata_is_checked(
    api: ApiClient, metadata: dict[str, Any], cause: tuple[str, str]
) -> None:
    reply = await api.post(CONFIG_MAPS, config_map("c") | {"metadata": {"name": "c"} | metadata})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert cause in reply.causes


async def test_the_longest_name_is_253_characters(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("x" * 253))


async def test_a_claim_whose_spec_stays_may_be_labelled(api: ApiClient) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await api.create(
        path, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    )
    assert (await api.patch(f"{path}/c", {"metadata": {"labels": {"a": "b"}}})).code == 200
    reply = await api.patch(f"{path}/c", {"spec": {"devices": {"requests": None}}})
    assert (reply.code, reply.causes) == (422, [(INVALID, "spec")])


async def test_the_labels_of_a_volumes_nodes_may_become_ga(api: ApiClient) -> None:
    def on(key: str, zone: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}
        return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}

    beta, ga = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    volumes = "/api/v1/persistentvolumes"
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    source = {"hostPath": {"path": "/v"}, **on(beta, "a")["spec"]}
    await api.create(volumes, {"metadata": {"name": "v"}, "spec": {**spec, **source}})
    assert (await api.patch(f"{volumes}/v", on(ga, "b"))).code == 422
    assert (await api.patch(f"{volumes}/v", on(ga, "a"))).code == 200
    assert (await api.patch(f"{volumes}/v", on(beta, "a"))).code == 422


async def test_one_bad_name_in_upstreams_words(api: ApiClient) -> None:
    reply = await api.post(CONFIG_MAPS, config_map("X_y"))
    assert reply.message == (
        'ConfigMap "X_y" is invalid: metadata.name: Invalid value: "X_y": a lowercase RFC 1123 '
        "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )
