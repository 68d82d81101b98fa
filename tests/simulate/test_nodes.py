"""`kubesched-simulate drain`, `lose`, `capacity` and `change` on small clusters."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.simulate.commands import lose
from tests.simulate.what_if import answer, budget, deployment, node, pod, write

ZONE = "topology.kubernetes.io/zone"


def cluster(tmp_path: Path, *objects: Any) -> Path:
    nodes = (node("n1", **{ZONE: "a"}), node("n2", **{ZONE: "b"}), node("n3", **{ZONE: "b"}))
    return write(tmp_path / "cluster.yaml", *nodes, *objects)


WEB = [pod(f"web-{i}", on=f"n{1 + i % 2}", owner="web") for i in range(4)]


def test_a_drain_takes_a_step_for_each_pod_that_the_budget_allows(tmp_path: Path) -> None:
    manifests = cluster(tmp_path, *WEB, budget("web", maxUnavailable=1))
    drain = answer("drain", "n1", "--manifests", manifests)["drain"]
    [drained] = drain["nodes"]
    assert (drained["evicted"], drained["steps"], drained["stoppedBy"]) == (2, 2, {})
    assert {pod["successorNode"] for pod in drain["outcome"]["evicted"]} <= {"n2", "n3"}
    assert drain["outcome"]["waiting"] == []


def test_a_drain_stops_at_a_budget_whose_pods_find_no_node(tmp_path: Path) -> None:
    big = [pod(f"big-{i}", "3", on=f"n{i}", owner="big", app="web") for i in (1, 2, 3)]
    daemon = pod("logs-1", "100m", on="n1", owner="logs", kind="DaemonSet")
    manifests = cluster(tmp_path, *big, daemon, budget("web", minAvailable="60%"))
    found = answer("drain", "n1", "n2", "--manifests", manifests)
    first, second = found["drain"]["nodes"]
    assert (first["evicted"], first["daemonPods"], first["stoppedBy"]) == (1, 1, {})
    assert second["stoppedBy"] == {"default/big-2": "budget web"}
    assert found["summary"].startswith("1 of 2 nodes would be drained, in 1 step;")


def test_a_pod_without_an_owner_does_not_come_back(tmp_path: Path) -> None:
    manifests = cluster(tmp_path, pod("alone", on="n2"))
    drain = answer("drain", "-l", f"{ZONE}=b", "--manifests", manifests)["drain"]
    [evicted] = drain["outcome"]["evicted"]
    assert (evicted["pod"], evicted["successor"]) == ("default/alone", "")


def test_each_domain_is_lost_alone(tmp_path: Path) -> None:
    big = [pod(f"big-{i}", "3", on=f"n{i}", owner="big") for i in (2, 3)]
    daemons = [pod(f"logs-{i}", on=f"n{i}", owner="logs", kind="DaemonSet") for i in (1, 2, 3)]
    manifests = cluster(tmp_path, *big, *daemons)
    found = answer("lose", "--each", ZONE, "--manifests", manifests)
    zone_a, zone_b = found["losses"]
    assert (zone_a["domain"], zone_a["survives"], zone_a["lostPods"]) == ("a", True, 1)
    assert (zone_b["domain"], zone_b["survives"], zone_b["lostPods"]) == ("b", False, 4)
    assert len(zone_b["outcome"]["waiting"]) == 1
    assert found["summary"] == "the cluster survives 1 of 2 losses"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.slow
def test_processes_give_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = ("lose", "--each", ZONE, "--manifests", cluster(tmp_path, *WEB))
    found = answer(*question)
    monkeypatch.setattr(lose, "_PODS_FOR_PROCESSES", 0)
    assert answer(*question) == found


def test_an_unknown_node_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="there is no node n9"):
        answer("lose", "n9", "--manifests", cluster(tmp_path))


def test_capacity_counts_copies_and_names_what_stops_the_next_one(tmp_path: Path) -> None:
    manifests = cluster(tmp_path, *WEB)
    memory = pod("memory", "10m", nodeSelector={ZONE: "a"})
    memory["spec"]["containers"][0]["resources"]["requests"]["memory"] = "3Gi"
    wanted = write(tmp_path / "new.yaml", deployment("api", 5, "2"), memory)
    api, small = answer("capacity", wanted, "--manifests", manifests)["capacities"]
    assert (api["template"], api["copies"]) == ("default/api", 4)
    assert api["stoppedBy"] == [{"reason": "Insufficient cpu", "nodes": 3}]
    assert small["copies"] == 2
    assert small["stoppedBy"][0] == {
        "reason": "node(s) didn't match Pod's node affinity/selector",
        "nodes": 2,
    }


def test_capacity_of_a_gang_counts_whole_gangs(tmp_path: Path) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    members = [pod(f"m{i}", "2", schedulingGroup={"podGroupName": "train"}) for i in range(3)]
    wanted = write(tmp_path / "gang.yaml", group, *members)
    gates = ("--feature-gates", "GenericWorkload=true,GangScheduling=true")
    found = answer("capacity", wanted, "--manifests", cluster(tmp_path), *gates)
    [capacity] = found["capacities"]
    assert (capacity["template"], capacity["copies"]) == ("train", 2)
    assert capacity["stoppedBy"]


def test_change_compares_the_scores_of_two_configurations(tmp_path: Path) -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [fit]}
    config = tmp_path / "config.yaml"
    kind = "KubeSchedulerConfiguration"
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind}
    config.write_text(yaml.safe_dump({**document, "profiles": [profile]}), encoding="utf-8")
    waiting = pod("new", "1")
    manifests = cluster(tmp_path, pod("full", "2", on="n1"), waiting)
    found = answer("change", "--config", config, "--manifests", manifests)["changes"]
    changed = {pod["pod"]: pod for pod in found["pods"]}
    assert set(changed) == {"default/new"}
    assert changed["default/new"]["after"] == "n1"
    [fit_scores] = [s for s in changed["default/new"]["scores"] if s["plugin"] == fit["name"]]
    assert fit_scores["theirs"] < fit_scores["ours"]
    assert "NodeResourcesFit" in changed["default/new"]["why"]


def test_change_names_running_pods_that_no_profile_or_no_node_would_take(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    kind = "KubeSchedulerConfiguration"
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "new", "operator": "Exists"}]}]
    }}  # fmt: skip
    added = [{"name": "NodeAffinity", "args": {"addedAffinity": affinity}}]
    profiles = [{"schedulerName": "default-scheduler", "pluginConfig": added}]
    config.write_text(yaml.safe_dump({**document, "profiles": profiles}), encoding="utf-8")
    manifests = cluster(
        tmp_path, pod("ours", on="n1"), pod("theirs", on="n1", schedulerName="other")
    )
    changes = answer("change", "--config", config, "--manifests", manifests)["changes"]
    assert changes["compared"] == 2
    [changed] = changes["pods"]
    assert (changed["pod"], changed["node"], changed["after"]) == ("default/ours", "n1", "")
