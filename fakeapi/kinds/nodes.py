"""Nodes."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import NAME_FIELDS, Kind, flag_at

KINDS: Final = (
    Kind(
        "", "v1", "nodes", "Node", namespaced=False, schema="core/v1.Node", short_names=("no",),
        subresources=("status",), keeps_status_on_create=True,
        fields={**NAME_FIELDS, "spec.unschedulable": flag_at("spec", "unschedulable")},
        printer=cluster.PRINTERS["", "nodes"],
    ),
)  # fmt: skip
