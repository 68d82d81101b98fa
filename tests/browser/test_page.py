"""The page in a real browser: it is opened, read, sorted and filtered."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from fakeapi import FakeApiServer
from scheduler.clock import SystemClock
from scheduler.explain.cli import main
from scheduler.pages.data import report_data
from scheduler.pages.html import static_page
from scheduler.reports.model import Report, Story, StoryEntry, StoryFailure, StoryVerdict
from scheduler.testing.in_process import run_in_process
from tests.browser.chromium import prefer, resize
from tests.integration.api_client import Api

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror='window.hacked = 1'></script><script>window.hacked = 1</script>"
DEADLINE_SECONDS = 20.0
TOO_WIDE = """
    const scrolls = (each) => each && (each.id === "scroll" || scrolls(each.parentElement));
    const right = document.documentElement.clientWidth;
    return [...document.body.querySelectorAll("*")]
        .filter((each) => !scrolls(each.parentElement))
        .filter((each) => each.getBoundingClientRect().right > right + 0.5)
        .concat(document.documentElement.scrollWidth > right ? [document.documentElement] : [])
        .map((each) => each.tagName + "#" + each.id);
"""


def _node(name: str, cpu: str, **spec: object) -> dict[str, object]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    metadata = {"name": name}
    return {
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def _pod(name: str, cpu: str, node: str = "") -> dict[str, object]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Page:
    """The page as a person sees it."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def all(self, selector: str) -> list[WebElement]:
        return [e for e in self.browser.find_elements("css selector", selector) if e.is_displayed()]

    def one(self, selector: str) -> WebElement:
        (found,) = self.all(selector)
        return found

    def click(self, selector: str, text: str) -> None:
        self.browser.execute_script("arguments[0].click()", self._with_text(selector, text))

    def _with_text(self, selector: str, text: str) -> WebElement:
        return next(e for e in self.all(selector) if text in e.text.replace("\n", ""))

    def rows(self) -> list[list[str]]:
        """The cells of the rows that are in view."""
        script = """
            const box = document.getElementById('scroll').getBoundingClientRect();
            return [...document.querySelectorAll('#node-table tbody tr:not(.space)')]
                .filter((row) => row.getBoundingClientRect().top < box.bottom
                    && row.getBoundingClientRect().bottom > box.top)
                .map((row) => [...row.cells].map((cell) => cell.textContent));
        """
        rows: list[list[str]] = self.browser.execute_script(script)
        return rows

    def column(self, heading: str) -> list[str]:
        """The last column of a heading: a plugin's rejections come after its scores."""
        heads = self.browser.find_elements("css selector", "#node-table tr:last-child th")
        headings = [head.text.replace("\n", "") for head in heads]
        index = len(headings) - 1 - headings[::-1].index(heading)
        return [row[index] for row in self.rows()]

    def drawn(self) -> int:
        """The number of rows in the document."""
        script = "return document.querySelectorAll('#node-table tbody tr').length"
        return int(self.browser.execute_script(script))

    def type(self, selector: str, text: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def listed(self) -> list[str]:
        return [each.text for each in self.all("#pod-list a")]

    def press(self, key: str) -> None:
        self.browser.switch_to.active_element.send_keys(key)

    def too_wide(self) -> list[str]:
        """The elements that are wider than the window, but for those in a part that scrolls."""
        names: list[str] = self.browser.execute_script(TOO_WIDE)
        return names

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def until(self, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_true():
            assert time.monotonic() < deadline, self.one("body").text
            time.sleep(0.05)


@pytest.fixture
def opened(browser: Chrome, tmp_path: Path) -> Callable[..., Page]:
    """Open the page of some objects; it must not cause an error."""

    def open_page(
        *objects: dict[str, object], arguments: tuple[str, ...] = (), width: int = 1280
    ) -> Page:
        resize(browser, width=width)
        manifest = tmp_path / "cluster.json"
        manifest.write_text(json.dumps({"kind": "List", "items": objects}), encoding="utf-8")
        command = ["--manifests", str(manifest), "-o", "html", *arguments]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        path = tmp_path / "page.html"
        path.write_text(result.stdout, encoding="utf-8")
        browser.get_log("browser")
        browser.get(path.as_uri())
        page = Page(browser)
        assert page.errors() == []
        return page

    return open_page


THREE = (
    _node("small", "2"),
    _node("cordoned", "8", unschedulable=True),
    _node("large", "8"),
    _pod("runs", "1", "small"),
)


def test_the_answer_and_the_nodes_are_read(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"))
    assert page.one("#pod-name").text == "default/web"
    assert page.one("#pod-answer").text == "scheduled on large, 2 of 3 nodes feasible"
    assert [row[:2] for row in page.rows()] == [
        ["large", "chosen"],
        ["small", "fits"],
        ["cordoned", "NodeUnschedulable: node(s) were unschedulable"],
    ]
    assert page.one(".box.chosen b").text == "large"


def test_the_list_of_pods_is_limited_to_a_result_or_a_reason(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"), _pod("huge", "99"), _pod("larger", "999"))
    assert [each.text for each in page.all("#overview-counts button")] == [
        "2 unschedulable",
        "1 scheduled",
    ]
    page.click("#overview-groups button", "default/huge: no node is large enough for 99 cpu")
    assert page.one("#pod-name").text == "default/huge"
    assert page.listed() == ["default/huge"]
    page.click("#overview-counts button", "unschedulable")
    assert page.listed() == ["default/huge", "default/larger"]
    assert len(page.all("#overview button[aria-pressed=true]")) == 1
    page.click("#overview-counts button", "unschedulable")
    assert len(page.listed()) == 3
    page.type("#pod-filter", "LARGE ENOUGH")
    assert page.listed() == ["default/huge", "default/larger"]


def test_each_pod_has_a_link(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"), _pod("huge", "99"))
    page.click("#pod-list a", "huge")
    link = page.browser.current_url
    assert link.endswith("#default/huge")
    page.click("#pod-list a", "web")
    page.browser.back()
    page.until(lambda: page.one("#pod-name").text == "default/huge")
    page.browser.get("about:blank")
    page.browser.get(link)
    assert page.one("#pod-name").text == "default/huge"
    assert page.one("#pod-list a[aria-current=true]").text == "default/huge"


def test_the_keyboard_is_enough(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"), _pod("huge", "99"))
    page.press(Keys.TAB)
    assert page.browser.switch_to.active_element.text == "Skip to the pod"
    page.press(Keys.ENTER)
    assert page.browser.switch_to.active_element.get_attribute("id") == "pod"
    page.press("/")
    assert page.browser.switch_to.active_element.get_attribute("id") == "pod-filter"
    page.press(Keys.DOWN)
    page.press(Keys.DOWN)
    assert page.one("#pod-name").text == "default/huge"
    assert page.browser.switch_to.active_element.text == "default/huge"
    page.press(Keys.UP)
    assert page.one("#pod-name").text == "default/web"
    assert page.errors() == []


def _crowded() -> list[dict[str, object]]:
    """A node full of pods with long names, and a pod that preempts them."""
    name = "ip-10-0-{}.eu-central-1.compute.internal.example.com"
    nodes = [_node(name.format(i), "8", unschedulable=i > 0) for i in range(4)]
    for i, node in enumerate(nodes):
        labels = {"topology.kubernetes.io/zone": f"zone-{i % 2}"}
        node["metadata"] = {"name": name.format(i), "labels": labels}
    victims = [
        _pod(f"a-pod-with-a-name-of-ordinary-length-{i}", "50m", name.format(0)) for i in range(99)
    ]
    urgent = _pod("urgent", "8")
    urgent["spec"] = {**cast("dict[str, object]", urgent["spec"]), "priority": 1000}
    return [*nodes, *victims, urgent, _pod("huge", "99")]


@pytest.mark.parametrize("width", [1280, 500])
def test_nothing_is_wider_than_the_window(opened: Callable[..., Page], width: int) -> None:
    page = opened(*_crowded(), width=width)
    for pod in ("default/urgent", "default/huge"):
        page.click("#pod-list a", pod)
        assert page.too_wide() == []
    page.click("#pod-list a", "default/urgent")
    assert "length-98 (0)" in page.one("#candidates").text


def test_the_nominated_node_and_the_most_frequent_reason_come_first(
    opened: Callable[..., Page],
) -> None:
    page = opened(*_crowded())
    assert page.column("verdict") == [
        "nominated: NodeResourcesFit: Insufficient cpu",
        *["NodeUnschedulable: node(s) were unschedulable"] * 3,
    ]
    assert len(page.all(".box.chosen")) == 1
    page = opened(
        _node("full", "4"), _node("small", "1"), _pod("runs", "3", "full"), _pod("web", "2")
    )
    assert [each.text.replace("\n", "") for each in page.all("#groups button")] == [
        "1NodeResourcesFit: Insufficient cpu (preemption may help)",
        "1NodeResourcesFit: Insufficient cpu (preemption cannot help)",
    ]
    node = _node("tainted", "1", taints=[{"key": "a", "effect": "NoSchedule"}])
    page = opened(node, _node("small", "1"), _node("smaller", "1"), _pod("web", "2"))
    assert page.column("node") == ["small", "smaller", "tainted"]


def test_boxes_have_zones_and_a_legend(opened: Callable[..., Page]) -> None:
    page = opened(*_crowded())
    assert [each.text for each in page.all("#boxes h3")] == ["zone-0\n2 nodes", "zone-1\n2 nodes"]
    page = opened(*THREE, _pod("web", "1"))
    assert page.all("#boxes h3") == []
    assert [each.text for each in page.all("#legend li")] == [
        "cpu requested",
        "memory requested",
        "a pod, as high as its part of the node",
        "placed now",
        "chosen or nominated for the pod",
        "has the pod",
        "cordoned",
    ]


def test_the_table_sorts_by_name_and_by_score(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"))
    page.click("#node-table th button", "node")
    assert page.column("node") == ["cordoned", "large", "small"]
    page.click("#node-table th button", "node")
    assert page.column("node") == ["small", "large", "cordoned"]
    assert page.one("th[aria-sort=descending]").text == "node"
    page.click("#node-table th button", "total")
    totals = page.column("total")
    assert int(totals[0]) > int(totals[1])
    assert totals[2] == "", "a node without a score is last"
    page.click("#node-table th button", "total")
    assert page.column("total") == [totals[1], totals[0], ""]


def test_the_table_shows_every_filter_that_rejects_a_node(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("huge", "100"))
    assert page.column("NodeUnschedulable") == ["", "", "✗"]
    assert page.column("NodeResourcesFit") == ["✗", "✗", "✗"]
    page.click("#node-table th button", "NodeUnschedulable")
    assert page.column("node")[0] == "cordoned"


def test_the_table_filters_by_text_and_by_verdict(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"))
    page.type("#node-filter", "unsched")
    assert page.column("node") == ["cordoned"]
    assert page.one("#node-count").text == "1 of 3"
    page.type("#node-filter", "l")
    page.click("#groups button", "feasible")
    assert page.column("node") == ["large", "small"]
    page.click("#groups button", "NodeUnschedulable")
    assert page.column("node") == ["cordoned"]
    assert len(page.all("#groups button[aria-pressed=true]")) == 1
    page.click("#groups button", "NodeUnschedulable")
    assert page.one("#node-count").text == "3 of 3"


def test_pods_are_chosen_from_the_list(opened: Callable[..., Page]) -> None:
    page = opened(*THREE, _pod("web", "1"), _pod("huge", "100"))
    assert page.listed() == ["default/web", "default/huge"]
    page.click("#pod-list a", "default/huge")
    assert page.one("#pod-result").text == "unschedulable"
    assert "request 92 less cpu, or add 92 cpu (NodeResourcesFit)" in page.one("#nearest").text
    page.type("#pod-filter", "WEB")
    assert page.listed() == ["default/web"]


def test_a_story_is_a_timeline(browser: Chrome, tmp_path: Path) -> None:
    failure = StoryFailure(plugin="P", point="Filter", node="a", traceback="Traceback\n  line")
    verdict = StoryVerdict(plugin="Fit", code="Unschedulable", reasons=("no cpu",), nodes=2)
    story = Story(
        namespace="default",
        name="web",
        dropped=2,
        entries=(
            StoryEntry(time=10.0, kind="moved", text="outside -> active"),
            StoryEntry(time=10.5, kind="attempt", text=EVIL, verdicts=(verdict,), failure=failure),
            StoryEntry(time=12.25, kind="bound", text="bound to a"),
        ),
    )
    path = tmp_path / "story.html"
    path.write_text(static_page(report_data(Report(story=story)), title="story"), encoding="utf-8")
    browser.get(path.as_uri())
    page = Page(browser)
    assert page.one("#story-dropped").text == "2 older entries are forgotten"
    first, second, third = (entry.text for entry in page.all("#timeline li"))
    assert first == "+0.000 s outside -> active"
    assert second.splitlines() == [
        f"+0.500 s {EVIL}",
        "Fit on 2 nodes: Unschedulable: no cpu",
        "P failed at Filter on a",
        "Traceback",
        "  line",
    ]
    assert third == "+2.250 s bound to a"
    assert page.one("#pod-result").text == "bound"
    assert page.browser.execute_script("return window.hacked") is None


def test_texts_from_the_cluster_are_not_html(opened: Callable[..., Page]) -> None:
    node = _node("evil", "8")
    node["metadata"] = {"name": "evil", "annotations": {"reason": EVIL}}
    page = opened(node, _pod("web", "1"), arguments=("--plugin", "tests.browser.hostile:Hostile"))
    assert EVIL in page.one("#pod-answer").text
    assert page.rows()[0][1] == f"Hostile: {EVIL}"
    assert page.browser.execute_script("return window.hacked") is None
    assert page.all("img") == []


def test_5_000_nodes_are_usable(opened: Callable[..., Page]) -> None:
    nodes = [_node(f"node-{i}", "8", unschedulable=i % 10 == 0) for i in range(5_000)]
    pods = [_pod(f"runs-{i}", "1", f"node-{i}") for i in range(0, 5_000, 3)]
    page = opened(*nodes, *pods, _pod("web", "1"))
    assert page.one("#node-count").text == "5,000 of 5,000"
    height = page.browser.execute_script("return document.getElementById('scroll').clientHeight")
    assert height / 28 - 5 < len(page.rows()) < 100, "the visible part is full of rows"
    assert page.drawn() < 100
    tiles = "return document.querySelectorAll('.tile').length"
    assert page.browser.execute_script(tiles) == 5_000
    scripts = {
        "sort": "document.querySelectorAll('#node-table th button')[0].click()",
        "scroll": "document.getElementById('scroll').scrollTop = 100000",
    }
    for script in scripts.values():
        started = time.monotonic()
        page.browser.execute_script(script)
        assert time.monotonic() - started < 1.0
    page.until(lambda: page.column("node")[:1] not in ([], ["node-0"]))
    first = int(page.column("node")[0].removeprefix("node-"))
    assert page.column("node")[:3] == [f"node-{first + i}" for i in range(3)]
    assert page.drawn() < 100
    page.type("#node-filter", "node-4999")
    assert page.column("node") == ["node-4999"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_browser(opened: Callable[..., Page], scheme: str) -> None:
    page = opened(*THREE, _pod("web", "1"))
    prefer(page.browser, scheme)
    colours = [
        page.browser.execute_script(f"return getComputedStyle(document.body).{name}")
        for name in ("backgroundColor", "color")
    ]
    ground, ink = (sum(map(int, colour[4:-1].split(", "))) for colour in colours)
    assert (ground > ink) == (scheme == "light")
    prefer(page.browser)


async def test_the_live_page_follows_the_scheduler(browser: Chrome, tmp_path: Path) -> None:
    async with FakeApiServer() as server, Api.of(server) as api:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        await api.node("small", cpu="1")
        await api.pod("web", cpu="8")
        async with run_in_process(
            kubeconfig=kubeconfig, clock=SystemClock(), serve=True
        ) as scheduler:
            await api.message_of("web")
            page = Page(browser)

            def shown(selector: str, text: str) -> Any:
                return asyncio.to_thread(
                    page.until, lambda: any(text in e.text for e in page.all(selector))
                )

            await asyncio.to_thread(browser.get, f"{scheduler.url}/debug/ui")
            await shown("#pod-answer", "0/1 nodes are available: 1 Insufficient cpu")
            await api.pod("second", cpu="9")
            await shown("#pod-list", "default/second")
            await shown("#timeline", "attempt 1: unschedulable")
            await shown("#overview-counts", "2 unschedulable")
            await shown("#overview-groups", "2 default: 0/1 nodes are available: 1 Insuffi")
            assert await asyncio.to_thread(page.too_wide) == []
            assert await asyncio.to_thread(page.column, "node") == ["small"]
            await api.node("large", cpu="8")
            await shown("#pod-answer", "is on large, and would be scheduled there again: the best")
            assert await asyncio.to_thread(page.column, "node") == ["large", "small"]
            assert await asyncio.to_thread(page.column, "verdict") == [
                "has the pod, chosen",
                "NodeResourcesFit: Insufficient cpu",
            ]
            await shown("#timeline", "bound to large")
            await shown(".box", "100 %")
            assert await asyncio.to_thread(page.errors) == []
