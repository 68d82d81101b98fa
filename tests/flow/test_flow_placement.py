"""FlowPlacement in a whole scheduler: gangs, batches, priorities, domains, and what it reports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.config.load import load_text
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.testing import make_node, make_pod
from tests.flow.clusters import (
    DOMAINS,
    GROUPS,
    cluster_config,
    cluster_of,
    first_cycle,
    gang,
    member,
    nested,
    nodes_of,
    on_nodes,
)
from tests.flow.devices import GPU, claim_of, claiming, devices_of
from tests.thoroughness import thorough_only

_ONE = {"cpu": "1"}


def _node(name: str, cpu: str = "1", **labels: str):
    return make_node(name, allocatable={"cpu": cpu, "pods": "9"}, labels=labels)


@pytest.mark.parametrize(
    ("size", "gates"),
    [
        (3, GROUPS),
        (12, DOMAINS),
        pytest.param(200, GROUPS, marks=pytest.mark.slow),
        pytest.param(200, DOMAINS, marks=[pytest.mark.slow, thorough_only]),
    ],
)
async def test_a_gang_with_one_perfect_matching_fits(size: int, gates: frozenset[str]) -> None:
    nodes, pods = nested(size)
    alone = await nodes_of(cluster_of(nodes, pods, [gang(size)], flow=False, gates=gates))
    assert set(alone.values()) == {""}
    by_flow = await nodes_of(cluster_of(nodes, pods, [gang(size)], gates=gates))
    last = size - 1
    assert by_flow == {f"member-{i:03}": f"node-{last - i:03}" for i in range(size)}


async def test_a_batch_gets_more_nodes_than_one_by_one() -> None:
    nodes = [_node("a"), _node("b")]
    pods = [
        make_pod("any", requests=_ONE),
        make_pod("choosy", requests=_ONE, affinity=on_nodes("a")),
    ]
    assert await nodes_of(cluster_of(nodes, pods, flow=False)) == {"any": "a", "choosy": ""}
    assert await nodes_of(cluster_of(nodes, pods)) == {"any": "b", "choosy": "a"}


async def test_a_pod_keeps_its_place_to_a_pod_of_lower_priority() -> None:
    nodes = [_node("a"), _node("b")]
    # Both low pods fit if the high one goes to b, where it would rather not.
    high = make_pod("high", requests=_ONE, priority=9, affinity=_prefers("a"))
    low = [make_pod(f"low-{i}", requests=_ONE, affinity=on_nodes("a")) for i in range(2)]
    assert await nodes_of(cluster_of(nodes, [*low, high])) == {
        "high": "a",
        "low-0": "",
        "low-1": "",
    }


def _prefers(*names: str) -> dict[str, object]:
    values = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*names]}
    term = {"weight": 100, "preference": {"matchExpressions": [values]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


async def test_members_of_high_priority_come_first_if_not_all_fit() -> None:
    nodes = [_node("a"), _node("b")]
    pods = [
        member("low", requests=_ONE, priority=0, affinity=on_nodes("a")),
        member("middle", requests=_ONE, priority=5, affinity=on_nodes("a")),
        member("high", requests=_ONE, priority=9),
    ]
    nodes_by_name = await nodes_of(cluster_of(nodes, pods, [gang(2)], gates=GROUPS))
    assert nodes_by_name == {"high": "b", "middle": "a", "low": ""}


async def test_a_pod_whose_place_is_taken_is_searched_another() -> None:
    nodes = [_node("a"), _node("b"), _node("c")]
    pods = [
        make_pod("any-0", requests=_ONE),
        make_pod("any-1", requests=_ONE),
        make_pod("choosy", requests=_ONE, affinity=on_nodes("a")),
    ]
    cluster = cluster_of(nodes, pods)
    await first_cycle(cluster)
    # The first pod has its node, and the other two are nominated. One of their nodes is cordoned.
    taken = cluster.core.queue.nominator.nominations["uid-default-any-1"]
    node = cluster.find_node(taken)
    assert node is not None
    cluster.apply(
        msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))
    )
    placed = await nodes_of(cluster)
    assert taken not in placed.values()
    assert placed["choosy"] == "a"


async def test_pods_with_required_anti_affinity_are_planned_one_in_a_round() -> None:
    far = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "far"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    nodes = [_node(name, cpu="4") for name in "abc"]
    pods = [
        *(
            make_pod(f"far-{i}", labels={"app": "far"}, affinity=far, requests=_ONE)
            for i in range(3)
        ),
        *(make_pod(f"other-{i}", requests=_ONE) for i in range(3)),
    ]
    placed = await nodes_of(cluster_of(nodes, pods))
    assert {placed[f"far-{i}"] for i in range(3)} == {"a", "b", "c"}
    assert all(placed.values())


async def test_a_gang_goes_to_the_domain_where_it_fits() -> None:
    nodes = [
        *(_node(f"small-{i}", rack="first") for i in range(2)),
        *(_node(f"large-{i}", rack="second") for i in range(3)),
    ]
    names = ["large-0", "large-1", "large-2", "small-0", "small-1"]
    pods = [
        member(f"m-{i}", requests=_ONE, affinity=on_nodes(*names[: 3 - i], *names[3:]))
        for i in range(3)
    ]
    group = gang(3, domain_label="rack")
    assert not any(
        (await nodes_of(cluster_of(nodes, pods, [group], flow=False, gates=DOMAINS))).values()
    )
    assert await nodes_of(cluster_of(nodes, pods, [group], gates=DOMAINS)) == {
        "m-0": "large-2",
        "m-1": "large-1",
        "m-2": "large-0",
    }


async def _with_devices(models: dict[str, list[str]], wanted: list[list[str]], *, flow: bool):
    """Return the nodes of a gang whose members claim a device of one of several models each."""
    claims = [claim_of(f"claim-{i}", *each) for i, each in enumerate(wanted)]
    cluster = cluster_of([], flow=flow, gates=GROUPS)
    for obj in (
        GPU,
        *(_node(name, cpu="8") for name in models),
        *(devices_of(name, *each) for name, each in models.items()),
        *claims,
        gang(len(wanted)),
        *(claiming(member(f"m-{i}"), claim) for i, claim in enumerate(claims)),
    ):
        cluster.apply(obj)
    return list((await nodes_of(cluster)).values())


async def test_a_claim_takes_the_alternative_that_leaves_the_other_claim_its_device() -> None:
    models, wanted = {"a": ["fast"], "b": ["slow"]}, [["fast", "slow"], ["fast"]]
    assert await _with_devices(models, wanted, flow=False) == ["", ""]
    assert await _with_devices(models, wanted, flow=True) == ["b", "a"]


async def test_a_claim_leaves_the_next_pod_of_its_node_the_only_device_that_it_can_use() -> None:
    models, wanted = {"a": ["fast", "slow"]}, [["fast", "slow"], ["fast"]]
    assert await _with_devices(models, wanted, flow=False) == ["", ""]
    assert await _with_devices(models, wanted, flow=True) == ["a", "a"]


async def test_a_node_gets_as_many_claims_as_it_has_devices() -> None:
    models = {"a": ["fast"] * 3, "b": ["fast"], "c": ["slow"]}
    wanted = [["fast", "slow"], *([["fast"]] * 4)]
    assert "" in await _with_devices(models, wanted, flow=False)
    placed = await _with_devices(models, wanted, flow=True)
    assert placed[0] == "c"
    assert sorted(placed) == ["a", "a", "a", "b", "c"]


async def test_the_story_has_both_choices() -> None:
    nodes = [_node("a"), _node("b")]
    pods = [
        make_pod("any", requests=_ONE),
        make_pod("choosy", requests=_ONE, affinity=on_nodes("a")),
    ]
    cluster = cluster_of(nodes, pods)
    await nodes_of(cluster)
    story = msgspec.json.decode(cluster.core.stories.as_json("default", "any") or b"")
    [reserved] = [entry for entry in story["entries"] if entry["kind"] == "reserved"]
    assert reserved["notes"] == [
        "FlowPlacement: a batch of 2 pods in 2 classes; by flow 2 of them get a node, total score "
        "750, one by one 1, total score 375; this pod by flow b (score 375), one by one a "
        "(score 375)"
    ]


async def test_metrics_count_batches_and_pods_left_out() -> None:
    nodes = [_node("a"), _node("b")]
    pods = [
        make_pod("any", requests=_ONE),
        make_pod("choosy-0", requests=_ONE, affinity=on_nodes("a")),
        make_pod("choosy-1", requests=_ONE, affinity=on_nodes("a")),
    ]
    cluster = cluster_of(nodes, pods)
    await nodes_of(cluster)
    metrics = cluster.core.ports.metrics
    assert dict(metrics.flow_batches.items()) == {("flow", "default-scheduler"): 1}
    assert dict(metrics.flow_unplaced_pods.items()) == {("default-scheduler",): 1}


@pytest.mark.slow
def test_a_scheduler_without_the_plugin_imports_nothing_of_it() -> None:
    program = """
import sys
from tests.flow.devices import GPU, claim_of, claiming, devices_of
from tests.flow.clusters import cluster_of
cluster_of([], flow=False)
assert not [name for name in sys.modules if name.startswith("scheduler.flow")]
assert "highspy" not in sys.modules
cluster_of([])
assert "highspy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, encoding="utf-8")


async def test_the_configuration_of_the_docs_works() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "flow.md").read_text(encoding="utf-8")
    [text] = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    for gates in (DEFAULT_FEATURE_GATES, DOMAINS):
        config = load_text(text, SCHEME._replace(gates=gates))
        cluster = SimulatedCluster(config, feature_gates=gates)
        cluster.apply(_node("a"))
        cluster.apply(make_pod("p", requests=_ONE))
        assert await nodes_of(cluster) == {"p": "a"}


@pytest.mark.parametrize("gates", [GROUPS, DOMAINS])
async def test_other_tasks_run_while_a_group_is_planned(
    gates: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.flow.plugin._SLICE_SECONDS", -1.0)
    nodes, pods = nested(5)
    cluster = cluster_of(nodes, pods, [gang(5)], gates=gates)
    turns = 0

    async def count_turn() -> None:
        nonlocal turns
        turns += 1

    [framework] = cluster.core.profiles.values()
    object.__setattr__(framework.handle, "let_others_run", count_turn)
    assert all((await nodes_of(cluster)).values())
    # A step for the nodes of each class, its slots and its arcs, and one for each pod in a replay.
    assert turns >= 5 * 5


async def test_the_explanation_of_waiting_pods_plans_them_together() -> None:
    nodes = [_node("a"), _node("b")]
    pods = [
        make_pod("any", requests=_ONE),
        make_pod("choosy", requests=_ONE, affinity=on_nodes("a")),
    ]
    world = World(cluster_config(), nodes=nodes, pods=pods)
    world.expect(pods)
    decisions = [await world.decide(pod) for pod in pods]
    hosts = [d.schedule_result.suggested_host for d in decisions if d.schedule_result is not None]
    assert hosts == ["b", "a"]
    [note] = decisions[0].reserved
    assert note.endswith("this pod by flow b (score 375), one by one a (score 375)")


async def test_the_explanation_has_both_choices_for_a_pod_that_is_left_out() -> None:
    nodes = [_node("a")]
    pods = [
        make_pod("large", requests=_ONE),
        make_pod("small", requests={"cpu": "500m"}),
        make_pod("other", requests={"cpu": "500m"}),
    ]
    world = World(cluster_config(), nodes=nodes, pods=pods)
    world.expect(pods)
    decisions = [await world.decide(pod) for pod in pods]
    assert [d.result for d in decisions] == ["unschedulable", "scheduled", "scheduled"]
    [note] = decisions[0].reserved
    assert "by flow 2 of them get a node" in note
    assert note.endswith("this pod by flow no node, one by one a (score 375)")
