"""The table of kinds: everything in which one resource differs from another, as data.

The generic verbs read a `Kind` and do the rest. A new resource is one more row, at run time through
`KindTable.add`. Rules that are code (defaults, validation, what status updates may touch) are found
by the row's `resource_key` in defaults.py, strategies.py and validation/.

Facts are from pkg/registry/*/strategy.go and storage.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from . import autoscalers, events
from .objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .errors import FieldError
    from .printing import Printer

ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


class Generation(enum.Enum):
    """When metadata.generation moves."""

    NEVER = "never"
    ON_CREATE = "set to 1 on create and left alone"
    SPEC = "1 on create, plus 1 whenever the spec changes"
    SPEC_OR_ANNOTATIONS = "as SPEC, and when annotations change"
    SPEC_LATER = "absent on create, plus 1 whenever the spec changes"
    CONTENT = "1 on create, plus 1 whenever anything but metadata changes"
    CONTENT_OR_LABELS = "as CONTENT, and when labels change"


class GarbagePolicy(enum.Enum):
    """What a delete without options does to dependents."""

    BACKGROUND = "background"
    ORPHAN = "orphan"
    UNSUPPORTED = "unsupported"


ResourceKey: TypeAlias = "tuple[str, str]"


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource finds its numbers and its selector in the object."""

    replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


class Structure(Protocol):
    """The type of a kind that is not in schema.json: a custom resource's, made at run time."""

    def complete(self, value: Json, dropped: list[str] | None = None) -> Json:
        """The stored form: a fresh object without unknown fields, defaults filled in.

        Paths of what it leaves out go to `dropped`. Raises DecodeError.
        """

    def unknown_fields(self, value: Json) -> list[str]:
        """Paths of the fields that `complete` leaves out."""

    def validate(
        self, obj: Json, old: Json | None = None, *, subresource: str = ""
    ) -> list[FieldError]:
        """What is wrong with the object; on an update what was wrong before may stay."""

    def open_api(self) -> Json:
        """The type as an OpenAPI v3 schema, as clients are shown it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One served resource.

    `fields` maps the field labels that selectors may use to what they read from a stored object;
    None means the default pair metadata.name and metadata.namespace. `stored_as` names the resource
    whose collection holds the objects (events have two views of one collection), `to_stored` and
    `from_stored` convert between this view and that form. `schema` is the type in schema.json;
    without one the object is what `structure` makes of it, or is stored as it comes.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    schema: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: Generation = Generation.NEVER
    fields: Mapping[str, Callable[[Json], str]] | None = None
    create_on_update: bool = False
    unconditional_update: bool = True
    keeps_status_on_create: bool = False
    deletes_gracefully: bool = False
    returns_deleted: bool = False
    garbage_policy: GarbagePolicy = GarbagePolicy.BACKGROUND
    stored_as: ResourceKey | None = None
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    scale: ScalePaths | None = None
    structure: Structure | None = None
    #: How tables show a kind that printing/ does not know: `printing.custom_printer`.
    printer: Printer | None = None
    #: The header that answers carry while the version is deprecated.
    deprecation_warning: str = ""
    #: Whether its definition is going, so that nothing of it is created any more.
    is_ending: bool = False
    #: The apiVersion that discovery says objects are stored in, by default its own.
    stored_version: str = ""

    #: Group and plural: what identifies the resource across versions.
    resource_key: ResourceKey = dataclasses.field(init=False)
    #: Whose collection the objects live in.
    storage_key: ResourceKey = dataclasses.field(init=False)
    #: The apiVersion of its objects.
    api_version: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Work out what every request asks for."""
        key = (self.group, self.plural)
        object.__setattr__(self, "resource_key", key)
        object.__setattr__(self, "storage_key", self.stored_as or key)
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)

    @property
    def singular_name(self) -> str:
        """The singular resource name, by default the kind in lower case."""
        return self.singular or self.kind.lower()

    @property
    def list_kind_name(self) -> str:
        """What a list of its objects is called."""
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        """Whether status is a subresource, apart from the object."""
        return "status" in self.subresources


class KindTable:
    """The kinds a server serves, found by the parts of a URL."""

    def __init__(self, kinds: tuple[Kind, ...] = ()) -> None:
        #: What others have worked out from the table; forgotten whenever it changes.
        self.derived: dict[str, object] = {}
        #: Called with each kind that is not served any more, or not in that way.
        self.listeners: dict[object, Callable[[Kind], None]] = {}
        self._versions: dict[tuple[str, str], dict[str, Kind]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve one more kind from now on, in place of one with the same group, version, plural."""
        served = self._versions.setdefault((kind.group, kind.version), {})
        before = served.get(kind.plural)
        served[kind.plural] = kind
        self.derived.clear()
        if before is not None and before is not kind:
            self._tell(before)

    def remove(self, kind: Kind) -> None:
        """Serve that kind no longer; nothing happens if it is not served."""
        served = self._versions.get((kind.group, kind.version), {})
        before = served.pop(kind.plural, None)
        if before is None:
            return
        if not served:
            del self._versions[kind.group, kind.version]
        self.derived.clear()
        self._tell(before)

    def _tell(self, kind: Kind) -> None:
        for listener in self.listeners.values():
            listener(kind)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind behind a URL, None if it is not served."""
        return self._versions.get((group, version), {}).get(plural)

    def find_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind an object of that apiVersion and kind belongs to, None if it is not served."""
        group, _, version = api_version.rpartition("/")
        for found in self._versions.get((group, version), {}).values():
            if found.kind == kind:
                return found
        return None

    def in_version(self, group: str, version: str) -> list[Kind]:
        """The kinds of one API version, empty if it is not served."""
        return list(self._versions.get((group, version), {}).values())

    def serves(self, group: str, version: str) -> bool:
        """Whether anything of that API version is served."""
        return (group, version) in self._versions

    def versions(self) -> list[tuple[str, str]]:
        """The API versions served, in the order of the table."""
        return list(self._versions)

    def __iter__(self) -> Iterator[Kind]:
        return iter([kind for kinds in self._versions.values() for kind in kinds.values()])


def _at(*path: str) -> Callable[[Json], str]:
    """Read a string at a path; anything missing is the empty string."""

    def read(obj: Json) -> str:
        value: object = obj
        for part in path:
            value = mapping(value).get(part)
        return text(value)

    return read


def _flag_at(*path: str) -> Callable[[Json], str]:
    def read(obj: Json) -> str:
        value: object = obj
        for part in path:
            value = mapping(value).get(part)
        return "true" if value is True else "false"

    return read


def _number_at(*path: str) -> Callable[[Json], str]:
    def read(obj: Json) -> str:
        value: object = obj
        for part in path:
            value = mapping(value).get(part)
        return str(value or 0)

    return read


def _pod_ip(pod: Json) -> str:
    addresses = mappings(mapping(pod.get("status")).get("podIPs"))
    return text(addresses[0].get("ip")) if addresses else ""


_NAME: Final = {"metadata.name": _at("metadata", "name")}
_NAMESPACED: Final = {**_NAME, "metadata.namespace": _at("metadata", "namespace")}
#: What every kind without a table of its own can be selected by.
DEFAULT_FIELDS: Final[Mapping[str, Callable[[Json], str]]] = _NAMESPACED

_POD_FIELDS: Final = {
    **_NAMESPACED,
    "spec.nodeName": _at("spec", "nodeName"),
    "spec.host": _at("spec", "nodeName"),
    "spec.restartPolicy": _at("spec", "restartPolicy"),
    "spec.schedulerName": _at("spec", "schedulerName"),
    "spec.serviceAccountName": _at("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag_at("spec", "hostNetwork"),
    "status.phase": _at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.podIPs": _pod_ip,
    "status.nominatedNodeName": _at("status", "nominatedNodeName"),
}
_SLICE_FIELDS: Final = {
    **_NAME,
    "spec.nodeName": _at("spec", "nodeName"),
    "spec.driver": _at("spec", "driver"),
}
_SPEC: Final = Generation.SPEC
_STATUS: Final = ("status",)
_SCALED: Final = ("scale", "status")
_SCALE: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
_RETURNED: Final = True

_CORE: Final = (
    Kind(
        "", "v1", "pods", "Pod", schema="core/v1.Pod", short_names=("po",), categories=("all",),
        subresources=(
            "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward",
            "resize", "status",
        ),
        generation=_SPEC, fields=_POD_FIELDS,
        deletes_gracefully=True, returns_deleted=_RETURNED,
    ),
    Kind(
        "", "v1", "nodes", "Node", namespaced=False, schema="core/v1.Node", short_names=("no",),
        subresources=_STATUS, keeps_status_on_create=True,
        fields={**_NAME, "spec.unschedulable": _flag_at("spec", "unschedulable")},
    ),
    Kind(
        "", "v1", "namespaces", "Namespace", namespaced=False, schema="core/v1.Namespace",
        short_names=("ns",), subresources=("finalize", "status"), returns_deleted=_RETURNED,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        fields={**_NAME, "status.phase": _at("status", "phase")},
    ),
    Kind(
        "", "v1", "services", "Service", schema="core/v1.Service", short_names=("svc",),
        categories=("all",), subresources=_STATUS, create_on_update=True, returns_deleted=_RETURNED,
        fields={
            **_NAMESPACED,
            "spec.clusterIP": _at("spec", "clusterIP"),
            "spec.type": _at("spec", "type"),
        },
    ),
    Kind(
        "", "v1", "replicationcontrollers", "ReplicationController", categories=("all",),
        schema="core/v1.ReplicationController", short_names=("rc",), subresources=_SCALED,
        scale=_SCALE, generation=_SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**_NAMESPACED, "status.replicas": _number_at("status", "replicas")},
    ),
    Kind(
        "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",),
        schema="core/v1.PersistentVolume", subresources=_STATUS, returns_deleted=_RETURNED,
    ),
    Kind(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",),
        schema="core/v1.PersistentVolumeClaim", subresources=_STATUS, returns_deleted=_RETURNED,
    ),
    Kind("", "v1", "configmaps", "ConfigMap", schema="core/v1.ConfigMap", short_names=("cm",)),
    Kind("", "v1", "bindings", "Binding", schema="core/v1.Binding", verbs=("create",)),
    Kind(
        "", "v1", "events", "Event", schema="core/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        fields={
            **_NAMESPACED,
            **{
                f"involvedObject.{part}": _at("involvedObject", part)
                for part in events.REFERENCE_FIELDS
            },
            "reason": _at("reason"),
            "reportingComponent": events.reporting_component,
            "source": events.source_component,
            "type": _at("type"),
        },
    ),
    Kind(
        "", "v1", "limitranges", "LimitRange", schema="core/v1.LimitRange", short_names=("limits",),
        create_on_update=True,
    ),
    Kind(
        "", "v1", "secrets", "Secret", schema="core/v1.Secret",
        fields={**_NAMESPACED, "type": _at("type")},
    ),
    Kind(
        "", "v1", "serviceaccounts", "ServiceAccount", schema="core/v1.ServiceAccount",
        short_names=("sa",), subresources=("token",), returns_deleted=_RETURNED,
    ),
    Kind(
        "", "v1", "endpoints", "Endpoints", singular="endpoints", schema="core/v1.Endpoints",
        short_names=("ep",), create_on_update=True, deprecation_warning=(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        ),
    ),
    Kind(
        "", "v1", "resourcequotas", "ResourceQuota", schema="core/v1.ResourceQuota",
        short_names=("quota",), subresources=_STATUS, returns_deleted=_RETURNED,
    ),
    Kind(
        "", "v1", "podtemplates", "PodTemplate", schema="core/v1.PodTemplate",
        generation=Generation.CONTENT, returns_deleted=_RETURNED,
    ),
)  # fmt: skip

_WORKLOADS: Final = (
    Kind(
        "apps", "v1", "deployments", "Deployment", schema="apps/v1.Deployment",
        short_names=("deploy",), categories=("all",), subresources=_SCALED, scale=_SCALE,
        generation=Generation.SPEC_OR_ANNOTATIONS,
    ),
    Kind(
        "apps", "v1", "replicasets", "ReplicaSet", schema="apps/v1.ReplicaSet",
        short_names=("rs",), categories=("all",), subresources=_SCALED, scale=_SCALE,
        generation=_SPEC,
    ),
    Kind(
        "apps", "v1", "statefulsets", "StatefulSet", schema="apps/v1.StatefulSet",
        short_names=("sts",), categories=("all",), subresources=_SCALED, scale=_SCALE,
        generation=_SPEC,
    ),
    Kind(
        "apps", "v1", "daemonsets", "DaemonSet", schema="apps/v1.DaemonSet",
        short_names=("ds",), categories=("all",), subresources=_STATUS, generation=_SPEC,
    ),
    Kind(
        "batch", "v1", "jobs", "Job", schema="batch/v1.Job", categories=("all",),
        subresources=_STATUS, generation=_SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**_NAMESPACED, "status.successful": _number_at("status", "succeeded")},
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "ControllerRevision",
        schema="apps/v1.ControllerRevision",
    ),
    Kind(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
        schema="autoscaling/v2.HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
        subresources=_STATUS,
    ),
    Kind(
        "autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
        schema="autoscaling/v1.HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
        subresources=_STATUS,
        to_stored=autoscalers.to_stored, from_stored=autoscalers.from_stored,
        stored_version="autoscaling/v2",
    ),
    Kind(
        "batch", "v1", "cronjobs", "CronJob", schema="batch/v1.CronJob", short_names=("cj",),
        categories=("all",), subresources=_STATUS, generation=_SPEC,
    ),
    Kind(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
        schema="policy/v1.PodDisruptionBudget", subresources=_STATUS, generation=_SPEC,
        unconditional_update=False,
    ),
)  # fmt: skip

_SCHEDULING: Final = (
    Kind(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
        schema="scheduling/v1.PriorityClass", short_names=("pc",),
        generation=Generation.ON_CREATE,
    ),
    Kind(
        "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup",
        schema="scheduling/v1alpha2.PodGroup", subresources=_STATUS,
    ),
    Kind(
        "scheduling.k8s.io", "v1alpha2", "workloads", "Workload",
        schema="scheduling/v1alpha2.Workload",
    ),
    Kind(
        "coordination.k8s.io", "v1", "leases", "Lease", schema="coordination/v1.Lease",
        create_on_update=True, unconditional_update=False,
    ),
    Kind(
        "events.k8s.io", "v1", "events", "Event", schema="events/v1.Event", short_names=("ev",),
        create_on_update=True, garbage_policy=GarbagePolicy.UNSUPPORTED,
        stored_as=("", "events"), stored_version="v1",
        to_stored=events.to_core, from_stored=events.from_core,
        fields={
            **_NAMESPACED,
            **{
                f"regarding.{part}": _at("involvedObject", part)
                for part in events.REFERENCE_FIELDS
            },
            "reason": _at("reason"),
            "reportingController": events.reporting_component,
            "type": _at("type"),
        },
    ),
    Kind(
        "node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False,
        schema="node/v1.RuntimeClass", create_on_update=True, unconditional_update=False,
    ),
)  # fmt: skip

_STORAGE: Final = (
    Kind(
        "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False,
        schema="storage/v1.StorageClass", short_names=("sc",), returns_deleted=_RETURNED,
    ),
    Kind(
        "storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False,
        schema="storage/v1.CSINode", unconditional_update=False, returns_deleted=_RETURNED,
    ),
    Kind(
        "storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False,
        schema="storage/v1.CSIDriver", unconditional_update=False, returns_deleted=_RETURNED,
        generation=Generation.SPEC_LATER,
    ),
    Kind(
        "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity",
        schema="storage/v1.CSIStorageCapacity", unconditional_update=False,
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False,
        schema="storage/v1.VolumeAttachment", subresources=_STATUS, unconditional_update=False,
        returns_deleted=_RETURNED,
    ),
    Kind(
        "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass",
        namespaced=False, schema="storage/v1.VolumeAttributesClass", short_names=("vac",),
        returns_deleted=_RETURNED,
    ),
)  # fmt: skip

_DEVICES: Final = (
    Kind(
        "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim",
        schema="resource/v1.ResourceClaim", subresources=_STATUS, returns_deleted=_RETURNED,
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate",
        schema="resource/v1.ResourceClaimTemplate", returns_deleted=_RETURNED,
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False,
        schema="resource/v1.ResourceSlice", generation=_SPEC, fields=_SLICE_FIELDS,
        returns_deleted=_RETURNED,
    ),
    Kind(
        "resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False,
        schema="resource/v1.DeviceClass", generation=_SPEC, returns_deleted=_RETURNED,
    ),
)  # fmt: skip

_NETWORKING: Final = (
    Kind(
        "networking.k8s.io", "v1", "ingresses", "Ingress", schema="networking/v1.Ingress",
        short_names=("ing",), subresources=_STATUS, generation=_SPEC,
    ),
    Kind(
        "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False,
        schema="networking/v1.IngressClass", generation=_SPEC,
    ),
    Kind(
        "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",),
        schema="networking/v1.NetworkPolicy", generation=_SPEC,
    ),
    Kind(
        "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
        schema="discovery/v1.EndpointSlice", generation=Generation.CONTENT_OR_LABELS,
    ),
)  # fmt: skip

_PERMISSIONS: Final = tuple(
    Kind(
        "rbac.authorization.k8s.io", "v1", plural, kind, namespaced=not kind.startswith("Cluster"),
        schema=f"rbac/v1.{kind}", create_on_update=True,
    )
    for plural, kind in (
        ("roles", "Role"),
        ("rolebindings", "RoleBinding"),
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
    )
)  # fmt: skip

#: Asked and answered, never stored: security/reviews.py.
_REVIEWS: Final = tuple(
    Kind(
        f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=kind.startswith("Local"),
        schema=f"{group}/v1.{kind}", verbs=("create",),
    )
    for group, kind in (
        ("authentication", "TokenReview"),
        ("authentication", "SelfSubjectReview"),
        ("authorization", "LocalSubjectAccessReview"),
        ("authorization", "SelfSubjectAccessReview"),
        ("authorization", "SelfSubjectRulesReview"),
        ("authorization", "SubjectAccessReview"),
    )
)  # fmt: skip

_EXTENSIONS: Final = (
    Kind(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
        namespaced=False, schema="apiextensions/v1.CustomResourceDefinition",
        short_names=("crd", "crds"), categories=("api-extensions",), subresources=_STATUS,
        generation=_SPEC, unconditional_update=False, returns_deleted=_RETURNED,
        stored_version="apiextensions.k8s.io/v1beta1",  # as upstream calls it for older servers
    ),
)  # fmt: skip

#: What a server serves unless it is told otherwise, the groups in the order of their priority.
BUILT_IN: Final = (
    *_CORE, *_REVIEWS, *_WORKLOADS, *_NETWORKING, *_PERMISSIONS, *_STORAGE, *_EXTENSIONS,
    *_SCHEDULING, *_DEVICES,
)  # fmt: skip
