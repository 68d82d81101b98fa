"""Our decisions against recordings of the real kube-scheduler v1.36.3.

`recorded.jsonl.gz` holds ninety of the scenarios whose decisions were recorded from upstream's own
framework, cache and plugins, `recorded_preemption.jsonl.gz` some more in which pods preempt,
`recorded_devices.jsonl.gz` those with resource claims and all writes of claims. `<now>` and `<id>`
stand for any text, a final `*` for any ending. `recorded_groups.jsonl.gz` holds scenarios with pod
groups, step by step.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.api.quantity import parse_quantity

from .scenario import Scenario, decided, read_scenarios

ANY_TEXT = ("<now>", "<id>")


def recorded(*names: str) -> list[Any]:
    """Return the scenarios of files as parameters, each with its line."""
    lines: list[bytes] = []
    for name in names:
        with gzip.open(Path(__file__).parent / name) as file:
            lines += file.readlines()
    scenarios = read_scenarios(lines, source="recorded")
    return [pytest.param(s, line, id=s.name) for s, line in zip(scenarios, lines, strict=True)]


@pytest.mark.parametrize(
    ("scenario", "line"),
    recorded("recorded.jsonl.gz", "recorded_preemption.jsonl.gz", "recorded_devices.jsonl.gz"),
)
def test_our_decisions_equal_those_of_kube_scheduler(scenario: Scenario, line: bytes) -> None:
    expected = json.loads(line)["expect"]
    actual = json.loads(json.dumps(decided(scenario)))
    assert actual.get("nodeOrder") == expected.get("nodeOrder")
    assert actual.get("hints") == expected.get("hints")
    theirs, ours = expected.get("pods", []), actual.get("pods", [])
    for want, got in zip(theirs, ours, strict=True):
        names = matching_names(want.get("claims", {}), got.get("claims", {}))
        got["claims"] = {names[key]: claim for key, claim in got.get("claims", {}).items()}
        assert as_recorded(bare(want), bare(got)) == bare(want)


@pytest.mark.parametrize(("scenario", "line"), recorded("recorded_groups.jsonl.gz"))
def test_we_schedule_pod_groups_as_kube_scheduler_did(scenario: Scenario, line: bytes) -> None:
    expected = json.loads(line)["expect"]
    actual = json.loads(json.dumps(decided(scenario)))
    for number, (ours, theirs) in enumerate(zip(actual["steps"], expected["steps"], strict=True)):
        assert ours == theirs, f"step {number}"
    assert actual.get("hints") == expected.get("hints")


def matching_names(want: dict[str, Any], got: dict[str, Any]) -> dict[str, str]:
    """Return the recorded names of our claims; generated names differ."""
    generated = [key for key in want if key.endswith("*")]
    return {
        key: key
        if key in want
        else next((name for name in generated if key.startswith(name[:-1])), key)
        for key in got
    }


def as_recorded(want: Any, got: Any) -> Any:
    """Return our value with all that is allowed to differ replaced by what was recorded."""
    if isinstance(want, dict) and isinstance(got, dict):
        return {k: as_recorded(want[k], v) if k in want else v for k, v in got.items()}
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return list(map(as_recorded, want, got))
    if isinstance(want, str) and isinstance(got, str):
        is_like = want in ANY_TEXT or (want.endswith("*") and got.startswith(want[:-1]))
        return want if is_like else got
    return got


def bare(value: Any, name: str = "") -> Any:
    """Return a value without null and empty parts and scores of zero; amounts become numbers."""
    if name == "consumedCapacity" and value:
        return {key: parse_quantity(amount) for key, amount in value.items()}
    if name == "scores":
        value = {node: {k: v for k, v in of.items() if v} for node, of in value.items()}
    if isinstance(value, dict):
        value = {key: bare(inner, key) for key, inner in value.items()}
        return {key: inner for key, inner in value.items() if inner not in (None, "", [], {})}
    if isinstance(value, list):
        items = [bare(inner) for inner in value]
        return sorted(items) if name == "victims" else items
    return value
