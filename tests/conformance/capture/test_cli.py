"""`capture` as a command; what becomes of the objects is in test_capture.py."""

from pathlib import Path

from click.testing import CliRunner

from conformance.capture.cli import capture
from conformance.format.case import load_cases
from fakeapi.pytest_plugin import FakeApi

OBJECTS = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "2", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: "2", pods: "9"}}}
- {apiVersion: v1, kind: Node, metadata: {name: c}, status: {allocatable: {cpu: "0", pods: "9"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: default}
  spec:
    nodeName: a
    containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""


def test_a_bound_pod_may_be_on_any_node_that_is_as_good(fake_api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "objects.yaml").write_text(OBJECTS, encoding="utf-8")
    fake_api.load([tmp_path / "objects.yaml"])
    file = tmp_path / "case.yaml"
    arguments = ["--kubeconfig", str(fake_api.kubeconfig), "--pod", "web", "-o", str(file)]
    result = CliRunner().invoke(capture, [*arguments, "--no-anonymise"])
    assert "Our scheduler decides the same." in result.output
    (case,) = load_cases([file])
    expected = {"pod": "web", "bound_to_one_of": ["a", "b"]}
    assert case.raw["steps"][-1] == {"expect": expected}


def test_a_bad_kubeconfig_has_status_2(tmp_path: Path) -> None:
    arguments = ["--kubeconfig", str(tmp_path / "none"), "-o", str(tmp_path / "case.yaml")]
    result = CliRunner().invoke(capture, arguments)
    assert result.exit_code == 2
    assert "none" in result.output
