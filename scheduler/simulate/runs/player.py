"""Play a history: carry out its changes in virtual time, and let a scheduler decide the pods.

The history's own decisions are not carried out: a pod that gets its node within the history waits
for the simulated scheduler. All else happens as it is written: creations, changes of labels and
specs, ends and deletions. A pod that has a node when it first appears keeps it. A pod that the
simulated scheduler evicts ends after its grace period, and is not created again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from scheduler.client import PODS, object_key
from scheduler.reports.decision import FirstByName
from scheduler.simulate.controllers.pods import grace_seconds
from scheduler.simulate.history.format import RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.api.core import Pod
    from scheduler.assembly.simulated_cluster import SimulatedCluster
    from scheduler.queue import QueuedPodInfo
    from scheduler.simulate.history.format import Change
    from scheduler.snapshot import IntArray, Nodes

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Binding(NamedTuple):
    """A pod's node, and the seconds since the start of the history."""

    node: str
    seconds: float


def recorded_bindings(changes: Iterable[Change]) -> dict[str, Binding]:
    """Return the bindings that happened within the history, by the uid of the pod."""
    waiting: set[str] = set()
    bindings: dict[str, Binding] = {}
    for change in changes:
        if change.kind != PODS.plural:
            continue
        pod: Pod = change.object  # type: ignore[assignment]
        uid, node = pod.metadata.uid, pod.spec.node_name
        if not node:
            waiting.add(uid)
        elif uid in waiting:
            bindings.setdefault(uid, Binding(node, change.seconds))
    return bindings


class AsRecorded:
    """Breaks ties: takes the history's node if it is one of the best, or else the first by name.

    `popped` is to be called before each cycle.
    """

    def __init__(self, bindings: dict[str, Binding]) -> None:
        self._bindings: Final = bindings
        self._other: Final = FirstByName()
        self._node = ""

    def popped(self, queued: QueuedPodInfo) -> None:
        """Take note of the pod that is scheduled next."""
        binding = self._bindings.get(queued.uid)
        self._node = binding.node if binding is not None else ""

    def __call__(self, nodes: Nodes, best: IntArray) -> int:
        position = nodes.position(self._node) if self._node else None
        if position is not None and position in best:
            return position
        return self._other(nodes, best)


class Player:
    """Plays a history on a simulated cluster, from now on."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        self._start: Final = cluster.clock.now()
        #: The uids of the pods that have appeared, and are not deleted in the history.
        self._seen: Final[set[str]] = set()
        #: The simulated bindings, by uid.
        self.bindings: Final[dict[str, Binding]] = {}
        cluster.core.informers.pods.add_event_handler(on_update=self._updated)

    async def play(
        self, changes: Sequence[Change], *, on_moment: Callable[[int], None] = lambda _: None
    ) -> None:
        """Play all changes, then run until all pods have ended or wait for a change.

        `on_moment` is called with the number of changes after each moment of the history.
        """
        done = 0
        for seconds, group in itertools.groupby(changes, key=lambda change: change.seconds):
            await self._cluster.run_until(self._start + seconds)
            for change in group:
                if change.change == "MODIFIED" and change.kind == PODS.plural:
                    # A binding, or a failed attempt: here the history's scheduler has decided.
                    await self._cluster.run_until(self._start + seconds)
                self._apply(change)
                done += 1
            on_moment(done)
        await self._cluster.settle()

    def _apply(self, change: Change) -> None:
        api, is_deletion = self._cluster.api, change.change == "DELETED"
        if change.kind == PODS.plural:
            self._apply_pod(change.object, is_deletion=is_deletion)  # type: ignore[arg-type]
        elif is_deletion:
            api.remove(change.kind, object_key(change.object))
        else:
            api.put(change.kind, change.object)

    def _apply_pod(self, recorded: Pod, *, is_deletion: bool) -> None:
        uid, current = recorded.metadata.uid, self._cluster.find_pod(recorded)
        if is_deletion:
            self._seen.discard(uid)
            if current is not None:
                self._cluster.remove(current)
        elif uid not in self._seen:
            self._seen.add(uid)
            self._cluster.apply(recorded)
            if recorded.spec.node_name:
                self._end_later(recorded)
        elif current is not None:
            merged = _with_own_decision(recorded, current)
            if merged != current:
                self._cluster.apply(merged)

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            seconds = self._cluster.clock.now() - self._start
            self.bindings[new.metadata.uid] = Binding(new.spec.node_name, seconds)
            self._end_later(new)
        if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            self._cluster.remove_after(grace_seconds(new), new)

    def _end_later(self, pod: Pod) -> None:
        """End a pod that the history gives a time to run."""
        run_seconds = pod.metadata.annotations.get(RUN_SECONDS)
        if run_seconds is not None:
            self._cluster.remove_after(float(run_seconds), pod)


def _with_own_decision(recorded: Pod, current: Pod) -> Pod:
    """Return the recorded state of a pod with the node of the simulated one.

    The status is the recorded one only once both have a node, or the pod has ended.
    """
    spec = replace(recorded.spec, node_name=current.spec.node_name)
    status = current.status
    if recorded.status.phase in _ENDED or (current.spec.node_name and recorded.spec.node_name):
        status = replace(
            recorded.status,
            conditions=status.conditions,
            nominated_node_name=status.nominated_node_name,
        )
    metadata = replace(recorded.metadata, resource_version=current.metadata.resource_version)
    return replace(current, metadata=metadata, spec=spec, status=status)
