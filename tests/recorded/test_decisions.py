"""Our decisions against recordings of the real kube-scheduler, v1.36.3 where no version is named.

The decisions were recorded from upstream's own framework, cache and plugins: all recorded scenarios
of single pods, a file for each family, and a part of those with resource claims (`devices`, with
all writes of claims), with feature gates that are off by default (`gates`) and with pod groups
(`groups`, step by step). Files of another version name it after a dash. `<now>` and `<id>` stand
for any text, a final `*` for any ending.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.api.quantity import parse_quantity
from scheduler.config import DEFAULT_SCHEDULER_VERSION, SchedulerVersion
from tests.thoroughness import IS_THOROUGH

from .scenario import Json, decided, read_scenarios

pytestmark = pytest.mark.slow

ANY_TEXT = ("<now>", "<id>")
GROUPS = "groups"
FAMILIES = {
    path.name.removesuffix(".jsonl.gz") for path in Path(__file__).parent.glob("*.jsonl.gz")
}
#: A test plays one of so many parts of a file.
PARTS = 4
#: A change's run plays half of them.
PLAYED = range(0, PARTS, 1 if IS_THOROUGH else 2)


def recorded(family: str, part: int) -> Iterator[tuple[str, Json, Json]]:
    """Yield the name, the recorded outcome and ours of each scenario in a part of a file."""
    with gzip.open(Path(__file__).parent / f"{family}.jsonl.gz") as file:
        lines = file.readlines()[part::PARTS]
    _, dash, label = family.partition("-")
    version = SchedulerVersion.parse(label) if dash else DEFAULT_SCHEDULER_VERSION
    for scenario, line in zip(read_scenarios(lines, source=family), lines, strict=True):
        ours = json.dumps(decided(scenario, version=version))
        yield scenario.name, json.loads(line)["expect"], json.loads(ours)


@pytest.mark.parametrize("part", PLAYED)
@pytest.mark.parametrize("family", sorted(FAMILIES - {GROUPS}))
def test_our_decisions_equal_those_of_kube_scheduler(family: str, part: int) -> None:
    for name, expected, actual in recorded(family, part):
        if "nodeOrder" in expected:
            assert actual["nodeOrder"] == expected["nodeOrder"], name
        assert actual.get("hints") == expected.get("hints"), name
        theirs, ours = expected.get("pods", []), actual.get("pods", [])
        for want, got in zip(theirs, ours, strict=True):
            names = matching_names(want.get("claims", {}), got.get("claims", {}))
            got["claims"] = {names[key]: claim for key, claim in got.get("claims", {}).items()}
            assert as_recorded(bare(want), bare(got)) == bare(want), name


@pytest.mark.parametrize("part", PLAYED)
def test_we_schedule_pod_groups_as_kube_scheduler_did(part: int) -> None:
    for name, expected, actual in recorded(GROUPS, part):
        for number, (ours, theirs) in enumerate(
            zip(actual["steps"], expected["steps"], strict=True)
        ):
            assert ours == theirs, f"{name}, step {number}"
        assert actual.get("hints") == expected.get("hints"), name


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
