"""The short forms of nodes and pods, written out."""

from typing import Any

import msgspec
import pytest

from conformance.format.objects import Item, objects_of


def _expand(**item: object) -> list[dict[str, Any]]:
    return list(objects_of(msgspec.convert(item, Item)))


def _pod(**fields: object) -> dict[str, Any]:
    (pod,) = _expand(pod={"name": "p", **fields})
    return pod


def test_a_node_has_room_by_default() -> None:
    (node,) = _expand(node={"name": "a"})
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "a"}
    assert node["spec"] == {}


def test_a_node_with_everything() -> None:
    (node,) = _expand(
        node={
            "name": "a",
            "cpu": "500m",
            "ephemeral_storage": "1Gi",
            "resources": {"example.com/gpu": 2},
            "taints": ["dedicated=db:NoSchedule", "gone:NoExecute", {"key": "x", "effect": "y"}],
            "unschedulable": True,
            "images": {"app:v1": 1000},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"conditions": []},
        }
    )
    assert node["spec"] == {
        "podCIDR": "10.0.0.0/24",
        "taints": [
            {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
            {"key": "gone", "effect": "NoExecute"},
            {"key": "x", "effect": "y"},
        ],
        "unschedulable": True,
    }
    assert node["status"]["allocatable"]["example.com/gpu"] == "2"
    assert node["status"]["images"] == [{"names": ["app:v1"], "sizeBytes": 1000}]
    assert node["status"]["conditions"] == []


def test_several_alike_are_numbered() -> None:
    assert [n["metadata"]["name"] for n in _expand(node={"name": "n", "count": 3})] == [
        "n-0",
        "n-1",
        "n-2",
    ]


def test_a_pod_requests_nothing_by_default() -> None:
    pod = _pod()
    assert pod["metadata"]["namespace"] == "default"
    assert pod["spec"] == {"containers": [{"name": "main", "image": "registry.example/app:v1"}]}
    assert "status" not in pod


def test_limits_of_extended_resources_equal_the_requests() -> None:
    (container,) = _pod(cpu=1, resources={"example.com/gpu": 2})["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1", "example.com/gpu": "2"},
        "limits": {"example.com/gpu": "2"},
    }


def test_a_request_for_zero_is_a_request() -> None:
    (container,) = _pod(cpu=0, memory="0")["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "0", "memory": "0"}}


def test_a_pod_group_is_a_gang_or_of_the_basic_policy() -> None:
    (group,) = _expand(pod_group={"name": "g"})
    assert (group["kind"], group["apiVersion"]) == ("PodGroup", "scheduling.k8s.io/v1alpha2")
    assert group["spec"] == {"schedulingPolicy": {"basic": {}}}
    fields = {"name": "g", "min_count": 3, "topology": "rack", "disruption_mode": "PodGroup"}
    priority_class, group = _expand(pod_group={**fields, "namespace": "team", "priority": -5})
    assert (priority_class["metadata"]["name"], priority_class["value"]) == ("priority-minus-5", -5)
    assert group["metadata"]["namespace"] == "team"
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": "PodGroup",
        "priorityClassName": "priority-minus-5",
    }
    assert _pod(pod_group="g")["spec"]["schedulingGroup"] == {"podGroupName": "g"}


def test_a_priority_comes_with_its_class() -> None:
    priority_class, pod = _expand(pod={"name": "p", "priority": -5})
    assert (priority_class["kind"], priority_class["value"]) == ("PriorityClass", -5)
    assert pod["spec"]["priorityClassName"] == priority_class["metadata"]["name"]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (8080, {"hostPort": 8080, "containerPort": 8080}),
        (
            {"hostPort": 53, "protocol": "UDP"},
            {"hostPort": 53, "containerPort": 53, "protocol": "UDP"},
        ),
    ],
)
def test_host_ports(given: object, written: dict[str, object]) -> None:
    (container,) = _pod(host_ports=[given])["spec"]["containers"]
    assert container["ports"] == [written]


def test_scheduling_constraints_of_a_pod_in_short_form() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    pod = _pod(
        node_selector={"zone": "z1"},
        node_affinity={"required": [term], "preferred": [{"weight": 1, "preference": term}]},
        affinity={"podAffinity": {}},
        tolerations=[{"operator": "Exists"}],
        scheduling_gates=["wait"],
        scheduler_name="other",
        spec={"hostNetwork": True},
    )
    spec = pod["spec"]
    assert spec["affinity"] == {
        "podAffinity": {},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        },
    }
    assert spec["nodeSelector"] == {"zone": "z1"}
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["schedulingGates"] == [{"name": "wait"}]
    assert (spec["schedulerName"], spec["hostNetwork"]) == ("other", True)


def test_containers_get_the_names_and_images_they_lack() -> None:
    spec = _pod(containers=[{"image": "x"}, {"name": "y"}], init_containers=[{}])["spec"]
    assert [(c["name"], c["image"]) for c in spec["containers"]] == [
        ("main-0", "x"),
        ("y", "registry.example/app:v1"),
    ]
    assert [c["name"] for c in spec["initContainers"]] == ["init-0"]
