"""A Kubernetes API server light enough for a test process, and exact enough for a scheduler.

    async with FakeApiServer() as server:
        print(server.url, server.kubeconfig)

The server has the kinds that kube-scheduler and common clients use (`types/kind.py`), with
the semantics of kube-apiserver v1.36.3. A kubelet and controllers are optional (`actors/`):

    async with FakeApiServer() as server, Actors(server, kubelet=True):

Importing `fakeapi` imports no other module: each public name is imported when it is first used
(PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeapi.actors import Actors, KubeletOptions, NodeLifecycleOptions, VolumeOptions
    from fakeapi.background import BackgroundServer
    from fakeapi.clock import Clock, ManualClock, SystemClock, Timer
    from fakeapi.loading.manifests import LoadError
    from fakeapi.security import Security, SecurityError, User
    from fakeapi.server import FakeApiServer, ServerOptions, Statistics
    from fakeapi.state import StateError
    from fakeapi.state.keeper import StateFiles
    from fakeapi.store.journal import HandledRequest, ObjectChange
    from fakeapi.types.kind import Generation, Kind, KindTable

__all__ = [
    "Actors",
    "BackgroundServer",
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
    "ServerOptions",
    "StateError",
    "StateFiles",
    "Statistics",
    "SystemClock",
    "Timer",
    "User",
    "VolumeOptions",
]

#: The module of each public name.
_MODULES: Final = {
    "Actors": "fakeapi.actors",
    "BackgroundServer": "fakeapi.background",
    "Clock": "fakeapi.clock",
    "FakeApiServer": "fakeapi.server",
    "Generation": "fakeapi.types.kind",
    "HandledRequest": "fakeapi.store.journal",
    "Kind": "fakeapi.types.kind",
    "KindTable": "fakeapi.types.kind",
    "KubeletOptions": "fakeapi.actors",
    "LoadError": "fakeapi.loading.manifests",
    "ManualClock": "fakeapi.clock",
    "NodeLifecycleOptions": "fakeapi.actors",
    "ObjectChange": "fakeapi.store.journal",
    "Security": "fakeapi.security",
    "SecurityError": "fakeapi.security",
    "ServerOptions": "fakeapi.server",
    "StateError": "fakeapi.state",
    "StateFiles": "fakeapi.state.keeper",
    "Statistics": "fakeapi.server",
    "SystemClock": "fakeapi.clock",
    "Timer": "fakeapi.clock",
    "User": "fakeapi.security",
    "VolumeOptions": "fakeapi.actors",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
