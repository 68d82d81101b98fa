"""Jobs and CronJobs."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import NAMESPACED_FIELDS, GarbagePolicy, Generation, Kind, number_at

KINDS: Final = (
    Kind(
        "batch", "v1", "jobs", "Job", schema="batch/v1.Job", categories=("all",),
        subresources=("status",), generation=Generation.SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.successful": number_at("status", "succeeded")},
        printer=workloads.PRINTERS["batch", "jobs"],
    ),
    Kind(
        "batch", "v1", "cronjobs", "CronJob", schema="batch/v1.CronJob", short_names=("cj",),
        categories=("all",), subresources=("status",), generation=Generation.SPEC,
        printer=workloads.PRINTERS["batch", "cronjobs"],
    ),
)  # fmt: skip
