"""The page of versions names each case that does not hold for all versions, and no other."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

import conformance
from conformance.format.case import BUILT_IN, load_cases

PAGE: Final = Path(conformance.__file__).parent / "versions.md"
STEP: Final = re.compile(
    r"^## From \S+ to (?P<version>\S+)\n(?P<table>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
NOT_COPIED: Final = re.compile(r"^## What our scheduler does not copy\n(?P<table>.*)", re.M | re.S)
NAME: Final = re.compile(r"`([a-z-]+/[a-z0-9*-]+)`")


def named() -> dict[str, list[str]]:
    """Return the names and patterns of cases for each step, by the version that it leads to."""
    text = PAGE.read_text(encoding="utf-8")
    return {step["version"]: NAME.findall(step["table"]) for step in STEP.finditer(text)}


def changed() -> dict[str, set[str]]:
    """Return the cases that begin or end to hold, by the first version for which that is so."""
    steps: dict[str, set[str]] = {}
    for case in load_cases([BUILT_IN]):
        if case.since is not None:
            steps.setdefault(str(case.since), set()).add(case.id)
        if case.until is not None:
            after = f"{case.until.major}.{case.until.minor + 1}"
            steps.setdefault(after, set()).add(case.id)
    return steps


@pytest.mark.parametrize("version", ["1.35", "1.36", "1.37"])
def test_the_page_names_the_cases_of_a_step(version: str) -> None:
    patterns, cases = named()[version], changed()[version]
    assert [
        name for name in sorted(cases) if not any(fnmatchcase(name, each) for each in patterns)
    ] == []
    assert [each for each in patterns if not any(fnmatchcase(name, each) for name in cases)] == []


def test_there_are_no_other_steps() -> None:
    assert set(changed()) == set(named())


def test_the_page_names_the_bugs_that_are_not_copied() -> None:
    section = NOT_COPIED.search(PAGE.read_text(encoding="utf-8"))
    assert section is not None
    cases = load_cases([BUILT_IN])
    not_copied = {case.id for case in cases if case.known_bug and not case.known_bug.ours}
    assert {*NAME.findall(section["table"])} == not_copied
