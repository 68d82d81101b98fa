"""Defaults: fields that the server sets if a client leaves them out."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types.kind import KindTable

from ..api_client import ApiClient
from ..objects import NODES, PODS, pod, with_resources

CORE = "/api/v1/namespaces/default"
FILLED = yaml.safe_load((Path(__file__).parent / "defaults.yaml").read_text("utf-8"))["cases"]


async def test_ports_of_endpoints_are_tcp_and_endpoints_are_deprecated(api: ApiClient) -> None:
    subsets = [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]
    reply = await api.post(f"{CORE}/endpoints", {"metadata": {"name": "e"}, "subsets": subsets})
    assert reply.body["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert reply.headers["Warning"] == (
        '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_the_tag(api: ApiClient, image: str, policy: str) -> None:
    spec = {"containers": [{"name": "c", "image": image}]}
    created = await api.create(PODS, pod("p", spec=spec))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_requests_come_from_limits_where_they_are_missing(api: ApiClient) -> None:
    spec = with_resources(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m"})
    spec["initContainers"] = [{**spec["containers"][0], "name": "i"}]
    created = await api.create(PODS, pod("p", spec=spec))
    for container in created["spec"]["containers"] + created["spec"]["initContainers"]:
        assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


EQUAL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "qos"),
    [
        ({}, "BestEffort"),
        (with_resources(requests={"cpu": "0"}), "BestEffort"),
        (with_resources(limits={"example.com/gpu": "1"}), "BestEffort"),
        (with_resources(requests={"cpu": "1"}), "Burstable"),
        (with_resources(limits={"cpu": "1"}), "Burstable"),
        (with_resources(limits=EQUAL), "Guaranteed"),
        (with_resources(limits=EQUAL, requests={"cpu": "1000m", "memory": "1Gi"}), "Guaranteed"),
        (with_resources(limits=EQUAL, requests={"cpu": "500m", "memory": "1Gi"}), "Burstable"),
        ({"resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        ({"resources": {"limits": EQUAL}}, "Guaranteed"),
        (
            {
                **with_resources(limits=EQUAL),
                "initContainers": [{"name": "i", "image": "x"}],
            },
            "Burstable",
        ),
    ],
)
async def test_the_quality_of_service_class(api: ApiClient, spec: dict[str, Any], qos: str) -> None:
    created = await api.create(PODS, pod("p", spec=spec))
    assert created["status"]["qosClass"] == qos


async def test_match_label_keys_become_part_of_the_selectors(api: ApiClient) -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"],
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    spec = {
        "topologySpreadConstraints": [constraint],
        "affinity": {"podAffinity": {required: [term]}, "podAntiAffinity": {preferred: weighted}},
    }
    labels = {"app": "web", "hash": "h1", "tenant": "t1"}
    created = (await api.create(PODS, pod("p", spec=spec, labels=labels)))["spec"]
    same = {"key": "hash", "operator": "In", "values": ["h1"]}
    other = {"key": "tenant", "operator": "NotIn", "values": ["t1"]}
    terms = created["affinity"]
    for found in (
        terms["podAffinity"][required][0],
        terms["podAntiAffinity"][preferred][0]["podAffinityTerm"],
    ):
        assert found["labelSelector"]["matchExpressions"] == [same, other]
    (spread,) = created["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchExpressions"] == [same]


async def test_a_nodes_allocatable_is_its_capacity(api: ApiClient) -> None:
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    body = {"metadata": {"name": "n"}, "status": {"capacity": capacity}}
    created = await api.create(NODES, body)
    assert created["status"]["allocatable"] == capacity


async def test_a_node_keeps_the_status_it_is_created_with(api: ApiClient) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}
    created = await api.create(NODES, {"metadata": {"name": "n"}, "status": status})
    assert created["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    ]
    assert created["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
APPS = "/apis/apps/v1/namespaces/default"


@pytest.mark.parametrize("case", FILLED, ids=lambda case: case["path"].rpartition("/")[2])
async def test_each_kind_has_its_defaults(api: ApiClient, case: dict[str, Any]) -> None:
    made = await api.create(case["path"], {"metadata": {"name": "x"}, **case["given"]})
    for part, values in case["filled"].items():
        shown = made[part]
        if isinstance(values, dict):
            shown = {name: shown.get(name) for name in values}
        assert shown == values
    again = await api.put(f"{case['path']}/x", made)
    is_the_same = again.version == int(made["metadata"]["resourceVersion"])
    assert is_the_same is not case.get("changes_again", False)


async def test_a_template_gets_the_defaults_of_a_spec_but_not_those_of_a_pod(
    api: ApiClient,
) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": with_resources(limits={"cpu": "1"}),
    }
    body = {"metadata": {"name": "x"}, "spec": {**SELECTED, "template": template}}
    spec = (await api.create(f"{APPS}/replicasets", body))["spec"]["template"]["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in spec


async def test_a_namespace_is_labelled_with_its_name(api: ApiClient) -> None:
    created = await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "ns"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["status"] == {"phase": "Active"}


async def test_a_limit_range_completes_itself(api: ApiClient) -> None:
    limits = [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]
    body = {"metadata": {"name": "x"}, "spec": {"limits": limits}}
    created = await api.create(f"{CORE}/limitranges", body)
    (item,) = created["spec"]["limits"]
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


NEVER_RESTARTED = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"},
}


async def test_the_pods_of_a_cron_job_have_their_defaults(api: ApiClient) -> None:
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": NEVER_RESTARTED}}}
    made = await api.create(path, {"metadata": {"name": "x"}, "spec": spec})
    pod = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (pod["dnsPolicy"], pod["restartPolicy"]) == ("ClusterFirst", "Never")


async def test_generations_of_plain_objects(api: ApiClient) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    given = {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []}
    assert (await api.create(path, given))["metadata"]["generation"] == 1
    labelled = await api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.body["metadata"]["generation"] == 2
    noted = await api.patch(f"{path}/x", {"metadata": {"annotations": {"a": "b"}}})
    assert noted.body["metadata"]["generation"] == 2


KINDS = KindTable(BUILT_IN)


def set_defaults(group: str, plural: str, obj: dict[str, Any]) -> None:
    kind = KINDS.find(group, "v1", plural)
    assert kind is not None
    kind.rules.set_defaults(obj)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podIP": "1.1.1.1"}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        ({"podIPs": [{"ip": "1.1.1.1"}]}, {"podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}]}),
        (
            {"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
            {"podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}]},
        ),
        ({"phase": "Running"}, {"phase": "Running"}),
    ],
)
def test_the_address_of_a_pod_is_the_first_of_its_addresses(given: Any, expected: Any) -> None:
    pod = {"status": given}
    set_defaults("", "pods", pod)
    assert pod["status"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"podCIDR": "a"}, {"podCIDR": "a", "podCIDRs": ["a"]}),
        ({"podCIDRs": ["a", "b"]}, {"podCIDR": "a", "podCIDRs": ["a", "b"]}),
        ({"podCIDR": "c", "podCIDRs": ["a", "b"]}, {"podCIDR": "c", "podCIDRs": ["c"]}),
        ({}, {}),
    ],
)
def test_the_range_of_a_node_is_the_first_of_its_ranges(given: Any, expected: Any) -> None:
    node = {"spec": given}
    set_defaults("", "nodes", node)
    assert node["spec"] == expected


def test_strings_of_a_secret_become_data() -> None:
    secret: dict[str, Any] = {"stringData": {"a": "b"}, "data": {"a": "eA==", "c": "ZA=="}}
    set_defaults("", "secrets", secret)
    assert secret == {"type": "Opaque", "data": {"a": "Yg==", "c": "ZA=="}}


def test_claim_templates_have_a_kind() -> None:
    stateful_set: dict[str, Any] = {"spec": {"volumeClaimTemplates": [{"metadata": {}}]}}
    set_defaults("apps", "statefulsets", stateful_set)
    template = stateful_set["spec"]["volumeClaimTemplates"][0]
    assert (template["kind"], template["apiVersion"]) == ("PersistentVolumeClaim", "v1")


def test_a_daemon_set_always_has_a_template_generation() -> None:
    daemon_set: dict[str, Any] = {"metadata": {"name": "d"}}
    set_defaults("apps", "daemonsets", daemon_set)
    annotations = daemon_set["metadata"]["annotations"]
    assert annotations == {"deprecated.daemonset.template.generation": "0"}
