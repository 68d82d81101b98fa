"""Tools for testing plugins and schedulers, part of the public interface."""

from scheduler.testing.builders import make_node, make_pod, snapshot_of
from scheduler.testing.check_plugin import check_plugin
from scheduler.testing.doubles import FakeHandle, VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process

__all__ = [
    "FakeHandle",
    "RunningScheduler",
    "VirtualClock",
    "check_plugin",
    "make_node",
    "make_pod",
    "run_in_process",
    "snapshot_of",
]
