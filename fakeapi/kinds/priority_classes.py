"""PriorityClasses."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
        schema="scheduling/v1.PriorityClass", short_names=("pc",),
        generation=Generation.ON_CREATE,
        printer=cluster.PRINTERS["scheduling.k8s.io", "priorityclasses"],
    ),
)  # fmt: skip
