"""`kubesched-simulate place`: the pods of workloads, evictions, and errors in files."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main
from tests.simulate.what_if import answer, deployment, node, pod, run, write


def _placed(found: Any) -> list[tuple[str, str]]:
    return [(each["pod"], each["node"]) for each in found["place"]["placed"]]


def test_a_deployment_stands_for_its_pods(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1", "2"), node("n2", "1"))
    wanted = write(tmp_path / "api.yaml", deployment("api", 4))
    found = answer("place", wanted, "--manifests", cluster)
    assert sorted(on for _, on in _placed(found)) == ["n1", "n1", "n2"]
    [waiting] = found["place"]["waiting"]
    assert waiting["owner"] == "default/api"
    assert waiting["reason"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert found["summary"].startswith("3 of 4 pods would be bound, 1 would wait")
    assert found["place"]["requested"]["cpu"] == [0.0, 1.0]


def test_count_takes_the_place_of_replicas_and_copies_pods(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1", "8"))
    wanted = write(tmp_path / "new.yaml", deployment("api", 4), pod("one"))
    found = answer("place", wanted, "--count", "2", "--manifests", cluster)
    names = ["default/api-new-0", "default/api-new-1", "default/one-0", "default/one-1"]
    assert _placed(found) == [(name, "n1") for name in names]


def test_a_victim_is_created_again_by_its_owner(tmp_path: Path) -> None:
    cluster = write(
        tmp_path / "cluster.yaml",
        node("n1", "2", disk="ssd"),
        node("n2", "2"),
        pod("low-a", "2", on="n1", owner="low"),
        pod("alone", "1", on="n2", priority=100),
    )
    fast = pod("fast", "2", priority=10, nodeSelector={"disk": "ssd"})
    wanted = write(tmp_path / "new.yaml", fast)
    found = answer("place", wanted, "--manifests", cluster)
    assert ("default/fast", "n1") in _placed(found)
    [evicted] = found["place"]["evicted"]
    assert evicted["pod"] == "default/low-a"
    assert evicted["cause"] == "preempted by default/fast"
    assert (evicted["successor"], evicted["successorNode"]) == ("default/low-new1", "")
    kinds = [change["kind"] for step in found["place"]["steps"] for change in step["changes"]]
    assert kinds == ["created", "evicted", "created", "gone", "placed"]


def test_a_stateful_set_gets_its_claims_and_their_volumes(tmp_path: Path) -> None:
    cluster = write(
        tmp_path / "cluster.yaml",
        node("n1", **{"topology.kubernetes.io/zone": "a"}),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    template = deployment("db", 2)["spec"]["template"]
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    spec = {"replicas": 2, "template": template, "volumeClaimTemplates": [claim]}
    metadata = {"name": "db"}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    wanted = write(tmp_path / "db.yaml", stateful)
    found = answer("place", wanted, "--manifests", cluster)
    assert _placed(found) == [("default/db-0", "n1"), ("default/db-1", "n1")]


def test_a_daemon_set_has_a_pod_for_each_node_that_it_tolerates(tmp_path: Path) -> None:
    tainted = node("n2")
    tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    cluster = write(tmp_path / "cluster.yaml", node("n1"), tainted)
    daemons = deployment("logs", 1)
    daemons["kind"] = "DaemonSet"
    del daemons["spec"]["replicas"]
    found = answer("place", write(tmp_path / "ds.yaml", daemons), "--manifests", cluster)
    assert _placed(found) == [("default/logs-n1", "n1")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": "many"}, "Deployment api: spec: Expected `int`, got `str` - at `spec.rep"),
        (
            {"template": {"spec": {"contaners": []}}},
            'unknown field "spec.template.spec.contaners"; did you mean',
        ),
        ({"replica": 2}, 'unknown field "spec.replica"; did you mean "replicas"?'),
        ({"template": None}, "Deployment api: spec: Expected `object`, got `null`"),
    ],
)
def test_an_error_names_file_object_and_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1"))
    wrong = deployment("api", 1)
    wrong["spec"] |= change
    wanted = write(tmp_path / "api.yaml", wrong)
    result = CliRunner().invoke(main, ["place", str(wanted), "--manifests", str(cluster)])
    assert result.exit_code == 1
    assert f"{wanted}, document 1: Deployment api: " in result.stderr
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_pod_that_exists_is_an_error(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1"), pod("a", on="n1"))
    arguments = ["place", str(write(tmp_path / "a.yaml", pod("a"))), "--manifests", str(cluster)]
    result = CliRunner().invoke(main, arguments)
    assert "Pod default/a: metadata.name: is in the cluster already" in result.stderr


def test_missing_kinds_make_the_answer_unsure(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1"))
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    wanted = write(tmp_path / "a.yaml", pod("a", volumes=[volume]))
    found = answer("place", wanted, "--manifests", cluster)
    assert found["place"]["waiting"][0]["unsure"] == ["PersistentVolumeClaims"]
    assert found["warnings"] == [
        "no PersistentVolumeClaims in the input: 1 pod refers to some; what is said of them is "
        "unsure"
    ]


def test_the_table_and_the_page_show_the_same(tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.yaml", node("n1", "2"))
    wanted = write(tmp_path / "api.yaml", deployment("api", 3))
    table = run("place", wanted, "--manifests", cluster)
    assert "2 of 3 pods would be bound" in table
    assert "2  default/api  n1 (2)" in table
    page = run("place", wanted, "--manifests", cluster, "-o", "html")
    assert '"kind":"placed","pod":"default/api-new-0","node":"n1"' in page
