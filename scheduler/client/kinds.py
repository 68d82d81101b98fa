"""The kinds of objects: their REST paths, and the types that they are decoded into.

    core group     /api/v1/namespaces/{namespace}/pods/{name}/{subresource}
    other groups   /apis/{group}/{version}/nodes/{name}

`KINDS` are the kinds with a type of their own. Plugins can read any other kind and register for
its events: `<plural>.<version>.<group>`, for the core group `<plural>.<version>`. Its objects are
`Unstructured`; discovery has its scope and its `kind` (`discovery`).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from scheduler.api import field
from scheduler.api.core import Namespace, Node, ObjectMeta, ObjectReference, Pod
from scheduler.api.dynamic_resources import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.api.pod_groups import PodGroup, Workload
from scheduler.api.references import reference_to
from scheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.unstructured import Unstructured
from scheduler.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.client.objects import Event, Lease, LeaseCandidate
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.unstructured import Kind


class ApiObject(Protocol):
    """Any object with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=ApiObject)

#: Path segments that need no escaping.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~:-]+").fullmatch


def object_key(obj: ApiObject) -> str:
    """Return `namespace/name`, or the bare name of an object without a namespace."""
    metadata = obj.metadata
    namespace = metadata.namespace
    return f"{namespace}/{metadata.name}" if namespace else metadata.name


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One kind of object: its group, version and names, and the type it is decoded into.

    With `keeps_json` an object also keeps its JSON, in the field `json` of its type, and with
    `keeps_managed_fields` a pod keeps these there.
    """

    group: str
    version: str
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    keeps_json: bool = False
    keeps_managed_fields: bool = False
    #: The namespace whose objects are listed; empty for all.
    only_namespace: str = ""

    @functools.cached_property
    def api_version(self) -> str:
        """`v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """The plural, or `<plural>.<version>.<group>` of a kind without a type of its own."""
        if self.type is Unstructured:
            return GroupVersionResource(self.group, self.version, self.plural).key
        return self.plural

    @functools.cached_property
    def group_resource(self) -> str:
        """`pods` or `leases.coordination.k8s.io`, as in error messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @functools.cached_property
    def _root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection_path(self, namespace: str = "") -> str:
        """Return the path of all objects, or of the objects in one namespace."""
        namespace = namespace or self.only_namespace
        if self.namespaced and namespace:
            return f"{self._root}/namespaces/{_segment(namespace)}/{self.plural}"
        return f"{self._root}/{self.plural}"

    def path(self, name: str, *, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object, or of its subresource (`status`, `binding`).

        Raises ValueError for a name that is no valid path segment, and for a namespaced kind
        without a namespace: the server would take either for another request.
        """
        if self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r}: a namespace is needed to name one object")
        path = f"{self.collection_path(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    def reference(self, obj: T) -> ObjectReference:
        """Return a reference to this version of an object, for events."""
        return reference_to(self.api_version, self.kind, obj.metadata)

    def encode(self, obj: T) -> bytes:
        """Encode an object as JSON, with kind and apiVersion, which its type does not have."""
        body = msgspec.json.encode(obj)
        return self._preamble + (b"}" if body == b"{}" else b"," + body[1:])

    @functools.cached_property
    def _preamble(self) -> bytes:
        head = msgspec.json.encode({"kind": self.kind, "apiVersion": self.api_version})
        return head[:-1]


def _segment(text: str) -> str:
    if _PLAIN(text) and text not in {".", ".."}:
        return text
    if text in {"", ".", ".."} or "/" in text or "%" in text:
        raise ValueError(f"{text!r} cannot be part of a path: expected a name without '/' and '%'")
    return quote(text, safe="")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of a list or a watch; an empty field is not sent.

    Source: `metav1.ListOptions`. The combinations of `resource_version`, `resource_version_match`
    and `send_initial_events` are explained in "Kubernetes API Concepts", "Resource versions".
    """

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None

    def query(self, *, watch: bool = False) -> str:
        """Return the query string, percent-encoded, with sorted keys."""
        pairs: list[tuple[str, str]] = []
        if self.allow_watch_bookmarks:
            pairs.append(("allowWatchBookmarks", "true"))
        for key, value in (
            ("continue", self.continue_token),
            ("fieldSelector", self.field_selector),
            ("labelSelector", self.label_selector),
            ("limit", str(self.limit) if self.limit else ""),
            ("resourceVersion", self.resource_version),
            ("resourceVersionMatch", self.resource_version_match),
        ):
            if value:
                pairs.append((key, value))
        if self.send_initial_events is not None:
            pairs.append(("sendInitialEvents", "true" if self.send_initial_events else "false"))
        if self.timeout_seconds is not None:
            pairs.append(("timeoutSeconds", str(self.timeout_seconds)))
        if watch:
            pairs.append(("watch", "true"))
        return "&".join(f"{key}={quote(value, safe='')}" for key, value in pairs)


PODS: Final = Resource("", "v1", "pods", "Pod", Pod)
NODES: Final = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", Event)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)
LEASE_CANDIDATES: Final = Resource(
    "coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate", LeaseCandidate
)

POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", PodGroup)
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", Workload)

_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"

DEVICE_TAINT_RULES: Final = Resource(
    _DEVICES, "v1beta2", "devicetaintrules", "DeviceTaintRule", DeviceTaintRule, namespaced=False
)


_ALL: Final[tuple[Resource[Any], ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    Resource("", "v1", "services", "Service", Service),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", ReplicationController),
    Resource("apps", "v1", "replicasets", "ReplicaSet", ReplicaSet),
    Resource("apps", "v1", "statefulsets", "StatefulSet", StatefulSet),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim),
    Resource(_STORAGE, "v1", "storageclasses", "StorageClass", StorageClass, namespaced=False),
    Resource(_STORAGE, "v1", "csinodes", "CSINode", CSINode, namespaced=False),
    Resource(_STORAGE, "v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False),
    Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity),
    Resource(
        _STORAGE, "v1", "volumeattachments", "VolumeAttachment", VolumeAttachment, namespaced=False
    ),
    Resource(_DEVICES, "v1", "resourceclaims", "ResourceClaim", ResourceClaim),
    Resource(_DEVICES, "v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False),
    Resource(_DEVICES, "v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False),
    DEVICE_TAINT_RULES,
    POD_GROUPS,
    WORKLOADS,
)


#: The versions of rules that taint devices.
_TAINT_RULES_READ: Final = {SchedulerVersion.V1_36: "v1beta2", SchedulerVersion.V1_37: "v1"}


def read_as(resource: Resource[T], version: SchedulerVersion) -> Resource[T]:
    """Return a kind in the version of its group that this kube-scheduler reads."""
    if resource.type is DeviceTaintRule:
        return replace(resource, version=_TAINT_RULES_READ.get(version, "v1alpha3"))
    return resource


@functools.cache
def read_versions(resource: Resource[Any]) -> frozenset[str]:
    """Return the apiVersions in which kube-schedulers read a kind."""
    return frozenset(read_as(resource, version).api_version for version in SchedulerVersion)


#: By plural.
KINDS: Final[Mapping[str, Resource[Any]]] = MappingProxyType({r.plural: r for r in _ALL})

#: By kind.
KINDS_BY_NAME: Final[Mapping[str, Resource[Any]]] = MappingProxyType({r.kind: r for r in _ALL})


#: By the type that the objects are decoded into.
_BY_TYPE: Final[Mapping[type, Resource[Any]]] = MappingProxyType({r.type: r for r in _ALL})

_BY_API_NAME: Final = MappingProxyType({(r.group, r.version, r.plural): r for r in _ALL})

#: Kinds of the core group without a type here: a plugin reads them as `<plural>.v1`.
_CORE_PLURALS_WITHOUT_TYPE: Final = frozenset(
    plural
    for plural in (
        "componentstatuses", "configmaps", "endpoints", "events", "limitranges", "podtemplates",
        "resourcequotas", "secrets", "serviceaccounts",
    )
    if plural not in KINDS
)  # fmt: skip

_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?").fullmatch

#: Resources of events that are no kinds: states of pods, and every kind.
_SPECIAL_RESOURCES: Final = frozenset(
    {"AssignedPod", "UnschedulablePod", "UnscheduledPod", "TargetPod", "*"}
)


class GroupVersionResource(NamedTuple):
    """A kind that is known by its name only, until the server's discovery names its `kind`."""

    group: str
    version: str
    plural: str

    @property
    def key(self) -> str:
        """The name as `Plugin.reads` has it: `<plural>.<version>.<group>`."""
        return ".".join(filter(None, (self.plural, self.version, self.group)))

    @property
    def group_resource(self) -> str:
        """`quotas.example.com`, as in error messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def discovery_path(self) -> str:
        """The path of the list of all kinds of this group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def resource(self, kind: str, *, namespaced: bool) -> Resource[Unstructured]:
        """Return the kind with its `kind` and scope from discovery."""
        return Resource(
            self.group, self.version, self.plural, kind, Unstructured, namespaced=namespaced
        )


def resource_named(kind: Kind) -> Resource[Any] | GroupVersionResource:
    """Return a kind by its type, its plural, or `<plural>.<version>.<group>`.

    Raises ValueError, with the nearest match, for a kind that cannot exist. Source:
    `schema.ParseResourceArg`; `<plural>.<version>` of the core group is ours.
    """
    if not isinstance(kind, str):
        if kind not in _BY_TYPE:
            raise ValueError(f"{kind!r} is no type of a kind of objects")
        return _BY_TYPE[kind]
    if kind in KINDS:
        return KINDS[kind]
    plural, _, rest = kind.partition(".")
    version, _, group = rest.partition(".")
    if not (plural and _VERSION(version)):
        nearest = field.nearest(plural, (*KINDS, *KINDS_BY_NAME))
        if kind in _CORE_PLURALS_WITHOUT_TYPE:
            nearest = f' (did you mean "{kind}.v1"?)'
        raise ValueError(
            f"{kind!r} is not a known kind{nearest}; "
            "expected a plural or <plural>.<version>.<group>, "
            "for the core group <plural>.<version>"
        )
    name = GroupVersionResource(group, version, plural)
    return _BY_API_NAME.get(name, name)


def kind_key(kind: Kind) -> str:
    """Return the key of a kind's lister; raises ValueError as `resource_named` does."""
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return resource_named(kind).key


def kind_of_event(resource: str) -> Resource[Any] | GroupVersionResource | None:
    """Return the kind that an event's resource names; None for the special resources.

    Raises ValueError, with the nearest match, for an unknown kind.
    """
    kind = resource.rpartition("/")[2]
    if kind in KINDS_BY_NAME:
        return KINDS_BY_NAME[kind]
    if resource in _SPECIAL_RESOURCES:
        return None
    return resource_named(resource)
