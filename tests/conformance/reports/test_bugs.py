"""The page of known bugs, and its freshness."""

from pathlib import Path
from typing import Final

import pytest

import conformance
from conformance.errors import InputError
from conformance.format.case import BUILT_IN, case_of, load_cases
from conformance.format.known_bug import known_bug_of
from conformance.reports.bugs import bugs_page

PAGE: Final = Path(conformance.__file__).parent / "known-upstream-bugs.md"
STEPS: Final = [{"expect": {"nodes": "no_overcommit"}}]
LINK: Final = "https://github.com/kubernetes/kubernetes/issues/7"


def test_the_page_of_known_bugs_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == bugs_page(load_cases([BUILT_IN / "known-bugs"]))


def test_no_other_area_has_known_bugs() -> None:
    assert {case.area for case in load_cases([BUILT_IN]) if case.known_bug} == {"known-bugs"}


def test_a_reported_bug_has_a_link_and_an_unreported_one_a_text() -> None:
    old = {"sentence": "It hangs.", "versions": ["1.35", "1.36"], "link": LINK}
    new = {"sentence": "It dies.", "versions": ["1.37"], "report": "1. Create a pod."}
    cases = [
        case_of(
            {"name": name, "source": "s", "known_bug": bug, "steps": STEPS, "since": "1.35"},
            area="a",
            origin="o",
        )
        for name, bug in (("old", old), ("new", new))
    ]
    assert bugs_page(cases).splitlines()[-6:] == [
        f"| [kubernetes#7]({LINK}) | It hangs. | 1.35, 1.36 (runs since 1.35) | `a/old` |",
        "| [not reported yet](#new) | It dies. | 1.37 (runs since 1.35) | `a/new` |",
        "",
        "## new",
        "",
        "1. Create a pod.",
    ]


def test_a_bug_needs_a_link_or_a_report() -> None:
    with pytest.raises(InputError, match="known_bug: expected either a link, or a report"):
        known_bug_of({"known_bug": {"sentence": "It hangs.", "versions": ["1.36"]}})
