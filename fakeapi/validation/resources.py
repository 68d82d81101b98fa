"""Validation of resource names, quantities and requirements.

Source: validateResourceRequirements and its neighbours in pkg/apis/core/validation/validation.go,
pkg/apis/core/helper/helpers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types import names, pod_resources
from fakeapi.types.errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, mappings, text
from fakeapi.types.pod_resources import REQUESTS_PREFIX, is_extended_resource, is_native_resource
from fakeapi.types.quantity import NANO, QuantityError, parse_nano, render
from fakeapi.validation.checks import NOT_NEGATIVE, name_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_HUGE_PAGES: Final = pod_resources.HUGE_PAGES_PREFIX
_LISTED_MAX: Final = 1024
_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD: Final = frozenset(
    {
        *_CONTAINER, "storage", "pods", "services", "replicationcontrollers", "resourcequotas",
        "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports",
        "services.loadbalancers", "requests.cpu", "requests.memory", "requests.storage",
        "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
    }
)  # fmt: skip
_INTEGERS: Final = frozenset(
    {
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip


def validate_resource_name(name: str, field: str) -> list[FieldError]:
    """Return an error unless the resource has a standard name or a name with a domain."""
    errors = name_errors(name, field, names.qualified_name)
    if not errors and "/" not in name and not _is_standard(name):
        errors.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return errors


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith((_HUGE_PAGES, f"{REQUESTS_PREFIX}{_HUGE_PAGES}"))


def _allows_overcommit(name: str) -> bool:
    return is_native_resource(name) and not name.startswith(_HUGE_PAGES)


def _container_name(name: str, field: str) -> list[FieldError]:
    if name in _CONTAINER:
        return []
    errors = validate_resource_name(name, field)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE_PAGES):
            errors.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native_resource(name) and not is_extended_resource(name):
        errors.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return errors


def _pod_name(name: str, field: str) -> list[FieldError]:
    errors = validate_resource_name(name, field)
    if not errors and not pod_resources.is_pod_level_resource(name):
        errors.append(not_supported(field, name, ("cpu", _HUGE_PAGES, "memory")))
    return errors


def validate_quantity(name: str, value: str, field: str) -> list[FieldError]:
    """Return the errors of an amount that is negative, or a fraction of an indivisible resource."""
    amount = parse_nano(value)
    errors = []
    if amount < 0:
        errors.append(invalid(field, value, NOT_NEGATIVE))
    if (name in _INTEGERS or is_extended_resource(name)) and amount % NANO:
        errors.append(invalid(field, value, "must be an integer"))
    if name.startswith(_HUGE_PAGES) and amount > 0:
        size = name.removeprefix(_HUGE_PAGES)
        if _is_quantity(size) and amount % parse_nano(size):
            errors.append(
                invalid(field, value, f"{value} is not positive integer multiple of {name}")
            )
    return errors


def _is_quantity(value: str) -> bool:
    try:
        return parse_nano(value) > 0
    except QuantityError:
        return False


def validate_amounts(amounts: object, field: str) -> list[FieldError]:
    """Return the errors of the amounts of a resource list with any names (a node's capacity)."""
    errors: list[FieldError] = []
    for name, value in mapping(amounts).items():
        errors += validate_quantity(name, text(value), f"{field}.{name}")
    return errors


def validate_container_resources(
    resources: Json, field: str, claim_names: Collection[str]
) -> list[FieldError]:
    """Return the errors of the requests, limits and claims of a container."""
    if not resources:
        return []
    errors = _requirements(resources, field, _container_name)
    return errors + _claims(mappings(resources.get("claims")), f"{field}.claims", claim_names)


def validate_overhead(overhead: object, field: str) -> list[FieldError]:
    """Return the errors of a pod's overhead, which has the names and amounts of limits."""
    return _requirements({"limits": overhead}, field, _container_name)


def validate_pod_resources(spec: Json, field: str) -> list[FieldError]:
    """Return the errors of pod-level resources that are less than the containers' (KEP-2837)."""
    resources = spec.get("resources")
    if not isinstance(resources, dict):
        return []
    errors = []
    if resources.get("claims"):
        errors.append(
            forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level")
        )
    errors += _requirements(resources, field, _pod_name)
    requests = mapping(resources.get("requests"))
    for name, amount in pod_resources.container_sums(spec, "requests").items():
        if name in requests and amount > parse_nano(text(requests[name])):
            total = render(amount)
            why = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{field}.requests[{name}]", requests[name], why))
    limits = mapping(resources.get("limits"))
    for index, container in enumerate(mappings(spec.get("containers"))):
        own = mapping(mapping(container.get("resources")).get("limits"))
        for name, value in own.items():
            if name in limits and parse_nano(text(value)) > parse_nano(text(limits[name])):
                why = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{field}.containers[{index}][{name}].limits", value, why))
    return errors


def _requirements(
    resources: Json, field: str, check_name: Callable[[str, str], list[FieldError]]
) -> list[FieldError]:
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    errors: list[FieldError] = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            path = f"{field}.{part}[{name}]"
            errors += check_name(name, path) + validate_quantity(name, text(value), path)
            if part == "requests":
                errors += _against_limit(name, text(value), limits.get(name), field)
    names = limits.keys() | requests.keys()
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(field, "HugePages require cpu or memory"))
    return errors


def _against_limit(name: str, request: str, limit: object, field: str) -> list[FieldError]:
    if isinstance(limit, str):
        amount, bound = parse_nano(request), parse_nano(limit)
        if amount != bound and not _allows_overcommit(name):
            why = f"must be equal to {name} limit of {limit}"
        elif amount > bound:
            why = f"must be less than or equal to {name} limit of {limit}"
        else:
            return []
        return [invalid(f"{field}.requests", request, why)]
    if not _allows_overcommit(name):
        why = "Limit must be set for non overcommitable resources"
        return [required(f"{field}.limits", why)]
    return []


def _claims(claims: list[Json], field: str, claim_names: Collection[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    in_part: set[str] = set()
    listed = f": {_listed(claim_names)}" if claim_names else " which is empty"
    for index, claim in enumerate(claims):
        name, request = text(claim.get("name")), text(claim.get("request"))
        path = f"{field}[{index}]"
        if not name:
            errors.append(required(path))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and name in in_part):
            errors.append(duplicate(path, key if name not in seen else name))
        seen.add(key)
        if request:
            in_part.add(name)
        if name not in claim_names:
            why = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(FieldError("FieldValueNotFound", path, why, name))
    return errors


def _listed(names: Collection[str]) -> str:
    """Return names in order; many are cut off, as each of as many errors may list them."""
    listed = ", ".join(sorted(names))
    return listed if len(listed) <= _LISTED_MAX else f"{listed[:_LISTED_MAX]}..."
