"""The page of kube-scheduler's known bugs, made from the cases that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..format.case import Case
    from ..format.known_bug import KnownBug

_HEAD: Final = """\
# Known bugs of kube-scheduler

Made by `kubesched-conformance bugs` from the cases with `known_bug:`, and held fresh by a test.
Each case expects the right behaviour. The case fails on the stock binaries of these versions, of
1.34.4, 1.35.4, 1.36.3 and 1.37.2. A case with `since` or `until` was run between these only.
[What each version's search found](README.md#what-the-search-has-found) is on the suite's page.
"""


def bugs_page(cases: Iterable[Case]) -> str:
    """Return the page in Markdown: a table of all bugs, and a text for each unreported one."""
    found = [(case, case.known_bug) for case in cases if case.known_bug is not None]
    lines = [_HEAD, "| bug | what happens | versions | case |", "|---|---|---|---|"]
    lines += [_row(case, bug) for case, bug in found]
    for case, bug in found:
        if bug.report:
            lines += ["", f"## {case.name}", "", bug.report.strip()]
    return "\n".join([*lines, ""])


def _row(case: Case, bug: KnownBug) -> str:
    name = f"[{_short(bug.link)}]({bug.link})" if bug.link else f"[{bug.name}](#{case.name})"
    versions = ", ".join(map(str, bug.versions))
    measured = _measured(case)
    return f"| {name} | {bug.sentence} | {versions}{measured} | `{case.id}` |"


def _measured(case: Case) -> str:
    """Return the limits of a case that was not run on all versions."""
    limits = [
        f"{word} {version}"
        for word, version in (("since", case.since), ("until", case.until))
        if version is not None
    ]
    return f" (runs {', '.join(limits)})" if limits else ""


def _short(link: str) -> str:
    """Return a link to a tracker as `owner/repository#number`, or as it is."""
    words = link.removeprefix("https://github.com/").split("/")
    return (
        f"{words[1]}#{words[3]}" if link.startswith("https://github.com/") and words[3:] else link
    )
