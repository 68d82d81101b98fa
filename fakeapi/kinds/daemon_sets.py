"""DaemonSets."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import Generation, Kind

KINDS: Final = (
    Kind(
        "apps", "v1", "daemonsets", "DaemonSet", schema="apps/v1.DaemonSet",
        short_names=("ds",), categories=("all",), subresources=("status",),
        generation=Generation.SPEC,
        printer=workloads.PRINTERS["apps", "daemonsets"],
    ),
)  # fmt: skip
