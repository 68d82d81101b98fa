"""Reservations: pods that are to get room on a node, and the room that others leave them.

A pod has one while the pods that were evicted for it end, or because its job starves. Its requests
count as taken for all other pods, whatever their priority. A job that starves has a claim to the
room that pods leave when they end, and none to room that is made by evictions for another job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api import resources
from scheduler.framework.status import Rejections, reject, unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_RESERVED: Final = unschedulable("node(s) had room that is reserved for another job")


class Reservation(NamedTuple):
    """A pod's node. `victims` are the pods that end for it; none where its job starves."""

    pod: PodInfo
    job_key: str
    node_name: str
    victims: tuple[PodInfo, ...] = ()
    #: True if the pod may use this node only.
    is_exclusive: bool = True


class Reservations:
    """The reservations by pod and by node."""

    def __init__(self) -> None:
        self._by_uid: Final[dict[str, Reservation]] = {}
        self._by_node: Final[dict[str, dict[str, Reservation]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uid)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> Reservation | None:
        """Return a pod's reservation; None if it has none."""
        return self._by_uid.get(uid)

    def add(self, reservation: Reservation) -> None:
        """Add a reservation, or replace the pod's."""
        uid = reservation.pod.uid
        self.drop(uid)
        self._by_uid[uid] = reservation
        self._by_node.setdefault(reservation.node_name, {})[uid] = reservation

    def drop(self, uid: str) -> None:
        """Remove a pod's reservation; a no-op if it has none."""
        reservation = self._by_uid.pop(uid, None)
        if reservation is not None:
            on_node = self._by_node[reservation.node_name]
            del on_node[uid]
            if not on_node:
                del self._by_node[reservation.node_name]

    def drop_job(self, key: str) -> None:
        """Remove the reservations of a job."""
        for reservation in self.of_job(key):
            self.drop(reservation.pod.uid)

    def of_job(self, key: str) -> list[Reservation]:
        """Return the reservations of a job."""
        return [r for r in self._by_uid.values() if r.job_key == key]

    def filter_nodes(
        self, pod: PodInfo, nodes: Nodes, *, job_key: str, beside_starving: bool
    ) -> Rejections | None:
        """Reject the nodes whose room the pod would take from others.

        The pods of another job that starves count with `beside_starving` alone. A pod without
        requests takes one of the node's places.
        """
        wanted = {resources.PODS: 1, **pod.spec_requests}
        short = np.zeros(len(nodes), dtype=np.bool_)
        for name, position in nodes.positions(self._by_node.keys()).items():
            others = [
                r.pod
                for uid, r in self._by_node[name].items()
                if uid != pod.uid and (r.is_exclusive or r.job_key == job_key or beside_starving)
            ]
            if others:
                short[position] = _is_short(nodes.take(np.array([position])), wanted, others)
        return reject(short, _RESERVED)


def reservations_of_all(handle: object) -> Reservations:
    """Make the reservations of all profiles."""
    return Reservations()


def _is_short(node: Nodes, wanted: dict[str, int], reserved: list[PodInfo]) -> bool:
    """Return True if a node has not room for both."""
    for name, amount in wanted.items():
        if name == resources.PODS:
            taken = len(reserved)
            free = int((node.allocatable(name) - node.pod_count)[0])
        else:
            taken = sum(pod.requests[name] for pod in reserved)
            free = int(node.unrequested(name)[0])
        if amount and taken and amount + taken > free:
            return True
    return False
