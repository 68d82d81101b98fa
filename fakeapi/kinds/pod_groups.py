"""PodGroups and Workloads: gangs of pods (alpha)."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster, workloads
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup",
        schema="scheduling/v1alpha2.PodGroup", subresources=("status",),
        printer=workloads.PRINTERS["scheduling.k8s.io", "podgroups"],
    ),
    Kind(
        "scheduling.k8s.io", "v1alpha2", "workloads", "Workload",
        schema="scheduling/v1alpha2.Workload",
        printer=cluster.PRINTERS["scheduling.k8s.io", "workloads"],
    ),
)  # fmt: skip
