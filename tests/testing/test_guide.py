"""The tables of docs/plugins.md name attributes that exist."""

import re
from pathlib import Path

import pytest

import scheduler
import scheduler.testing

TEXT = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## What a plugin gets")[2]
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \|", SECTION, re.MULTILINE)
NAMES = [(owner, name) for owner, cell in ROWS for name in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(("owner", "name"), NAMES)
def test_a_named_attribute_exists(owner: str, name: str) -> None:
    found = getattr(scheduler.testing, owner, None) or getattr(scheduler, owner)
    assert hasattr(found, name)


def test_the_table_has_all_classes() -> None:
    assert {owner for owner, _ in NAMES} == {
        "CycleState",
        "Handle",
        "Lister",
        "NodeInfo",
        "Nodes",
        "PodDecision",
        "PodInfo",
        "RandomCluster",
        "StateKey",
    }
