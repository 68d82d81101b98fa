"""ConfigMaps and Secrets.

Source: pkg/apis/core/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

import base64
from typing import Final

from fakeapi.types.columns import AGE, NAME, Column, size
from fakeapi.types.errors import FieldError, forbidden, too_long
from fakeapi.types.kind import NAMESPACED_FIELDS, Kind, KindRules, value_at
from fakeapi.types.names import config_map_key
from fakeapi.types.objects import Json, child, mapping, set_defaults, string_map, text
from fakeapi.validation.checks import name_errors

_CONFIG_BYTES_MAX: Final = 1024 * 1024


def _set_secret_defaults(secret: Json) -> None:
    """Set the type, and move stringData into data."""
    set_defaults(secret, type="Opaque")
    strings = string_map(secret.pop("stringData", None))
    for name, value in strings.items():
        child(secret, "data")[name] = base64.b64encode(value.encode()).decode()


def _validate(config_map: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for bag in ("data", "binaryData"):
        for key, value in mapping(config_map.get(bag)).items():
            errors += name_errors(key, f"{bag}[{key}]", config_map_key)
            size += len(text(value).encode())
    if size > _CONFIG_BYTES_MAX:
        errors.append(too_long("", _CONFIG_BYTES_MAX))
    return errors


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    fields = ("immutable", "data", "binaryData")
    return [forbidden(field, why) for field in fields if new.get(field) != old.get(field)]


def _data_count(config_map: Json, _now_seconds: float) -> int:
    return size(config_map.get("data")) + size(config_map.get("binaryData"))


KINDS: Final = (
    Kind(
        "", "v1", "configmaps", "ConfigMap", schema="core/v1.ConfigMap", short_names=("cm",),
        columns=(NAME, Column("Data", _data_count), AGE),
        rules=KindRules(validate=_validate, validate_update=_validate_update),
    ),
    Kind(
        "", "v1", "secrets", "Secret", schema="core/v1.Secret",
        fields={**NAMESPACED_FIELDS, "type": value_at("type")},
        columns=(NAME, Column("Type", ".type"), Column("Data", ".data", size), AGE),
        rules=KindRules(
            set_defaults=_set_secret_defaults, validate=_validate, validate_update=_validate_update,
        ),
    ),
)  # fmt: skip
