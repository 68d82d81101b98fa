"""Namespaces."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import ALL_VERBS, NAME_FIELDS, Kind, value_at

KINDS: Final = (
    Kind(
        "", "v1", "namespaces", "Namespace", namespaced=False, schema="core/v1.Namespace",
        short_names=("ns",), subresources=("finalize", "status"), returns_deleted=True,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        fields={**NAME_FIELDS, "status.phase": value_at("status", "phase")},
        columns=(NAME, Column("Status", ".status.phase"), AGE),
    ),
)  # fmt: skip
