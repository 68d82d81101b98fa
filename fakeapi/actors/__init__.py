"""Kubelets and controllers as clients of the server, on its clock.

    async with FakeApiServer() as server, Actors(server, kubelet=True):
        ...

Without actors, objects change only by requests of other clients.
"""

from __future__ import annotations

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.cluster import Actors
from fakeapi.actors.kubelet import KubeletOptions
from fakeapi.actors.node_lifecycle import NodeLifecycleOptions
from fakeapi.actors.volumes import VolumeOptions

__all__ = ["ActorApiError", "Actors", "KubeletOptions", "NodeLifecycleOptions", "VolumeOptions"]
