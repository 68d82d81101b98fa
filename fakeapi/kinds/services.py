"""Services and the endpoints behind them."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import NAMESPACED_FIELDS, Generation, Kind, value_at

KINDS: Final = (
    Kind(
        "", "v1", "services", "Service", schema="core/v1.Service", short_names=("svc",),
        categories=("all",), subresources=("status",), create_on_update=True, returns_deleted=True,
        fields={
            **NAMESPACED_FIELDS,
            "spec.clusterIP": value_at("spec", "clusterIP"),
            "spec.type": value_at("spec", "type"),
        },
        printer=cluster.PRINTERS["", "services"],
    ),
    Kind(
        "", "v1", "endpoints", "Endpoints", singular="endpoints", schema="core/v1.Endpoints",
        short_names=("ep",), create_on_update=True, deprecation_warning=(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        ),
        printer=cluster.PRINTERS["", "endpoints"],
    ),
    Kind(
        "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
        schema="discovery/v1.EndpointSlice", generation=Generation.CONTENT_OR_LABELS,
        printer=cluster.PRINTERS["discovery.k8s.io", "endpointslices"],
    ),
)  # fmt: skip
