"""A cluster that lives: actors on the server's clock that are clients of its API.

    async with FakeApiServer() as server, Actors(server, kubelet=True):
        ...

Without them nothing happens on the server but what clients ask for.
"""

from __future__ import annotations

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.cluster import Actors
from fakeapi.actors.kubelet import KubeletOptions
from fakeapi.actors.node_lifecycle import NodeLifecycleOptions
from fakeapi.actors.volumes import VolumeOptions

__all__ = ["ActorApiError", "Actors", "KubeletOptions", "NodeLifecycleOptions", "VolumeOptions"]
