"""ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import (
    NAMESPACED_FIELDS,
    REPLICAS,
    GarbagePolicy,
    Generation,
    Kind,
    number_at,
)

KINDS: Final = (
    Kind(
        "", "v1", "replicationcontrollers", "ReplicationController", categories=("all",),
        schema="core/v1.ReplicationController", short_names=("rc",),
        subresources=("scale", "status"), scale=REPLICAS, generation=Generation.SPEC,
        garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.replicas": number_at("status", "replicas")},
        printer=workloads.PRINTERS["", "replicationcontrollers"],
    ),
    Kind(
        "apps", "v1", "replicasets", "ReplicaSet", schema="apps/v1.ReplicaSet",
        short_names=("rs",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        printer=workloads.PRINTERS["apps", "replicasets"],
    ),
)  # fmt: skip
