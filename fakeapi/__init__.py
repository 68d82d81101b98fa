"""A Kubernetes API server light enough for a test process, and exact enough for a scheduler.

    async with FakeApiServer() as server:
        print(server.url, server.kubeconfig)

It serves what kube-scheduler and common clients read and write (see kinds.py), with the semantics
of kube-apiserver v1.36.3. There is no kubelet and there are no controllers.
"""

from __future__ import annotations

from .clock import Clock, ManualClock, SystemClock, Timer
from .journal import HandledRequest, ObjectChange
from .kinds import Generation, Kind, KindTable
from .loading import LoadError
from .server import FakeApiServer, Statistics
from .state import StateError
from .state.keeper import StateFiles

__all__ = [
    "Clock",
    "FakeApiServer",
    "Generation",
    "HandledRequest",
    "Kind",
    "KindTable",
    "LoadError",
    "ManualClock",
    "ObjectChange",
    "StateError",
    "StateFiles",
    "Statistics",
    "SystemClock",
    "Timer",
]
