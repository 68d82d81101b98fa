"""StatefulSets and the revisions of controllers."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, NONE, Column, containers_columns, find_number, number
from fakeapi.types.kind import REPLICAS, Generation, Kind
from fakeapi.types.objects import Json, mappings, metadata_of, text


def _ready_replicas(obj: Json, _now_seconds: float) -> str:
    return f"{find_number(obj, '.status.readyReplicas')}/{find_number(obj, '.spec.replicas')}"


def _controller(revision: Json, _now_seconds: float) -> str:
    for owner in mappings(metadata_of(revision).get("ownerReferences")):
        if owner.get("controller"):
            group = text(owner.get("apiVersion")).rpartition("/")[0]
            kind = text(owner.get("kind")) + (f".{group}" if group else "")
            return f"{kind.lower()}/{text(owner.get('name'))}"
    return NONE


KINDS: Final = (
    Kind(
        "apps", "v1", "statefulsets", "StatefulSet", schema="apps/v1.StatefulSet",
        short_names=("sts",), categories=("all",), subresources=("scale", "status"), scale=REPLICAS,
        generation=Generation.SPEC,
        columns=(NAME, Column("Ready", _ready_replicas), AGE, *containers_columns()),
    ),
    Kind(
        "apps", "v1", "controllerrevisions", "ControllerRevision",
        schema="apps/v1.ControllerRevision",
        columns=(
            NAME, Column("Controller", _controller), Column("Revision", ".revision", number), AGE,
        ),
    ),
)  # fmt: skip
