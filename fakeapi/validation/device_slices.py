"""Validation of ResourceSlices: pools, the choice of nodes, devices, counters.

Source: pkg/apis/resource/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from fakeapi.types import names
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from fakeapi.types.objects import Json, integer, mapping, mappings, text, texts
from fakeapi.types.quantity import NANO, parse_nano, render
from fakeapi.validation.checks import each, fixed, name_errors, required_name_errors
from fakeapi.validation.devices import (
    name_of_item,
    validate_binding_conditions,
    validate_driver,
    validate_pool_name,
    validate_qualified_name,
    validate_taint,
)
from fakeapi.validation.scheduling import validate_node_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEVICES_MAX: Final = 128
#: The limit for slices with taints or counters.
_ADVANCED_DEVICES_MAX: Final = 64
_COUNTER_SETS_MAX: Final = 8
_COUNTERS_MAX: Final = 32
_CONSUMED_SETS_MAX: Final = 2
_ATTRIBUTES_MAX: Final = 32
_TAINTS_MAX: Final = 16
_VALUE_MAX: Final = 64
_VALID_VALUES_MAX: Final = 10
_LIST_VALUES: Final = ("bools", "ints", "strings", "versions")
_ON_SLICES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ON_DEVICES: Final = ("nodeName", "nodeSelector", "allNodes")
_ONE_ON_SLICES: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_ONE_ON_DEVICES: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NONE_ON_DEVICES: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)
_NUMBER: Final = r"(0|[1-9]\d*)"
_PRE_RELEASE: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_fixed = fixed("spec.pool.name", "spec.driver", "spec.nodeName")
_match_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch


def validate_slice(resource_slice: Json, old: Json | None = None) -> list[FieldError]:
    """Return the errors of a slice; `old` is the stored slice of an update."""
    spec = mapping(resource_slice.get("spec"))
    pool = mapping(spec.get("pool"))
    errors = validate_driver(text(spec.get("driver")), "spec.driver") + _pool_errors(pool)
    if old is not None:
        errors += _fixed(resource_slice, old)
    errors += _node_errors(spec, "spec", _ON_SLICES)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        why = "only one of `sharedCounters` or `devices` is allowed"
        errors.append(invalid("spec", "", why))
    devices = mappings(spec.get("devices"))
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    errors += each(
        devices,
        "spec.devices",
        functools.partial(_device_errors, has_own_nodes=spec.get("perDeviceNodeSelection") is True),
        maximum=_ADVANCED_DEVICES_MAX if is_advanced else _DEVICES_MAX,
        key=name_of_item,
    )
    return errors + each(
        mappings(spec.get("sharedCounters")),
        "spec.sharedCounters",
        functools.partial(_counter_set_errors, "name"),
        maximum=_COUNTER_SETS_MAX,
        key=name_of_item,
    )


def _pool_errors(pool: Json) -> list[FieldError]:
    errors = validate_pool_name(text(pool.get("name")), "spec.pool.name")
    count, generation = integer(pool.get("resourceSliceCount")), integer(pool.get("generation"))
    if count <= 0:
        errors.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        why = "must be greater than or equal to zero"
        errors.append(invalid("spec.pool.generation", generation, why))
    return errors


def _node_errors(owner: Json, field: str, fields: Sequence[str]) -> list[FieldError]:
    """Return the errors of the nodes of a slice, or of a device that has its own."""
    is_slice = fields is _ON_SLICES
    errors: list[FieldError] = []
    chosen = []
    for name in (one for one in fields if owner.get(one) is not None):
        value, path = owner[name], f"{field}.{name}"
        if isinstance(value, bool):
            if not value:
                errors.append(invalid(path, value, "must be either unset or set to true"))
                continue
        elif isinstance(value, str):
            if not value:
                unset = "must be either unset or set to a non-empty string"
                errors.append(invalid(path, "", unset if is_slice else "must not be empty"))
                continue
            errors += name_errors(value, path, names.dns_subdomain)
        else:
            errors += _selector_errors(mapping(value), path, one_term=is_slice)
        chosen.append(f"`{name}`")
    why = _ONE_ON_SLICES if is_slice else _ONE_ON_DEVICES
    if not chosen:
        return [*errors, required(field, why)]
    if len(chosen) > 1:
        why = f"{why}, but multiple fields are set" if is_slice else why
        errors.append(invalid(field, f"{{{', '.join(chosen)}}}", why))
    return errors


def _selector_errors(selector: Json, field: str, *, one_term: bool) -> list[FieldError]:
    errors = validate_node_selector(selector, field)
    terms = mappings(selector.get("nodeSelectorTerms"))
    if one_term and len(terms) != 1:
        why = "must have exactly one node selector term"
        errors.append(invalid(f"{field}.nodeSelectorTerms", terms, why))
    return errors


def _device_errors(device: Json, field: str, *, has_own_nodes: bool) -> list[FieldError]:
    errors = name_errors(name_of_item(device), f"{field}.name", names.dns_label)
    attributes, capacity = mapping(device.get("attributes")), mapping(device.get("capacity"))
    total = len(attributes) + len(capacity)
    if total > _ATTRIBUTES_MAX:
        limit = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_MAX}"
        errors.append(invalid(field, total, limit))
    for key, attribute in attributes.items():
        errors += validate_qualified_name(key, f"{field}.attributes")
        errors += _attribute_errors(mapping(attribute), f"{field}.attributes[{key}]")
    is_shared = device.get("allowMultipleAllocations") is True
    for key, value in capacity.items():
        errors += validate_qualified_name(key, f"{field}.capacity")
        path = f"{field}.capacity[{key}].requestPolicy"
        policy = mapping(value).get("requestPolicy")
        if policy is not None and not is_shared:
            errors.append(forbidden(path, "allowMultipleAllocations must be true"))
        elif policy is not None:
            errors += _policy_errors(text(mapping(value).get("value")), mapping(policy), path)
    taints = mappings(device.get("taints"))
    errors += each(taints, f"{field}.taints", validate_taint, maximum=_TAINTS_MAX)
    errors += each(
        mappings(device.get("consumesCounters")),
        f"{field}.consumesCounters",
        functools.partial(_counter_set_errors, "counterSet"),
        maximum=_CONSUMED_SETS_MAX,
        key=lambda consumed: text(consumed.get("counterSet")),
    )
    if has_own_nodes:
        errors += _node_errors(device, field, _ON_DEVICES)
    elif any(device.get(name) is not None for name in _ON_DEVICES):
        errors.append(invalid(field, None, _NONE_ON_DEVICES))
    return errors + validate_binding_conditions(device, field)


def _counter_set_errors(key: str, counters: Json, field: str) -> list[FieldError]:
    """Return the errors of a counter set, or of the counters that a device consumes."""
    name, path = text(counters.get(key)), f"{field}.counters"
    errors = required_name_errors(name, f"{field}.{key}", names.dns_label)
    values = mapping(counters.get("counters"))
    if not values:
        return [*errors, required(path)]
    if len(values) > _COUNTERS_MAX:
        return [*errors, too_many(path, len(values), _COUNTERS_MAX)]
    return errors + [error for one in values for error in name_errors(one, path, names.dns_label)]


def _attribute_errors(attribute: Json, field: str) -> list[FieldError]:
    fields = [name for name, value in attribute.items() if value is not None]
    errors: list[FieldError] = []
    for name in fields:
        path = f"{field}.{name}"
        if name in _LIST_VALUES and not attribute[name]:
            errors.append(invalid(path, [], "must not be empty if specified"))
        items = {f"{path}[{index}]": one for index, one in enumerate(texts(attribute[name]))}
        if isinstance(attribute[name], str):
            items = {path: text(attribute[name])}
        for at, value in items.items():
            if name.startswith("version") and not _match_version(value):
                why = "must be a string compatible with semver.org spec 2.0.0"
                errors.append(invalid(at, value, why))
            if len(value.encode()) > _VALUE_MAX:
                errors.append(too_long(at, _VALUE_MAX))
    if len(fields) != 1:
        shown = attribute if fields else ""
        errors.append(invalid(field, shown, "exactly one value must be specified"))
    return errors


def _policy_errors(capacity: str, policy: Json, field: str) -> list[FieldError]:
    """Return the errors of a request policy of consumable capacity."""
    values, valid_range = texts(policy.get("validValues")), policy.get("validRange")
    if values and valid_range is not None:
        why = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        return [forbidden(field, why)]
    name = "validValues" if values else "validRange"
    if not values and valid_range is None:
        return []
    if policy.get("default") is None:
        return [required(f"{field}.default", f"required when {name} is defined")]
    default, path = text(policy["default"]), f"{field}.{name}"
    if values:
        return _values_errors(default, capacity, values, path)
    return _range_errors(default, capacity, mapping(valid_range), path)


def _values_errors(default: str, capacity: str, values: list[str], field: str) -> list[FieldError]:
    amounts = [parse_nano(value) for value in values]
    unsorted = "values must be sorted in ascending order"
    errors = [
        invalid(f"{field}[{index}]", values[index], unsorted)
        for index in range(1, len(values))
        if amounts[index - 1] > amounts[index]
    ]
    if len(values) > _VALID_VALUES_MAX:
        errors.append(too_many(field, len(values), _VALID_VALUES_MAX))
    else:
        larger = f"option is larger than capacity value: {capacity}"
        errors += [
            invalid(f"{field}[{index}]", values[index], larger)
            for index, amount in enumerate(amounts)
            if amount > parse_nano(capacity)
        ]
        wholes = [_whole(value) for value in values]
        first = {whole: index for index, whole in reversed([*enumerate(wholes)])}
        errors += [
            duplicate(f"{field}[{index}]", str(whole))
            for index, whole in enumerate(wholes)
            if first[whole] < index
        ]
    if parse_nano(default) not in amounts:
        why = "default value is not valid according to the requestPolicy"
        errors.append(invalid(field, default, why))
    return errors


def _range_errors(default: str, capacity: str, valid_range: Json, field: str) -> list[FieldError]:
    if valid_range.get("min") is None:
        return [required(f"{field}.min", "required when validRange is defined")]
    low, high, step = (text(valid_range.get(name)) for name in ("min", "max", "step"))
    limit, least, wanted = parse_nano(capacity), parse_nano(low), parse_nano(default)
    checks = [
        (least > limit, "min", low, f"min is larger than capacity value: {capacity}"),
        (wanted < least, "min", default, f"default is less than min: {low}"),
    ]
    if high:
        most = parse_nano(high)
        checks += [
            (least > most, "max", low, f"min is larger than max: {high}"),
            (most > limit, "max", high, f"max is larger than capacity value: {capacity}"),
            (wanted > most, "max", default, f"default is more than max: {high}"),
        ]
    if step:
        added = least + parse_nano(step)
        why = f"one step {render(added, 'binary')} is larger than capacity value: {capacity}"
        checks.append((added > limit, "step", step, why))
        why = f"value is not a multiple of a given step ({step}) from ({low})"
        for value in (default, high) if high else (default,):
            rest = (_whole(value) - _whole(low)) % (_whole(step) or 1)
            checks.append((rest != 0, "step", value, why))
    return [
        invalid(f"{field}.{name}", value, why) for is_wrong, name, value, why in checks if is_wrong
    ]


def _whole(quantity: str) -> int:
    """Return a quantity as a whole number, rounded up."""
    return -(-parse_nano(quantity) // NANO)
