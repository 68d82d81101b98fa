"""The objects of a cluster at one moment, as far as they decide where a pod can run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..format.reading import is_over, node_of
from ..format.reading import name_of as name_of  # users' own invariants import it from here
from ..format.resources import part
from .matching import labels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..api import Json


@dataclass(frozen=True, kw_only=True)
class State:
    """The cluster at one moment: nodes by name, pods by uid, and the other objects by kind.

    `others` have the key kind, namespace, name.
    """

    nodes: Mapping[str, Json] = field(default_factory=dict)
    pods: Mapping[str, Json] = field(default_factory=dict)
    others: Mapping[tuple[str, str, str], Json] = field(default_factory=dict)

    def pods_on(self, node_name: str) -> list[Json]:
        """Return the pods that use a node; pods that have ended do not."""
        return [pod for pod in self.pods.values() if node_of(pod) == node_name and not is_over(pod)]

    @property
    def placed(self) -> list[tuple[Json, Json]]:
        """The pods that use a node that exists, each with the node."""
        return [
            (pod, self.nodes[node_of(pod)])
            for pod in self.pods.values()
            if node_of(pod) in self.nodes and not is_over(pod)
        ]

    @property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """The labels of the namespaces."""
        return {
            name: labels_of(obj)
            for (kind, _, name), obj in self.others.items()
            if kind == "Namespace"
        }

    def find(self, kind: str, name: str, namespace: str = "") -> Json | None:
        """Return an object that is neither a node nor a pod."""
        return self.others.get((kind, namespace, name))

    def of_kind(self, kind: str) -> list[Json]:
        """Return the objects of a kind that is neither Node nor Pod."""
        return [obj for (other_kind, _, _), obj in self.others.items() if other_kind == kind]

    def without(self, uids: Iterable[str]) -> State:
        """Return the state without some pods."""
        gone = {*uids}
        return replace(self, pods={uid: pod for uid, pod in self.pods.items() if uid not in gone})

    def with_pods(self, pods: Iterable[Json]) -> State:
        """Return the state with some pods added or replaced."""
        return replace(self, pods={**self.pods, **{uid_of(pod): pod for pod in pods}})


def uid_of(pod: Json) -> str:
    """Return a pod's uid."""
    return str(part(pod, "metadata").get("uid", ""))


def is_ending(pod: Json) -> bool:
    """Return True if a pod is being deleted."""
    return part(pod, "metadata").get("deletionTimestamp") is not None


def priority_of(pod: Json) -> int:
    """Return a pod's priority, which the API server has resolved."""
    value = part(pod, "spec").get("priority")
    return value if isinstance(value, int) else 0


def placed_on(pod: Json, node_name: str) -> Json:
    """Return a pod with its node set."""
    return {**pod, "spec": {**part(pod, "spec"), "nodeName": node_name}}
