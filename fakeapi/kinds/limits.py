"""LimitRanges and ResourceQuotas.

Source: pkg/apis/core/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import AGE, NAME, Cell, Column, find
from fakeapi.types.errors import FieldError, duplicate
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import Json, mapping, mappings, text
from fakeapi.validation.metadata import validate_label_key
from fakeapi.validation.resources import validate_resource_name

_LIMIT_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")


def _set_range_defaults(limit_range: Json) -> None:
    for item in mappings(mapping(limit_range.get("spec")).get("limits")):
        if item.get("type") != "Container":
            continue
        limits = {**mapping(item.get("max")), **mapping(item.get("default"))}
        requests = {**mapping(item.get("min")), **limits, **mapping(item.get("defaultRequest"))}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def _validate_range(limit_range: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(mappings(mapping(limit_range.get("spec")).get("limits"))):
        path = f"spec.limits[{index}]"
        limit_type = text(item.get("type"))
        if limit_type not in _LIMIT_TYPES:
            errors += validate_label_key(limit_type, f"{path}.type")
        if limit_type in seen:
            errors.append(duplicate(f"{path}.type", limit_type))
        seen.add(limit_type)
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            for name in mapping(item.get(field)):
                errors += validate_resource_name(name, f"{path}.{field}[{name}]")
    return errors


def _quota(*, limits: bool) -> Cell:
    """Return a cell: used and hard amounts, of limits or of all other resources."""

    def cell(quota: Json, _now_seconds: float) -> str:
        used = mapping(find(quota, ".status.used"))
        return ", ".join(
            f"{resource}: {used.get(resource, '0')}/{hard}"
            for resource, hard in sorted(mapping(find(quota, ".status.hard")).items())
            if resource.startswith("limits.") == limits
        )

    return cell


KINDS: Final = (
    Kind(
        "", "v1", "limitranges", "LimitRange", schema="core/v1.LimitRange", short_names=("limits",),
        create_on_update=True,
        rules=KindRules(set_defaults=_set_range_defaults, validate=_validate_range),
    ),
    Kind(
        "", "v1", "resourcequotas", "ResourceQuota", schema="core/v1.ResourceQuota",
        short_names=("quota",), subresources=("status",), returns_deleted=True,
        columns=(
            NAME, Column("Request", _quota(limits=False)), Column("Limit", _quota(limits=True)),
            AGE,
        ),
    ),
)  # fmt: skip
