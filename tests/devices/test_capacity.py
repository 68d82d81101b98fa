"""The amounts that requests take of shared devices; the texts are those of Go's allocator."""

import re

import pytest

from scheduler.api.dynamic_resources import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    DeviceCapacity,
)
from scheduler.api.quantity import quantity_text
from scheduler.devices.capacity import (
    CAPACITY_OF_1_36,
    CAPACITY_OF_1_37,
    FRACTIONAL_CAPACITY_OF_1_37,
    CapacityError,
    CapacityRules,
    consumed,
    fits,
)

WHOLE, MILLI = CAPACITY_OF_1_37, FRACTIONAL_CAPACITY_OF_1_37


@pytest.mark.parametrize(
    ("requested", "text"),
    [("500m", "1"), ("1500m", "2"), ("3", "3"), ("3Ki", "3Ki"), ("4096", "4Ki")],
)
def test_amounts_are_rounded_up_to_a_step(requested: str, text: str) -> None:
    policy = CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(min="1", step="1"))
    offered = {"memory": DeviceCapacity("8Ki", policy)}
    wanted = CapacityRequirements({"memory": requested})
    taken = consumed(wanted, offered, CAPACITY_OF_1_36)["memory"]
    assert quantity_text(taken.nanos, taken.text) == text


def offer(
    value: str, default: str | None = None, values: tuple[str, ...] = (), **limits: str
) -> DeviceCapacity:
    valid = CapacityRequestPolicyRange(**limits) if limits else None
    return DeviceCapacity(value, CapacityRequestPolicy(default, values, valid))


#: More than the thousandths that fit in 64 bits, and more than fits in them.
TOO_MANY_MILLIS, MAX = "9223372036854776", "9223372036854775807"


@pytest.mark.parametrize(
    ("offered", "requested", "taken"),
    [
        (offer("1"), None, "1"),
        (offer("2", "1", min="1"), None, "1"),
        (offer("2", "1", ("1",)), None, "1"),
        (offer("2", "1", min="1"), "2", "2"),
        (offer("2", "1", min="2"), "1", "2"),
        (offer("3", "1", min="1", step="2"), "2", "3"),
        (offer("2", "1", min="1", step="1"), "2", "2"),
        (offer("2", "1", min="1", step="0"), "2", "2"),
        (offer("1", "200m", min="200m", max="1", step="100m"), "250m", "300m"),
    ],
)
def test_amounts_of_v1_37_are_those_of_upstreams_table(
    offered: DeviceCapacity, requested: str | None, taken: str
) -> None:
    """From `testCalculateConsumedCapacity`, v1.37."""
    wanted = CapacityRequirements({"memory": requested} if requested is not None else {})
    found = consumed(wanted, {"memory": offered}, MILLI)["memory"]
    assert quantity_text(found.nanos, found.text) == taken


def test_the_largest_amount_of_v1_37_can_be_computed() -> None:
    wanted = CapacityRequirements({"memory": "9223372036854775806"})
    offered = {"memory": offer(MAX, "1", min="1", step="2")}
    found = consumed(wanted, offered, WHOLE)["memory"]
    assert quantity_text(found.nanos, found.text) == MAX


@pytest.mark.parametrize(
    ("offered", "requested", "rules", "error"),
    [
        (offer("4", min="0", step="3"), "18446744073709551619", WHOLE, "exceeds MaxInt64"),
        (
            offer(MAX, min="0", step="2"),
            MAX,
            WHOLE,
            f"rounding request {MAX} up to the next step passes MaxInt64",
        ),
        (
            offer("4", min="0", step="2m"),
            "9223372036854775807m",
            MILLI,
            "up to the next step passes the milli-value range",
        ),
        (
            offer("4", min="1", step="1"),
            TOO_MANY_MILLIS,
            MILLI,
            "not a representable milli value",
        ),
        (offer("4", min="0", step="1"), "1500u", MILLI, "not a representable milli value"),
        (offer("4"), "-1", WHOLE, "capacity value is negative"),
    ],
)
def test_amounts_of_v1_37_that_cannot_be_computed_end_the_search(
    offered: DeviceCapacity, requested: str, rules: CapacityRules, error: str
) -> None:
    wanted = CapacityRequirements({"memory": requested})
    with pytest.raises(CapacityError, match=f'^capacity "memory": .*{re.escape(error)}$'):
        fits(wanted, {"memory": offered}, rules=rules)


@pytest.mark.parametrize(
    ("offered", "requested", "does_fit"),
    [
        (offer("2", "1", min="1", max="2"), "1", True),
        (offer("2", "1", min="1", max="1"), "2", False),
        (offer("2", "1", ("1",)), "1", True),
        (offer("2", "1", ("1",)), "2", False),
        # A value that counts in thousandths but has a step is rounded; without one it need not be.
        (offer("2", "200m", min="200m", max="1", step="100m"), "250m", True),
        (offer("2", "200m", min="200m", max="1"), "250m", True),
        (offer("2", "1", min="1"), "1500u", True),
        (offer("9Ei", "1", min="1"), TOO_MANY_MILLIS, True),
        (offer("1"), "2", False),
    ],
)
def test_a_request_of_v1_37_fits_if_the_policy_and_the_value_allow_it(
    offered: DeviceCapacity, requested: str, does_fit: bool
) -> None:
    wanted = CapacityRequirements({"memory": requested})
    assert fits(wanted, {"memory": offered}, rules=MILLI) is does_fit
    assert not fits(wanted, {"other": offered}, rules=MILLI)
