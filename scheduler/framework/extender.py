"""Extenders: processes outside the scheduler that take part in its decisions.

The scheduler calls them in the order of the configuration, those that may be ignored last.
Source: `Extender` in `k8s.io/kube-scheduler/framework/extender.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

#: The best score that an extender gives (`MaxExtenderPriority`); plugins give up to 100.
MAX_EXTENDER_PRIORITY: Final = 10


class ExtenderError(Exception):
    """A call of an extender has failed; the text is the message of the pod's condition."""


class Victims(NamedTuple):
    """The pods to preempt on a node, the most important one first."""

    pods: Sequence[PodInfo]
    #: The number of these pods whose eviction violates a disruption budget.
    num_pdb_violations: int


class ExtenderFilterResult(NamedTuple):
    """The nodes that an extender accepts, and its reasons against others, by node name."""

    nodes: Nodes
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]


class Extender(Protocol):
    """An extender. Every call may raise `ExtenderError`."""

    @property
    def name(self) -> str:
        """The URL in front of its verbs."""

    @property
    def weight(self) -> int:
        """The factor of its scores."""

    @property
    def is_ignorable(self) -> bool:
        """True if scheduling goes on without the extender when a call fails."""

    @property
    def is_filter(self) -> bool: ...

    @property
    def is_prioritizer(self) -> bool: ...

    @property
    def is_binder(self) -> bool: ...

    @property
    def supports_preemption(self) -> bool: ...

    def is_interested(self, pod: PodInfo) -> bool:
        """Return True if the extender takes part in the scheduling of this pod."""

    async def filter(self, pod: PodInfo, nodes: Nodes) -> ExtenderFilterResult:
        """Return the nodes on which the pod may run, and why not on the others."""

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> Mapping[str, int]:
        """Return the scores by node name, without the weight."""

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Bind the pod to the node."""

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims]:
        """Return the remaining candidate nodes and their victims, by node name."""
