"""`--feature-gates`: gates that differ from the defaults, for one version or several."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from scheduler.explain.cli import main
from scheduler.reports.model import Report

from .test_compare_versions import CLUSTER as DECLARED_FEATURES

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


EMULATED = ("--scheduler-version", "1.37", "--emulated-version", "1.34")


@pytest.mark.parametrize(("gates", "result"), [((), "unschedulable"), (GATES, "scheduled")])
def test_a_gate_decides(cluster: str, gates: tuple[str, ...], result: str) -> None:
    (pod,) = msgspec.json.decode(explain(cluster, *gates).stdout, type=Report).pods
    assert pod.result == result


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            (*GATES, "--scheduler-version", "1.34"),
            "--feature-gates: unrecognized feature gate: Taint",
        ),
        (("--feature-gates", "Nope=maybe"), "--feature-gates: invalid value of Nope=maybe"),
        (
            ("--compare-versions", "1.35,1.36", "--feature-gates", "Nope"),
            "--feature-gates: missing bool value",
        ),
        ((*GATES, *EMULATED), "--feature-gates: cannot set feature gate Taint"),
        (("--emulated-version", "x"), "--emulated-version: could not parse"),
        (("--emulated-version", "1.37"), "--emulated-version: emulation version 1.37 is not"),
    ],
)
def test_settings_that_are_refused_are_named(
    cluster: str, arguments: tuple[str, ...], problem: str
) -> None:
    refused = explain(cluster, *arguments)
    assert refused.exit_code == 2
    assert problem in refused.stderr


def test_a_version_that_refuses_a_gate_is_compared_without_it(cluster: str) -> None:
    compared = explain(cluster, "--compare-versions", "1.34,1.36", *GATES)
    (pod,) = msgspec.json.decode(compared.stdout, type=Report).versions
    assert [outcome.result for outcome in pod.outcomes] == ["unschedulable", "scheduled"]
    assert "1.34 decides without the setting of TaintTolerationComparisonOperators" in (
        compared.stderr
    )


def test_gates_have_the_defaults_of_the_emulated_version(cluster: str) -> None:
    """The pod needs a feature of a node; the gate that compares them is off in 1.35."""
    Path(cluster).write_text(DECLARED_FEATURES, encoding="utf-8")
    as_1_35 = explain(cluster, "--emulated-version", "1.35")
    pods = msgspec.json.decode(as_1_35.stdout, type=Report).pods
    assert [pod.feasible_nodes for pod in pods] == [2, 2]
    compared = explain(cluster, "--compare-versions", "1.35,1.36", "--emulated-version", "1.36")
    (web,) = (
        pod for pod in msgspec.json.decode(compared.stdout, type=Report).versions if pod.differences
    )
    assert [outcome.best for outcome in web.outcomes] == [("a",), ("b",)]
    assert "1.35 decides without --emulated-version: emulation version 1.36" in compared.stderr
