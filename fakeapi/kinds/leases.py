"""Leases."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "coordination.k8s.io", "v1", "leases", "Lease", schema="coordination/v1.Lease",
        create_on_update=True, unconditional_update=False,
        columns=(NAME, Column("Holder", ".spec.holderIdentity"), AGE),
    ),
)  # fmt: skip
