"""The capacity that requests take of devices which several claims share.

Amounts are exact, in nano-units. Source:
`k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import quoted
from scheduler.api.quantity import INT64_MAX, in_units_of, parse_quantity, quantity_text, value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


class CapacityRules(NamedTuple):
    """The arithmetic of a version."""

    #: The unit in which a range counts, in nano-units.
    unit: Callable[[CapacityRequestPolicyRange], int]
    #: Rounds an amount up to the minimum plus a multiple of the step, in a unit.
    rounded: Callable[[Amount, int, Quantity, int], Amount]
    #: True if a negative amount ends the search.
    refuses_negative: bool


_WHOLE: Final = 10**9
_MILLI: Final = 10**6
_NOT_REPRESENTABLE: Final = (
    "capacity request cannot be represented in the device's range arithmetic"
)


def fits(
    requirements: CapacityRequirements | None,
    offered: Mapping[str, DeviceCapacity],
    *taken: Mapping[str, int],
    rules: CapacityRules,
) -> bool:
    """Return True if a device has the capacity of a request left (`CmpRequestOverCapacity`).

    `taken` are the amounts that are taken already, by name. Raises `CapacityError`.
    """
    if not _requests(requirements).keys() <= offered.keys():
        return False
    amounts = consumed(requirements, offered, rules)
    for name, amount in amounts.items() if rules.refuses_negative else ():
        if amount.nanos < 0:
            raise CapacityError(f"capacity {quoted(name)}: capacity value is negative")
    return not any(
        _violates_policy(amounts[name].nanos, capacity, rules)
        or sum(each.get(name, 0) for each in taken) + amounts[name].nanos
        > parse_quantity(capacity.value)
        for name, capacity in offered.items()
    )


def consumed(
    requirements: CapacityRequirements | None,
    offered: Mapping[str, DeviceCapacity],
    rules: CapacityRules,
) -> dict[str, Amount]:
    """Return the amounts that a request takes (`GetConsumedCapacityFromRequest`).

    Raises `CapacityError`.
    """
    requests, amounts = _requests(requirements), {}
    for name, capacity in sorted(offered.items()):
        try:
            amounts[name] = _consumed(requests.get(name), capacity, rules)
        except CapacityError as error:
            raise CapacityError(f"capacity {quoted(name)}: {error}") from error
    return amounts


def _requests(requirements: CapacityRequirements | None) -> Quantities:
    return requirements.requests if requirements is not None else {}


def _amount(text: Quantity) -> Amount:
    return Amount(text, parse_quantity(text))


def _consumed(requested: Quantity | None, capacity: DeviceCapacity, rules: CapacityRules) -> Amount:
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
        least = _amount(valid.min)
        if amount.nanos < least.nanos:
            return least
        if valid.step is None:
            return amount
        return rules.rounded(amount, least.nanos, valid.step, rules.unit(valid))
    for text in policy.valid_values:
        if amount.nanos <= parse_quantity(text):
            return _amount(text)
    return amount


def _rounded_up(amount: Amount, least: int, step_text: Quantity, unit: int) -> Amount:
    wanted, start, step = map(value, (amount.nanos, least, parse_quantity(step_text)))
    if not step:
        return amount
    nanos = (start + step * -(-(wanted - start) // step)) * unit
    return Amount(quantity_text(nanos, "Ki"), nanos)


def _rounded_if_representable(amount: Amount, least: int, step_text: Quantity, unit: int) -> Amount:
    """Return the amount rounded up; raises `CapacityError` if it is too large or fine (v1.37)."""
    shown = quantity_text(amount.nanos, amount.text)
    is_milli = unit == _MILLI
    if is_milli and not _is_representable(amount.nanos):
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


def _is_representable(nanos: int) -> bool:
    """Return True for a number of thousandths that fits in 64 bits."""
    return not nanos % _MILLI and nanos // _MILLI <= INT64_MAX


def _in_whole_units(valid: CapacityRequestPolicyRange) -> int:
    return _WHOLE


def _in_milli_units(valid: CapacityRequestPolicyRange) -> int:
    """Return a thousandth if all limits are multiples of it, else a whole unit (`useMilli`)."""
    texts = (valid.min, valid.max, valid.step)
    limits = [parse_quantity(text) for text in texts if text is not None]
    is_fine = valid.step is not None and parse_quantity(valid.step) < _MILLI
    return _MILLI if all(map(_is_representable, limits)) and not is_fine else _WHOLE


def _violates_policy(nanos: int, capacity: DeviceCapacity, rules: CapacityRules) -> bool:
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
    if valid.step is None:
        return False
    unit = rules.unit(valid)
    if unit == _MILLI and not _is_representable(nanos):
        return True
    step = in_units_of(unit, parse_quantity(valid.step))
    least = in_units_of(unit, parse_quantity(valid.min)) if valid.min is not None else 0
    return bool(step) and (in_units_of(unit, nanos) - least) % step != 0


CAPACITY_OF_1_36: Final = CapacityRules(_in_whole_units, _rounded_up, refuses_negative=False)
CAPACITY_OF_1_37: Final = CapacityRules(
    _in_whole_units, _rounded_if_representable, refuses_negative=True
)
FRACTIONAL_CAPACITY_OF_1_37: Final = CAPACITY_OF_1_37._replace(unit=_in_milli_units)
