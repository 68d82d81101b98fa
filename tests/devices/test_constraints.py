"""Constraints on the devices of a claim: what each adds, refuses and takes back."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.api.dynamic_resources import DeviceAttribute
from scheduler.devices.constraints import (
    AllValuesDistinct,
    CommonElement,
    Constraint,
    DisjointElements,
    EqualValues,
    LastValuesDistinct,
)

A, B = DeviceAttribute(string_value="a"), DeviceAttribute(string_value="b")
A_AND_B = DeviceAttribute(string_values=("a", "b"))
NUMBER = DeviceAttribute(int_value=1)
EMPTY = DeviceAttribute()


def request(name: str) -> Any:
    return SimpleNamespace(base_name=name, full_name=name)


def constraint(kind: Any, *requests: str) -> Any:
    """A constraint on a device's attribute; the tests pass the attribute as the device."""
    return Constraint(requests, "d/a", lambda request, device, name: device, kind())


@pytest.mark.parametrize(
    ("kind", "added", "refused"),
    [
        (EqualValues, [A, A], [B, None]),
        (EqualValues, [EMPTY], [EMPTY, A]),
        (LastValuesDistinct, [A, B], [B, None, EMPTY]),
        (AllValuesDistinct, [A, B], [A, B, None, EMPTY]),
        (CommonElement, [A_AND_B, A], [B, NUMBER, None, EMPTY]),
        (CommonElement, [A, A_AND_B], [B]),
        (DisjointElements, [A, B, NUMBER], [A_AND_B, NUMBER, None, EMPTY]),
    ],
)
def test_a_constraint_refuses_devices_that_violate_it(
    kind: type, added: list[object], refused: list[object]
) -> None:
    tested = constraint(kind)
    assert [tested.add(request(str(n)), device) for n, device in enumerate(added)] == [
        True for _ in added
    ]
    assert [tested.add(request("next"), device) for device in refused] == [False for _ in refused]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        (EqualValues, A, B),
        (LastValuesDistinct, A, A),
        (AllValuesDistinct, A, A),
        (CommonElement, A, B),
        (DisjointElements, A, A_AND_B),
    ],
)
def test_a_removed_device_counts_no_longer_and_other_requests_never(
    kind: type, first: DeviceAttribute, second: DeviceAttribute
) -> None:
    tested, named, other = constraint(kind, "named"), request("named"), request("other")
    assert tested.add(other, cast("Any", None))
    assert tested.add(named, first)
    tested.remove(other)
    assert not tested.add(named, second)
    tested.remove(named)
    assert tested.add(named, second)
