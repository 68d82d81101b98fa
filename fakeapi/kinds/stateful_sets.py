"""StatefulSets and the revisions of controllers."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import REPLICAS, Generation, Kind

KINDS: Final = (
    Kind(
        "apps", "v1", "statefulsets", "StatefulSet", schema="apps/v1.StatefulSet",
        short_names=("sts",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        printer=workloads.PRINTERS["apps", "statefulsets"],
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "ControllerRevision",
        schema="apps/v1.ControllerRevision",
        printer=workloads.PRINTERS["apps", "controllerrevisions"],
    ),
)  # fmt: skip
