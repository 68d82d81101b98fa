"""The amounts that requests take of shared devices; the texts are those of Go's allocator."""

import pytest

from scheduler.api.dynamic_resources import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    DeviceCapacity,
)
from scheduler.api.quantity import quantity_text
from scheduler.devices.capacity import consumed


@pytest.mark.parametrize(
    ("requested", "text"),
    [("500m", "1"), ("1500m", "2"), ("3", "3"), ("3Ki", "3Ki"), ("4096", "4Ki")],
)
def test_amounts_are_rounded_up_to_a_step(requested: str, text: str) -> None:
    policy = CapacityRequestPolicy(valid_range=CapacityRequestPolicyRange(min="1", step="1"))
    offered = {"memory": DeviceCapacity("8Ki", policy)}
    taken = consumed(CapacityRequirements({"memory": requested}), offered)["memory"]
    assert quantity_text(taken.nanos, taken.text) == text
