"""The reports for people and for build systems."""

import io
from pathlib import Path
from xml.etree import ElementTree

import msgspec
from rich.console import Console

from conformance.outcome import Aspect, Level, Outcome, Verdict
from conformance.reports.junit import write_junit
from conformance.reports.terminal import print_report, progress


def _outcome(area: str, name: str, verdict: Verdict, **more: object) -> Outcome:
    fields = {"source": "pkg/x.go F", "origin": "cases/x.yaml", "seconds": 0.25, **more}
    return Outcome(area=area, name=name, verdict=verdict, **fields)  # type: ignore[arg-type]


OUTCOMES = [
    _outcome("filter", "good", Verdict.PASSED),
    _outcome(
        "filter",
        "bad",
        Verdict.FAILED,
        reason="steps[0]: pod p: expected on a, is not bound",
        details=("pod p is Pending, on no node", "events: none"),
        log=("I starting", "E <trouble> & \x1b[31mmore\x00"),
    ),
    _outcome("score", "broken", Verdict.ERROR, reason="did not start: [exit] status 1"),
    _outcome("score", "slow", Verdict.SKIPPED, reason="needs 300s of real time", seconds=0.0),
    _outcome("score", "slower", Verdict.SKIPPED, reason="needs 300s of real time", seconds=0.0),
]


def _printed(outcomes: list[Outcome]) -> str:
    output = io.StringIO()
    print_report(outcomes, Console(file=output, width=120, highlight=False), seconds=1.5)
    return output.getvalue()


def _rows(text: str) -> dict[str, list[str]]:
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: words[1:] for words in lines if len(words) == 5}


def test_the_table_has_a_line_for_each_area_and_one_for_all() -> None:
    rows = _rows(_printed(OUTCOMES))
    assert rows["area"] == ["passed", "failed", "skipped", "seconds"]
    assert rows["filter"] == ["1", "1", "0", "0.50"]
    assert rows["score"] == ["0", "1", "2", "0.25"]
    assert rows["all"] == ["1", "2", "2", "0.75"]


def test_each_failure_has_its_reason_the_pods_history_and_the_log() -> None:
    text = _printed(OUTCOMES)
    assert "FAILED filter/bad\n  steps[0]: pod p: expected on a, is not bound\n" in text
    assert "    pod p is Pending, on no node\n    events: none\n" in text
    assert "    the scheduler's last lines:\n      I starting\n" in text
    assert "  source: pkg/x.go F\n  case: cases/x.yaml\n" in text
    assert "ERROR score/broken\n  did not start: [exit] status 1\n" in text


def test_skipped_cases_are_summed_up_by_reason() -> None:
    assert "skipped 2: needs 300s of real time\n" in _printed(OUTCOMES)


def test_the_last_line_sums_it_all_up() -> None:
    assert _printed(OUTCOMES).splitlines()[-1] == "1 passed, 1 failed, 1 error, 2 skipped in 1.5s"
    assert _printed([]).splitlines()[-1] == "no case was run in 1.5s"


def _progress(outcomes: list[Outcome], *, is_terminal: bool) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=is_terminal, width=80)
    with progress(len(outcomes), console) as advance:
        for outcome in outcomes:
            advance(outcome)
    return output.getvalue()


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    assert "\x1b[" in _progress(OUTCOMES[:2], is_terminal=True)
    assert _progress(OUTCOMES[:2], is_terminal=False).splitlines() == [
        "1 of 2 cases, 0 failed",
        "FAILED filter/bad: steps[0]: pod p: expected on a, is not bound",
        "2 of 2 cases, 1 failed",
    ]


def test_lines_of_progress_are_few() -> None:
    lines = _progress([OUTCOMES[1]] * 500, is_terminal=False).splitlines()
    assert len(lines) == 15
    assert lines[-1] == "500 of 500 cases, 500 failed"


def test_many_failures_are_a_short_list_with_details_of_the_first() -> None:
    bad = [msgspec.structs.replace(OUTCOMES[1], name=f"bad-{number}") for number in range(500)]
    lines = _printed(bad).splitlines()
    assert len(lines) < 130
    assert sum(line.startswith("  source: ") for line in lines) == 5
    assert "FAILED filter/bad-39: steps[0]: pod p: expected on a, is not bound" in lines
    assert "and 460 more failures; a report (--junit) has all" in lines


def test_a_failure_has_description_and_line() -> None:
    more = {"description": "What repels a pod.", "line": 12}
    bad = msgspec.structs.replace(OUTCOMES[1], **more)
    text = _printed([bad])
    assert (
        "  description: What repels a pod.\n  source: pkg/x.go F\n  case: cases/x.yaml:12" in text
    )


def test_the_table_counts_aspects_and_levels() -> None:
    passed, failed, skipped = Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED
    outcomes = [
        _outcome("a", "x", passed, aspects={Aspect.PLACEMENT: passed, Aspect.EVENTS: passed}),
        _outcome("a", "y", failed, aspects={Aspect.PLACEMENT: passed, Aspect.EVENTS: failed}),
        _outcome(
            "b",
            "z",
            failed,
            aspects={Aspect.PLACEMENT: failed, Aspect.EVENTS: skipped},
            level=Level.EXTENDED,
            feature="volumes",
        ),
    ]
    lines = [line.split() for line in _printed(outcomes).splitlines() if line.strip()]
    rows = {words[0]: words[1:] for words in lines}
    assert rows["area"] == ["passed", "failed", "skipped", "placement", "events", "seconds"]
    assert rows["a"] == ["1", "1", "0", "2/2", "1/2", "0.50"]
    assert rows["core"] == rows["a"]
    assert rows["extended"] == ["0", "1", "0", "0/1", "0/1", "0.25"]
    assert rows["all"] == ["1", "2", "0", "2/3", "1/3", "0.75"]


def test_junit_counts_and_names_everything(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    write_junit(file, OUTCOMES)
    root = ElementTree.parse(file).getroot()
    assert root.tag == "testsuites"
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }
    assert [suite.get("name") for suite in root] == ["filter", "score"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["good"].get("classname") == "conformance.filter"
    assert cases["good"].find("failure") is None
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == "steps[0]: pod p: expected on a, is not bound"
    assert failure.text == "pod p is Pending, on no node\nevents: none"
    assert cases["broken"].find("error") is not None
    assert cases["slow"].find("skipped") is not None
    source = cases["good"].find("properties/property[@name='source']")
    assert source is not None
    assert source.get("value") == "pkg/x.go F"


def test_junit_has_the_metadata_and_known_failures_are_skipped(tmp_path: Path) -> None:
    outcome = _outcome(
        "a",
        "x",
        Verdict.KNOWN,
        reason="as ever",
        line=7,
        description="D.",
        labels=frozenset({"taints"}),
        aspects={Aspect.PLACEMENT: Verdict.FAILED},
    )
    file = tmp_path / "junit.xml"
    write_junit(file, [outcome])
    root = ElementTree.parse(file).getroot()
    assert (root.get("skipped"), root.get("failures")) == ("1", "0")
    (case,) = root.iter("testcase")
    assert case.get("line") == "7"
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert properties == {
        "source": "pkg/x.go F",
        "description": "D.",
        "level": "core",
        "labels": "taints",
        "placement": "failed",
    }
    skipped = case.find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "as ever"


def test_junit_escapes_the_characters_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    write_junit(file, OUTCOMES)
    log = ElementTree.parse(file).getroot().find(".//testcase[@name='bad']/system-err")
    assert log is not None
    assert log.text == "I starting\nE <trouble> & \ufffd[31mmore\ufffd"
