"""LimitRanges and ResourceQuotas."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Cell, Column, find
from fakeapi.types.kind import Kind
from fakeapi.types.objects import Json, mapping


def _quota(*, limits: bool) -> Cell:
    """Return a cell: used and hard amounts, of limits or of all other resources."""

    def cell(quota: Json, _now_seconds: float) -> str:
        used = mapping(find(quota, ".status.used"))
        return ", ".join(
            f"{resource}: {used.get(resource, '0')}/{hard}"
            for resource, hard in sorted(mapping(find(quota, ".status.hard")).items())
            if resource.startswith("limits.") == limits
        )

    return cell


KINDS: Final = (
    Kind(
        "", "v1", "limitranges", "LimitRange", schema="core/v1.LimitRange", short_names=("limits",),
        create_on_update=True,
    ),
    Kind(
        "", "v1", "resourcequotas", "ResourceQuota", schema="core/v1.ResourceQuota",
        short_names=("quota",), subresources=("status",), returns_deleted=True,
        columns=(
            NAME, Column("Request", _quota(limits=False)), Column("Limit", _quota(limits=True)),
            AGE,
        ),
    ),
)  # fmt: skip
