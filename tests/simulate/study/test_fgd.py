"""The study on a small trace, by its command."""

import asyncio
import csv
import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from scheduler.simulate.history.openb import read_nodes, read_pods
from scheduler.simulate.study.cli import study
from scheduler.simulate.study.fgd import POLICIES, Trace, arrivals, run
from tests.simulate.study.small_trace import POD_COLUMNS, write_small_trace


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_small_trace(tmp_path)
    return tmp_path


def _study(data: Path, *arguments: str) -> Result:
    words = ["fgd", "--data", str(data), "--workers", "0", "-o", str(data / "out"), *arguments]
    return CliRunner().invoke(study, words)


def _table(data: Path) -> list[dict[str, str]]:
    with (data / "out" / "results.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_for_each_policy_metric_and_load(data: Path) -> None:
    result = _study(data, "--seeds", "2")
    assert result.exit_code == 0, result.output
    rows = _table(data)
    assert [*rows[0]] == [
        "trace", "policy", "metric", "arrived_gpu_load_percent", "seeds", "mean", "sd",
    ]  # fmt: skip
    assert {row["policy"] for row in rows} == set(POLICIES)
    assert {row["metric"] for row in rows} == {"allo", "frag", "frag_ratio"}
    assert {row["seeds"] for row in rows} <= {"1", "2"}
    for row in rows:
        assert 0 <= float(row["mean"]) <= 100
    assert len(list((data / "out").glob("small-*.svg"))) == 3


def test_a_seed_repeats_the_numbers_and_runs_are_resumed(data: Path) -> None:
    arguments = ("--policy", "FGD", "--policy", "01-Random", "--trace", "small")
    assert _study(data, *arguments).exit_code == 0
    first = _table(data)
    journal = data / "out" / "runs.jsonl"
    kept = journal.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    journal.write_text(kept + '{"name": "cut', encoding="utf-8")
    assert _study(data, *arguments, "--resume").exit_code == 0
    assert _table(data) == first
    assert journal.read_text(encoding="utf-8").count("small 06-FGD seed 1") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--policy", "FDG"), "--policy: expected one of 01-Random"),
        (("--trace", "large"), "has no openb_pod_list_large.csv"),
        (("--seed", "1", "--seeds", "2"), "expected one of them"),
        (("--executor", "nowhere"), "expected MODULE:FACTORY"),
        (("--executor", "builtins:dict"), "expected a concurrent.futures.Executor"),
    ],
)
def test_bad_options_are_named(data: Path, arguments: tuple[str, ...], error: str) -> None:
    result = _study(data, *arguments)
    assert result.exit_code == 2
    assert error in result.output


def test_a_directory_without_traces_is_named(tmp_path: Path) -> None:
    result = _study(tmp_path)
    assert result.exit_code == 2
    assert f"--data: {tmp_path} has no openb_pod_list_NAME.csv" in result.output


def test_a_bad_row_of_the_trace_is_named(data: Path) -> None:
    (data / "openb_pod_list_bad.csv").write_text(
        POD_COLUMNS + "pod-0,1000,1024,2,500,\n", encoding="utf-8"
    )
    result = _study(data, "--trace", "bad", "--policy", "BestFit")
    assert result.exit_code == 1
    assert "openb_pod_list_bad.csv:2: gpu_milli: expected 1000 for several GPUs" in result.output


def _trace(data: Path) -> Trace:
    nodes = read_nodes(data / "openb_node_list_gpu_node.csv")
    return Trace("small", nodes, read_pods(data / "openb_pod_list_small.csv"))


def test_pods_arrive_until_they_request_130_percent_of_the_gpus(data: Path) -> None:
    trace = _trace(data)
    pods = arrivals(trace, random.Random(3))
    load = sum(pod.gpu.total for pod in pods) / 18_000
    assert 1.2 < load <= 1.3
    assert {pod.name for pod in trace.pods} == {pod.name for pod in pods[:30]}
    twice = trace._replace(pods=[*trace.pods, *pods, *pods])
    assert 1.2 < sum(pod.gpu.total for pod in arrivals(twice, random.Random(3))) / 18_000 <= 1.3


def test_all_pods_are_bound_while_there_is_room_and_none_beyond(data: Path) -> None:
    curves = asyncio.run(run(_trace(data), "06-FGD", seed=1))
    loads = [load for load in range(60) if curves.allo[load] == curves.allo[load]]
    assert all(abs(curves.allo[load] - load) < 1 for load in loads)
    assert np.nanmax(curves.allo) <= 100
