"""ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    labels_text,
    selector_or_none,
    wide,
)
from fakeapi.types.kind import (
    NAMESPACED_FIELDS,
    REPLICAS,
    GarbagePolicy,
    Generation,
    Kind,
    number_at,
)

_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)
_REPLICAS: Final = (
    NAME,
    Column("Desired", ".spec.replicas", type="integer"),
    Column("Current", ".status.replicas", type="integer"),
    Column("Ready", ".status.readyReplicas", type="integer"),
    AGE,
    *containers_columns(),
)

KINDS: Final = (
    Kind(
        "", "v1", "replicationcontrollers", "ReplicationController", categories=("all",),
        schema="core/v1.ReplicationController", short_names=("rc",),
        subresources=("scale", "status"), scale=REPLICAS, generation=Generation.SPEC,
        garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.replicas": number_at("status", "replicas")},
        columns=(*_REPLICAS, wide("Selector", ".spec.selector", labels_text)),
    ),
    Kind(
        "apps", "v1", "replicasets", "ReplicaSet", schema="apps/v1.ReplicaSet",
        short_names=("rs",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        columns=(*_REPLICAS, _SELECTOR),
    ),
)  # fmt: skip
