"""The report of a run: its JSON form, shards, comparison, Markdown and HTML."""

import json
from pathlib import Path

import msgspec
import pytest

from conformance.errors import InputError
from conformance.outcome import Aspect, Level, Outcome, Verdict
from conformance.reports.html import report_in_html
from conformance.reports.markdown import comparison_in_markdown, report_in_markdown
from conformance.reports.report import Implementation, Report, compare, merged
from conformance.reports.results import Results


def outcome(name: str, verdict: Verdict = Verdict.PASSED, **fields: object) -> Outcome:
    area, _, short = name.partition("/")
    return Outcome(
        area=area,
        name=short,
        source="pkg/scheduler TestIt",
        origin="filter.yaml",
        line=7,
        verdict=verdict,
        **fields,  # type: ignore[arg-type]
    )


FAILED = outcome(
    "filter/taints",
    Verdict.FAILED,
    level=Level.EXTENDED,
    feature="taints",
    description="Only <tolerating> pods | run there.",
    labels=frozenset({"slow"}),
    aspects={Aspect.PLACEMENT: Verdict.PASSED, Aspect.MESSAGES: Verdict.FAILED},
    reason="steps[1]: pod p: expected `a` <b>",
    details=("pod p is Pending", "story of pod default/p:", "</script>"),
    log=("E the last words",),
)
SKIPPED = outcome("volumes/late", Verdict.SKIPPED, reason="needs a clock that the suite moves")


def report(*outcomes: Outcome, name: str = "tiny", **fields: object) -> Report:
    return Report(
        implementation=Implementation(name=name, version="1.36.3", target="tiny --now"),
        suite_version="0.1.0",
        started="2026-01-01T00:00:00Z",
        seconds=3.4,
        outcomes=outcomes,
        **fields,  # type: ignore[arg-type]
    )


WHOLE = report(outcome("filter/fits"), FAILED, SKIPPED)


def test_json_has_counts_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(WHOLE.to_json())
    assert Report.from_file(path) == WHOLE
    document = json.loads(path.read_bytes())
    assert document["format"] == "kubesched-conformance/1"
    assert document["implementation"]["version"] == "1.36.3"
    assert document["counts"] == {
        "verdicts": {"passed": 1, "failed": 1, "skipped": 1},
        "levels": {"core": {"passed": 1, "skipped": 1}, "extended": {"failed": 1}},
        "features": {"taints": {"failed": 1}},
        "aspects": {"messages": {"failed": 1}, "placement": {"passed": 1}},
        "areas": {
            "filter": {"passed": 1, "failed": 1},
            "volumes": {"skipped": 1},
        },
    }


def test_equal_reports_are_equal_bytes() -> None:
    again = msgspec.json.decode(WHOLE.to_json(), type=Report)
    assert again.to_json() == WHOLE.to_json()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (None, "No such file or directory"),
        ("{", "expected a report as JSON"),
        ('{"outcomes": []}', "missing required field"),
        (WHOLE.to_json().decode().replace("nce/1", "nce/9"), "expected the format kubesched-con"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: str | None, error: str) -> None:
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"report\.json: .*{error}"):
        Report.from_file(path)


def test_shards_become_one_report() -> None:
    whole = merged([report(outcome("b/two")), report(outcome("a/one"))])
    assert [each.id for each in whole.outcomes] == ["a/one", "b/two"]
    assert whole.seconds == 6.8
    with pytest.raises(InputError, match="case b/two is in two of the reports"):
        merged([report(outcome("b/two")), report(outcome("b/two"))])
    with pytest.raises(InputError, match=r"got tiny 1\.36\.3 and other 1\.36\.3"):
        merged([report(), report(name="other")])


def test_a_comparison_has_what_became_worse_better_and_different() -> None:
    before = report(
        outcome("a/broken"), outcome("a/gone"), outcome("a/same"),
        outcome("a/mended", Verdict.ERROR), outcome("a/left", Verdict.FAILED),
    )  # fmt: skip
    after = report(
        outcome("a/broken", Verdict.FAILED, reason="steps[0]"), outcome("a/same"),
        outcome("a/mended"), outcome("a/new"), outcome("a/left", Verdict.SKIPPED),
        name="other",
    )  # fmt: skip
    found = compare(before, after)
    assert [change.id for change in found.worse] == ["a/broken"]
    assert [change.id for change in found.better] == ["a/mended"]
    assert (found.missing, found.new) == (("a/gone",), 1)
    assert [change.id for change in found.others] == ["a/left"]
    assert found.same == 1
    text = comparison_in_markdown(found)
    assert "**1 worse, 1 better**, 1 different, 1 the same, 1 missing, 1 new" in text
    assert "- `a/broken` passed → failed: steps[0]" in text
    assert text.endswith("### Missing in the second report\n\n- `a/gone`\n")


def test_markdown_has_counts_and_failures_and_escapes_texts() -> None:
    text = report_in_markdown(WHOLE)
    assert text.startswith("## Scheduler conformance: tiny 1.36.3\n\n**1 passed, 1 failed, 1 skip")
    assert "| taints | 0 | 1 | 0 | 0 |" in text
    assert "expected \\`a\\` &lt;b&gt;" in text
    assert "Only &lt;tolerating&gt; pods \\| run there." in text
    assert "case: filter.yaml:7" in text
    assert "- 1: needs a clock that the suite moves" in text


def test_markdown_of_many_failures_fits_into_a_comment() -> None:
    details = tuple(f"line {number} of the story of this pod" for number in range(200))
    many = [
        outcome(
            f"a/case-{number}", Verdict.FAILED, reason="steps[0]: pod p: wrong", details=details
        )
        for number in range(700)
    ]
    text = report_in_markdown(report(*many))
    assert len(text) < 65_536
    assert "- and 480 more" in text


def test_html_has_every_case_and_escapes_texts() -> None:
    page = report_in_html(
        WHOLE, [Results(scheduler="stock", version="1.36.3", passed=["filter/fits"])]
    )
    assert page.count('<details class="case') == 3
    assert 'data-feature="taints"' in page
    assert "&lt;/script&gt;" in page
    assert page.count("</script>") == 1
    assert "<th>stock 1.36.3</th>" in page
    assert "stock 1.36.3 not run" in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_page_has_the_case_as_its_file_has_it() -> None:
    text = "- name: taints  # <why>\n  steps: []"
    page = report_in_html(report(outcome("filter/taints", text=text, step="steps[1]", step_line=9)))
    assert '<pre class="yaml">- name: taints  # &lt;why&gt;\n  steps: []</pre>' in page
    assert "<dt>step</dt><dd>filter.yaml:9 (steps[1])</dd>" in page
