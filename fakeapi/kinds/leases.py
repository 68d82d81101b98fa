"""Leases."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "coordination.k8s.io", "v1", "leases", "Lease", schema="coordination/v1.Lease",
        create_on_update=True, unconditional_update=False,
        printer=cluster.PRINTERS["coordination.k8s.io", "leases"],
    ),
)  # fmt: skip
