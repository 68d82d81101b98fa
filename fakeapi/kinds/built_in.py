"""The kinds that a server serves by default: one row per resource and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.kinds import events
from fakeapi.kinds.table import (
    ALL_VERBS,
    NAME_FIELDS,
    NAMESPACED_FIELDS,
    GarbagePolicy,
    Generation,
    Kind,
    ScalePaths,
    value_at,
)
from fakeapi.types.objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Callable


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


_POD_FIELDS: Final = {
    **NAMESPACED_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.host": value_at("spec", "nodeName"),
    "spec.restartPolicy": value_at("spec", "restartPolicy"),
    "spec.schedulerName": value_at("spec", "schedulerName"),
    "spec.serviceAccountName": value_at("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag_at("spec", "hostNetwork"),
    "status.phase": value_at("status", "phase"),
    "status.podIP": _pod_ip,
    "status.podIPs": _pod_ip,
    "status.nominatedNodeName": value_at("status", "nominatedNodeName"),
}
_SLICE_FIELDS: Final = {
    **NAME_FIELDS,
    "spec.nodeName": value_at("spec", "nodeName"),
    "spec.driver": value_at("spec", "driver"),
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
        fields={**NAME_FIELDS, "spec.unschedulable": _flag_at("spec", "unschedulable")},
    ),
    Kind(
        "", "v1", "namespaces", "Namespace", namespaced=False, schema="core/v1.Namespace",
        short_names=("ns",), subresources=("finalize", "status"), returns_deleted=_RETURNED,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        fields={**NAME_FIELDS, "status.phase": value_at("status", "phase")},
    ),
    Kind(
        "", "v1", "services", "Service", schema="core/v1.Service", short_names=("svc",),
        categories=("all",), subresources=_STATUS, create_on_update=True, returns_deleted=_RETURNED,
        fields={
            **NAMESPACED_FIELDS,
            "spec.clusterIP": value_at("spec", "clusterIP"),
            "spec.type": value_at("spec", "type"),
        },
    ),
    Kind(
        "", "v1", "replicationcontrollers", "ReplicationController", categories=("all",),
        schema="core/v1.ReplicationController", short_names=("rc",), subresources=_SCALED,
        scale=_SCALE, generation=_SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.replicas": _number_at("status", "replicas")},
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
            **NAMESPACED_FIELDS,
            **{
                f"involvedObject.{part}": value_at("involvedObject", part)
                for part in events.REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingComponent": events.reporting_component,
            "source": events.source_component,
            "type": value_at("type"),
        },
    ),
    Kind(
        "", "v1", "limitranges", "LimitRange", schema="core/v1.LimitRange", short_names=("limits",),
        create_on_update=True,
    ),
    Kind(
        "", "v1", "secrets", "Secret", schema="core/v1.Secret",
        fields={**NAMESPACED_FIELDS, "type": value_at("type")},
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
        fields={**NAMESPACED_FIELDS, "status.successful": _number_at("status", "succeeded")},
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
            **NAMESPACED_FIELDS,
            **{
                f"regarding.{part}": value_at("involvedObject", part)
                for part in events.REFERENCE_FIELDS
            },
            "reason": value_at("reason"),
            "reportingController": events.reporting_component,
            "type": value_at("type"),
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
