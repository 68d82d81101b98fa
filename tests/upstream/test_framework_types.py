"""Requests of pods, state of nodes, importance of pods, against upstream's own cases."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest

from scheduler.api.core import Affinity
from scheduler.api.host_ports import conflicts, host_ports
from scheduler.api.pod_affinity import parse_affinity
from scheduler.api.resources import node_allocatable
from scheduler.assembly.gated_fields import transforms
from scheduler.plugins.node_declared_features import Feature, FeatureRegistry
from scheduler.preemption.importance import by_importance, earliest_start_times
from scheduler.preemption.pods_by_world import PodsByWorld
from scheduler.snapshot import PodInfo
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo
from scheduler.testing import make_node, make_pod
from tests.upstream.loading import Case, Fields, cases, feature_gates, node, pod

TOPIC = "framework"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("case", cases(TOPIC, "pod_requests"))
def test_pod_requests(case: Case) -> None:
    # An informer drops the fields of gates that are off.
    requests = PodInfo(transforms(feature_gates(case))["pods"](pod(case["pod"]))).requests
    counts = {name: count for name, count in requests.resources.items() if count}
    assert counts == case["requests"]
    assert requests.non_zero_cpu == case["non_zero_cpu"]
    assert requests.non_zero_memory == case["non_zero_memory"]


@pytest.mark.parametrize("case", cases(TOPIC, "node_allocatable"))
def test_node_allocatable(case: Case) -> None:
    counts = node_allocatable(case["allocatable"])
    assert {name: count for name, count in counts.items() if count} == case["counted"]


@pytest.mark.parametrize("case", cases(TOPIC, "declared_features"))
def test_declared_features(case: Case) -> None:
    registry = FeatureRegistry(Feature(name, lambda spec: True) for name in case["known"])
    read = transforms(feature_gates(case))["nodes"](node(case["node"]))
    assert sorted(registry.declared_by(read)) == case["features"]


def _table() -> NodeTable:
    """Return a table with one node without pods."""
    table = NodeTable()
    table.set_node(table.add_row("test-node"), make_node("test-node"))
    return table


def _counts(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("case", cases(TOPIC, "node_info"))
def test_node_info(case: Case) -> None:
    table = _table()
    pods = [PodInfo(pod(value)) for value in case.get("pods") or case["added"]]
    for each in pods:
        table.add_pod(0, each)
    if case.get("raises"):
        with pytest.raises(KeyError):
            table.remove_pod(0, case["removed"])
    elif "removed" in case.fields:
        (gone,) = (each for each in pods if each.name == case["removed"])
        table.remove_pod(0, gone.uid)
    found = NodeInfo(table, 0)
    assert _counts(found.requested) == case["requested"]
    assert _counts(found.non_zero_requested) == case["non_zero_requested"]
    ports = sorted(found.host_ports, key=lambda port: port.port)
    assert [f"{port.protocol} {port.ip} {port.port}" for port in ports] == case["ports"]
    table.check()


def _holder(name: str, numbers: list[int]) -> PodInfo:
    return PodInfo(make_pod(name, host_ports=numbers))


@pytest.mark.parametrize("case", cases(TOPIC, "used_ports"))
def test_used_ports(case: Case) -> None:
    """Other pods hold the ports used before the pod is added, or left after it is removed."""
    table, comes = _table(), "Add" in case.source
    info = PodInfo(pod(case["pod"]))
    table.add_pod(0, _holder("other", case["held" if comes else "left"]))
    table.add_pod(0, info)
    if not comes:
        assert sorted(port.port for port in table.host_ports[0]) == case["held"]
        table.remove_pod(0, info.uid)
    assert sorted(port.port for port in table.host_ports[0]) == case["left"]


def _with_ports(name: str, texts: list[str]) -> PodInfo:
    """A pod that holds ports `protocol address number`; a dash is left out."""
    ports = []
    for text in texts:
        protocol, address, number = (part.strip("-") or "" for part in text.split())
        if text.endswith("-1"):
            number = "-1"
        port: Fields = {"protocol": protocol, "hostIP": address, "hostPort": int(number)}
        ports.append(port)
    return PodInfo(pod({"spec": {"containers": [{"ports": ports}]}}, name=name))


@pytest.mark.parametrize("case", cases(TOPIC, "host_ports"))
def test_held_and_wanted_ports(case: Case) -> None:
    held = _with_ports("holder", case["held"])
    table = _table()
    table.add_pod(0, held)
    if "length" in case.fields:
        assert len(table.host_ports[0]) == case["length"]
    else:
        wanted = _with_ports("wanting", [case["wanted"]])
        assert conflicts(wanted.host_ports, table.host_ports[0]) == case["taken"]


@pytest.mark.parametrize("case", cases("scheduler_util", "host_ports"))
def test_host_ports_of_a_pod(case: Case) -> None:
    assert [port.port for port in host_ports(pod(case["pod"]))] == case["host_ports"]


@pytest.mark.parametrize("case", cases(TOPIC, "affinity_namespaces"))
def test_affinity_namespaces(case: Case) -> None:
    wanted = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [case["term"]]}}
    (term,) = parse_affinity(msgspec.convert(wanted, Affinity), "default").required_affinity
    assert sorted(term.namespaces) == case["namespaces"]


def _pod_that_started(number: int, value: Fields) -> PodInfo:
    made = make_pod(f"pod{number}", priority=value["priority"])
    if "started_seconds" in value:
        started = NOW + timedelta(seconds=value["started_seconds"])
        status = msgspec.structs.replace(made.status, start_time=started)
        made = msgspec.structs.replace(made, status=status)
    return PodInfo(made)


@pytest.mark.parametrize("case", cases("scheduler_util", "importance"))
def test_victims_have_upstreams_importance(case: Case) -> None:
    pods = [_pod_that_started(number, value) for number, value in enumerate(case["pods"])]
    in_one_world, now = PodsByWorld(pods, np.array([len(pods)])), NOW.timestamp()
    if "earliest_seconds" in case.fields:
        times = earliest_start_times(in_one_world, now)
        assert times.tolist() == [now + case["earliest_seconds"]]
    else:
        assert (by_importance(in_one_world, now).pods[0] is pods[0]) == case[
            "first_is_more_important"
        ]
