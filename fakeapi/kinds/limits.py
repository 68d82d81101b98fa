"""LimitRanges and ResourceQuotas."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "", "v1", "limitranges", "LimitRange", schema="core/v1.LimitRange", short_names=("limits",),
        create_on_update=True,
    ),
    Kind(
        "", "v1", "resourcequotas", "ResourceQuota", schema="core/v1.ResourceQuota",
        short_names=("quota",), subresources=("status",), returns_deleted=True,
        printer=cluster.PRINTERS["", "resourcequotas"],
    ),
)  # fmt: skip
