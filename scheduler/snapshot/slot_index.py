"""Which pods are on which node, for indices that count them as they come and go.

Nodes are known by slot: a number that a node keeps for as long as it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.snapshot.pod_info import PodInfo


class SlotIndex:
    """Finds out which pods have come and gone; subclasses say what that means."""

    def __init__(self) -> None:
        self._pods: Final[dict[int, Mapping[str, PodInfo]]] = {}

    def set_pods(self, slot: int, pods: Mapping[str, PodInfo]) -> bool:
        """Say which pods, by uid, are on a slot now; `pods` is kept and must not change.

        Returns whether they are others than before.
        """
        self._make_room(slot)  # also for a slot without pods: counts are read for all there are
        before = self._pods.get(slot, {})
        if pods:
            self._pods[slot] = pods
        else:
            self._pods.pop(slot, None)
        if before == pods:
            return False
        for uid, pod in before.items():
            if pods.get(uid) is not pod:
                self._remove(slot, pod)
        for uid, pod in pods.items():
            if before.get(uid) is not pod:
                self._add(slot, pod)
        return True

    def keep_only(self, slots: Iterable[int]) -> None:
        """Forget the pods on all other slots."""
        for slot in self._pods.keys() - set(slots):
            self.set_pods(slot, {})

    def _make_room(self, slot: int) -> None:
        """Called whenever something is said of a slot: it is one of those that are read."""
        raise NotImplementedError

    def _add(self, slot: int, pod: PodInfo) -> None:
        raise NotImplementedError

    def _remove(self, slot: int, pod: PodInfo) -> None:
        raise NotImplementedError
