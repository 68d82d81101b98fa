"""The event log: what happens on the API servers, line by line, in the order of the cases."""

from pathlib import Path

import msgspec
import pytest

from conformance.clock import RealClock
from conformance.errors import InputError
from conformance.format.case import Case
from conformance.run.event_log import event_log
from conformance.run.runner import Settings, run_cases
from fakeapi import FakeApiServer

from .. import schedulers
from ..cases import in_process, write_cases

TWO = """
area: tiny
cases:
- name: one
  source: nowhere
  cluster: [node: {name: a}]
  steps: [{advance: 10m}, {create: [pod: {name: p}]}, {expect: {pod: p, bound_to: a}}]
- name: two
  source: nowhere
  steps: [{create: [pod: {name: p}]}, {delete: {pod: p}}, {expect: {pod: p, bound_to: b}}]
"""


@pytest.fixture
def two(tmp_path: Path) -> list[Case]:
    return write_cases(tmp_path, TWO)


def _log_of(cases: list[Case], path: Path, *, workers: int = 0) -> bytes:
    target = in_process(schedulers.binds_all_to_a)
    run_cases(cases, Settings(target=target, workers=workers, event_log=path))
    return path.read_bytes()


def _lines(log: bytes) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in log.splitlines()]


def _brief(line: dict[str, object]) -> tuple[object, ...]:
    names = ("at", "case", "step", "change", "key", "request", "status", "verdict")
    return tuple(line[name] for name in names if name in line)


def test_it_logs_changes_writes_and_steps_in_order(two: list[Case], tmp_path: Path) -> None:
    log = _lines(_log_of(two[:1], tmp_path / "log"))
    assert [_brief(line) for line in log] == [
        ("tiny/one",),
        (0.0, "cluster"),
        (0.0, "ADDED", "a"),
        (0.0, "steps[0]"),
        (600.0, "steps[1]"),
        (600.0, "ADDED", "default/p"),
        (600.0, "MODIFIED", "default/p"),
        (600.0, "POST", 201),
        (600.0, "steps[2]"),
        (600.0, "passed"),
    ]


def test_a_change_is_logged_whole_with_its_writer(two: list[Case], tmp_path: Path) -> None:
    log = _lines(_log_of(two[:1], tmp_path / "log"))
    (bound,) = (line for line in log if line.get("change") == "MODIFIED")
    (write,) = (line for line in log if "request" in line)
    assert bound["resource"] == "pods"
    pod = bound["object"]
    assert isinstance(pod, dict)
    assert pod["spec"]["nodeName"] == "a"
    assert str(bound["version"]) == pod["metadata"]["resourceVersion"]
    assert write["path"] == "/api/v1/namespaces/default/pods/p/binding"
    assert str(write["by"]).startswith("Python/")


def test_keys_are_sorted_and_every_line_ends(two: list[Case], tmp_path: Path) -> None:
    log = _log_of(two, tmp_path / "log")
    assert log.endswith(b"\n")
    for line in log.splitlines():
        assert msgspec.json.encode(msgspec.json.decode(line), order="sorted") == line


def test_a_failed_case_is_logged_and_the_next_starts_from_the_beginning(
    two: list[Case], tmp_path: Path
) -> None:
    log = _lines(_log_of([two[1], two[0]], tmp_path / "log"))
    begin = log.index({"case": "tiny/one"})
    assert log[begin - 1]["verdict"] == "failed"
    assert log[begin - 1]["reason"] == "steps[2]: pod p: expected to exist, does not"
    assert log[begin + 1] == {"at": 0.0, "step": "cluster"}


def test_a_case_does_not_depend_on_those_before_it(two: list[Case], tmp_path: Path) -> None:
    first = _log_of(two, tmp_path / "first")
    second = _log_of([two[1], two[0]], tmp_path / "second")
    assert sorted(first.splitlines()) == sorted(second.splitlines())


@pytest.mark.slow
def test_the_log_is_in_the_order_of_the_cases_with_any_number_of_workers(
    two: list[Case], tmp_path: Path
) -> None:
    assert _log_of(two, tmp_path / "a") == _log_of(two, tmp_path / "b", workers=2)


def test_a_log_that_cannot_be_written_is_bad_input(two: list[Case], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--event-log: .*nowhere.*: No such file or directory"):
        _log_of(two, tmp_path / "nowhere" / "log")


async def test_the_servers_address_is_not_in_it(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        error = f"POST {server.url}/api/v1: connection reset"
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default"},
            "data": {"error": error},
        }
        with event_log(tmp_path / "log", "a/b") as log, log.following(server, RealClock()):
            server.load([config_map])
    (line,) = _lines((tmp_path / "log").read_bytes())[1:]
    assert isinstance(line["object"], dict)
    assert line["object"]["data"] == {"error": "POST http://API-SERVER/api/v1: connection reset"}
