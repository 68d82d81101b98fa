"""The page as text: its content, and that no text of a cluster can end an element of it."""

import html.parser
import json

from scheduler.pages.data import report_data, state_data
from scheduler.pages.html import live_page, static_page
from scheduler.reports.model import (
    ClusterReport,
    NodeBox,
    NodeVerdict,
    PodReport,
    Rejection,
    Report,
    Story,
    StoryEntry,
)
from scheduler.stories import LatestPod

EVIL = "</script><script>alert(1)</script>&<!--"


def pod(**fields: object) -> PodReport:
    content: dict[str, object] = {
        "scenario": "",
        "pod": "default/web",
        "scheduler_name": "default-scheduler",
        "result": "scheduled",
        "answer": "scheduled on a",
        "message": "",
        "all_nodes": 1,
        "feasible_nodes": 1,
        "evaluated_nodes": 1,
        "choice": None,
        "current": None,
        "pod_rejection": None,
        "rejections": (),
        "preemption": None,
        "nearest": (),
        "score_plugins": ("P",),
        "nodes": (NodeVerdict(name="a", total=1, scores={"P": 1}),),
    }
    return PodReport(**{**content, **fields})  # type: ignore[arg-type]


class Parts(html.parser.HTMLParser):
    """The tags of a page, and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._is_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False

    def handle_data(self, data: str) -> None:
        if self._is_script:
            self.scripts.append(data)


def test_the_content_is_columns() -> None:
    content = json.loads(report_data(Report(pods=(pod(), pod(pod="default/b")))))
    assert content["names"] == ["a"]
    assert content["pods"][1]["table"] == {
        "nodes": [0],
        "totals": [1],
        "rejections": [[]],
        "scores": {"P": [1]},
    }
    assert content["cluster"] is None


def test_live_pods_are_counted_and_grouped_by_cause() -> None:
    node = NodeBox(
        name="a", unschedulable=False, pod_count=0, pods_max=9, shares={}, pods=(), zone="eu/eu-1"
    )
    latest = [
        LatestPod("web/c", "bound", "bound to a", "bound"),
        LatestPod("web/a", "unschedulable", "attempt 1: no room", "no room"),
        LatestPod("web/b", "unschedulable", "attempt 7: no room", "no room"),
    ]
    state = json.loads(state_data(ClusterReport(nodes=(node,), pod_count=0), latest, 1.5))
    assert state["summary"]["results"] == {"unschedulable": 2, "bound": 1}
    assert [(group["cause"], group["pods"]) for group in state["summary"]["groups"]] == [
        ("no room", ["web/a", "web/b"]),
        ("bound", ["web/c"]),
    ]
    assert state["cluster"]["zones"] == ["eu/eu-1"]


def test_a_page_has_tables_up_to_a_number_of_rows() -> None:
    many = tuple(NodeVerdict(name=f"n{i}", rejections=(0,)) for i in range(130_000))
    pods = [pod(pod=f"default/{i}", nodes=many) for i in range(2)]
    content = json.loads(report_data(Report(pods=tuple(pods))))
    assert ["table" in one for one in content["pods"]] == [True, False]


def test_names_and_messages_cannot_end_the_script() -> None:
    rejection = Rejection(
        plugin=EVIL,
        code="Unschedulable",
        reasons=(EVIL,),
        preemption_may_help=False,
        nodes=1,
        further_nodes=0,
        examples=(EVIL,),
    )
    report = Report(
        pods=(pod(answer=EVIL, rejections=(rejection,)),),
        story=Story(namespace="a", name="b", entries=(StoryEntry(time=0, kind=EVIL, text=EVIL),)),
    )
    parts = Parts(static_page(report_data(report), title=EVIL))
    content, script = parts.scripts
    assert json.loads(content)["pods"][0]["answer"] == EVIL
    assert "alert" not in script
    assert [tag for tag, _ in parts.tags].count("script") == 2


def test_the_page_loads_nothing() -> None:
    parts = Parts(static_page(report_data(Report()), title="t"))
    links = [attributes["href"] for _, attributes in parts.tags if "href" in attributes]
    assert links == ["#pod"], "the only link is within the page"
    assert not any("src" in attributes for _, attributes in parts.tags)
    (policy,) = (
        attributes["content"]
        for tag, attributes in parts.tags
        if tag == "meta" and "http-equiv" in attributes
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "connect-src" not in policy


def test_the_live_page_polls() -> None:
    page = live_page()
    assert "connect-src 'self'" in page
    assert '<body data-live="ui">' in page


def test_the_script_writes_no_html() -> None:
    script = Parts(live_page()).scripts[1]
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert sink not in script
