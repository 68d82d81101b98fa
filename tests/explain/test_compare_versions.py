"""Versions of kube-scheduler side by side: every version decides over the first one's cluster."""

import random
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.config import default_config, load_text
from scheduler.explain.cli import main
from scheduler.explain.cluster import with_api_defaults
from scheduler.explain.compare_versions import decided_by_versions
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.reports.build import cluster_report
from scheduler.reports.model import Report
from scheduler.reports.versions import FEATURES
from scheduler.testing import make_node, make_pod
from tests.plugins.volumes import make_claim, make_class, make_volume, pod_with_claims
from tests.sources import ROOT

MOST_ALLOCATED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""
NO_PREEMPTION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}
"""


def pods_of(world: World) -> dict[str, list[str]]:
    """Return the pods of each node."""
    nodes = cluster_report(world.table, new_pods=set()).nodes
    return {node.name: sorted(box.pod for box in node.pods) for node in nodes}


@pytest.mark.parametrize("config", ["", MOST_ALLOCATED, NO_PREEMPTION])
@pytest.mark.parametrize("seed", range(4))
async def test_each_pod_is_decided_over_the_cluster_of_the_first_version(
    config: str, seed: int
) -> None:
    rng = random.Random(seed)
    nodes = [
        make_node(f"n{i}", allocatable={"cpu": rng.choice("248"), "pods": "20"}) for i in range(5)
    ]
    waiting = [
        make_pod(
            f"p{i:02}",
            requests={"cpu": rng.choice(["500m", "1", "2"])},
            priority=rng.choice([0, 0, 100]),
        )
        for i in range(25)
    ]
    running = [
        make_pod(f"low{i}", requests={"cpu": "500m"}, priority=-1, node_name=f"n{i % 5}")
        for i in range(12)
    ]
    settings = load_text(config, SCHEME) if config else default_config(SCHEME)
    base, alone, other = (
        World(each, nodes=nodes, pods=running)
        for each in (default_config(SCHEME), default_config(SCHEME), settings)
    )
    differences = 0
    async for pod in decided_by_versions({"1.35": base, "1.37": other}, waiting, frozenset()):
        differences += bool(pod.differences)
        assert pods_of(base) == pods_of(other)
    for each in alone.in_queue_order(waiting):
        await alone.decide(with_api_defaults(each))
    assert pods_of(alone) == pods_of(base)
    assert differences == 0 or config


async def test_every_further_version_follows_the_evictions_of_the_first() -> None:
    node = make_node("n", allocatable={"cpu": "2", "pods": "9"})
    low = make_pod("low", requests={"cpu": "2"}, node_name="n", priority=-1)
    without = load_text(NO_PREEMPTION, SCHEME)
    worlds = {
        version: World(config, nodes=[node], pods=[low])
        for version, config in (
            ("1.35", default_config(SCHEME)),
            ("1.36", without),
            ("1.37", without),
        )
    }
    first = make_pod("first", priority=100)
    high = make_pod("high", requests={"cpu": "2"}, priority=10)
    decided = [pod async for pod in decided_by_versions(worlds, [first, high], frozenset())]
    assert [outcome.victims for outcome in decided[1].outcomes] == [("default/low",), (), ()]
    assert [pods_of(world) for world in worlds.values()] == [{"n": ["default/first"]}] * 3


async def test_a_volume_that_the_first_version_gives_away_is_gone_in_all() -> None:
    nodes = [make_node(n, allocatable={"cpu": n, "pods": "9"}) for n in "48"]
    others = {
        "storageclasses": [make_class()],
        "persistentvolumes": [make_volume()],
        "persistentvolumeclaims": [make_claim("first"), make_claim("second")],
    }
    base, other = (
        World(config, nodes=nodes, others=others)
        for config in (default_config(SCHEME), load_text(MOST_ALLOCATED, SCHEME))
    )
    pods = [pod_with_claims(name, name=name) for name in ("first", "second")]
    decided = decided_by_versions({"1.35": base, "1.37": other}, pods, frozenset())
    first, second = [pod async for pod in decided]
    assert [outcome.best for outcome in first.outcomes] == [("8",), ("4",)]
    assert [outcome.result for outcome in second.outcomes] == ["unschedulable"] * 2


CLUSTER = """\
{kind: Node, apiVersion: v1, metadata: {name: a}, status: {allocatable: {cpu: "4", pods: "9"}}}
---
kind: Node
apiVersion: v1
metadata: {name: b}
status:
  allocatable: {cpu: "2", pods: "9"}
  declaredFeatures: [RestartAllContainersOnContainerExits]
---
{kind: Pod, apiVersion: v1, metadata: {name: plain}, spec: {containers: [{name: c}]}}
---
kind: Pod
apiVersion: v1
metadata: {name: web}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: "1"}}
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return the file of a cluster in which one pod needs a feature of one node."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER, encoding="utf-8")
    return str(path)


def test_a_pod_that_another_version_decides_otherwise_has_the_reason_and_its_row(
    cluster: str,
) -> None:
    command = ["--manifests", cluster, "--compare-versions", "1.35,1.36,1.37", "-o", "json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    report = msgspec.json.decode(result.stdout, type=Report)
    plain, web = sorted(report.versions, key=lambda each: each.pod)
    assert plain.differences == ()
    assert [outcome.best for outcome in web.outcomes] == [("a",), ("b",), ("b",)]
    assert {(each.version, each.plugin, each.node, each.rows) for each in web.differences} == {
        (version, plugin, node, rows)
        for version, features in (
            ("1.36", ("1.36: Declared features",)),
            ("1.37", ("1.36: Declared features", "1.37: Declared features")),
        )
        for plugin, node, rows in (
            ("NodeDeclaredFeatures", "a", features),
            ("NodeResourcesBalancedAllocation", "b", ("1.36: Balance of resources",)),
        )
    }
    assert web.differences[0].text == (
        "fits in 1.35, rejected in 1.36 (node(s) didn't match Pod's required features)"
    )


def test_the_table_has_the_pods_that_differ_below_their_number(cluster: str) -> None:
    command = ["--manifests", cluster, "--compare-versions", "1.35,1.36"]
    output = CliRunner().invoke(main, command).output
    assert output.startswith("2 pods, 1.35 to 1.36: 1 on another node\n")
    assert "NodeDeclaredFeatures on a: fits in 1.35, rejected in 1.36" in output
    assert "plain" not in output


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ("1.35", "expected two or more versions, each once"),
        ("1.35,1.35", "expected two or more versions, each once"),
        ("1.35,1.33", "expected 1.34, 1.35, 1.36 or 1.37"),
    ],
)
def test_other_versions_are_refused(cluster: str, versions: str, problem: str) -> None:
    result = CliRunner().invoke(main, ["--manifests", cluster, "--compare-versions", versions])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())


def test_every_row_is_in_the_page_of_versions() -> None:
    text = (ROOT / "conformance" / "versions.md").read_text(encoding="utf-8")
    for since, by_plugin in FEATURES.items():
        _, _, section = text.partition(f" to {since}\n")
        features = {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines()}
        for named in by_plugin.values():
            assert features.issuperset(named), (since, named)
