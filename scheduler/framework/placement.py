"""What plugins see of a pod group that is scheduled as one: where it could go, and where it would.

Source: `k8s.io/kube-scheduler/framework/types.go` (`PodGroupInfo`, `Placement`,
`PodGroupAssignments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class PodGroupInfo(Protocol):
    """A pod group, with those of its pods that this cycle is about."""

    @property
    def namespace(self) -> str:
        """The group's namespace."""
        ...

    @property
    def name(self) -> str:
        """The group's name in its namespace."""
        ...

    @property
    def unscheduled_pods(self) -> Sequence[PodInfo]:
        """The pods to place, in the order in which they are tried."""
        ...


class Placement(NamedTuple):
    """Nodes that the whole group could be restricted to, under a name for people to read."""

    name: str
    nodes: Nodes


class ProposedAssignment(NamedTuple):
    """Where one pod of the group would go."""

    pod: PodInfo
    node_name: str


class PodGroupAssignments(NamedTuple):
    """Where the group's pods would go within one placement."""

    placement: Placement
    proposed_assignments: Sequence[ProposedAssignment]
