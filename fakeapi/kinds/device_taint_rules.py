"""DeviceTaintRules: taints of devices that an administrator sets.

Source: pkg/apis/resource/validation, pkg/registry/resource/devicetaintrule of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from fakeapi.kinds.pod_groups import validate_condition
from fakeapi.types.columns import AGE, NAME, Column, age_at, find_text
from fakeapi.types.errors import FieldError, too_many
from fakeapi.types.kind import CLIENT_METADATA, Generation, Kind, KindRules, UpdateRules
from fakeapi.types.names import dns_label, dns_subdomain
from fakeapi.types.objects import Json, child, mapping, mappings, set_defaults, text
from fakeapi.validation.checks import each, name_errors
from fakeapi.validation.devices import (
    validate_driver,
    validate_pool_name,
    validate_selectors,
    validate_taint,
)

_CONDITIONS_MAX: Final = 8
_TIME_ADDED: Final = ".spec.taint.timeAdded"
_EFFECT: Final = ".spec.taint.effect"


def _set_time(rule: Json, now: str) -> None:
    set_defaults(child(child(rule, "spec"), "taint"), timeAdded=now)


def _prepare_update(new: Json, old: Json, now: str) -> None:
    """Set the time of a taint with a new effect, unless the client has set it."""
    _set_time(new, now)
    has_other_effect = find_text(new, _EFFECT) != find_text(old, _EFFECT)
    if has_other_effect and find_text(new, _TIME_ADDED) == find_text(old, _TIME_ADDED):
        mapping(mapping(new.get("spec")).get("taint"))["timeAdded"] = now


def _validate(rule: Json) -> list[FieldError]:
    spec = mapping(rule.get("spec"))
    selector, path = mapping(spec.get("deviceSelector")), "spec.deviceSelector"
    errors: list[FieldError] = []
    if (class_name := selector.get("deviceClassName")) is not None:
        errors += name_errors(text(class_name), f"{path}.deviceClassName", dns_subdomain)
    if (driver := selector.get("driver")) is not None:
        errors += validate_driver(text(driver), f"{path}.driver")
    if (pool := selector.get("pool")) is not None:
        errors += validate_pool_name(text(pool), f"{path}.pool")
    if (device := selector.get("device")) is not None:
        errors += name_errors(text(device), f"{path}.device", dns_label)
    errors += validate_selectors(mappings(selector.get("selectors")), f"{path}.selectors")
    return errors + validate_taint(mapping(spec.get("taint")), "spec.taint")


def _validate_status(new: Json, _old: Json) -> list[FieldError]:
    conditions = mappings(mapping(new.get("status")).get("conditions"))
    errors = each(conditions, "status.conditions", validate_condition)
    if len(conditions) > _CONDITIONS_MAX:
        errors.append(too_many("status.conditions", len(conditions), _CONDITIONS_MAX))
    return errors


_V1BETA2: Final = Kind(
    "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False,
    schema="resource/v1beta2.DeviceTaintRule", subresources=("status",),
    generation=Generation.SPEC, status_keeps=CLIENT_METADATA,
    columns=(
        NAME, Column("Key", ".spec.taint.key"), Column("Value", ".spec.taint.value"),
        Column("Effect", _EFFECT),
        Column("TimeAdded", age_at(_TIME_ADDED)), AGE,
    ),
    rules=KindRules(
        prepare=_set_time, prepare_update=_prepare_update, validate=_validate,
        subresources={"status": UpdateRules(validate=_validate_status)},
    ),
)  # fmt: skip

KINDS: Final = (_V1BETA2,)
#: The versions that kube-scheduler 1.34, 1.35 and 1.37 read. With 1.34's a rule can select devices
#: by class and by expressions.
KINDS_OF_OTHER_VERSIONS: Final = tuple(
    dataclasses.replace(_V1BETA2, version=version, schema=f"resource/{version}.DeviceTaintRule")
    for version in ("v1alpha3", "v1")
)
