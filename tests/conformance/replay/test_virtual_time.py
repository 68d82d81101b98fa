"""A history replayed at its own times, in virtual time."""

import asyncio

import pytest

from conformance.errors import InputError
from conformance.replay.driver import Run, Settings
from conformance.replay.history import History, HistoryPod
from conformance.replay.report import summarise
from conformance.replay.virtual_time import replay_in_virtual_time
from conformance.targets.quiet import QuietLoop
from tests.conformance.replay.evidence import CPU_ONLY, task

DAY = 86_400

pytestmark = pytest.mark.slow


def _at(created: int, ended: int, name: str, cpu_milli: int) -> HistoryPod:
    pod = task(name, cpu_milli=cpu_milli)
    return pod._replace(created_seconds=created, ended_seconds=ended)


HISTORY = History(
    (CPU_ONLY,),  # 8 CPUs
    (
        _at(0, DAY, "first", 6000),
        _at(10, 3 * DAY, "waits", 5000),
        _at(2 * DAY, 2 * DAY, "brief", 1000),
        _at(2 * DAY, 4 * DAY, "last", 2000),
    ),
)


def _replayed(history: History = HISTORY, version: str = "") -> Run:
    settings = Settings(scheduler_version=version)
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(replay_in_virtual_time(history, settings))


def test_pods_come_and_go_at_the_times_of_the_history() -> None:
    run = _replayed()
    start = run.timeline.nodes_created
    seen = [(round(p.seconds - start), p.pod, p.node) for p in run.recorder.placements]
    assert seen == [
        (0, "first", "node-cpu"),
        (DAY, "first", ""),
        (DAY, "waits", "node-cpu"),  # as soon as the first has gone
        (2 * DAY, "brief", "node-cpu"),
        (2 * DAY, "brief", ""),
        (2 * DAY, "last", "node-cpu"),
    ]
    assert [(round(at - start), n) for at, n in run.recorder.unschedulable_counts] == [
        (10, 1),
        (DAY, 0),
    ]
    assert run.missing == ()
    assert run.violations == ()
    assert summarise(run).passed


def test_a_pod_runs_from_the_moment_in_which_it_gets_a_node() -> None:
    first = task("first", cpu_milli=6000)._replace(run_seconds=100.0)
    waits = task("waits", cpu_milli=5000)._replace(created_seconds=10.0, run_seconds=DAY)
    last = task("last", cpu_milli=6000)._replace(created_seconds=2.0 * DAY)
    run = _replayed(History((CPU_ONLY,), (first, waits, last)))
    start = run.timeline.nodes_created
    seen = [(round(p.seconds - start), p.pod, bool(p.node)) for p in run.recorder.placements]
    assert seen == [
        (0, "first", True),
        (100, "first", False),
        (100, "waits", True),
        (100 + DAY, "waits", False),
        (2 * DAY, "last", True),
    ]
    assert run.violations == ()


def test_pods_that_the_scheduler_evicts_are_not_lost() -> None:
    low = task("low", cpu_milli=6000)._replace(ended_seconds=100.0)
    high, last = task("high", cpu_milli=6000), task("last")
    spec = {**high.object["spec"], "priorityClassName": "high"}  # type: ignore[dict-item]
    high = high._replace(object={**high.object, "spec": spec}, created_seconds=10.0)
    metadata = {"name": "high"}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    pods = (low, high, last._replace(created_seconds=200.0))
    run = _replayed(History((CPU_ONLY,), pods, ({**kind, "metadata": metadata, "value": 7},)))
    assert run.recorder.preempted == {"low"}
    assert [p.pod for p in run.recorder.placements] == ["low", "low", "high", "last"]
    assert run.violations == ()


def test_two_replays_are_equal() -> None:
    first, second = _replayed(), _replayed()
    assert first.recorder.placements == second.recorder.placements
    assert first.recorder.verdicts == second.recorder.verdicts


def test_ours_decides_as_a_version_that_it_knows() -> None:
    assert summarise(_replayed(version="1.34")).passed
    with pytest.raises(InputError, match=r"kubesched@1\.33: expected 1\.34, 1\.35, 1\.36 or 1\.37"):
        _replayed(version="1.33")
