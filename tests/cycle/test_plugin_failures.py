"""An exception of a plugin: one traceback in the log; plugin, point and node in the story."""

import logging
from typing import Any

import msgspec
import pytest

from scheduler.framework import Code, CycleState, NodeInfo, Nodes, Plugin, PodInfo, Status
from scheduler.testing import make_pod
from tests.cycle.test_cycle import conditions, events, line_of


class Boom(Exception):
    pass


def _fails(point: str, *, is_async: bool = False) -> type[Plugin]:
    """A plugin that raises at one extension point."""

    def plain(self: Plugin, *arguments: object) -> None:
        raise Boom("no such label")

    async def waiting(self: Plugin, *arguments: object) -> None:
        raise Boom("no such label")

    return type("Faulty", (Plugin,), {point: waiting if is_async else plain})


async def _failure(plugin: type[Plugin]) -> dict[str, Any]:
    line = line_of(plugin, nodes=("a", "b"))
    await line.schedule(make_pod("web"))
    await line.schedule(make_pod("other"))
    story = line.stories.as_json("default", "web")
    assert story is not None
    entries = msgspec.json.decode(story)["entries"]
    failure: dict[str, Any] = next(e["failure"] for e in entries if "failure" in e)
    return failure


@pytest.mark.parametrize(
    ("method", "point", "node", "is_async"),
    [
        ("pre_filter", "PreFilter", "", False),
        ("filter", "Filter", "a", False),
        ("filter_nodes", "Filter", "", False),
        ("pre_score", "PreScore", "", False),
        ("score", "Score", "a", False),
        ("score_nodes", "Score", "", False),
        ("reserve", "Reserve", "a", False),
        ("permit", "Permit", "a", False),
        ("pre_bind", "PreBind", "a", True),
    ],
)
async def test_an_exception_is_logged_once_and_kept_in_the_story(
    method: str, point: str, node: str, *, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    failure = await _failure(_fails(method, is_async=is_async))
    assert (failure["plugin"], failure["point"], failure["node"]) == (
        "Faulty",
        point,
        node,
    )
    assert "test_plugin_failures.py" in failure["traceback"]
    assert failure["traceback"].endswith("Boom: no such label\n")
    [record] = [r for r in caplog.records if r.exc_info and isinstance(r.exc_info[1], Boom)]
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(
        f"Plugin Faulty failed at {point} for pod default/web{f' on node {node}' if node else ''};"
    )


class FailsAfterwards(Plugin):
    """Rejects every node, then fails in PostFilter."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        from scheduler.framework import unschedulable

        return unschedulable("never")

    async def post_filter(self, state: CycleState, pod: PodInfo, statuses: object) -> Any:
        raise Boom("no such label")


async def test_an_exception_in_post_filter_is_kept_with_the_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure = await _failure(FailsAfterwards)
    assert (failure["plugin"], failure["point"]) == ("FailsAfterwards", "PostFilter")
    assert len([r for r in caplog.records if r.exc_info]) == 1


class FailsInTwoLines(Plugin):
    """Fails for other pods in another line."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        if pod.name == "web":
            raise Boom("first line")
        raise Boom("second line")


async def test_another_line_of_a_plugin_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    await _failure(FailsInTwoLines)
    assert len([r for r in caplog.records if r.exc_info]) == 2


#: Half a pair of UTF-16, as `json.loads` reads it from an annotation.
HALF = "\ud83d"


class QuotesHalf(Plugin):
    """Rejects every node with a text that UTF-8 cannot encode."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return Status(Code.UNSCHEDULABLE, f"no {HALF}")


class RaisesHalf(Plugin):
    """Raises such a text."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise Boom(f"no {HALF}")


@pytest.mark.parametrize("plugin", [QuotesHalf, RaisesHalf])
async def test_half_a_surrogate_pair_of_a_plugin_is_reported_as_a_replacement_character(
    plugin: type[Plugin], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # pytest-xdist cannot send a log with half a pair
    line = line_of(plugin)
    await line.schedule(make_pod("web"))
    [event], [(_, message)] = events(line), conditions(line)
    assert event.note == message
    assert "no \ufffd" in message
    assert message.encode()
    assert line.stories.as_json("default", "web") is not None
