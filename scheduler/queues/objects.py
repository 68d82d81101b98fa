"""Queue and PodGroup of kube-batch's two API groups, PriorityClass, and the group of a pod.

The fields of both versions are equal. A group is known by `namespace/name` and a queue by its name
alone: of twins in the two API groups the one that changed last counts. A pod names its group by an
annotation; with the feature gate GenericWorkload also by `spec.schedulingGroup`, a core PodGroup,
which names its queue by an annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from scheduler.api.core import ObjectMeta, Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.unstructured import Unstructured

GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"
#: Names the queue of a core PodGroup, which has no field for it.
QUEUE_NAME_ANNOTATION: Final = "scheduling.k8s.io/queue-name"

_GROUP_VERSIONS: Final = ("v1alpha1.scheduling.incubator.k8s.io", "v1alpha2.scheduling.sigs.dev")
QUEUE_KINDS: Final = tuple(f"queues.{version}" for version in _GROUP_VERSIONS)
POD_GROUP_KINDS: Final = tuple(f"podgroups.{version}" for version in _GROUP_VERSIONS)
PRIORITY_CLASS_KIND: Final = "priorityclasses.v1.scheduling.k8s.io"

#: Higher priorities belong to the classes of the system alone (`HighestUserDefinablePriority`).
_HIGHEST_USER_PRIORITY: Final = 1_000_000_000


class Group(NamedTuple):
    """A group of pods: the job that they are tasks of."""

    key: str
    queue: str
    min_member: int
    priority_class_name: str
    created: float
    #: The kind, as a plugin names it; empty for a core PodGroup.
    kind: str
    #: The priority of a core PodGroup.
    priority: int | None = None
    succeeded: int = 0


class Queue(NamedTuple):
    """A queue."""

    name: str
    weight: float
    created: float
    kind: str


class _GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""


class _GroupStatus(msgspec.Struct, frozen=True):
    succeeded: int = 0


class _GroupObject(msgspec.Struct, frozen=True):
    spec: _GroupSpec = _GroupSpec()
    status: _GroupStatus = _GroupStatus()


class _QueueSpec(msgspec.Struct, frozen=True):
    weight: int = 0


class _QueueObject(msgspec.Struct, frozen=True):
    spec: _QueueSpec = _QueueSpec()


class PriorityClass(msgspec.Struct, frozen=True, rename="camel"):
    """`scheduling.k8s.io/v1.PriorityClass`."""

    value: int = 0
    global_default: bool = False


def group_of(obj: Unstructured, kind: str) -> Group:
    """Return a group as kube-batch reads it; raises `msgspec.ValidationError`."""
    decoded = msgspec.convert(obj, _GroupObject)
    metadata, spec = obj.metadata, decoded.spec
    return Group(
        key=f"{metadata.namespace}/{metadata.name}",
        queue=spec.queue,
        min_member=spec.min_member,
        priority_class_name=spec.priority_class_name,
        created=seconds_of(metadata),
        kind=kind,
        succeeded=decoded.status.succeeded,
    )


def group_of_core(obj: PodGroup) -> Group:
    """Return a core PodGroup as a group."""
    gang = obj.spec.scheduling_policy.gang
    metadata = obj.metadata
    return Group(
        key=f"{metadata.namespace}/{metadata.name}",
        queue=metadata.annotations.get(QUEUE_NAME_ANNOTATION, ""),
        min_member=gang.min_count if gang is not None else 0,
        priority_class_name="",
        created=seconds_of(metadata),
        kind="",
        priority=obj.priority,
    )


def queue_of(obj: Unstructured, kind: str) -> Queue:
    """Return a queue; raises `msgspec.ValidationError`."""
    decoded = msgspec.convert(obj, _QueueObject)
    metadata = obj.metadata
    return Queue(metadata.name, decoded.spec.weight, seconds_of(metadata), kind)


def priority_class_of(obj: Unstructured) -> PriorityClass:
    """Return a priority class; raises `msgspec.ValidationError`."""
    return msgspec.convert(obj, PriorityClass)


def seconds_of(metadata: ObjectMeta) -> float:
    """Return the time of creation in epoch seconds; 0 without one."""
    created = metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()


def group_key_of(pod: Pod) -> str:
    """Return `namespace/name` of the group that a pod names; empty if it names none."""
    name = pod.metadata.annotations.get(GROUP_NAME_ANNOTATION, "")
    if not name and pod.spec.scheduling_group is not None:
        name = pod.spec.scheduling_group.pod_group_name
    return f"{pod.metadata.namespace}/{name}" if name else ""


def shadow_key_of(pod: Pod) -> str:
    """Return the key of the group of its own that a pod without a group has.

    The pods of a controller share one. No named group has such a key.
    """
    metadata = pod.metadata
    owner = metadata.controller
    return f"{metadata.namespace}//{(owner and owner.uid) or metadata.name}"


def is_of_the_system(pod: Pod) -> bool:
    """Return True for a pod of the system, which `conformance` protects."""
    priority = pod.spec.priority or 0
    return pod.metadata.namespace == "kube-system" or priority > _HIGHEST_USER_PRIORITY
