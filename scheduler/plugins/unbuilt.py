"""Upstream's default plugins that are not built yet: they refuse what they would have to judge.

A profile may name them as upstream's does. A pod that depends on such a plugin's rule is rejected
with a reason that says so, rather than placed as if the rule did not exist; all other pods pass.
Preferences (preferred affinity) are the exception: without them a pod lands on a
node that is allowed, if maybe not on the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.config.plugin_args import PLUGIN_ARGS
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, skip, unresolvable, unschedulable
from scheduler.framework.types import NominatingInfo, NominatingMode, PostFilterResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import PodSpec
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.status import NodeToStatus
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

__all__ = ["NOT_BUILT_YET"]

#: Whether a pod depends on a plugin's rule.
Depends = Callable[["PodSpec"], bool]


class _Refusing(Plugin):
    """Rejects pods that depend on a rule which is not there."""

    name = ""
    what: str
    depends: Depends

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status:
        """Reject the pod if it needs this plugin, else stay out of the way."""
        if type(self).depends(pod.spec):
            return unresolvable(f"{self.what} need the plugin {self.name}, which is not built yet")
        return skip()

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Nothing that happens in a cluster builds a plugin."""
        return ()


def _never(spec: PodSpec) -> bool:
    return False


def _no_objection(self: Plugin, *about: object) -> None:
    """Enqueue, filter: as far as this plugin is concerned, go on."""


async def _no_help(
    self: Plugin, state: CycleState, pod: PodInfo, statuses: NodeToStatus
) -> tuple[PostFilterResult, Status]:
    """PostFilter: no room is made, and the pod is expected nowhere."""
    nowhere = NominatingInfo("", NominatingMode.OVERRIDE)
    return PostFilterResult(nowhere), unschedulable()


#: How a plugin takes part in a point without a say in it: profiles may name it there.
_ABSTENTIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "pre_enqueue": {"pre_enqueue": _no_objection},
    "filter": {"filter_nodes": _no_objection},
    "post_filter": {"post_filter": _no_help},
}


class _Unbuilt(NamedTuple):
    """What a plugin would judge, how to tell that a pod depends on it, and where it takes part."""

    what: str
    depends: Depends
    points: str


_UNBUILT: Final[Mapping[str, _Unbuilt]] = {
}


def _unbuilt_class(name: str, unbuilt: _Unbuilt) -> type[Plugin]:
    members: dict[str, object] = {
        "name": name,
        "what": unbuilt.what,
        "depends": staticmethod(unbuilt.depends),
        "Args": PLUGIN_ARGS.get(name),
    }
    for point in unbuilt.points.split():
        members.update(_ABSTENTIONS[point])
    return type(name, (_Refusing,), members)


#: By the name that profiles know them by.
NOT_BUILT_YET: Final[Mapping[str, type[Plugin]]] = MappingProxyType(
    {name: _unbuilt_class(name, unbuilt) for name, unbuilt in _UNBUILT.items()}
)
