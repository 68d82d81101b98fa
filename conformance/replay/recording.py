"""Record the pods' changes in order, from a watch of the replay's own.

The states of a pod in the recorder:

    unknown --ADDED--> pending --PodScheduled=False/Unschedulable--> unschedulable
                          |                                               |
                          +--------------- spec.nodeName is set ----------+--> bound

`undecided` are the expected pods that are neither bound nor unschedulable. Every change of a pod's
node becomes a `Placement`. Placements are in the order of the server's versions, so that their
running sum is the allocation at any moment.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from ..errors import RequestFailed
from .held import PODS, HeldPod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..api import ApiClient, Listing
    from ..clock import Clock

_GONE = 410


class Placement(NamedTuple):
    """A pod was bound to a node, or left it if `node` is empty; `seconds` are the clock's."""

    seconds: float
    pod: str
    uid: str
    node: str


class Verdict(NamedTuple):
    """The first decision on a pod, bound or not; `seconds` are the clock's."""

    seconds: float
    pod: str
    bound: bool


class Recorder:
    """Follows the pods of a server. `expected` are the names of the pods to be created."""

    def __init__(self, expected: Iterable[str], clock: Clock) -> None:
        self._clock = clock
        self.undecided = set(expected)
        self.placements: list[Placement] = []
        self.verdicts: list[Verdict] = []
        self.bound = 0
        #: The names of the pods that the scheduler has evicted, and that are gone.
        self.preempted: set[str] = set()
        #: The number of unschedulable pods after each change of it, and its time.
        self.unschedulable_counts: list[tuple[float, int]] = []
        #: The number of lists after an expired watch, where the order of changes had to be guessed.
        self.gaps = 0
        self.last_change_seconds = clock.now()
        self._version = ""
        self._nodes: dict[str, str] = {}  # the node of each pod by uid; empty without one
        self._unschedulable: set[str] = set()

    @property
    def unschedulable(self) -> int:
        """The number of pods that are unschedulable now."""
        return len(self._unschedulable)

    @property
    def version(self) -> int:
        """The version of the newest change seen."""
        return int(self._version or 0)

    async def start(self, client: ApiClient) -> None:
        """Read the existing pods. Raises RequestFailed."""
        self._relist(await client.listing(PODS, HeldPod))

    async def run(self, client: ApiClient) -> None:
        """Follow the pods until cancelled, resuming where a watch ended. Raises RequestFailed."""
        while True:
            try:
                async with contextlib.aclosing(
                    client.watch(PODS, HeldPod, self._version)
                ) as events:
                    async for event in events:
                        self.observe(event.type, event.object)
            except RequestFailed as failure:
                if failure.status != _GONE:
                    raise
                self.gaps += 1
                self._relist(await client.listing(PODS, HeldPod))

    def observe(self, event_type: str, pod: HeldPod) -> None:
        """Record one event."""
        self._version = pod.metadata.resource_version
        uid, name = pod.metadata.uid, pod.metadata.key
        node = "" if event_type == "DELETED" else pod.spec.node_name
        if event_type == "DELETED" and pod.is_preempted:
            self.preempted.add(name)
        before = self._nodes.get(uid, "")
        self.last_change_seconds = self._clock.now()
        if node != before:
            self.placements.append(Placement(self.last_change_seconds, name, uid, node))
            self.bound += bool(node) - bool(before)
        self._nodes[uid] = node
        stuck = not node and event_type != "DELETED" and pod.unschedulable_message is not None
        if stuck != (uid in self._unschedulable):
            (self._unschedulable.add if stuck else self._unschedulable.discard)(uid)
            counted = (self.last_change_seconds, len(self._unschedulable))
            self.unschedulable_counts.append(counted)
        if (node or stuck) and name in self.undecided:
            self.undecided.discard(name)
            self.verdicts.append(Verdict(self.last_change_seconds, name, bool(node)))

    def _relist(self, listing: Listing[HeldPod]) -> None:
        """Catch up from a list: apply new versions in order, and drop pods that are gone."""
        present = {pod.metadata.uid for pod in listing.items}
        for uid, node in list(self._nodes.items()):
            if uid not in present and node:
                self.placements.append(Placement(self._clock.now(), "", uid, ""))
                self._nodes[uid] = ""
                self.bound -= 1
        for pod in sorted(listing.items, key=lambda item: int(item.metadata.resource_version)):
            self.observe("MODIFIED", pod)
        self._version = listing.resource_version
