"""`kubesched-explain` as a person or a script calls it."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from scheduler.explain.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

CLUSTER = """\
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: small}
  status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
- kind: Node
  metadata: {name: tainted}
  spec: {taints: [{key: dedicated, value: a, effect: NoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
- kind: Node
  metadata: {name: large}
  status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10"}}
---
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""


def _explain(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER, encoding="utf-8")
    return path


def _scenario() -> str:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    return json.dumps({"name": "s", "objects": [node], "pods": [pod]})


def test_the_table_names_who_rejected_each_node_and_who_won(manifest: Path) -> None:
    result = _explain("--manifests", str(manifest))
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "default/web scheduled on large, 1 of 3 nodes feasible" in lines
    assert "small NodeResourcesFit Insufficient cpu cannot help" in lines
    assert "tainted TaintToleration node(s) had untolerated taint(s) cannot help" in lines
    assert any(line.startswith("large <- winner") for line in lines)


def test_only_the_pods_asked_for_are_shown(manifest: Path) -> None:
    assert "default/web" in _explain("--manifests", str(manifest), "--pod", "default/web").output
    missing = _explain("--manifests", str(manifest), "--pod", "default/nobody")
    assert missing.exit_code == 1
    assert missing.stderr == "kubesched-explain: no such pod: default/nobody\n"


def test_long_lists_can_be_cut(manifest: Path) -> None:
    result = _explain("--manifests", str(manifest), "--nodes-max", "1")
    assert "and 1 more" in result.output


def test_scenarios_come_from_standard_input_and_go_out_as_json_lines() -> None:
    result = _explain("--scenarios", "-", "-o", "jsonl", stdin=_scenario() + "\n\n")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["pods"][0]["node"] == "n"


def test_gzipped_scenarios_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.jsonl.gz"
    path.write_bytes(gzip.compress(_scenario().encode()))
    assert "scheduled on n" in _explain("--scenarios", str(path)).output


def test_a_plugin_of_ones_own_takes_part(manifest: Path) -> None:
    plugin = "tests.explain.only_small:OnlySmall"
    result = _explain("--manifests", str(manifest), "--plugin", plugin)
    assert "default/web  unschedulable: 0/3 nodes are available:" in result.output
    assert "OnlySmall" in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--scenarios", "/nowhere"], "kubesched-explain: /nowhere: No such file or directory"),
        (["--manifests", "/nowhere"], "kubesched-explain: /nowhere: No such file or directory"),
        (
            ["--manifests", __file__, "--config", "/nowhere"],
            "kubesched-explain: open /nowhere: no such file or directory",
        ),
        (
            ["--master", "http://127.0.0.1:1"],
            'kubesched-explain: GET "http://127.0.0.1:1/api/v1/nodes',
        ),
        (
            ["--scenarios", "-", "--plugin", "nowhere:Nobody"],
            'kubesched-explain: plugin "nowhere:Nobody": cannot import',
        ),
    ],
)
def test_an_error_is_one_line(arguments: list[str], complaint: str) -> None:
    result = _explain(*arguments, stdin=_scenario())
    assert result.exit_code == 1
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: [", "expected the node content"),
        ("- 1", "document 1: expected an object, got list"),
        (
            "kind: Node\nstatus: {allocatable: {cpu: many}}",
            'document 1: Node: cpu: "many": quantities must match the regular expression',
        ),
        ("kind: Node\nmetadata: {name: [1]}", "document 1: Node: Expected `str`, got `array`"),
    ],
)
def test_a_broken_manifest_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    result = _explain("--manifests", str(path))
    assert result.exit_code == 1
    assert str(path) in result.stderr
    assert complaint in result.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--scenarios", "-", "--master", "x"], ["-o", "jsonl", "--master", "x"]]
)
def test_the_cluster_has_exactly_one_source(arguments: list[str]) -> None:
    assert _explain(*arguments).exit_code == 2
