"""Capture from a running server with its scheduler, as processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from conformance.api import Json
from conformance.capture.cli import capture, shrink
from conformance.format.case import load_cases
from conformance.outcome import Verdict
from conformance.targets.target import TargetOptions

from ..cases import run_one

START_SECONDS = 60.0
NODES = 60

pytestmark = pytest.mark.slow


def _node(number: int) -> Json:
    cpu = "1" if number % 2 else "2"
    taints = [{"key": "acme.com/team", "value": "db", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"acme-{number}", "labels": {"acme.com/rack": f"rack-{number % 7}"}},
        "spec": {} if number % 2 else {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}},
    }


def _pod(name: str, cpu: str) -> Json:
    requests = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "acme.com/web:v1", **requests}]},
    }


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A server with 60 nodes and its scheduler, which leaves the pod `acme-big` without a node."""
    objects, path = tmp_path / "objects.yaml", tmp_path / "kubeconfig"
    pods = [_pod("acme-small", "500m"), _pod("acme-big", "1500m")]
    items = [*map(_node, range(NODES)), *pods]
    objects.write_text(yaml.safe_dump_all(items), encoding="utf-8")
    fakeapi = (sys.executable, "-m", "fakeapi", "--load", str(objects))
    server = subprocess.Popen([*fakeapi, "--kubeconfig-out", str(path)])
    try:
        _wait(path.exists)
        ours = (sys.executable, "-m", "scheduler", "--kubeconfig", str(path))
        options = ("--leader-elect=false", "--secure-port=0")
        scheduler = subprocess.Popen([*ours, *options], stderr=subprocess.DEVNULL)
        try:
            yield path
        finally:
            scheduler.terminate()
            scheduler.wait()
    finally:
        server.terminate()
        server.wait()


def _wait(is_so: object) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_incident_becomes_a_case_of_two_nodes(kubeconfig: Path, tmp_path: Path) -> None:
    whole, small = tmp_path / "incident.yaml", tmp_path / "small.yaml"

    def is_captured() -> bool:
        arguments = ["--kubeconfig", str(kubeconfig), "--pod", "acme-big", "-o", str(whole)]
        result = CliRunner().invoke(capture, arguments)
        assert result.exit_code == 0, result.output
        return "Our scheduler decides the same." in result.output and "Insufficient" in (
            whole.read_text(encoding="utf-8")
        )

    _wait(is_captured)
    assert "acme" not in whole.read_text(encoding="utf-8")
    one_of_many = ["--kubeconfig", str(kubeconfig), "--pod", "acme-small", "-o", str(small)]
    result = CliRunner().invoke(capture, one_of_many)
    assert "Our scheduler decides the same." in result.output
    assert "bound_to_one_of" in small.read_text(encoding="utf-8")
    result = CliRunner().invoke(shrink, [str(whole), "-o", str(small)])
    assert result.exit_code == 0, result.output
    (case,) = load_cases([small])
    assert sum(1 for entry in case.raw["cluster"]) == 2  # type: ignore[attr-defined]
    assert run_one(case, TargetOptions()).verdict is Verdict.PASSED
    assert "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)." in (
        small.read_text(encoding="utf-8").replace("\n", " ")
    )


def test_a_bad_kubeconfig_has_status_2(tmp_path: Path) -> None:
    arguments = ["--kubeconfig", str(tmp_path / "none"), "-o", str(tmp_path / "case.yaml")]
    result = CliRunner().invoke(capture, arguments)
    assert result.exit_code == 2
    assert "none" in result.output
