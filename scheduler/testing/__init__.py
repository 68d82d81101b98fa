"""Tools for testing plugins and schedulers, part of the public interface."""

from scheduler.testing.builders import make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeHandle, VirtualClock

__all__ = ["FakeHandle", "VirtualClock", "make_node", "make_pod", "snapshot_of"]
