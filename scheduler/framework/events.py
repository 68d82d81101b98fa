"""Cluster events: changes of objects, and the registrations of plugins for them.

An event is a resource and a set of action bits. A plugin registers for events with queueing hints;
the queue calls the hints to find out if an event may make a waiting pod schedulable.
Source: `k8s.io/kube-scheduler/framework/types.go`, `pkg/scheduler/framework/{types,events}.go`.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, cast, overload

from scheduler.config.types import DYNAMIC_RESOURCE_ALLOCATION
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler.api.unstructured import Kind, Unstructured
    from scheduler.config.types import FeatureGates
    from scheduler.snapshot.pod_info import PodInfo


class ActionType(enum.IntFlag):
    """The kind of a change, as bits. The numbers are upstream's: matching compares them."""

    NONE = 0
    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_NODE_PREEMPTION_POLICY = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_SCALE_UP = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_NODE_PREEMPTION_POLICY
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | UPDATE

    def __str__(self) -> str:
        """Return upstream's name; empty for `NONE` and for combinations without a name."""
        name = self.name
        if name is None or name == "NONE" or name not in type(self).__members__:
            return ""
        return "".join(word.title() for word in name.split("_"))


class EventResource(enum.StrEnum):
    """The kind of the changed object. Other kinds are texts, `<plural>.<version>.<group>`."""

    #: Any pod. Only plugins register for it; an event is about one of the next four.
    POD = "Pod"
    #: A pod with a node.
    ASSIGNED_POD = "AssignedPod"
    #: A pod without one, before 1.37.
    UNSCHEDULABLE_POD = "UnschedulablePod"
    #: Since 1.37, a pod without one other than the pod that waits, and that pod itself.
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WORKLOAD = "scheduling.k8s.io/Workload"
    WILDCARD = "*"


#: The resources of events, by the name of the kind.
_RESOURCES: Final[Mapping[str, EventResource]] = {
    resource.rpartition("/")[2]: resource for resource in EventResource
}


class PodEvents(NamedTuple):
    """The events of pods in a version: the resources of pods without a node, and the updates."""

    #: The pod that waits for the event.
    target: EventResource = EventResource.UNSCHEDULABLE_POD
    #: A pod without a node other than the target.
    unscheduled: EventResource = EventResource.UNSCHEDULABLE_POD
    #: True if larger requests are an event.
    has_scale_up: bool = False
    #: True if new claims of the pod are an event (DynamicResourceAllocation).
    has_generated_claims: bool = True

    def event(self, action_type: ActionType) -> ClusterEvent:
        """Return the event of a pod without a node that is not the target."""
        return ClusterEvent(self.unscheduled, action_type)

    def label(self, action_type: ActionType) -> str:
        """Return the label of `event`."""
        return self.event(action_type).label


#: The events of pods up to 1.36.
DEFAULT_POD_EVENTS: Final = PodEvents()
POD_EVENTS_OF_1_37: Final = PodEvents(
    EventResource.TARGET_POD, EventResource.UNSCHEDULED_POD, has_scale_up=True
)


def pod_events(gates: FeatureGates, version: SchedulerVersion) -> PodEvents:
    """Return the events of pods in a version with these gates."""
    events = POD_EVENTS_OF_1_37 if version >= SchedulerVersion.V1_37 else DEFAULT_POD_EVENTS
    return events._replace(has_generated_claims=DYNAMIC_RESOURCE_ALLOCATION in gates)


class ClusterEvent(NamedTuple):
    """A change of a resource. `custom_label` is the name of a special event, mostly empty."""

    resource: str
    action_type: ActionType
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The event's name in metrics and records, as in `NodeUpdateNodeLabel`."""
        return _label(self)

    @property
    def is_wildcard(self) -> bool:
        """True if the event moves every waiting pod, whatever the hints."""
        return self.resource == EventResource.WILDCARD and self.action_type == ActionType.ALL


@functools.cache
def _label(event: ClusterEvent) -> str:
    return event.custom_label or f"{event.resource}{event.action_type}"


class QueueingHint(enum.IntEnum):
    """The answer of a queueing hint: `QUEUE` if the event may make the pod schedulable."""

    QUEUE_SKIP = 0
    QUEUE = 1

    def __str__(self) -> str:
        return "Queue" if self else "QueueSkip"


T = TypeVar("T")

#: Called with the waiting pod and the object before and after the event (None where there is none).
#: It must decide from these alone. An exception counts as `QUEUE`.
QueueingHintFn: TypeAlias = "Callable[[PodInfo, T | None, T | None], QueueingHint]"


def as_kind(kind: type[T], old: object, new: object) -> tuple[T | None, T | None]:
    """Return the objects of an event as objects of `kind`; raises `TypeError` for other objects.

    An add has no old object, a delete no new one. Source: `As` in `pkg/scheduler/util/utils.go`.
    """
    for value in (new, old):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, but got {type(value).__name__}")
    return cast("T | None", old), cast("T | None", new)


class ClusterEventWithHint(NamedTuple):
    """An event that a plugin registers for. Without a hint every such event retries the pod."""

    event: ClusterEvent
    #: The type of the objects is known to the author of the hint, and checked by `on`.
    queueing_hint_fn: QueueingHintFn[Any] | None = None

    @overload
    @staticmethod
    def on(
        kind: type[T], action_type: ActionType, hint: QueueingHintFn[T] | None = None
    ) -> ClusterEventWithHint: ...

    @overload
    @staticmethod
    def on(
        kind: str, action_type: ActionType, hint: QueueingHintFn[Unstructured] | None = None
    ) -> ClusterEventWithHint: ...

    @staticmethod
    def on(
        kind: Kind, action_type: ActionType, hint: QueueingHintFn[Any] | None = None
    ) -> ClusterEventWithHint:
        """Register for changes of the objects of a kind: a type, or `<plural>.<version>.<group>`.

        `hint` gets objects of that type, and `Unstructured` objects for a kind without one.
        """
        if not isinstance(kind, str):
            kind = _RESOURCES.get(kind.__name__, kind.__name__)
        return ClusterEventWithHint(ClusterEvent(kind, action_type), hint)


on: Final = ClusterEventWithHint.on


SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF_Q: Final = "PopFromBackoffQ"
FORCE_ACTIVATE: Final = "ForceActivate"
UNSCHEDULABLE_TIMEOUT: Final = "UnschedulableTimeout"

EVENT_ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
EVENT_ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
EVENT_ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
EVENT_UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, UNSCHEDULABLE_TIMEOUT
)
EVENT_FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, FORCE_ACTIVATE)

#: The events of a plugin that registers for none, without those of pod groups
#: (`UnrollWildCardResource`).
ALL_EVENTS: Final = tuple(
    ClusterEventWithHint(ClusterEvent(resource, ActionType.ALL))
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)

_PODS: Final = (
    EventResource.ASSIGNED_POD,
    EventResource.UNSCHEDULABLE_POD,
    EventResource.UNSCHEDULED_POD,
    EventResource.TARGET_POD,
)


def match_cluster_events(registered: ClusterEvent, incoming: ClusterEvent) -> bool:
    """True if an incoming event is the registered event or a special case of it.

    A general update does not match a registration for a specific update: events are made as
    specific as possible, so a general one is none of the specific ones. Source:
    `MatchClusterEvents`.
    """
    if registered.is_wildcard:
        return True
    same_resource = registered.resource in (EventResource.WILDCARD, incoming.resource) or (
        registered.resource == EventResource.POD and incoming.resource in _PODS
    )
    return (
        same_resource
        and bool(registered.action_type & incoming.action_type)
        and incoming.action_type <= registered.action_type
    )


def match_any_cluster_event(event: ClusterEvent, registered: Iterable[ClusterEvent]) -> bool:
    """True if an event matches one of several registrations (`MatchAnyClusterEvent`)."""
    return any(match_cluster_events(registration, event) for registration in registered)
