"""Our decisions against recordings of the real kube-scheduler v1.36.3.

`recorded.jsonl.gz` holds ninety of the scenarios whose decisions were recorded from upstream's own
framework, cache and plugins, `recorded_preemption.jsonl.gz` some more in which pods preempt.
`recorded_groups.jsonl.gz` holds scenarios with pod groups, step by step.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from .scenario import Scenario, decided, read_scenarios

RECORDED = ("recorded.jsonl.gz", "recorded_preemption.jsonl.gz")


def _lines(*names: str) -> list[bytes]:
    found: list[bytes] = []
    for name in names:
        with gzip.open(Path(__file__).parent / name) as lines:
            found += lines.readlines()
    return found


LINES = _lines(*RECORDED)
SCENARIOS = list(read_scenarios(LINES, source="recorded"))
GROUP_LINES = _lines("recorded_groups.jsonl.gz")
GROUP_SCENARIOS = list(read_scenarios(GROUP_LINES, source="recorded"))


@pytest.mark.parametrize(
    ("scenario", "line"), [*zip(SCENARIOS, LINES, strict=True)], ids=[s.name for s in SCENARIOS]
)
def test_our_decisions_equal_those_of_kube_scheduler(scenario: Scenario, line: bytes) -> None:
    expected = json.loads(line)["expect"]
    actual = json.loads(json.dumps(decided(scenario)))
    assert actual["nodeOrder"] == expected["nodeOrder"]
    assert [_comparable(p) for p in actual["pods"]] == [_comparable(p) for p in expected["pods"]]


@pytest.mark.parametrize(
    ("scenario", "line"),
    [*zip(GROUP_SCENARIOS, GROUP_LINES, strict=True)],
    ids=[s.name for s in GROUP_SCENARIOS],
)
def test_we_schedule_pod_groups_as_kube_scheduler_did(scenario: Scenario, line: bytes) -> None:
    expected = json.loads(line)["expect"]
    actual = json.loads(json.dumps(decided(scenario)))
    for number, (ours, theirs) in enumerate(zip(actual["steps"], expected["steps"], strict=True)):
        assert ours == theirs, f"step {number}"
    assert actual.get("hints") == expected.get("hints")


def _comparable(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision without the parts that are not compared: scores of zero, the order of victims."""
    if "postFilter" in decision:
        outcome = decision["postFilter"]
        decision = {**decision, "postFilter": {**outcome, "victims": sorted(outcome["victims"])}}
    if "scores" in decision:
        decision["scores"] = {
            node: {plugin: score for plugin, score in scores.items() if score}
            for node, scores in decision["scores"].items()
        }
    return decision
