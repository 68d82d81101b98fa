"""ConfigMaps and Secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import AGE, NAME, Column, size
from fakeapi.types.kind import NAMESPACED_FIELDS, Kind, value_at

if TYPE_CHECKING:
    from fakeapi.types.objects import Json


def _data_count(config_map: Json, _now_seconds: float) -> int:
    return size(config_map.get("data")) + size(config_map.get("binaryData"))


KINDS: Final = (
    Kind(
        "", "v1", "configmaps", "ConfigMap", schema="core/v1.ConfigMap", short_names=("cm",),
        columns=(NAME, Column("Data", _data_count), AGE),
    ),
    Kind(
        "", "v1", "secrets", "Secret", schema="core/v1.Secret",
        fields={**NAMESPACED_FIELDS, "type": value_at("type")},
        columns=(NAME, Column("Type", ".type"), Column("Data", ".data", size), AGE),
    ),
)  # fmt: skip
