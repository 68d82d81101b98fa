"""HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import Kind

KINDS: Final = (
    Kind(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
        schema="autoscaling/v2.HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
        subresources=("status",),
        printer=workloads.PRINTERS["autoscaling", "horizontalpodautoscalers"],
    ),
)  # fmt: skip
