"""ConfigMaps and Secrets."""

from __future__ import annotations

from typing import Final

from fakeapi.printing import cluster
from fakeapi.types.kind import NAMESPACED_FIELDS, Kind, value_at

KINDS: Final = (
    Kind(
        "", "v1", "configmaps", "ConfigMap", schema="core/v1.ConfigMap", short_names=("cm",),
        printer=cluster.PRINTERS["", "configmaps"],
    ),
    Kind(
        "", "v1", "secrets", "Secret", schema="core/v1.Secret",
        fields={**NAMESPACED_FIELDS, "type": value_at("type")},
        printer=cluster.PRINTERS["", "secrets"],
    ),
)  # fmt: skip
