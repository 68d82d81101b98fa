"""`conformance/upstream.md` lists upstream's integration tests, and names cases that exist."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from conformance.format.case import load_cases

_ROOT: Final = Path(__file__).parent.parent.parent
_PAGE: Final = _ROOT / "conformance" / "upstream.md"
_UPSTREAM: Final = (
    Path.home() / "go/pkg/mod/k8s.io/kubernetes@v1.36.3" / "test" / "integration" / "scheduler"
)
_ENTRY: Final = re.compile(r'\| (Test\w+)(?: "(.*)"|, all ([0-9]+))? \| (.*) \|')
_CASE: Final = re.compile(r"`([a-z-]+/[a-z0-9-]+)`")
#: A row of a test's table, at the depth that all of upstream's tables have.
_ROW: Final = re.compile(r'\t\t\t(?:name|Name): +"((?:[^"\\]|\\.)*)",?')
_FUNCTION: Final = re.compile(r"func (Test\w+)\(t ")


def _entries() -> list[tuple[str, str | None, int, str]]:
    """Return function, row, number of rows that the entry is for, and the second column."""
    lines = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if "| Test" in line]
    found = [_ENTRY.fullmatch(line) for line in lines]
    assert all(found), 'an entry is `TestX`, `TestX, all N` or `TestX "row"`'
    return [(m[1], m[2], int(m[3] or 1), m[4]) for m in found if m is not None]


def test_every_case_that_the_page_names_exists() -> None:
    cases = {case.id for case in load_cases([_ROOT / "conformance" / "cases"])}
    named = {name for *_, text in _entries() for name in _CASE.findall(text)}
    assert len(named) > 100
    assert named <= cases


def test_every_entry_names_cases_or_a_reason() -> None:
    for function, row, _, text in _entries():
        names = _CASE.findall(text)
        words = re.sub(r"`[^`]*`|[ ,]", "", text)
        assert names or words, f"{function} {row}"


def test_every_test_and_every_row_of_upstream_is_on_the_page() -> None:
    if not _UPSTREAM.is_dir():
        pytest.skip("the source of Kubernetes v1.36.3 is not in the Go module cache")
    rows: dict[str, list[str]] = {}
    for file in sorted(_UPSTREAM.rglob("*_test.go")):
        function = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if found := _FUNCTION.match(line):
                function = found[1]
                rows[function] = []
            elif function and (found := _ROW.fullmatch(line)):
                rows[function].append(found[1])
    listed: dict[str, list[str]] = defaultdict(list)
    for function, row, count, _ in _entries():
        listed[function] += [row] if row is not None else [""] * count
    assert listed.keys() == rows.keys()
    for function, names in rows.items():
        if any(listed[function]):
            assert listed[function] == names
        else:
            assert len(listed[function]) == max(1, len(names)), function
