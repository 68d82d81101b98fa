"""Objects as entries of a case: the entry stands for the same objects, in the shortest form."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from conformance import strategies
from conformance.format.objects import Item, objects_of
from conformance.format.short_forms import entries_of, entry_of
from conformance.strategies import Cluster
from tests.thoroughness import examples


def _expand(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [obj for entry in entries for obj in objects_of(msgspec.convert(entry, Item))]


@pytest.mark.parametrize(
    "entry",
    [
        {"namespace": "team"},
        {"node": {"name": "a"}},
        {
            "node": {
                "name": "a",
                "labels": {"disk": "ssd"},
                "cpu": "500m",
                "pods": 3,
                "taints": [
                    "dedicated=db:NoSchedule",
                    {"key": "late", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
                ],
                "unschedulable": True,
                "images": {"app:v1": 1000},
                "resources": {"example.com/gpu": "2"},
            }
        },
        {"pod": {"name": "p"}},
        {
            "pod": {
                "name": "p",
                "namespace": "team",
                "priority": -5,
                "cpu": "1",
                "resources": {"example.com/gpu": "2"},
                "host_ports": [80, {"hostPort": 53, "protocol": "UDP"}],
                "node_affinity": {"required": [{"matchExpressions": []}]},
                "affinity": {"podAntiAffinity": {}},
                "scheduling_gates": ["example.com/wait"],
                "spec": {"hostNetwork": True},
            }
        },
        {"pod": {"name": "p", "containers": [{"name": "main-0"}, {"image": "db"}]}},
        {"pod": {"name": "p", "priority_class": "system-node-critical", "pod_group": "g"}},
        # A class whose name is only like that of a number.
        {"pod": {"name": "p", "priority_class": "priority-007"}},
    ],
)
def test_an_entry_comes_back(entry: dict[str, Any]) -> None:
    again = entry_of(_expand(entry)[-1])
    assert _expand(again) == _expand(entry)
    assert "object" not in again


def test_an_object_that_has_no_short_form_is_written_in_full() -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    assert entry_of(budget)["object"]["kind"] == "PodDisruptionBudget"  # type: ignore[index]


def test_a_pod_with_fields_beyond_the_short_form_is_written_in_full() -> None:
    pod = _expand({"pod": {"name": "p"}})[0]
    pod["metadata"]["finalizers"] = ["example.com/keep"]
    metadata = {"name": "p", "namespace": "default", "finalizers": ["example.com/keep"]}
    assert entry_of(pod) == {"object": {**pod, "metadata": metadata}}


def test_the_class_of_a_priority_has_no_entry() -> None:
    entries = [{"node": {"name": "a"}}, {"pod": {"name": "p", "priority": 10}}]
    assert entries_of(_expand(*entries)) == entries


@settings(max_examples=examples(30))
@given(strategies.clusters())
def test_entries_stand_for_the_same_cluster(cluster: Cluster) -> None:
    again = _expand(*entries_of(cluster.objects))
    made = [{**obj, "metadata": _filled(obj)} for obj in cluster.objects]
    for obj in made:
        assert obj in [{**other, "metadata": _filled(other)} for other in again] or _unused(
            obj, again
        )


def _filled(obj: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj["metadata"].items() if value != {}}


def _unused(obj: dict[str, Any], objects: list[dict[str, Any]]) -> bool:
    """True for a priority class: entries have only those that a pod names."""
    return obj["kind"] == "PriorityClass" and obj not in objects
