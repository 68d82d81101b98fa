"""PodGroups and Workloads: gangs of pods (alpha)."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    NAME_AND_AGE,
    NONE,
    Column,
    find,
    find_mappings,
    find_text,
)
from fakeapi.types.kind import CLIENT_METADATA, Kind
from fakeapi.types.objects import Json, mapping, text


def _pod_group_policy(pod_group: Json, _now_seconds: float) -> str:
    return "Basic" if find(pod_group, ".spec.schedulingPolicy.gang") is None else "Gang"


def _pod_group_status(pod_group: Json, _now_seconds: float) -> str:
    conditions = {text(c.get("type")): c for c in find_mappings(pod_group, ".status.conditions")}
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        return text(disrupted.get("reason"))
    if (scheduled := conditions.get("PodGroupScheduled")) is not None:
        return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    return "Pending"


def _workload_name(reference: object) -> str:
    return find_text(mapping(reference), ".workload.workloadName") if reference else NONE


KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup",
        schema="scheduling/v1alpha2.PodGroup", subresources=("status",),
        columns=(
            NAME, Column("Policy", _pod_group_policy),
            Column("Workload", ".spec.podGroupTemplateRef", _workload_name),
            Column("Status", _pod_group_status), AGE,
        ),
        status_keeps=CLIENT_METADATA,
    ),
    Kind(
        "scheduling.k8s.io", "v1alpha2", "workloads", "Workload",
        schema="scheduling/v1alpha2.Workload",
        columns=NAME_AND_AGE,
    ),
)  # fmt: skip
