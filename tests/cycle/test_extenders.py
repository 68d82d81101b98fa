"""Extenders in the cycles of one pod: they may filter and bind, and they may fail."""

import logging

import pytest

from scheduler.client import Forbidden
from scheduler.framework import CycleState, Plugin, PodInfo, Status, wait
from scheduler.framework.extender import ExtenderError, ExtenderFilterResult
from scheduler.snapshot.nodes import Nodes
from scheduler.testing import make_node, make_pod
from tests.cycle.line import Line, profile_of
from tests.cycle.test_cycle import conditions, line_of
from tests.upstream.extenders import FakeExtender


class Binder(FakeExtender):
    """Fails to bind, or to filter, with an error."""

    def __init__(self, error: Exception, *, ignorable: bool = False, filters: bool = False) -> None:
        super().__init__({"ignorable": ignorable, "binds": {}})
        self.is_filter, self.is_binder = filters, not filters
        self._error = error

    async def filter(self, pod: PodInfo, nodes: Nodes) -> ExtenderFilterResult:
        raise self._error

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("extender", "failure"),
    [
        (Binder(ExtenderError("no"), ignorable=True), None),
        (Binder(ExtenderError("no")), "no"),
        # Whatever an extender raises costs its pod a backoff.
        (Binder(RuntimeError("bug")), "bug"),
        (Binder(RuntimeError("bug"), filters=True), "bug"),
        (Binder(ExtenderError("no"), filters=True), "no"),
    ],
)
async def test_a_pod_backs_off_if_an_extender_fails_that_cannot_be_ignored(
    extender: Binder, failure: str | None
) -> None:
    line = Line([profile_of("NodeResourcesFit")], nodes=[make_node("a")], extenders=[extender])
    await line.schedule(make_pod("pod"))
    if failure is None:
        assert line.client.bound == {"pod": "a"}
        return
    assert line.client.bound == {}
    assert conditions(line) == [("SchedulerError", failure)]
    assert line.places == {"backoff": ["pod"]}


class Doorkeeper(Plugin):
    """Has every pod wait."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return wait(10.0)


async def test_a_pod_waits_although_its_nomination_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = line_of(Doorkeeper)

    async def refuse(*arguments: object, **options: object) -> None:
        raise Forbidden(403, "Forbidden", "not allowed")

    line.client.patch = refuse  # type: ignore[method-assign]
    await line.schedule(make_pod("pod"))
    assert line.places == {"in_flight": ["pod"], "cache": ["pod"]}
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["Failed to update the nominated node name in the binding cycle"]
