"""Stories as a scheduler serves them, and the schedulers that serve none."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from conformance.api import Json
from conformance.judge.metrics import is_loopback
from conformance.judge.stories import read_stories, story_lines

STORY: Json = {
    "entries": [
        {
            "text": "attempt 1: unschedulable",
            "verdicts": [
                {"plugin": "Fit", "nodes": 2, "code": "Unschedulable", "reasons": ["cpu", "pods"]}
            ],
            "hints": [{"plugin": "Fit", "event": "NodeAdd", "answer": "Queue"}],
        },
        {"text": "attempt 2: bound"},
    ]
}


@pytest.fixture
async def root() -> AsyncIterator[str]:
    """The URL of a server that has the stories of two of its three pods."""

    async def answer(request: web.Request) -> web.Response:
        path = request.path.removeprefix("/good/debug/pods")
        if path in ("", "/default/p", "/default/q"):
            pods = ["default/p", "default/gone", "default/q"]
            return web.json_response(STORY if path else {"pods": pods})
        if path.startswith("/odd"):
            return web.json_response(["default/p"])
        return web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@pytest.mark.parametrize(
    ("path", "pods", "found"),
    [
        ("good/metrics", ["default/q", "default/other", "default/p"], ["default/q", "default/p"]),
        # A pod is listed, and gone a moment later.
        ("good/metrics", ["default/gone", "default/p"], ["default/p"]),
        ("none/metrics", ["default/p"], []),
        ("odd/metrics", ["default/p"], []),
    ],
)
async def test_the_stories_of_pods_are_read_where_there_are_any(
    root: str, path: str, pods: list[str], found: list[str]
) -> None:
    assert await read_stories(root + path, pods) == dict.fromkeys(found, STORY)


def test_an_entry_has_its_verdicts_and_hints_below_it() -> None:
    assert story_lines(STORY) == [
        "attempt 1: unschedulable",
        "  Fit on 2 nodes: Unschedulable: cpu, pods",
        "  Fit on NodeAdd: Queue",
        "attempt 2: bound",
    ]


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("https://127.0.0.1:1/metrics", True),
        ("https://[::1]:1/metrics", True),
        ("https://localhost/metrics", True),
        ("https://192.0.2.1/metrics", False),
        ("https://localhost.example.com/metrics", False),
    ],
)
def test_only_this_machine_may_have_a_certificate_of_its_own(url: str, is_here: bool) -> None:
    assert is_loopback(url) is is_here
