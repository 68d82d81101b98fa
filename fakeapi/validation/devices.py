"""Validation of device requests, configurations, selectors and allocations.

The syntax of CEL expressions is checked with the packages of `kubesched[cel]`, except for
expressions with optional values. Types and costs are not checked.

Source: pkg/apis/resource/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import functools
import re
import uuid
from typing import Final

import msgspec

from fakeapi.cel import worker
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
from fakeapi.types.objects import Json, integer, is_deleting, mapping, mappings, text, texts
from fakeapi.validation.checks import (
    choice_errors,
    each,
    name_errors,
    required_choice_errors,
    required_name_errors,
)
from fakeapi.validation.metadata import validate_label_key, validate_label_value, validate_labels
from fakeapi.validation.scheduling import validate_node_selector

#: The subrequests of each request by name, None for a request without any.
_Requests = dict[str, frozenset[str] | None]

_DRIVER_MAX: Final = 63
_POOL_MAX: Final = 253
_LIST_MAX: Final = 32
_SUBREQUESTS_MAX: Final = 8
_RESERVED_MAX: Final = 256
_CONDITIONS_MAX: Final = 8
_BINDING_CONDITIONS_MAX: Final = 4
_BYTES_MAX: Final = 10 * 1024
_IDENTIFIER_MAX: Final = 32
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    f"validation is '{_IDENTIFIER}')"
)
_REFERENCE_RULE: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)
_UID_RULE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
    "lowercase hexadecimal characters"
)
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_match_identifier = re.compile(_IDENTIFIER).fullmatch


def name_of_item(item: Json) -> str:
    """Return the name of an entry in a list."""
    return text(item.get("name"))


def validate_driver(value: str, field: str) -> list[FieldError]:
    """Return the errors of the name of a driver. Source: ValidateCSIDriverName."""
    if not value:
        return [required(field)]
    errors = [too_long(field, _DRIVER_MAX)] if len(value) > _DRIVER_MAX else []
    return errors + [invalid(field, value, why) for why in names.dns_subdomain(value.lower())]


def validate_pool_name(value: str, field: str) -> list[FieldError]:
    """Return the errors of the name of a pool: subdomains with slashes between them."""
    if not value:
        return [required(field)]
    errors = [too_long(field, _POOL_MAX)] if len(value) > _POOL_MAX else []
    for part in value.split("/"):
        errors += name_errors(part, field, names.dns_subdomain)
    return errors


def validate_qualified_name(value: str, field: str) -> list[FieldError]:
    """Return the errors of the name of an attribute or capacity, with or without a domain."""
    domain, slash, name = value.partition("/")
    if not slash:
        return _identifier_errors(value, field)
    if "/" in name:  # upstream has no rule for a second slash
        return []
    errors = validate_driver(domain, field) if domain else []
    if not domain:
        errors.append(invalid(field, "", "the domain must not be empty"))
    if not name:
        return [*errors, invalid(field, "", "the name must not be empty")]
    return errors + _identifier_errors(name, field)


def _identifier_errors(value: str, field: str) -> list[FieldError]:
    errors = [too_long(field, _IDENTIFIER_MAX)] if len(value) > _IDENTIFIER_MAX else []
    if not _match_identifier(value):
        errors.append(invalid(field, value, _IDENTIFIER_RULE))
    return errors


def _full_name_errors(value: str, field: str) -> list[FieldError]:
    errors = validate_qualified_name(value, field)
    if "/" not in value:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(field, value, why))
    return errors


def validate_taint(taint: Json, field: str) -> list[FieldError]:
    """Return the errors of a device's taint."""
    value, effect = text(taint.get("value")), text(taint.get("effect"))
    errors = validate_label_key(text(taint.get("key")), f"{field}.key")
    errors += validate_label_value(value, f"{field}.value")
    return errors + required_choice_errors(effect, f"{field}.effect", _EFFECTS)


def _toleration_errors(toleration: Json, field: str) -> list[FieldError]:
    key, value = text(toleration.get("key")), text(toleration.get("value"))
    operator, effect = text(toleration.get("operator")), text(toleration.get("effect"))
    errors = validate_label_key(key, f"{field}.key") if key else []
    if operator == "Exists":
        if value:
            errors.append(invalid(f"{field}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += validate_label_value(value, f"{field}.value")
    else:
        errors += choice_errors(operator, f"{field}.operator", ("Equal", "Exists"))
    return errors + choice_errors(effect, f"{field}.effect", _EFFECTS) if effect else errors


def validate_claim_spec(spec: Json, field: str) -> list[FieldError]:
    """Return the errors of the spec of a claim: requests, constraints, configuration."""
    devices, field = mapping(spec.get("devices")), f"{field}.devices"
    requests = mappings(devices.get("requests"))
    by_name = _known_requests(requests)
    errors = each(
        requests, f"{field}.requests", _request_errors, maximum=_LIST_MAX, key=name_of_item
    )
    constraint = functools.partial(_constraint_errors, by_name)
    constraints = mappings(devices.get("constraints"))
    errors += each(constraints, f"{field}.constraints", constraint, maximum=_LIST_MAX)
    config = functools.partial(_config_errors, by_name)
    configs = mappings(devices.get("config"))
    return errors + each(configs, f"{field}.config", config, maximum=_LIST_MAX)


def _known_requests(requests: list[Json]) -> _Requests:
    return {
        name_of_item(request): (
            frozenset(map(name_of_item, mappings(request["firstAvailable"])))
            if request.get("firstAvailable")
            else None
        )
        for request in requests
    }


def _request_errors(request: Json, field: str) -> list[FieldError]:
    errors = name_errors(name_of_item(request), f"{field}.name", names.dns_label)
    choices, exactly = mappings(request.get("firstAvailable")), request.get("exactly")
    if choices and exactly is not None:
        why = f"{_ONE_KIND}, but multiple fields are set"
        return [*errors, invalid(field, None, why)]
    if choices:
        path = f"{field}.firstAvailable"
        return errors + each(
            choices, path, _subrequest_errors, maximum=_SUBREQUESTS_MAX, key=name_of_item
        )
    if exactly is None:
        return [*errors, required(field, _ONE_KIND)]
    return errors + _wish_errors(mapping(exactly), f"{field}.exactly")


def _subrequest_errors(request: Json, field: str) -> list[FieldError]:
    errors = name_errors(name_of_item(request), f"{field}.name", names.dns_label)
    return errors + _wish_errors(request, field)


def _wish_errors(wish: Json, field: str) -> list[FieldError]:
    """Return the errors of the fields that requests and subrequests share."""
    class_name = text(wish.get("deviceClassName"))
    errors = required_name_errors(class_name, f"{field}.deviceClassName", names.dns_subdomain)
    errors += validate_selectors(mappings(wish.get("selectors")), f"{field}.selectors")
    mode, count = text(wish.get("allocationMode")), integer(wish.get("count"))
    if mode == "All":
        if count:
            why = "must not be specified when allocationMode is 'All'"
            errors.append(invalid(f"{field}.count", count, why))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(f"{field}.count", count, "must be greater than zero"))
    else:
        errors += choice_errors(mode, f"{field}.allocationMode", ("All", "ExactCount"))
    tolerations = mappings(wish.get("tolerations"))
    return errors + each(tolerations, f"{field}.tolerations", _toleration_errors)


def validate_selectors(selectors: list[Json], field: str) -> list[FieldError]:
    """Return the errors of the selectors of a request or class."""
    return each(selectors, field, _selector_errors, maximum=_LIST_MAX)


def _selector_errors(selector: Json, field: str) -> list[FieldError]:
    if selector.get("cel") is None:
        return [required(f"{field}.cel")]
    expression, path = text(mapping(selector["cel"]).get("expression")), f"{field}.cel.expression"
    if len(expression.encode()) > _BYTES_MAX:
        return [too_long(path, _BYTES_MAX)]
    problem = _syntax_problem(expression)
    return [invalid(path, expression, f"compilation failed: {problem}")] if problem else []


def _syntax_problem(expression: str) -> str:
    """Return the error of an expression that is not CEL, else an empty string."""
    problem = worker.compiled(expression).error if worker.is_available() else ""
    return problem.removeprefix(f"Failed to parse expression '{expression}': ")


def _constraint_errors(requests: _Requests, constraint: Json, field: str) -> list[FieldError]:
    errors = _reference_list_errors(requests, constraint, field)
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            return errors + _full_name_errors(text(constraint[name]), f"{field}.{name}")
    return [*errors, required(field, _ONE_ATTRIBUTE)]


def _reference_list_errors(known: _Requests, item: Json, field: str) -> list[FieldError]:
    check = functools.partial(_reference_errors, known)
    requests, path = texts(item.get("requests")), f"{field}.requests"
    return each(requests, path, check, maximum=_LIST_MAX, key=str)


def _reference_errors(requests: _Requests, name: str, field: str) -> list[FieldError]:
    parts = name.split("/")
    if len(parts) > 2:
        return [invalid(field, name, _REFERENCE_RULE)]
    errors = [error for part in parts for error in name_errors(part, field, names.dns_label)]
    exists = parts[0] in requests and (len(parts) == 1 or parts[1] in (requests[parts[0]] or ()))
    return errors if exists else [*errors, invalid(field, name, _REFERENCE_RULE)]


def _config_errors(requests: _Requests, config: Json, field: str) -> list[FieldError]:
    return _reference_list_errors(requests, config, field) + validate_config(config, field)


def validate_config(config: Json, field: str) -> list[FieldError]:
    """Return the errors of a configuration, which is opaque parameters of a driver."""
    if config.get("opaque") is None:
        return [required(f"{field}.opaque")]
    opaque, path = mapping(config["opaque"]), f"{field}.opaque"
    errors = validate_driver(text(opaque.get("driver")), f"{path}.driver")
    return errors + _raw_errors(opaque.get("parameters"), f"{path}.parameters")


def _raw_errors(value: object, field: str) -> list[FieldError]:
    """Return the errors of a value that a driver defines: a JSON object that is not too long."""
    if value is None:
        return [required(field)]
    if len(msgspec.json.encode(value)) > _BYTES_MAX:
        return [too_long(field, _BYTES_MAX)]
    if not isinstance(value, dict):
        return [invalid(field, "<value omitted>", "must be a valid JSON object")]
    return []


def validate_template_spec(spec: Json, field: str) -> list[FieldError]:
    """Return the errors of the spec of a claim template."""
    metadata = mapping(spec.get("metadata"))
    errors = validate_labels(metadata.get("labels"), f"{field}.metadata.labels")
    return errors + validate_claim_spec(mapping(spec.get("spec")), f"{field}.spec")


def device_key(device: Json) -> tuple[str, ...]:
    """Return the identity of an allocated device, with the id of its share if it has one."""
    return tuple(text(device.get(name)) for name in ("driver", "pool", "device", "shareID"))


def allocated_devices(claim: Json) -> frozenset[tuple[str, ...]]:
    """Return the identities of the devices that the claim has."""
    allocation = mapping(mapping(claim.get("status")).get("allocation"))
    results = mappings(mapping(allocation.get("devices")).get("results"))
    return frozenset(device_key(result) for result in results)


def validate_claim_status(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of an update of a claim's status."""
    status, old_status = mapping(new.get("status")), mapping(old.get("status"))
    users = mappings(status.get("reservedFor"))
    errors = each(
        users,
        "status.reservedFor",
        _user_errors,
        maximum=_RESERVED_MAX,
        key=lambda user: text(user.get("uid")),
    )
    check = functools.partial(_device_status_errors, allocated_devices(new))
    devices = mappings(status.get("devices"))
    errors += each(devices, "status.devices", check, key=device_key)
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    if users and allocation is None:
        why = "may not be specified when `allocated` is not set"
        errors.append(forbidden("status.reservedFor", why))
    elif is_deleting(new) and any(
        user not in mappings(old_status.get("reservedFor")) for user in users
    ):
        why = (
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` "
            "are set"
        )
        errors.append(forbidden("status.reservedFor", why))
    if allocation is None:
        return errors
    if old_allocation is not None:
        same = allocation == old_allocation
        immutable = invalid("status.allocation", allocation, "field is immutable")
        return errors if same else [*errors, immutable]
    return errors + _allocation_errors(new, mapping(allocation), "status.allocation")


def _user_errors(user: Json, field: str) -> list[FieldError]:
    wanted = ("resource", "name", "uid")
    return [required(f"{field}.{name}") for name in wanted if not user.get(name)]


def _device_status_errors(
    allocated: frozenset[tuple[str, ...]], device: Json, field: str
) -> list[FieldError]:
    errors = validate_driver(text(device.get("driver")), f"{field}.driver")
    errors += validate_pool_name(text(device.get("pool")), f"{field}.pool")
    errors += name_errors(text(device.get("device")), f"{field}.device", names.dns_label)
    errors += _share_errors(device, field)
    key = device_key(device)
    if key not in allocated:
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), key, strict=True))
        errors.append(invalid(field, shown, "must be an allocated device in the claim"))
    conditions = mappings(device.get("conditions"))
    if len(conditions) > _CONDITIONS_MAX:
        errors.append(too_many(f"{field}.conditions", len(conditions), _CONDITIONS_MAX))
    if device.get("data") is not None:
        errors += _raw_errors(device["data"], f"{field}.data")
    return errors


def _share_errors(device: Json, field: str) -> list[FieldError]:
    if device.get("shareID") is None:
        return []
    value, path = text(device["shareID"]), f"{field}.shareID"
    try:
        normal = str(uuid.UUID(value))
    except ValueError:
        why = f"error validating uid: invalid UUID length: {len(value)}"
        if len(value) == 36:
            why = "error validating uid: invalid UUID format"
        return [invalid(path, value, why)]
    return [] if value == normal else [invalid(path, value, _UID_RULE)]


def _allocation_errors(claim: Json, allocation: Json, field: str) -> list[FieldError]:
    devices = mapping(mapping(claim.get("spec")).get("devices"))
    requests = _known_requests(mappings(devices.get("requests")))
    allocated, path = mapping(allocation.get("devices")), f"{field}.devices"
    result = functools.partial(_result_errors, requests)
    results = mappings(allocated.get("results"))
    errors = each(results, f"{path}.results", result, maximum=_LIST_MAX)
    config = functools.partial(_allocated_config_errors, requests)
    configs = mappings(allocated.get("config"))
    errors += each(configs, f"{path}.config", config, maximum=2 * _LIST_MAX)
    if allocation.get("nodeSelector") is not None:
        selector = mapping(allocation["nodeSelector"])
        errors += validate_node_selector(selector, f"{field}.nodeSelector")
    return errors


def _result_errors(requests: _Requests, result: Json, field: str) -> list[FieldError]:
    errors = _reference_errors(requests, text(result.get("request")), f"{field}.request")
    errors += validate_driver(text(result.get("driver")), f"{field}.driver")
    errors += validate_pool_name(text(result.get("pool")), f"{field}.pool")
    errors += name_errors(text(result.get("device")), f"{field}.device", names.dns_label)
    return errors + validate_binding_conditions(result, field) + _share_errors(result, field)


def _allocated_config_errors(requests: _Requests, config: Json, field: str) -> list[FieldError]:
    sources = ("FromClaim", "FromClass")
    errors = required_choice_errors(text(config.get("source")), f"{field}.source", sources)
    return errors + _config_errors(requests, config, field)


def validate_binding_conditions(device: Json, field: str) -> list[FieldError]:
    """Return the errors of the binding conditions of a device, or of its allocation."""
    lists = {name: texts(device.get(name)) for name in _BINDING_FIELDS}
    wanted, failures = lists.values()
    errors: list[FieldError] = []
    for name, conditions in lists.items():
        path = f"{field}.{name}"
        errors += each(conditions, path, validate_label_key, maximum=_BINDING_CONDITIONS_MAX)
    successes = frozenset(wanted)
    for name, conditions in lists.items():
        seen: set[str] = set()
        for index, condition in enumerate(conditions):
            path = f"{field}.{name}[{index}]"
            if condition in seen:
                errors.append(duplicate(path, condition))
            seen.add(condition)
            if conditions is failures and condition in successes:
                why = "bindingFailureConditions must not overlap with bindingConditions"
                errors.append(invalid(path, condition, why))
    for name, other in (_BINDING_FIELDS, _BINDING_FIELDS[::-1]):
        if not lists[name] and lists[other]:
            why = f"{name} are required to use {other}"
            errors.append(invalid(f"{field}.{name}", None, why))
    return errors


_BINDING_FIELDS: Final = ("bindingConditions", "bindingFailureConditions")
