"""Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    find_number,
    number,
    selector_text,
    wide,
)
from fakeapi.types.kind import REPLICAS, Generation, Kind

if TYPE_CHECKING:
    from fakeapi.types.objects import Json


def _ready_replicas(obj: Json, _now_seconds: float) -> str:
    return f"{find_number(obj, '.status.readyReplicas')}/{find_number(obj, '.spec.replicas')}"


KINDS: Final = (
    Kind(
        "apps", "v1", "deployments", "Deployment", schema="apps/v1.Deployment",
        short_names=("deploy",), categories=("all",), subresources=("scale", "status"),
        scale=REPLICAS, generation=Generation.SPEC_OR_ANNOTATIONS,
        columns=(
            NAME, Column("Ready", _ready_replicas),
            Column("Up-to-date", ".status.updatedReplicas", number),
            Column("Available", ".status.availableReplicas", number), AGE, *containers_columns(),
            wide("Selector", ".spec.selector", selector_text),
        ),
    ),
)  # fmt: skip
