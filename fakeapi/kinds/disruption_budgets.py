"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
        schema="policy/v1.PodDisruptionBudget", subresources=("status",),
        generation=Generation.SPEC, unconditional_update=False,
        printer=workloads.PRINTERS["policy", "poddisruptionbudgets"],
    ),
)  # fmt: skip
