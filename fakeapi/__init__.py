"""A Kubernetes API server light enough for a test process, and exact enough for a scheduler.

    async with FakeApiServer() as server:
        print(server.url, server.kubeconfig)

It serves what kube-scheduler and common clients read and write (see kinds.py), with the semantics
of kube-apiserver v1.36.3. A kubelet and controllers are there if they are asked for (see actors/):

    async with FakeApiServer() as server, Actors(server, kubelet=True):
"""

from __future__ import annotations

from .actors import Actors, KubeletOptions, NodeLifecycleOptions, VolumeOptions
from .clock import Clock, ManualClock, SystemClock, Timer
from .journal import HandledRequest, ObjectChange
from .kinds import Generation, Kind, KindTable
from .loading import LoadError
from .security import Security, SecurityError, User
from .server import FakeApiServer, Statistics
from .state import StateError
from .state.keeper import StateFiles

__all__ = [
    "Actors",
    "Clock",
    "FakeApiServer",
    "Generation",
    "HandledRequest",
    "Kind",
    "KindTable",
    "KubeletOptions",
    "LoadError",
    "ManualClock",
    "NodeLifecycleOptions",
    "ObjectChange",
    "Security",
    "SecurityError",
    "StateError",
    "StateFiles",
    "Statistics",
    "SystemClock",
    "Timer",
    "User",
    "VolumeOptions",
]
