"""Validation of objects before they are stored, with upstream's causes and words.

The doors are `validate_create` and `validate_update`. What scheduling relies on is checked in full
(pods, nodes, taints, priority classes, budgets, leases, events); other kinds are checked for their
metadata and the few fields listed in kinds.py's neighbours here.

Source: pkg/apis/*/validation and apimachinery pkg/api/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.kind import PODS
from fakeapi.validation import (
    cluster,
    cron_jobs,
    ephemeral_containers,
    jobs,
    metadata,
    permissions,
    pod_resizes,
    pod_updates,
    pods,
    rollouts,
    services,
    volumes,
    workloads,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.errors import FieldError
    from fakeapi.types.kind import Kind, ResourceKey
    from fakeapi.types.objects import Json

__all__ = ["validate_create", "validate_update"]


def validate_create(kind: Kind, obj: Json) -> list[FieldError]:
    """What is wrong with a new object, empty if nothing."""
    check_name = metadata.name_rule(kind)
    errors = metadata.validate_metadata(
        obj, check_name, namespaced=kind.namespaced, free_finalizers=_has_free_finalizers(kind)
    )
    if kind.resource_key == PODS:
        return errors + pods.validate_create(obj)
    if kind.structure is not None:
        return errors + kind.structure.validate(obj)
    validate = _CREATES.get(kind.resource_key)
    errors += _kind_errors(kind, obj) + (validate(obj) if validate else [])
    return errors + kind.rules.validate(obj, None)


def validate_update(kind: Kind, obj: Json, old: Json, *, subresource: str = "") -> list[FieldError]:
    """What is wrong with a new state of an object.

    Upstream checks the metadata of an update twice, once for all kinds and once for the kind, and
    reports both.
    """
    errors = metadata.validate_metadata(
        obj,
        metadata.any_name,
        namespaced=kind.namespaced,
        free_finalizers=_has_free_finalizers(kind),
    )
    changes = metadata.validate_metadata_update(obj, old)
    errors += changes
    if kind.resource_key not in metadata.CHECKED_ONCE:
        errors += changes
    if kind.resource_key == PODS:
        if subresource == "status":
            return errors + pod_updates.validate_status_update(obj, old)
        if subresource == "resize":
            return errors + pod_resizes.validate_resize(obj, old)
        if subresource == "ephemeralcontainers":
            return errors + ephemeral_containers.validate_ephemeral_containers(obj, old)
        return errors + pod_updates.validate_update(obj, old)
    if kind.structure is not None:
        return errors + kind.structure.validate(obj, old, subresource=subresource)
    if subresource == "status":
        validate_status = _STATUS_UPDATES.get(kind.resource_key)
        return errors + (validate_status(obj) if validate_status else [])
    errors += _kind_errors(kind, obj)
    validate = _UPDATES.get(kind.resource_key)
    errors += validate(obj, old) if validate else []
    return errors + kind.rules.validate(obj, old)


def _has_free_finalizers(kind: Kind) -> bool:
    return kind.structure is not None or kind.rules.has_free_finalizers


def _kind_errors(kind: Kind, obj: Json) -> list[FieldError]:
    validate = _OBJECTS.get(kind.resource_key)
    return validate(obj) if validate else []


_PERMISSIONS: Final = "rbac.authorization.k8s.io"
_OBJECTS: Final[dict[ResourceKey, Callable[[Json], list[FieldError]]]] = {
    ("", "nodes"): cluster.validate_node,
    ("", "configmaps"): cluster.validate_config_map,
    ("", "secrets"): cluster.validate_config_map,
    ("", "events"): cluster.validate_core_event,
    ("events.k8s.io", "events"): cluster.validate_event,
    ("", "limitranges"): cluster.validate_limit_range,
    ("", "persistentvolumes"): volumes.validate_volume,
    ("", "persistentvolumeclaims"): volumes.validate_claim,
    ("storage.k8s.io", "storageclasses"): volumes.validate_storage_class,
    ("storage.k8s.io", "csinodes"): volumes.validate_csi_node,
    ("storage.k8s.io", "csistoragecapacities"): volumes.validate_csi_storage_capacity,
    ("storage.k8s.io", "volumeattachments"): volumes.validate_volume_attachment,
    ("", "replicationcontrollers"): workloads.validate_replication_controller,
    ("apps", "replicasets"): workloads.validate_workload,
    ("apps", "statefulsets"): rollouts.validate_stateful_set,
    ("apps", "deployments"): rollouts.validate_deployment,
    ("apps", "daemonsets"): workloads.validate_daemon_set,
    ("policy", "poddisruptionbudgets"): workloads.validate_disruption_budget,
    ("scheduling.k8s.io", "priorityclasses"): cluster.validate_priority_class,
    ("coordination.k8s.io", "leases"): cluster.validate_lease,
    ("node.k8s.io", "runtimeclasses"): cluster.validate_runtime_class,
    (_PERMISSIONS, "roles"): permissions.validate_role,
    (_PERMISSIONS, "rolebindings"): permissions.validate_role_binding,
    (_PERMISSIONS, "clusterroles"): permissions.validate_cluster_role,
    (_PERMISSIONS, "clusterrolebindings"): permissions.validate_cluster_role_binding,
}
_CREATES: Final[dict[ResourceKey, Callable[[Json], list[FieldError]]]] = {
    ("", "services"): services.validate_service,
    ("batch", "jobs"): jobs.validate_job,
    ("batch", "cronjobs"): cron_jobs.validate_cron_job,
}
_UPDATES: Final[dict[ResourceKey, Callable[[Json, Json], list[FieldError]]]] = {
    ("", "nodes"): cluster.validate_node_update,
    ("", "services"): services.validate_service_update,
    ("", "configmaps"): cluster.validate_config_map_update,
    ("", "secrets"): cluster.validate_config_map_update,
    ("events.k8s.io", "events"): cluster.validate_event_update,
    ("", "persistentvolumeclaims"): volumes.validate_claim_update,
    ("storage.k8s.io", "storageclasses"): volumes.validate_storage_class_update,
    ("storage.k8s.io", "volumeattachments"): volumes.validate_volume_attachment_update,
    ("apps", "replicasets"): workloads.validate_workload_update,
    ("apps", "statefulsets"): rollouts.validate_stateful_set_update,
    ("batch", "jobs"): jobs.validate_job_update,
    ("batch", "cronjobs"): cron_jobs.validate_cron_job_update,
    ("apps", "deployments"): workloads.validate_workload_update,
    ("apps", "daemonsets"): workloads.validate_workload_update,
    ("scheduling.k8s.io", "priorityclasses"): cluster.validate_priority_class_update,
    ("node.k8s.io", "runtimeclasses"): cluster.validate_runtime_class_update,
    ("resource.k8s.io", "resourceclaims"): workloads.validate_resource_claim_update,
    (_PERMISSIONS, "rolebindings"): permissions.validate_binding_update,
    (_PERMISSIONS, "clusterrolebindings"): permissions.validate_binding_update,
}
_STATUS_UPDATES: Final[dict[ResourceKey, Callable[[Json], list[FieldError]]]] = {
    ("", "nodes"): cluster.validate_node,
    ("policy", "poddisruptionbudgets"): workloads.validate_disruption_budget_status,
}
