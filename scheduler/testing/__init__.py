"""Tools for testing plugins and schedulers, part of the public interface."""

from scheduler.testing.builders import make_node, make_pod, snapshot_of
from scheduler.testing.check_plugin import NotJudgedWarning, check_plugin
from scheduler.testing.doubles import FakeHandle, VirtualClock, make_plugin
from scheduler.testing.in_process import RunningScheduler, run_in_process

__all__ = [
    "FakeHandle",
    "NotJudgedWarning",
    "RunningScheduler",
    "VirtualClock",
    "check_plugin",
    "make_node",
    "make_plugin",
    "make_pod",
    "run_in_process",
    "snapshot_of",
]
