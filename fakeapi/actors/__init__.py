"""A cluster that lives: actors on the server's clock that are clients of its API.

    async with FakeApiServer() as server, Actors(server, kubelet=True):
        ...

Without them nothing happens on the server but what clients ask for.
"""

from __future__ import annotations

from .client import ActorApiError
from .cluster import Actors
from .kubelet import KubeletOptions
from .node_lifecycle import NodeLifecycleOptions
from .volumes import VolumeOptions

__all__ = ["ActorApiError", "Actors", "KubeletOptions", "NodeLifecycleOptions", "VolumeOptions"]
