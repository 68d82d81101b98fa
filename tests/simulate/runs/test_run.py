"""Runs over histories: policies side by side, their measures, and the command."""

import csv
import json
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from scheduler.api.core import Pod
from scheduler.framework import Plugin
from scheduler.simulate.history.format import PRICE, RUN_SECONDS
from scheduler.simulate.runs import cli
from scheduler.simulate.runs.cli import run
from scheduler.testing import make_node, make_pod


class NeverOnA(Plugin):
    """Reject the node `a`."""

    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        from scheduler.framework import unschedulable

        return unschedulable("is a") if node.name == "a" else None


def _line(seconds: float, obj: object, change: str = "ADDED") -> bytes:
    resource = "pods" if isinstance(obj, Pod) else "nodes"
    line = {"at": seconds, "change": change, "resource": resource, "object": obj}
    return msgspec.json.encode(line) + b"\n"


def _pod(name: str, cpu: str, *, run_seconds: int | None = None, **fields: object) -> Pod:
    annotations = {} if run_seconds is None else {RUN_SECONDS: str(run_seconds)}
    return make_pod(name, requests={"cpu": cpu}, annotations=annotations, **fields)  # type: ignore[arg-type]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two nodes of 4 cores; four pods with 3 cores that run 100 s, at 0, 10, 20 and 30 s."""
    path = tmp_path / "history.jsonl"
    nodes = [make_node("a", annotations={PRICE: "36"}), make_node("b")]
    pods = [_pod(f"p{i}", "3", run_seconds=100, namespace=f"ns{i % 2}") for i in range(4)]
    lines = [_line(0, node) for node in nodes]
    path.write_bytes(b"".join(lines + [_line(10 * i, pod) for i, pod in enumerate(pods)]))
    return path


def _run(history: Path, *arguments: str) -> Result:
    words = [str(history), "--workers", "0", "-o", str(history.parent / "out"), *arguments]
    return CliRunner().invoke(run, words)


def _numbers(history: Path, policy: str = "default") -> dict[str, float]:
    with (history.parent / "out" / "results.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["policy"] == policy]
    return {row["metric"]: float(row["mean"]) for row in rows}


def test_pods_wait_run_and_end_in_virtual_time(history: Path) -> None:
    result = _run(history)
    assert result.exit_code == 0, result.output
    numbers = _numbers(history)
    # The first two pods are bound at once, the others when those end: at 100 s and at 110 s.
    assert numbers["pods"] == 4
    assert numbers["unschedulable"] == 0
    assert numbers["wait mean s"] == pytest.approx((0 + 0 + 80 + 80) / 4, abs=1)
    assert numbers["makespan s"] == pytest.approx(210, abs=1)
    assert numbers["used cpu %"] == pytest.approx(100 * 4 * 3 * 100 / (8 * 210), abs=1)
    # Node a costs 36 per hour and has pods for 200 s, node b 1 per hour.
    assert numbers["node cost"] == pytest.approx(200 * 36 / 3600 + 200 / 3600, abs=0.4)
    assert numbers["Jain index"] == pytest.approx(1)


def test_policies_are_compared_and_pods_without_a_node_are_listed_with_reasons(
    history: Path,
) -> None:
    with history.open("ab") as file:
        file.write(_line(400, _pod("large", "5")))
    plugin = f"{NeverOnA.__module__}:{NeverOnA.__qualname__}"
    result = _run(history, "--policy", "default=default", "--policy", f"b={plugin}")
    assert result.exit_code == 0, result.output
    assert _numbers(history, "b")["makespan s"] == pytest.approx(400, abs=1)
    assert _numbers(history, "b")["unschedulable"] == 1
    results = json.loads((history.parent / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["default"][0]["measures"]["unschedulable"] == [["5 cpu", "Insufficient cpu", 1]]
    page = (history.parent / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "5 cpu" in page


def test_evicted_pods_end_and_their_work_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    low, high = _pod("low", "3"), _pod("high", "3", priority=10)
    lines = [_line(0, make_node("a")), _line(0, low), _line(50, high)]
    path.write_bytes(b"".join(lines))
    assert _run(path).exit_code == 0
    numbers = _numbers(path)
    assert numbers["preempted"] == 1
    # It ran until the end of its grace period of 30 s.
    assert numbers["lost core s"] == pytest.approx(3 * 80, abs=3)


def test_changes_and_ends_of_the_history_are_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, second = _pod("first", "3"), _pod("second", "3")
    ended = msgspec.structs.replace(
        first,
        spec=msgspec.structs.replace(first.spec, node_name="a"),
        status=msgspec.structs.replace(first.status, phase="Succeeded"),
    )
    lines = [_line(0, make_node("a")), _line(0, first), _line(5, second)]
    lines += [_line(60, ended, "MODIFIED"), _line(90, second, "DELETED")]
    path.write_bytes(b"".join(lines))
    result = _run(path)
    assert result.exit_code == 0, result.output
    numbers = _numbers(path)
    assert numbers["wait p99 s"] == pytest.approx(55, abs=2)
    assert numbers["makespan s"] == pytest.approx(90, abs=1)


def threads() -> Executor:
    return ThreadPoolExecutor(2)


def test_an_executor_of_the_user_carries_out_the_runs(history: Path) -> None:
    executor = f"{threads.__module__}:{threads.__qualname__}"
    assert _run(history, "--seeds", "2", "--executor", executor).exit_code == 0
    assert _numbers(history)["pods"] == 4


def test_ctrl_c_keeps_the_runs_that_have_ended(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = cli.carry_out_run

    def stopped(task: bytes, *progress: Any) -> bytes:
        if json.loads(task)["seed"] == 2:
            raise KeyboardInterrupt
        return carried_out(task, *progress)

    monkeypatch.setattr(cli, "carry_out_run", stopped)
    result = _run(history, "--seeds", "2")
    assert result.exit_code == 130
    assert "interrupted; --resume goes on" in result.output
    assert _numbers(history)["pods"] == 4
    monkeypatch.undo()
    assert _run(history, "--seeds", "2", "--resume").exit_code == 0


def test_seeds_are_averaged_and_runs_are_resumed(history: Path) -> None:
    assert _run(history, "--seeds", "2").exit_code == 0
    before = _numbers(history)
    journal = history.parent / "out" / "runs.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    assert _run(history, "--seeds", "2", "--resume").exit_code == 0
    after = _numbers(history)
    assert {**before, "decisions per s": 0} == {**after, "decisions per s": 0}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--policy", "x"), "expected NAME=CONFIG"),
        (("--policy", "x=nothing"), "expected a file, module:Class or default"),
        (("--policy", "x=nowhere:Class"), "nowhere"),
    ],
)
def test_bad_policies_are_named(history: Path, arguments: tuple[str, ...], error: str) -> None:
    result = _run(history, *arguments)
    assert result.exit_code == 2
    assert error in result.output
