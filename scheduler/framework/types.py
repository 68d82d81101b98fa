"""What the queue, the cycle and the plugins pass to one another.

Source: `pkg/scheduler/framework/types.go`, `k8s.io/kube-scheduler/framework/interface.go`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from scheduler.framework.cycle_state import StateKey
from scheduler.framework.status import Code

if TYPE_CHECKING:
    from scheduler.framework.status import NodeToStatus, Status
    from scheduler.snapshot.pod_info import PodInfo

#: Pods by key that a plugin wants tried at once when its own pod's cycle succeeds; plugins add to
#: what is under this key.
PODS_TO_ACTIVATE: Final = StateKey[dict[str, "PodInfo"]]("kubernetes.io/pods-to-activate")

#: Stands among the rejecting plugins where an extender has turned nodes down.
EXTENDER_NAME: Final = "Extender"

#: The condition message while the cluster has no node at all.
NO_NODES_AVAILABLE: Final = "no nodes available to schedule pods"


class Rng(Protocol):
    """Chance, as decisions know it: handed in, seeded, so that a run can be repeated."""

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""
        ...

    def randrange(self, stop: int, /) -> int:
        """A number from 0 up to, not including, `stop`."""
        ...


class Condition(NamedTuple):
    """A condition of a pod as the scheduler writes it, without times."""

    type: str
    status: str
    reason: str
    message: str


class PreFilterResult(NamedTuple):
    """Narrows the search to some nodes; None leaves it alone."""

    node_names: frozenset[str] | None

    def merge(self, other: PreFilterResult) -> PreFilterResult:
        """The nodes that both allow."""
        if self.node_names is None or other.node_names is None:
            return PreFilterResult(other.node_names if self.node_names is None else self.node_names)
        return PreFilterResult(self.node_names & other.node_names)


class NominatingMode(enum.IntEnum):
    """What becomes of a pod's nominated node."""

    #: It stays as it is.
    NOOP = 0
    #: It is set to the given name; an empty name clears it.
    OVERRIDE = 1


class NominatingInfo(NamedTuple):
    """Which node a pod is nominated to from now on."""

    nominated_node_name: str = ""
    mode: NominatingMode = NominatingMode.NOOP


class PostFilterResult(NamedTuple):
    """What a PostFilter plugin has arranged."""

    nominating_info: NominatingInfo | None = None


class PreBindPreFlightResult(NamedTuple):
    """What a PreBind plugin says of its coming work.

    Neighbours that allow it run at the same time. `skip` leaves the plugin out, as `skip()` does,
    without keeping its neighbours apart if it would have allowed them to run together.
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
        ...

    @property
    def attempts(self) -> int:
        """The number of scheduling cycles the pod has had."""
        ...

    @property
    def initial_attempt_timestamp(self) -> float | None:
        """The time at which the pod first became active; None until then."""
        ...


class Diagnosis:
    """Why a pod did not fit: each node's status, and who is to blame."""

    def __init__(self, node_to_status: NodeToStatus) -> None:
        self.node_to_status: Final = node_to_status
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        #: The rejection of the pod as a whole, where PreFilter ended the search.
        self.pre_filter_status: Status | None = None
        #: The nodes PreFilter has narrowed the search to; None for all.
        self.pre_filter_node_names: frozenset[str] | None = None
        self.post_filter_message = ""

    def add_plugin_status(self, status: Status) -> None:
        """Remember the plugin behind a rejection, for the events that may bring the pod back."""
        if not status.plugin:
            return
        if status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)
        if status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)


class FitError(Exception):
    """A pod fits nowhere. Its text is the message of the pod's condition, to the byte."""

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
            # Every node then has this one status; counting it as well would say it twice.
            text += f" {rejection.message}."
        else:
            reasons = diagnosis.node_to_status.reasons(self.num_all_nodes)
            if reasons:
                counted = sorted(f"{nodes} {reason}" for reason, nodes in reasons.items())
                text += f" {', '.join(counted)}."
        if diagnosis.post_filter_message:
            text += f" {diagnosis.post_filter_message}"
        return text
