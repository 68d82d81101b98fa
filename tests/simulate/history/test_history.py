"""Histories: the format, imported traces, and a recorded cluster."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.api.core import Pod
from scheduler.explain.input_files import InputFileError
from scheduler.simulate.history.cli import import_trace
from scheduler.simulate.history.format import RUN_SECONDS, read_history


def _history(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def _pod(name: str, **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, **fields}


def test_lines_without_a_change_are_ignored_so_that_event_logs_are_histories(
    tmp_path: Path,
) -> None:
    path = _history(
        tmp_path,
        {"case": "queue/taint-goes"},
        {"at": 0.0, "step": "steps[0]"},
        {"at": 1.5, "change": "ADDED", "key": "default/p", "resource": "pods", "version": 3,
         "object": _pod("p")},
        {"at": 2.0, "change": "DELETED", "resource": "quotas.example.com",
         "object": {"apiVersion": "example.com/v1", "metadata": {"name": "q"}}},
    )  # fmt: skip
    pod, quota = read_history(path)
    assert (pod.seconds, pod.kind, pod.change) == (1.5, "pods", "ADDED")
    assert isinstance(pod.object, Pod)
    assert (quota.kind, quota.change) == ("quotas.v1.example.com", "DELETED")


def test_a_compressed_history_is_read(tmp_path: Path) -> None:
    line = {"at": 0, "change": "ADDED", "resource": "pods", "object": _pod("p")}
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line).encode()))
    assert [change.object.metadata.name for change in read_history(path)] == ["p"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"change": "ADDED", "resource": "pods", "object": _pod("p")}, "at: expected"),
        ({"at": 1, "change": "MOVED"}, ":2: change: Invalid enum value 'MOVED'"),
        ({"at": -1, "change": "ADDED", "resource": "pods", "object": _pod("p")}, "at least 0.0"),
        ({"at": 1, "change": "ADDED", "resource": "pods", "object": {}}, "metadata.name: missing"),
        ({"at": 1, "change": "ADDED", "resource": "pods", "object": _pod("p", spec=1)}, ": spec: "),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: object, error: str) -> None:
    good = {"at": 0, "change": "ADDED", "resource": "pods", "object": _pod("first")}
    with pytest.raises(InputFileError, match=error):
        list(read_history(_history(tmp_path, good, line)))


def _import(tmp_path: Path, trace: str, nodes: str, pods: str) -> Result:
    (tmp_path / "nodes").write_text(nodes, encoding="utf-8")
    (tmp_path / "pods").write_text(pods, encoding="utf-8")
    words = [trace, "--nodes", str(tmp_path / "nodes"), "--pods", str(tmp_path / "pods")]
    return CliRunner().invoke(import_trace, [*words, "-o", str(tmp_path / "out.jsonl")])


def _pods_of(tmp_path: Path) -> list[tuple[float, Pod]]:
    changes = read_history(tmp_path / "out.jsonl")
    return [(c.seconds, c.object) for c in changes if isinstance(c.object, Pod)]


def test_tables_become_a_history_with_any_resources(tmp_path: Path) -> None:
    nodes = "name,zone,price,cpu,memory,nvidia.com/gpu\na,z1,2.5,8,32Gi,4\nb,,,4,16Gi,\n"
    pods = (
        "name,namespace,created_seconds,run_seconds,cpu,nvidia.com/gpu\nq,t,20,,1,\np,t,5,60,2,1\n"
    )
    assert _import(tmp_path, "csv", nodes, pods).output.startswith("4 changes")
    (first, p), (second, q) = _pods_of(tmp_path)
    assert (first, p.key, second, q.key) == (0.0, "t/p", 15.0, "t/q")
    assert p.metadata.annotations == {RUN_SECONDS: "60"}
    assert p.spec.containers[0].resources.requests == {"cpu": "2", "nvidia.com/gpu": "1"}
    assert q.metadata.annotations == {}


def test_the_openb_trace_becomes_a_history(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1024,2,T4\n"
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    pods = f"{head}p,4000,512,1,500,T4|P100,100,160\nq,4000,512,0,0,,90,95\n"
    assert _import(tmp_path, "openb", nodes, pods).exit_code == 0
    (_, q), (seconds, p) = _pods_of(tmp_path)
    assert (seconds, p.metadata.annotations[RUN_SECONDS], q.key) == (10, "60", "default/q")


def test_the_philly_log_becomes_a_pod_for_each_machine_of_a_job(tmp_path: Path) -> None:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
    first = {
        "start_time": "2017-10-03 09:00:00",
        "end_time": "2017-10-03 09:01:40",
        "detail": detail,
    }
    again = {**first, "end_time": "2017-10-03 09:00:20"}
    jobs = [
        {"jobid": "application_1", "vc": "team", "submitted_time": "2017-10-03 08:59:00",
         "attempts": [first, again], "status": "Pass", "user": "u"},
        {"jobid": "application_2", "vc": "team", "submitted_time": "2017-10-03 08:00:00",
         "attempts": [{"start_time": None, "end_time": None, "detail": []}]},
    ]  # fmt: skip
    nodes = "machineId,number of GPUs,single GPU mem\nm1,8,24GB\n"
    assert _import(tmp_path, "philly", nodes, json.dumps(jobs)).output.startswith("3 changes")
    pods = [pod for _, pod in _pods_of(tmp_path)]
    assert [pod.key for pod in pods] == ["team/application-1-0", "team/application-1-1"]
    gpus = [dict(pod.spec.containers[0].resources.requests) for pod in pods]
    assert gpus == [{"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}]
    assert {pod.metadata.annotations[RUN_SECONDS] for pod in pods} == {"120"}


@pytest.mark.parametrize(
    ("trace", "nodes", "pods", "error"),
    [
        ("csv", "name,cpu\na,x\n", "name,created_seconds\n", "nodes:2: cpu"),
        ("csv", "name,cpu\na\n", "name,created_seconds\n", "nodes:2: expected 2 values, got 1"),
        (
            "csv",
            "name\na\n",
            "name,created_seconds\np,-1\n",
            "pods:2: created_seconds: Expected `float` >= 0",
        ),
        ("openb", "sn\n", "name\n", "pods:1: no column 'cpu_milli'"),
        ("philly", "machineId,number of GPUs\n", "{", "pods: Expected `array`"),
    ],
)
def test_a_bad_trace_is_named(
    tmp_path: Path, trace: str, nodes: str, pods: str, error: str
) -> None:
    result = _import(tmp_path, trace, nodes, pods)
    assert result.exit_code == 1
    assert error in result.output
