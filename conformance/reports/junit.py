"""Write outcomes as JUnit XML: a suite per area, a test case per case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from ..outcome import Verdict, by_area

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..outcome import Outcome

#: Characters that XML 1.0 cannot contain, even escaped.
_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS: Final = {
    Verdict.FAILED: "failure",
    Verdict.ERROR: "error",
    Verdict.KNOWN: "skipped",
    Verdict.SKIPPED: "skipped",
}


def write_junit(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the file. Raises OSError."""
    root = ElementTree.Element("testsuites", {"name": "kubesched-conformance", **_counts(outcomes)})
    for area, members in by_area(outcomes).items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": area, **_counts(members)})
        for outcome in members:
            suite.append(_test_case(outcome))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    def count(*verdicts: Verdict) -> str:
        return str(sum(1 for outcome in outcomes if outcome.verdict in verdicts))

    return {
        "tests": str(len(outcomes)),
        "failures": count(Verdict.FAILED),
        "errors": count(Verdict.ERROR),
        "skipped": count(Verdict.SKIPPED, Verdict.KNOWN),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


def _test_case(outcome: Outcome) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"conformance.{outcome.area}",
        name=outcome.name,
        file=_clean(outcome.origin),
        line=str(outcome.line),
        time=f"{outcome.seconds:.3f}",
    )
    properties = ElementTree.SubElement(case, "properties")
    for name, value in _properties(outcome).items():
        ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
    tag = _TAGS.get(outcome.verdict)
    if tag is not None:
        element = ElementTree.SubElement(case, tag, message=_clean(outcome.reason))
        element.text = _clean("\n".join(outcome.details)) or None
    if outcome.log:
        ElementTree.SubElement(case, "system-err").text = _clean("\n".join(outcome.log))
    return case


def _properties(outcome: Outcome) -> dict[str, str]:
    """Return the properties of a case, and the verdicts on its aspects."""
    own = {
        "source": outcome.source,
        "description": outcome.description,
        "level": outcome.level.value,
        "feature": outcome.feature,
        "labels": " ".join(sorted(outcome.labels)),
    }
    aspects = {aspect.value: verdict.value for aspect, verdict in outcome.aspects.items()}
    return {name: value for name, value in own.items() if value} | aspects


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
