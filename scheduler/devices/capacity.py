"""The capacity that requests take of devices which several claims share.

Amounts are exact, in nano-units. Source:
`k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import quoted
from scheduler.api.quantity import INT64_MAX, parse_quantity, quantity_text, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Quantities
    from scheduler.api.dynamic_resources import (
        CapacityRequestPolicyRange,
        CapacityRequirements,
        DeviceCapacity,
        Quantity,
    )


class Amount(NamedTuple):
    """A quantity as it is written, and in nano-units."""

    text: Quantity
    nanos: int


class CapacityError(Exception):
    """A request of capacity that ends the search. Upstream's text."""


_MILLI: Final = 10**6
_NOT_REPRESENTABLE: Final = (
    "capacity request cannot be represented in the device's range arithmetic"
)


def _amount(text: Quantity) -> Amount:
    return Amount(text, parse_quantity(text))


def fits(
    requirements: CapacityRequirements | None,
    offered: Mapping[str, DeviceCapacity],
    *taken: Mapping[str, int],
) -> bool:
    """Return True if a device has the capacity of a request left (`CmpRequestOverCapacity`).

    `taken` are the amounts that are taken already, by name.
    """
    requests = _requests(requirements)
    if not requests.keys() <= offered.keys():
        return False
    for name, capacity in offered.items():
        wanted = _consumed(requests.get(name), capacity)
        if _violates_policy(wanted.nanos, capacity):
            return False
        used = sum(amounts.get(name, 0) for amounts in taken)
        if used + wanted.nanos > parse_quantity(capacity.value):
            return False
    return True


def consumed(
    requirements: CapacityRequirements | None, offered: Mapping[str, DeviceCapacity]
) -> dict[str, Amount]:
    """Return the amounts that a request takes (`GetConsumedCapacityFromRequest`)."""
    requests = _requests(requirements)
    return {name: _consumed(requests.get(name), capacity) for name, capacity in offered.items()}


def _requests(requirements: CapacityRequirements | None) -> Quantities:
    return requirements.requests if requirements is not None else {}


def _consumed(requested: Quantity | None, capacity: DeviceCapacity) -> Amount:
    """Return the amount that is taken for a requested one: rounded up as the policy demands."""
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return _amount(capacity.value if default is None else default)
    amount = _amount(requested)
    if policy is None:
        return amount
    valid = policy.valid_range
    if valid is not None and valid.min is not None:
        return _rounded_to_range(amount, _amount(valid.min), valid)
    for text in policy.valid_values:
        if amount.nanos <= parse_quantity(text):
            return _amount(text)
    return amount


def _rounded_to_range(amount: Amount, least: Amount, valid: CapacityRequestPolicyRange) -> Amount:
    if amount.nanos < least.nanos:
        return least
    step = value(parse_quantity(valid.step)) if valid.step is not None else 0
    if not step:
        return amount
    start = value(least.nanos)
    steps = -(-(value(amount.nanos) - start) // step)
    nanos = (start + step * steps) * 10**9
    return Amount(quantity_text(nanos, "Ki"), nanos)


def fits_if_representable(
    requirements: CapacityRequirements | None,
    offered: Mapping[str, DeviceCapacity],
    *taken: Mapping[str, int],
    is_fractional: bool,
) -> bool:
    """Return True if a device has the capacity of a request left (v1.37).

    With `is_fractional` ranges count in thousandths. Raises `CapacityError` for amounts that are
    negative, or too large or too fine for the steps of a range.
    """
    requests = _requests(requirements)
    if not requests.keys() <= offered.keys():
        return False
    amounts = consumed_in_steps(requirements, offered, is_fractional=is_fractional)
    for name, amount in amounts.items():
        if amount.nanos < 0:
            raise CapacityError(f"capacity {quoted(name)}: capacity value is negative")
    return not any(
        _violates_policy(amounts[name].nanos, capacity, is_fractional=is_fractional)
        or sum(each.get(name, 0) for each in taken) + amounts[name].nanos
        > parse_quantity(capacity.value)
        for name, capacity in offered.items()
    )


def consumed_in_steps(
    requirements: CapacityRequirements | None,
    offered: Mapping[str, DeviceCapacity],
    *,
    is_fractional: bool,
) -> dict[str, Amount]:
    """Return the amounts that a request takes (v1.37); raises `CapacityError`."""
    requests, amounts = _requests(requirements), {}
    for name, capacity in sorted(offered.items()):
        requested, policy = requests.get(name), capacity.request_policy
        valid = policy.valid_range if policy is not None else None
        if requested is None or valid is None or valid.min is None or valid.step is None:
            amounts[name] = _consumed(requested, capacity)
            continue
        amount, least = _amount(requested), _amount(valid.min)
        try:
            amounts[name] = (
                least
                if amount.nanos < least.nanos
                else _in_steps(
                    amount, least.nanos, valid.step, _unit(valid, is_fractional=is_fractional)
                )
            )
        except CapacityError as error:
            raise CapacityError(f"capacity {quoted(name)}: {error}") from error
    return amounts


def _unit(valid: CapacityRequestPolicyRange, *, is_fractional: bool) -> int:
    """Return the unit in which a range counts, in nano-units (`useMilli`)."""
    texts = (valid.min, valid.max, valid.step)
    limits = [parse_quantity(text) for text in texts if text is not None]
    is_milli = (
        is_fractional
        and all(not nanos % _MILLI and nanos // _MILLI <= INT64_MAX for nanos in limits)
        and (valid.step is None or parse_quantity(valid.step) >= _MILLI)
    )
    return _MILLI if is_milli else 10**9


def _in_steps(amount: Amount, least: int, step_text: Quantity, unit: int) -> Amount:
    """Return the amount rounded up to the least one plus a multiple of the step."""
    shown = quantity_text(amount.nanos, amount.text)
    is_milli = unit == _MILLI
    if is_milli and (amount.nanos % unit or amount.nanos // unit > INT64_MAX):
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: request {shown} is not a representable milli value"
        )
    if not is_milli and amount.nanos > INT64_MAX * unit:
        raise CapacityError(f"{_NOT_REPRESENTABLE}: request {shown} exceeds MaxInt64")
    wanted, start, step = (
        -(-nanos // unit) for nanos in (amount.nanos, least, parse_quantity(step_text))
    )
    if not step:
        return amount
    steps = -(-(wanted - start) // step)
    if start >= 0 and steps > (INT64_MAX - start) // step:
        limit = "the milli-value range" if is_milli else "MaxInt64"
        raise CapacityError(
            f"{_NOT_REPRESENTABLE}: rounding request {shown} up to the next step passes {limit}"
        )
    nanos = (start + step * steps) * unit
    return Amount(quantity_text(nanos, step_text), nanos)


def _violates_policy(nanos: int, capacity: DeviceCapacity, *, is_fractional: bool = False) -> bool:
    policy = capacity.request_policy
    if policy is None:
        return False
    if policy.default is not None and nanos == parse_quantity(policy.default):
        return False
    valid = policy.valid_range
    if valid is None:
        amounts = list(map(parse_quantity, policy.valid_values))
        return bool(amounts) and nanos not in amounts
    if valid.max is not None and nanos > parse_quantity(valid.max):
        return True
    if _unit(valid, is_fractional=is_fractional) == _MILLI:
        if nanos % _MILLI or nanos // _MILLI > INT64_MAX:
            return valid.step is not None
        step = parse_quantity(valid.step) if valid.step is not None else 0
        least = parse_quantity(valid.min) if valid.min is not None else 0
        return bool(step) and (nanos - least) % step != 0
    step = value(parse_quantity(valid.step)) if valid.step is not None else 0
    least = value(parse_quantity(valid.min)) if valid.min is not None else 0
    return bool(step) and (value(nanos) - least) % step != 0
