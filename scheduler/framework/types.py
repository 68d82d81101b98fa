"""The values that the queue, the cycle and the plugins exchange.

Source: `pkg/scheduler/framework/types.go`, `k8s.io/kube-scheduler/framework/interface.go`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from scheduler.framework.cycle_state import StateKey
from scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import NodeToStatus, Status
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: The pods, by key, to activate when the cycle of the plugin's own pod succeeds. Plugins add to
#: this dictionary.
PODS_TO_ACTIVATE: Final = StateKey[dict[str, "PodInfo"]]("kubernetes.io/pods-to-activate")


class NextOnNode(NamedTuple):
    """Pods that are to follow the cycle's pod onto a node."""

    node_name: str
    pods: Sequence[PodInfo]


#: Written in PreFilter by a plugin that has planned several pods: on this node the cycle's pod
#: takes such devices, if it can, that the next pods get theirs.
NEXT_ON_NODE: Final = StateKey[NextOnNode]("kubesched.io/next-on-node")

#: The name among the rejecting plugins if an extender has rejected nodes.
EXTENDER_NAME: Final = "Extender"

#: The condition message while the cluster has no node at all.
NO_NODES_AVAILABLE: Final = "no nodes available to schedule pods"


class Rng(Protocol):
    """A seeded random generator, so that a run can be repeated."""

    def random(self) -> float:
        """Return a number in [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """Return a number in [0, `stop`)."""


class Condition(NamedTuple):
    """A condition of a pod that the scheduler writes, without its times."""

    type: str
    status: str
    reason: str
    message: str


class Placement(NamedTuple):
    """A set of nodes in which a whole pod group may run. Its name is the domain's."""

    name: str
    nodes: Nodes


class PodGroupInfo(NamedTuple):
    """A pod group that is being scheduled, with the members that have no node."""

    namespace: str
    name: str
    unscheduled_pods: Sequence[PodInfo] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodGroupAssignments(NamedTuple):
    """A placement, and the members with the nodes proposed for them.

    If all plugins have promised not to look at the nodes (`Plugin.only_ranks`) they may be empty.
    """

    placement: Placement
    proposed: Sequence[tuple[PodInfo, str]]


class EqualMembers(NamedTuple):
    """Members of a pod group that are alike, in a search that only counts them.

    The group fits if `needed` of them have a node. `state` is that of a member after PreFilter.
    """

    pods: Sequence[PodInfo]
    needed: int
    state: CycleState


class PreFilterResult(NamedTuple):
    """The names of the nodes to search; None for all.

    `first_node_name` is filtered before all others, as the nominated node of a pod: if it passes,
    it is taken without a look at the others. The node in the pod's own status goes before it.
    """

    node_names: frozenset[str] | None
    first_node_name: str = ""

    def merge(self, other: PreFilterResult) -> PreFilterResult:
        """Return the nodes that both results allow, and the first node of the earlier result."""
        names = other.node_names if self.node_names is None else self.node_names
        if self.node_names is not None and other.node_names is not None:
            names = self.node_names & other.node_names
        return PreFilterResult(names, self.first_node_name or other.first_node_name)


class NominatingMode(enum.IntEnum):
    """The change of a pod's nominated node."""

    #: It stays as it is.
    NOOP = 0
    #: It is set to the given name; an empty name clears it.
    OVERRIDE = 1


class NominatingInfo(NamedTuple):
    """The nomination of a pod from now on."""

    nominated_node_name: str = ""
    mode: NominatingMode = NominatingMode.NOOP


class PostFilterResult(NamedTuple):
    """The result of a PostFilter plugin."""

    nominating_info: NominatingInfo | None = None


class PreBindPreFlightResult(NamedTuple):
    """The plan of a PreBind plugin.

    Neighbouring plugins with `allow_parallel` run at the same time. With `skip` the plugin is not
    called, as after `skip()`; with both, its neighbours can still run at the same time.
    """

    allow_parallel: bool = False
    skip: bool = False


class QueuedPod(Protocol):
    """A pod of the scheduling queue, as QueueSort plugins see it. Times are epoch seconds.

    The queue's own record is `scheduler.queue.queued_pod_info.QueuedPodInfo`.
    """

    @property
    def pod_info(self) -> PodInfo: ...

    @property
    def timestamp(self) -> float:
        """The time at which the pod last entered the queue."""

    @property
    def attempts(self) -> int:
        """The number of scheduling cycles the pod has had."""

    @property
    def initial_attempt_timestamp(self) -> float | None:
        """The time at which the pod first became active; None until then."""


class Diagnosis:
    """The reasons why a pod did not fit: the status of each node, and the rejecting plugins."""

    def __init__(self, node_to_status: NodeToStatus) -> None:
        self.node_to_status: Final = node_to_status
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        #: The rejection of the pod as a whole, where PreFilter ended the search.
        self.pre_filter_status: Status | None = None
        #: The nodes that PreFilter has narrowed the search to; None for all.
        self.pre_filter_node_names: frozenset[str] | None = None
        self.post_filter_message = ""

    def add_plugin_status(self, status: Status) -> None:
        """Record the plugin of a rejection; its events may make the pod schedulable."""
        if not status.plugin:
            return
        if status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)


class FitError(Exception):
    """A pod fits on no node. The text is the message of the pod's condition, to the byte."""

    def __init__(self, pod: PodInfo, num_all_nodes: int, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.pod: Final = pod
        self.num_all_nodes: Final = num_all_nodes
        self.diagnosis: Final = diagnosis

    def __str__(self) -> str:
        diagnosis = self.diagnosis
        text = f"0/{self.num_all_nodes} nodes are available:"
        rejection = diagnosis.pre_filter_status
        if rejection is not None and rejection.message:
            # Every node then has this status, so it is not counted by node too.
            text += f" {rejection.message}."
        else:
            reasons = diagnosis.node_to_status.reasons(self.num_all_nodes)
            if reasons:
                counted = sorted(f"{nodes} {reason}" for reason, nodes in reasons.items())
                text += f" {', '.join(counted)}."
        if diagnosis.post_filter_message:
            text += f" {diagnosis.post_filter_message}"
        return text
