"""Numbers of a run: rates, reasons, and their ways out."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from conformance.clock import VirtualClock
from conformance.replay.driver import Run, Settings, Timeline
from conformance.replay.history import History
from conformance.replay.processes import Usage
from conformance.replay.recording import Placement, Recorder, Verdict
from conformance.replay.report import Report, render, summarise, to_json
from conformance.replay.verify import Violation, verify
from tests.conformance.replay.evidence import CPU_ONLY, T4, World, task

HISTORY = History(
    (CPU_ONLY, T4),
    (
        task("a", cpu_milli=4000, memory_mib=8192),
        task("b", cpu_milli=8000, memory_mib=0, gpus=1, gpu_milli=500),
        task("c", cpu_milli=99000),
    ),
)
MESSAGE = "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."


def run(*, violated: bool = False, timed_out: bool = False) -> Run:
    """A run that created pods at 10 s, bound two at 11 s and 14 s, and refused one at 12 s."""
    recorder = Recorder([pod.name for pod in HISTORY.pods], VirtualClock(0))
    recorder.undecided.clear()
    recorder.placements += [
        Placement(11.0, "a", "uid-a", "node-cpu"),
        Placement(14.0, "b", "uid-b", "node-t4"),
    ]
    recorder.verdicts += [Verdict(11.0, "a", True), Verdict(12.0, "c", False)]
    recorder.verdicts += [Verdict(14.0, "b", True)]
    world = World(HISTORY, {"a": "node-cpu", "b": "node-t4", "c": ""}, {"c": MESSAGE})
    evidence = world.evidence()
    if violated:
        evidence = evidence._replace(pods=evidence.pods[1:])
    return Run(
        HISTORY,
        Settings(),
        recorder,
        evidence=evidence,
        timeline=Timeline(8.0, 9.0, 10.0, 12.0, 15.0, 16.0),
        usage={"the scheduler": Usage(1.5, 0.5, 64 << 20)},
        timed_out=timed_out,
        missing=("c",) if timed_out else (),
        violations=tuple(verify(HISTORY, evidence)),
        created=3,
    )


def printed(report: Report) -> str:
    out = io.StringIO()
    render(report, Console(file=out, width=160))
    return out.getvalue()


def test_the_rates_are_of_creating_and_of_deciding() -> None:
    report = summarise(run())
    assert (report.bound, report.unschedulable, report.created) == (2, 1, 3)
    assert report.creation_rate == pytest.approx(1.5)
    assert report.scheduling_rate == pytest.approx(0.75)
    assert report.wall_seconds == 8.0
    assert report.messages == {MESSAGE: 1}
    assert report.passed


def test_the_tables_have_the_numbers_of_the_report() -> None:
    text = printed(summarise(run()))
    assert "3 pods on 2 nodes: 2 bound, 1 unschedulable, 0 undecided" in text
    assert "Insufficient memory" in text
    assert "CPU of the scheduler (user 1.50, system 0.50)" in text
    assert "64 MiB" in text
    assert "Verified: no pod lost" in text


def test_violations_are_listed_and_nothing_is_verified() -> None:
    text = printed(summarise(run(violated=True)))
    assert "Violation: pod-lost: a: was created, and is not in the list" in text
    assert "Verified" not in text


def test_a_timeout_names_the_missing_pods() -> None:
    report = summarise(run(timed_out=True))
    assert not report.passed
    assert "Timed out: 1 pods are neither bound nor reported: c" in printed(report)


def test_the_numbers_are_plain_json() -> None:
    report = summarise(run(violated=True))
    document = msgspec.json.decode(msgspec.json.encode(to_json(report)))
    assert document["passed"] is False
    assert document["bound"] == 1
    assert document["usage"]["the scheduler"]["cpu_seconds"] == 2.0
    assert document["reasons"][0] == {"reason": "Insufficient cpu", "pods": 1, "nodes_mean": 2.0}
    assert document["violations"][0]["rule"] == "pod-lost"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["Verified: no pod lost, none bound twice, no node over its capacity."]),
        ({"watch_gaps": 2}, ["The watch of pods was interrupted 2 times."]),
        ({"timed_out": True}, ["Timed out while pods went on changing"]),
        (
            {"timed_out": True, "missing": tuple(f"p{number}" for number in range(12))},
            ["Timed out: 12 pods are neither bound nor reported: p0, p1", " and 2 more"],
        ),
        (
            {
                "violations": tuple(
                    Violation("lost", f"p{number}", "is lost") for number in range(53)
                )
            },
            ["Violation: lost: p0: is lost", "... and 3 more"],
        ),
    ],
)
def test_failures_are_shown_at_the_end(changes: dict[str, Any], lines: list[str]) -> None:
    text = printed(msgspec.structs.replace(summarise(run()), **changes))
    for line in lines:
        assert line in text
    is_good = changes.keys() <= {"watch_gaps"}
    assert ("Verified" in text) is is_good
