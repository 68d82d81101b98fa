"""PriorityClasses."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
        schema="scheduling/v1.PriorityClass", short_names=("pc",),
        generation=Generation.ON_CREATE,
        columns=(
            NAME, Column("Value", ".value", type="integer"),
            Column("Global-Default", ".globalDefault", type="boolean"), AGE,
            Column("PreemptionPolicy", ".preemptionPolicy"),
        ),
    ),
)  # fmt: skip
