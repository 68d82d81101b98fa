"""Nodes that slices and devices are for, and devices by name."""

from typing import Any

import pytest

from scheduler.api.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from scheduler.api.dynamic_resources import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from scheduler.devices.pools import PoolRules, PoolsError, Slices, targets_node
from scheduler.testing import make_node


def selector(operator: str = "In") -> NodeSelector:
    requirement = NodeSelectorRequirement("zone", operator, ("z1",))
    return NodeSelector((NodeSelectorTerm((requirement,)),))


NODE = make_node("n", labels={"zone": "z1"})
OTHER = make_node("other", labels={"zone": "z2"})
MALFORMED = selector("Gt")


def slice_of(*devices: Device, name: str = "s", **spec: Any) -> ResourceSlice:
    of_devices = ResourceSliceSpec("d", ResourcePool("p"), devices=devices, **spec)
    return ResourceSlice(ObjectMeta(name=name), of_devices)


@pytest.mark.parametrize(
    ("part", "on_node", "on_other"),
    [
        (slice_of(node_name="n"), True, False),
        (slice_of(all_nodes=True), True, True),
        (slice_of(node_selector=selector()), True, False),
        (slice_of(), False, False),
        (
            slice_of(
                Device("a"),
                Device("b", node_name="nosuch"),
                Device("c", node_selector=selector()),
                per_device_node_selection=True,
            ),
            True,
            False,
        ),
        (slice_of(Device("a", all_nodes=True), per_device_node_selection=True), True, True),
    ],
)
def test_a_slice_is_for_the_nodes_that_it_or_a_device_names(
    part: ResourceSlice, on_node: bool, on_other: bool
) -> None:
    assert targets_node(NODE, part) is on_node
    assert targets_node(OTHER, part) is on_other


@pytest.mark.parametrize(
    ("part", "where"),
    [
        (slice_of(node_selector=MALFORMED), "slice s"),
        (
            slice_of(Device("a", node_selector=MALFORMED), per_device_node_selection=True),
            "device a in slice s",
        ),
    ],
)
def test_a_malformed_selector_is_an_error_that_names_its_place(
    part: ResourceSlice, where: str
) -> None:
    with pytest.raises(PoolsError) as caught:
        targets_node(NODE, part)
    assert str(caught.value).startswith(f"failed to perform node selection for {where}: failed to")


@pytest.mark.parametrize(
    ("node", "part", "is_found"),
    [
        (None, slice_of(Device("x"), node_name="n"), True),
        (NODE, slice_of(Device("x"), node_name="n"), True),
        (OTHER, slice_of(Device("x"), node_name="n"), False),
        (NODE, slice_of(Device("x"), all_nodes=True), True),
        (NODE, slice_of(Device("y"), all_nodes=True), False),
        (NODE, slice_of(Device("x"), node_selector=selector()), True),
        (OTHER, slice_of(Device("x"), node_selector=selector()), False),
        (NODE, slice_of(Device("x"), node_selector=MALFORMED), False),
        (NODE, slice_of(Device("x", node_name="n"), per_device_node_selection=True), True),
        (OTHER, slice_of(Device("x", node_name="n"), per_device_node_selection=True), False),
    ],
)
def test_a_device_is_found_on_the_nodes_that_can_reach_it(
    node: Node | None, part: ResourceSlice, is_found: bool
) -> None:
    found = Slices([part], rules=PoolRules()).device_on_node("d", "p", "x", node)
    assert (found is not None and found.name == "x") is is_found
    assert Slices([part], rules=PoolRules()).device_on_node("d", "nosuch", "x", node) is None
