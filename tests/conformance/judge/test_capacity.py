"""Promises kept: what the pods on a node ask for together, and what it has."""

import msgspec
import pytest

from conformance.api import Json
from conformance.format.objects import Item, objects_of
from conformance.judge.capacity import overcommitments


def _objects(*items: dict[str, object]) -> list[Json]:
    return [obj for item in items for obj in objects_of(msgspec.convert(item, Item))]


def _pods(*pods: dict[str, object]) -> list[Json]:
    return _objects(
        *({"pod": {"name": f"p{number}", "node": "a", **pod}} for number, pod in enumerate(pods))
    )


def _sidecar(cpu: str, **more: object) -> dict[str, object]:
    return {"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}, **more}


FITTING: list[list[dict[str, object]]] = [
    [{"cpu": "500m"}, {"cpu": "500m", "memory": "1Gi"}],
    [{"cpu": 1}, {"cpu": 1, "status": {"phase": "Succeeded"}}],
    [{"host_ports": [80]}, {"host_ports": [{"hostPort": 80, "protocol": "UDP"}]}],
    [
        {"host_ports": [{"hostPort": 80, "hostIP": "127.0.0.1"}]},
        {"host_ports": [{"hostPort": 80, "hostIP": "127.0.0.2"}]},
    ],
    [{"init_containers": [{"resources": {"requests": {"cpu": "1"}}}]}, {}],
    [{"cpu": 2, "spec": {"resources": {"requests": {"cpu": "1"}}}}],
]

TOO_MUCH: list[tuple[list[dict[str, object]], str]] = [
    ([{"cpu": "501m"}, {"cpu": "500m"}], "pods request 1001m of cpu, 1 is allocatable"),
    ([{}, {}, {}], "pods request 3 of pods, 2 is allocatable"),
    ([{"resources": {"example.com/gpu": 1}}], "1 of example.com/gpu, 0 is allocatable"),
    ([{"cpu": 1, "spec": {"overhead": {"cpu": "1m"}}}], "1001m of cpu"),
    ([{"cpu": 1, "init_containers": [_sidecar("1m")]}], "1001m of cpu"),
    ([{"host_ports": [80]}, {"host_ports": [80]}], "pods p0 and p1 both have host port 80"),
    (
        [{"host_ports": [{"hostPort": 80, "hostIP": "127.0.0.1"}]}, {"host_ports": [80]}],
        "both have host port 80",
    ),
    (
        [
            {"init_containers": [_sidecar("0", ports=[{"containerPort": 1, "hostPort": 80}])]},
            {"host_ports": [80]},
        ],
        "both have host port 80",
    ),
]


@pytest.mark.parametrize("pods", FITTING)
def test_pods_that_fit_are_no_overcommitment(pods: list[dict[str, object]]) -> None:
    nodes = _objects({"node": {"name": "a", "cpu": 1, "memory": "1Gi", "pods": 2}})
    assert overcommitments(nodes, _pods(*pods)) == []


@pytest.mark.parametrize(("pods", "problem"), TOO_MUCH)
def test_an_overcommitment_names_the_node_and_the_resource(
    pods: list[dict[str, object]], problem: str
) -> None:
    nodes = _objects({"node": {"name": "a", "cpu": 1, "memory": "1Gi", "pods": 2}})
    (found,) = overcommitments(nodes, _pods(*pods))
    assert found.startswith("node a: ")
    assert problem in found
