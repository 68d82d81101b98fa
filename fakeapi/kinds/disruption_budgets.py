"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column, or_else
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
        schema="policy/v1.PodDisruptionBudget", subresources=("status",),
        generation=Generation.SPEC, unconditional_update=False,
        columns=(
            NAME, Column("Min Available", ".spec.minAvailable", or_else("N/A")),
            Column("Max Unavailable", ".spec.maxUnavailable", or_else("N/A")),
            Column("Allowed Disruptions", ".status.disruptionsAllowed", type="integer"), AGE,
        ),
    ),
)  # fmt: skip
