"""The capacity that requests take of devices which several claims share.

Amounts are exact, in nano-units. Source:
`k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.api.quantity import parse_quantity, quantity_text, value

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


def _violates_policy(nanos: int, capacity: DeviceCapacity) -> bool:
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
    step = value(parse_quantity(valid.step)) if valid.step is not None else 0
    least = value(parse_quantity(valid.min)) if valid.min is not None else 0
    return bool(step) and (value(nanos) - least) % step != 0
