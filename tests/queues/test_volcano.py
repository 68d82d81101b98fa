"""The outcomes of Volcano's own tables, as far as they fit these queues (`volcano.yaml`)."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler.api.resources import node_allocatable
from scheduler.queues.amounts import dominant_share

from .player import Playing

_FACTS: Final = yaml.safe_load(Path(__file__).with_name("volcano.yaml").read_text(encoding="utf-8"))
_RULES: Final = ("priority", "gang", "conformance", "drf", "proportion")
#: `conformance` keeps pods of the system, as the annotation keeps a pod in Volcano.
_KEPT_PRIORITY: Final = 2_000_000_000
_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu", "nvidia.com/A100")


def _amounts(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(row[name]) for name in _RESOURCES if name in row}


def _pod(name: str, row: dict[str, Any]) -> dict[str, Any]:
    pod = {"name": name, "group": row["group"], "requests": _amounts(row)}
    if "node" in row:
        pod |= {"node": row["node"], "phase": "Running"}
    if row.get("kept") or "priority" in row:
        pod["priority"] = row.get("priority", _KEPT_PRIORITY)
    if "policy" in row:
        pod["preemptionPolicy"] = row["policy"]
    if "selects" in row:
        pod["selector"] = {"selector": row["selects"]}
    if "apart" in row:
        labels = {"app": row["apart"]}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        pod |= {"labels": labels, "affinity": {"podAntiAffinity": required}}
    return pod


def _scenario(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "conf": {
            "actions": "reclaim, allocate, backfill, preempt",
            "tiers": [{"plugins": [{"name": name} for name in _RULES]}],
        },
        "queues": [{"name": name, "weight": weight} for name, weight in row["queues"].items()],
        "priorityClasses": [{"name": n, "value": v} for n, v in _FACTS["classes"].items()],
        "podGroups": [
            {
                "name": name,
                "queue": group["queue"],
                "minMember": group.get("least", 1),
                "priorityClassName": group.get("class", ""),
            }
            for name, group in row["groups"].items()
        ],
        "nodes": [
            {
                "name": name,
                "allocatable": {**_amounts(node), "pods": str(node.get("pods", 10))},
                "labels": node.get("labels", {}),
            }
            for name, node in row["nodes"].items()
        ],
        "pods": [_pod(name, pod) for name, pod in row["pods"].items()],
    }


@pytest.mark.parametrize("row", _FACTS["rows"], ids=lambda row: row["name"])
async def test_evictions_and_nodes_are_volcanos_or_differ_for_a_reason(row: dict[str, Any]) -> None:
    playing = Playing(_scenario(row), improved=True)
    await playing.summary()
    node_of = {pod.metadata.name: pod.spec.node_name for pod in playing.cluster.pods}
    expected = row.get("ours", row)
    evicted = {key.split("/")[1] for key in playing.returned}
    assert evicted == set(expected["evicts"])
    binds = expected.get("binds", {})
    assert {name: node_of[name] for name in binds} == binds
    assert {name: node_of[name] for name in expected.get("waits", ())} == dict.fromkeys(
        expected.get("waits", ()), ""
    )


@pytest.mark.parametrize("row", _FACTS["shares"], ids=str)
def test_the_share_of_a_queue_is_volcanos(row: dict[str, Any]) -> None:
    has, deserved = (node_allocatable(_amounts(row[name])) for name in ("allocated", "deserved"))
    assert dominant_share(has, deserved) == row["share"]
