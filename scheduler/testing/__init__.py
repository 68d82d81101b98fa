"""Tools for testing plugins and schedulers, part of the public interface.

make_pod, make_node, snapshot_of   objects and snapshots in one line each
make_plugin, FakeHandle            one plugin on its own
check_plugin                       the rules that every plugin must follow
decide                             one decision of the whole default profile
Simulation, run_in_process         a whole scheduler, against an API server
strategies                         Hypothesis strategies, imported on their own
"""

from scheduler.testing.builders import make_node, make_pod, snapshot_of
from scheduler.testing.check_plugin import NotJudgedWarning, check_plugin
from scheduler.testing.decisions import PodDecision, decide
from scheduler.testing.doubles import FakeHandle, FakeLister, make_plugin
from scheduler.testing.in_process import RunningScheduler, run_in_process
from scheduler.testing.random_cluster import RandomCluster
from scheduler.testing.simulation import Simulation
from scheduler.virtual_clock import VirtualClock

__all__ = [
    "FakeHandle",
    "FakeLister",
    "NotJudgedWarning",
    "PodDecision",
    "RandomCluster",
    "RunningScheduler",
    "Simulation",
    "VirtualClock",
    "check_plugin",
    "decide",
    "make_node",
    "make_plugin",
    "make_pod",
    "run_in_process",
    "snapshot_of",
]
