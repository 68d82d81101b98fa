"""Deployments."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import workloads
from fakeapi.types.kind import REPLICAS, Generation, Kind

KINDS: Final = (
    Kind(
        "apps", "v1", "deployments", "Deployment", schema="apps/v1.Deployment",
        short_names=("deploy",), categories=("all",), subresources=("scale", "status"),
        scale=REPLICAS, generation=Generation.SPEC_OR_ANNOTATIONS,
        printer=workloads.PRINTERS["apps", "deployments"],
    ),
)  # fmt: skip
