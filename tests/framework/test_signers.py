"""Sign fragments: equal for pods that mean the same (upstream's `signers_test.go`)."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.framework.signers import (
    host_ports_fragment,
    node_affinity_fragment,
    resources_fragment,
    tolerations_fragment,
)
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod


def _pod(**parts: object) -> PodInfo:
    return PodInfo(make_pod(**parts))  # type: ignore[arg-type]


def _container(*host_ports: int) -> dict[str, object]:
    return {"ports": [{"hostPort": port, "containerPort": 1} for port in host_ports]}


@pytest.mark.parametrize(
    ("containers", "init_containers", "ports"),
    [
        ([], [], []),
        ([_container(0)], [], []),
        ([_container(8080)], [], [8080]),
        ([_container(80), _container(443, 80)], [_container(9090)], [80, 443, 9090]),
    ],
)
def test_host_ports_are_signed_as_a_sorted_set(
    containers: list[object], init_containers: list[object], ports: list[int]
) -> None:
    pod = _pod(containers=containers, init_containers=init_containers)
    assert host_ports_fragment(pod) == ("v1.Pod.Spec.HostPorts()", ports)


def test_tolerations_are_signed_by_key_and_value() -> None:
    tolerations = [
        {"key": "b", "value": "2"},
        {"key": "a", "value": "1", "operator": "Equal", "tolerationSeconds": 5},
        {"key": "b", "value": "1"},
    ]
    assert tolerations_fragment(_pod(tolerations=tolerations)) == (
        "v1.Pod.Spec.Tolerations",
        [tolerations[1], tolerations[2], tolerations[0]],
    )
    assert tolerations_fragment(_pod()) == ("v1.Pod.Spec.Tolerations", [])


def test_asking_for_nothing_of_a_resource_is_not_asking() -> None:
    key, value = resources_fragment(_pod(requests={"cpu": "100m", "memory": "0"}))
    assert key == "v1.Pod.Spec.ContainerRequestsAndOverheads()"
    assert value == {"cpu": 100}


def _expression(key: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": "In", "values": list(values)}


def _affinity(
    required: list[list[object]] | None, preferred: list[tuple[int, list[object]]]
) -> dict[str, object]:
    node_affinity: dict[str, object] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": {"matchExpressions": expressions}}
            for weight, expressions in preferred
        ]
    }
    if required is not None:
        terms = [{"matchExpressions": expressions} for expressions in required]
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        node_affinity[key] = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": node_affinity}


A, B = _expression("a", "1", "2"), _expression("b", "1")


def test_a_pod_without_node_affinity_signs_none() -> None:
    assert node_affinity_fragment(_pod())[1] is None
    assert node_affinity_fragment(_pod(affinity={"podAffinity": {}}))[1] is None
    assert node_affinity_fragment(_pod(affinity={"nodeAffinity": {}}))[1] == {
        "Required": [],
        "Preferred": [],
    }


def test_node_affinities_that_differ_only_in_order_sign_equally() -> None:
    reordered = _expression("a", "2", "1")
    first = _pod(affinity=_affinity([[A, B], [B]], [(1, [A]), (2, [B, A])]))
    second = _pod(affinity=_affinity([[B], [B, reordered]], [(2, [reordered, B]), (1, [A])]))
    assert node_affinity_fragment(first) == node_affinity_fragment(second)


@pytest.mark.parametrize(
    "other",
    [
        _affinity([[A]], []),
        _affinity([[A], [B]], []),
        _affinity([[A, B]], [(1, [A])]),
        _affinity(None, [(1, [A])]),
        _affinity(None, [(2, [A])]),
        _affinity([[_expression("a", "1"), B]], []),
    ],
)
def test_node_affinities_that_mean_something_else_sign_differently(
    other: dict[str, object],
) -> None:
    fragment = node_affinity_fragment(_pod(affinity=_affinity([[A, B]], [])))
    assert node_affinity_fragment(_pod(affinity=other)) != fragment


def test_fragments_are_what_json_can_hold() -> None:
    pod = _pod(
        affinity=_affinity([[A]], [(1, [B])]),
        tolerations=[{"operator": "Exists"}],
        requests={"cpu": "1"},
        host_ports=[80],
    )
    for fragment in (
        node_affinity_fragment,
        tolerations_fragment,
        resources_fragment,
        host_ports_fragment,
    ):
        key, value = fragment(pod)
        assert key.startswith("v1.Pod.")
        assert msgspec.json.decode(msgspec.json.encode(value)) == value
