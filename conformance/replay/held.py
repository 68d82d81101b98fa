"""The API server's nodes and pods, with only the fields that the replay reads.

The types are independent of the scheduler's own types on purpose: the verifier must see the
server's state, not the scheduler's view of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..api import Json, Ref
from ..format.reading import name_in

#: The kinds, in all namespaces, for `ApiClient.listing` and `ApiClient.watch`.
NODES: Final = Ref("Node", "", "")
PODS: Final = Ref("Pod", "", "")


class _Held(msgspec.Struct, rename="camel"):
    """The base of everything read from the server. Unknown fields are skipped."""


class Metadata(_Held):
    """An object's name and version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return name_in(self.namespace, self.name)


class Condition(_Held):
    """One condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class PodSpec(_Held):
    """A pod's node, and what decides its requests."""

    node_name: str = ""
    containers: list[Json] | None = None
    init_containers: list[Json] | None = None
    overhead: Json | None = None
    resources: Json | None = None


class PodStatus(_Held):
    """A pod's conditions."""

    conditions: list[Condition] | None = None


class HeldPod(_Held):
    """A pod on the API server."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def unschedulable_message(self) -> str | None:
        """The message of the scheduler if it found no node; None otherwise."""
        for condition in self.status.conditions or ():
            if condition.type == "PodScheduled":
                told = condition.status == "False" and condition.reason == "Unschedulable"
                return condition.message if told else None
        return None

    @property
    def is_preempted(self) -> bool:
        """True if the scheduler has evicted the pod."""
        return any(
            condition.type == "DisruptionTarget" and condition.reason == "PreemptionByScheduler"
            for condition in self.status.conditions or ()
        )


class NodeStatus(_Held):
    """A node's resources, as quantities."""

    allocatable: dict[str, str] = {}


class HeldNode(_Held):
    """A node on the API server."""

    metadata: Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
