"""The monitor of the event loop: what holds the loop is measured and logged."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from scheduler.framework import Plugin
from scheduler.loop_monitor import LoopMonitor
from scheduler.metrics import SchedulerMetrics
from scheduler.testing import make_pod
from tests.cycle.line import Line, profile_of
from tests.runtime.profiles import plugin

_LOGGER = logging.getLogger("scheduler.loop_monitor")


class _Log(logging.Handler):
    """Keeps the values of the messages: one with the stack, and one at the end of a stretch."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self.stack, self.end = threading.Event(), asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.values.append(record.args)
        if "stack" in self.values[-1]:
            self.stack.set()
        else:
            self.end.set()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> _Log:
    kept = _Log()
    monkeypatch.setattr(_LOGGER, "handlers", [kept])
    return kept


async def test_the_stack_of_a_plugin_that_blocks_is_logged_while_it_blocks(log: _Log) -> None:
    logged = []

    def filter_that_blocks(self: Plugin, state: object, pod: object, node: object) -> None:
        logged.append(log.stack.wait(timeout=30))

    metrics, monitor = SchedulerMetrics(), LoopMonitor(logged_seconds=0.01)
    line = Line([profile_of("Blocks")], [plugin("Blocks", filter=filter_that_blocks)])
    async with monitor.watching(metrics):
        await line.schedule(make_pod("p"))
        await asyncio.wait_for(log.end.wait(), timeout=30)
    assert logged == [True]
    while_held, after = log.values
    assert "filter_that_blocks" in while_held["stack"]
    assert after["seconds"] >= while_held["seconds"]
    ((labels, seconds),) = metrics.event_loop_lag.read()
    assert labels == ()
    assert seconds == pytest.approx(after["seconds"], abs=0.001)


async def test_a_loop_that_is_not_held_has_no_line(log: _Log) -> None:
    metrics, monitor = SchedulerMetrics(), LoopMonitor()
    async with monitor.watching(metrics):
        await asyncio.sleep(0)
    assert monitor.longest_seconds < 1
    assert log.values == []
