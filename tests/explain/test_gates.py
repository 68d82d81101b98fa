"""`--feature-gates`: gates that differ from the defaults, for one version or several."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from scheduler.explain.cli import main
from scheduler.reports.model import Report

GATES = ("--feature-gates", "TaintTolerationComparisonOperators=true")
CLUSTER = """\
kind: Node
apiVersion: v1
metadata: {name: a}
spec: {taints: [{key: level, value: "7", effect: NoSchedule}]}
status: {allocatable: {cpu: "4", pods: "9"}}
---
kind: Pod
apiVersion: v1
metadata: {name: web}
spec:
  containers: [{name: c}]
  tolerations: [{key: level, operator: Gt, value: "5"}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Return the file of a cluster with a pod that fits with a gate only."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER, encoding="utf-8")
    return str(path)


def explain(cluster: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--manifests", cluster, "-o", "json", *arguments])


@pytest.mark.parametrize(("gates", "result"), [((), "unschedulable"), (GATES, "scheduled")])
def test_a_gate_decides(cluster: str, gates: tuple[str, ...], result: str) -> None:
    (pod,) = msgspec.json.decode(explain(cluster, *gates).stdout, type=Report).pods
    assert pod.result == result


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((*GATES, "--scheduler-version", "1.34"), "unrecognized feature gate: Taint"),
        (("--feature-gates", "Nope=maybe"), "invalid value of Nope=maybe"),
        (("--compare-versions", "1.35,1.36", "--feature-gates", "Nope"), "missing bool value"),
    ],
)
def test_settings_that_are_refused_are_named(
    cluster: str, arguments: tuple[str, ...], problem: str
) -> None:
    refused = explain(cluster, *arguments)
    assert refused.exit_code == 2
    assert f"--feature-gates: {problem}" in refused.stderr


def test_a_version_that_refuses_a_gate_is_compared_without_it(cluster: str) -> None:
    compared = explain(cluster, "--compare-versions", "1.34,1.36", *GATES)
    (pod,) = msgspec.json.decode(compared.stdout, type=Report).versions
    assert [outcome.result for outcome in pod.outcomes] == ["unschedulable", "scheduled"]
    assert "1.34 decides without the setting of TaintTolerationComparisonOperators" in (
        compared.stderr
    )
