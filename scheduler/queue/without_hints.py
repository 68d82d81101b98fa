"""The rules without queueing hints: which events matter, and which waiting pods they reach.

They apply while the feature gate SchedulerQueueingHints is off, which only a scheduler that
emulates 1.33 or earlier can have. Every event that a rejector plugin has registered for retries the
pod. An event of a node reaches only the pods that the node could take. An event of a pod with a
node reaches only the pods with affinity to it, and those that are spread.
Source: `preCheckForNode` and `AdmissionCheck` in `pkg/scheduler/eventhandlers.go`,
`getUnschedulablePodsWithCrossTopologyTerm` in `backend/queue/scheduling_queue.go`, v1.36.3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.api import resources
from scheduler.api.host_ports import conflicts
from scheduler.api.storage import WAIT_FOR_FIRST_CONSUMER, StorageClass
from scheduler.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from scheduler.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.framework.registrations import PluginEvents
from scheduler.snapshot.nodes import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.api.core import Namespace, Node, Pod
    from scheduler.framework.events import ClusterEvent
    from scheduler.framework.handle import Lister
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot import NodeTable, PodInfo

    PreCheck = Callable[[QueuedPodInfo], bool]

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

#: The changes after which a new node may pass the check that its addition has failed.
_OF_NEW_NODES: Final = ActionType.UPDATE_NODE_TAINT | ActionType.UPDATE_NODE_LABEL
#: Changes of the waiting pod. Every change of the pod itself retries it, without an event.
_OF_THE_POD: Final = (
    ActionType.UPDATE_POD_TOLERATION | ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
)


def events_without_hints(registered: PluginEvents, *, is_in_tree: bool) -> PluginEvents:
    """Return what a plugin registers for if there are no hints.

    In-tree plugins then register for other events, too (`enableSchedulingQueueHint` in each).
    """
    events = [event for event, _ in registered.events]
    if is_in_tree:
        events = [event for event in map(_of_in_tree_plugin, events) if event.action_type]
    return PluginEvents(registered.plugin, [ClusterEventWithHint(event) for event in events])


def _of_in_tree_plugin(event: ClusterEvent) -> ClusterEvent:
    actions = event.action_type
    if event.resource == EventResource.NODE and actions & ActionType.ADD:
        actions |= _OF_NEW_NODES
    if event.resource == EventResource.POD:
        actions &= ~_OF_THE_POD
    return event._replace(action_type=actions)


class PreChecks:
    """Checks which events may help at all, and which waiting pods an event reaches.

    `table` is the cache's.
    """

    def __init__(self, table: NodeTable, namespaces: Lister[Namespace]) -> None:
        self._table: Final = table
        self._namespaces: Final = namespaces

    def may_help(self, event: ClusterEvent, new: object) -> bool:
        """Return False for a new StorageClass that does not wait for a claim's first pod."""
        if isinstance(new, StorageClass) and event.action_type == ActionType.ADD:
            return new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return True

    def for_node(self, node: Node) -> PreCheck:
        """Return the check for an event of a node that the cache has."""
        info = NodeInfo(self._table, self._table.row_of[node.metadata.name])
        return lambda waiting: is_admitted(waiting.pod_info, info)

    def for_assigned_pod(self, event: ClusterEvent, pod: Pod) -> PreCheck | None:
        """Return the check for a pod with a node that is new or has changed; None for all pods."""
        if event.action_type == ActionType.UPDATE_POD_SCALE_DOWN:
            return None
        namespace = self._namespaces.get(pod.metadata.namespace)
        labels = _NO_LABELS if namespace is None else namespace.metadata.labels
        return lambda waiting: _is_related(waiting, pod, labels)


def is_admitted(pod: PodInfo, node: NodeInfo) -> bool:
    """True if a node could take a pod: room, affinity, name, host ports, and taints."""
    wanted = pod.spec.node_name
    return (
        _has_room(pod, node)
        and pod.required_node_affinity.matches(node.node)
        and wanted in ("", node.name)
        and not conflicts(pod.host_ports, node.host_ports)
        and find_untolerated_taint(node.taints, pod.spec.tolerations, HARD_EFFECTS) is None
    )


def _has_room(pod: PodInfo, node: NodeInfo) -> bool:
    if node.pod_count >= node.allowed_pods:
        return False
    allocatable, requested = node.allocatable, node.requested
    return all(
        name == resources.PODS or amount <= allocatable.get(name, 0) - requested.get(name, 0)
        for name, amount in pod.spec_requests.items()
        if amount
    )


def _is_related(waiting: QueuedPodInfo, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
    """True for a pod that is spread in the namespace, or has a term of affinity that matches."""
    metadata = pod.metadata
    is_spread = "PodTopologySpread" in waiting.unschedulable_plugins
    if is_spread and waiting.pod_info.namespace == metadata.namespace:
        return True
    return any(
        term.matches(metadata.namespace, metadata.labels, namespace_labels)
        for term in waiting.pod_info.kind.affinity.required_affinity
    )
