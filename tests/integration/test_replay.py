"""The replay from end to end: real processes, a synthetic history, and its checks."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scheduler.simulate.cli import main as simulate

pytestmark = pytest.mark.slow

CARELESS = f"{sys.executable} {os.path.dirname(__file__)}/careless_scheduler.py {{kubeconfig}}"
DEAF = f"{sys.executable} -c 'import signal; signal.pause()' {{kubeconfig}}"
MODELS = ("T4", "P100", "V100M16")


def write_options(folder: Path) -> list[str]:
    """30 nodes of 16 cores, of which 20 have two GPUs; 120 pods, 12 of which fit nowhere.

    The 108 that fit ask for 2 cores: together for less than half of any resource, so that each of
    them has a place whatever the scheduler prefers. Of the 12, the half wants more cores than a
    node has, the other half a model that there is not.
    """
    rng = random.Random(7)
    nodes = ["sn,cpu_milli,memory_mib,gpu,model"]
    for number in range(30):
        gpu = f"2,{MODELS[number % 3]}" if number < 20 else "0,"
        nodes.append(f"node-{number:02},16000,65536,{gpu}")
    pods = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"]
    for number in range(120):
        row = f"pod-{number:03},2000,1024,0,0,"
        if number % 20 == 3:
            row = f"pod-{number:03},17000,1024,0,0,"
        elif number % 20 == 7:
            row = f"pod-{number:03},100,1024,1,100,A10|H100"
        elif number % 4 == 0:
            wanted = "|".join(rng.sample(MODELS, 2))
            row = f"pod-{number:03},2000,1024,1,{rng.choice((200, 500))},{wanted}"
        pods.append(row)
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n", encoding="utf-8")
    (folder / "pods.csv").write_text("\n".join(pods) + "\n", encoding="utf-8")
    files = ("--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv"))
    history = str(folder / "openb.jsonl")
    result = CliRunner().invoke(simulate, ["import", "openb", *files, "-o", history])
    assert result.exit_code == 0, result.output
    return ["--history", history, "--json", str(folder / "numbers.json")]


def command(options: list[str]) -> list[str]:
    return [sys.executable, "-P", "-m", "conformance.replay", *options]


def replay(options: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(options), capture_output=True, encoding="utf-8", timeout=120, check=False
    )


def numbers(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    return document


def test_every_pod_is_bound_or_reported_and_all_is_verified(tmp_path: Path) -> None:
    result = replay([*write_options(tmp_path), "--settle", "0.5"])
    assert (result.returncode, result.stderr) == (0, "")
    assert "120 pods on 30 nodes: 108 bound, 12 unschedulable, 0 undecided" in result.stdout
    assert "Verified" in result.stdout
    found = numbers(tmp_path)
    assert found["passed"] is True
    assert found["violations"] == []
    assert sum(found["messages"].values()) == 12
    reasons = {reason["reason"]: reason["pods"] for reason in found["reasons"]}
    assert reasons["Insufficient cpu"] >= 6
    assert reasons["node(s) didn't match Pod's node affinity/selector"] == 6
    assert found["bound"] == 108
    assert found["usage"]["the scheduler"]["cpu_seconds"] > 0


def test_a_careless_scheduler_is_convicted(tmp_path: Path) -> None:
    options = write_options(tmp_path)
    result = replay([*options, "--target-command", CARELESS, "--settle", "0.5"])
    assert result.returncode == 1
    assert "Violation: over-capacity: node-00: at the end" in result.stdout
    assert "Verified" not in result.stdout
    found = numbers(tmp_path)
    rules = {violation["rule"] for violation in found["violations"]}
    assert rules == {"over-capacity", "wrong-node"}
    assert found["bound"] == 120
    moment = next(v for v in found["violations"] if v["problem"].startswith("when "))
    assert "cpu" in moment["problem"]


def test_a_scheduler_that_does_nothing_is_given_up_on(tmp_path: Path) -> None:
    options = [*write_options(tmp_path), "--limit", "3", "--timeout", "1.5"]
    result = replay([*options, "--target-command", DEAF])
    assert result.returncode == 1
    missing = "Timed out: 3 pods are neither bound nor reported: pod-000, pod-001, pod-002"
    assert missing in result.stdout
    assert numbers(tmp_path)["missing"] == ["pod-000", "pod-001", "pod-002"]


def test_a_scheduler_that_dies_is_quoted_in_one_line(tmp_path: Path) -> None:
    dying = f"{sys.executable} -c 'import sys; sys.exit(\"no such flag\")' {{kubeconfig}}"
    result = replay([*write_options(tmp_path), "--target-command", dying])
    assert result.returncode == 1
    assert result.stderr == (
        "kubesched-conformance: the scheduler ended with status 1: no such flag\n"
    )
    assert result.stdout == ""


def test_a_replay_that_is_stopped_leaves_nothing_running(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"import os, signal; open({str(pid_file)!r}, 'w').write(str(os.getpid())); "
    target = f'{sys.executable} -c "{script}signal.pause()" {{kubeconfig}}'
    options = [*write_options(tmp_path), "--target-command", target]
    process = subprocess.Popen(command(options), stderr=subprocess.PIPE, encoding="utf-8")
    while not (pid_file.exists() and pid_file.read_text(encoding="utf-8")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error == "Aborted!\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text(encoding="utf-8")), 0)
