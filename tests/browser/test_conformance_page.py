"""The page of a conformance report in a real browser: it is opened, read, searched and filtered."""

from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.select import Select

from conformance.outcome import Level, Outcome, Verdict
from conformance.reports.html import report_in_html
from conformance.reports.report import Implementation, Report
from conformance.reports.results import Results
from tests.browser.chromium import resize

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror='window.hacked = 1'></script><script>window.hacked = 1</script>"


def _outcome(area: str, name: str, verdict: Verdict, reason: str = "") -> Outcome:
    return Outcome(
        area=area,
        name=name,
        source=f"upstream {name}",
        origin="cases.yaml",
        verdict=verdict,
        level=Level.EXTENDED if area == "volumes" else Level.CORE,
        feature="volumes" if area == "volumes" else "",
        reason=reason,
        details=("story of pod default/p:", EVIL) if reason else (),
    )


REPORT = Report(
    implementation=Implementation(name=EVIL, version="1.36.3"),
    suite_version="0.1.0",
    outcomes=(
        _outcome("filter", "taints", Verdict.PASSED),
        _outcome("filter", "ports", Verdict.FAILED, EVIL),
        _outcome("volumes", "late", Verdict.SKIPPED, "needs a clock"),
    ),
)


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Chrome:
    file = tmp_path / "report.html"
    stock = Results(scheduler="stock", version="1.36.3", passed=["filter/taints", "volumes/late"])
    file.write_text(report_in_html(REPORT, [stock]), encoding="utf-8")
    browser.get(f"file://{file}")
    return browser


def _names(page: Chrome) -> list[str]:
    shown = page.find_elements("css selector", ".case .name")
    return [element.text for element in shown if element.is_displayed()]


def test_all_cases_are_shown_with_counts_and_versions(page: Chrome) -> None:
    assert _names(page) == ["filter/taints", "filter/ports", "volumes/late"]
    assert "1 passed 1 failed 1 skipped" in page.find_element("css selector", "header p").text
    matrix = page.find_element("id", "matrix").text
    assert "stock 1.36.3" in matrix
    assert "filter 1, 1 not run" in matrix


@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_is_wider_than_the_window(page: Chrome, width: int) -> None:
    resize(page, width=width)
    for case in page.find_elements("css selector", ".case summary"):
        case.click()
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_search_and_filters_narrow_the_list(page: Chrome) -> None:
    search = page.find_element("id", "search")
    search.send_keys("UPSTREAM por")
    assert _names(page) == ["filter/ports"]
    assert page.find_element("id", "shown").text == "1 of 3 cases"
    search.clear()
    search.send_keys(" ")
    Select(page.find_element("id", "verdict")).select_by_visible_text("skipped")
    assert _names(page) == ["volumes/late"]
    Select(page.find_element("id", "area")).select_by_visible_text("filter")
    assert _names(page) == []


def test_a_case_opens_with_its_story_and_texts_run_no_script(page: Chrome) -> None:
    page.find_elements("css selector", ".case summary")[1].click()
    story = page.find_element("css selector", ".case.failed .story")
    assert story.is_displayed()
    assert story.text == f"story of pod default/p:\n{EVIL}"
    assert page.execute_script("return window.hacked") is None
    assert page.get_log("browser") == []
