"""The decisions of a DaemonSet about surplus and old pods, without I/O.

Source: pkg/controller/daemon/{update,daemon_controller}.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fakeapi.actors.owners.pods import is_available, scaled
from fakeapi.actors.owners.revisions import REVISION_LABEL
from fakeapi.types.objects import integer, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeapi.actors.objects import Object


@dataclasses.dataclass(frozen=True, slots=True)
class Daemons:
    """The pods of a DaemonSet by node, the label of its newest template, the nodes that it fits.

    `fit` has two flags for each node: a new pod shall run there, and a running pod may stay.
    """

    owner: Object
    label: str
    by_node: Mapping[str, list[Object]]
    fit: Mapping[str, tuple[bool, bool]]
    now: float

    def is_up(self, pod: Object) -> bool:
        """True if the pod is available."""
        wait = integer(mapping(self.owner.get("spec")).get("minReadySeconds"))
        return is_available(pod, wait, self.now)

    def is_new(self, pod: Object) -> bool:
        """True if the pod has the newest template."""
        return pod.labels.get(REVISION_LABEL) == self.label

    def pair_on(self, node: str) -> tuple[Object | None, Object | None] | None:
        """Return the new and the old pod of a node, None if there are two of a kind."""
        living = [pod for pod in self.by_node.get(node, []) if not pod.is_deleting]
        new = [pod for pod in living if self.is_new(pod)]
        old = [pod for pod in living if not self.is_new(pod)]
        if len(new) > 1 or len(old) > 1:
            return None
        return (new[0] if new else None), (old[0] if old else None)

    @property
    def nodes(self) -> list[str]:
        """Return the nodes that have pods or shall have one."""
        wanted = {node for node, (runs, _) in self.fit.items() if runs}
        return sorted(wanted | set(self.by_node))


def limits_of(daemons: Daemons) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable as numbers."""
    rolling = mapping(mapping(daemons.owner.spec.get("updateStrategy")).get("rollingUpdate"))
    count = sum(runs for runs, _ in daemons.fit.values())
    surge = scaled(rolling.get("maxSurge", 0), count, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 1), count, up=True)
    return surge, 1 if count and not surge and not unavailable else unavailable


def excess(daemons: Daemons, node: str, *, surges: bool) -> list[Object]:
    """Return the surplus pods of a node: all but the oldest, or all but one of each kind."""
    living = [
        pod
        for pod in daemons.by_node.get(node, [])
        if not pod.is_deleting and pod.phase not in ("Failed", "Succeeded")
    ]
    living.sort(key=_age)
    if not surges:
        return living[1:]
    new = [pod for pod in living if daemons.is_new(pod)]
    old = [pod for pod in living if not daemons.is_new(pod)]
    gone = new[1:] + old[1:]
    if new and old and (not old[0].is_ready or daemons.is_up(new[0])):
        gone.append(old[0])
    return gone


def _age(pod: Object) -> tuple[bool, str]:
    bound = bool(pod.node)
    return not bound, pod.created_at


def replacements(daemons: Daemons) -> tuple[list[Object], list[str]]:
    """Return the old pods to delete now, and the nodes that get a new pod beside the old one."""
    surge, unavailable = limits_of(daemons)
    return _surged(daemons, surge) if surge else (_replaced(daemons, unavailable), [])


def _replaced(daemons: Daemons, limit: int) -> list[Object]:
    missing, broken, candidates = 0, [], []
    for node in daemons.nodes:
        pair = daemons.pair_on(node)
        if pair is None or (pair[0] is None) == (pair[1] is None):
            missing += 1  # `DaemonSets` creates or deletes a pod there
            continue
        new, old = pair
        if new is not None:
            missing += not daemons.is_up(new)
        elif old is not None and not daemons.is_up(old):
            broken.append(old)
            missing += 1
        elif old is not None and missing < limit:
            candidates.append(old)
    return broken + candidates[: max(limit - missing, 0)]


def _surged(daemons: Daemons, limit: int) -> tuple[list[Object], list[str]]:
    gone: list[Object] = []
    unwanted: list[Object] = []
    urgent: list[str] = []
    candidates: list[str] = []
    surging = available = 0
    for node in daemons.nodes:
        pair = daemons.pair_on(node)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        available += any(daemons.is_up(pod) for pod in (old or new,) if pod is not None)
        runs = daemons.fit.get(node, (False, False))[0]
        if old is None:
            continue
        if new is not None:
            if daemons.is_up(new):
                gone.append(old)
            else:
                surging += 1
        elif not daemons.is_up(old):
            if runs:
                urgent.append(node)
            else:
                gone.append(old)
        elif not runs:
            unwanted.append(old)
        elif surging < limit:
            candidates.append(node)
    wanted = sum(runs for runs, _ in daemons.fit.values())
    gone += unwanted[: max(available - wanted, 0)]
    return gone, urgent + candidates[: max(limit - surging, 0)]
