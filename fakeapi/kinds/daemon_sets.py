"""DaemonSets."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    Column,
    containers_columns,
    labels_text,
    selector_or_none,
    wide,
)
from fakeapi.types.kind import Generation, Kind

_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)

KINDS: Final = (
    Kind(
        "apps", "v1", "daemonsets", "DaemonSet", schema="apps/v1.DaemonSet",
        short_names=("ds",), categories=("all",), subresources=("status",),
        generation=Generation.SPEC,
        columns=(
            NAME, Column("Desired", ".status.desiredNumberScheduled", type="integer"),
            Column("Current", ".status.currentNumberScheduled", type="integer"),
            Column("Ready", ".status.numberReady", type="integer"),
            Column("Up-to-date", ".status.updatedNumberScheduled", type="integer"),
            Column("Available", ".status.numberAvailable", type="integer"),
            Column("Node Selector", ".spec.template.spec.nodeSelector", labels_text), AGE,
            *containers_columns(), _SELECTOR,
        ),
    ),
)  # fmt: skip
