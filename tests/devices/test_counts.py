"""Devices of a class on a node, for scores by extended resources."""

from typing import Any

import pytest

from scheduler.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from scheduler.api.dynamic_resources import (
    CELDeviceSelector,
    Device,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.config import DEFAULT_SCHEDULER_VERSION
from scheduler.devices.allocated import AllocatedState, Devices
from scheduler.devices.counts import DeviceCount, device_count
from scheduler.devices.pools import DeviceId, PoolRules, Slices
from scheduler.devices.selectors import SelectorVerdicts
from scheduler.testing import make_node


def on_zone(operator: str, zone: str) -> NodeSelector:
    requirement = NodeSelectorRequirement("zone", operator, (zone,))
    return NodeSelector((NodeSelectorTerm((requirement,)),))


NODE = make_node("n", labels={"zone": "z1"})
DEVICES = (Device("a"), Device("b", allow_multiple_allocations=True))
OF_DEVICES = (
    Device("a", node_selector=on_zone("In", "z1")),
    Device("b", node_selector=on_zone("In", "z2")),
    Device("c", node_name="other"),
    Device("d", all_nodes=True),
)


@pytest.mark.parametrize(
    ("devices", "spec", "count"),
    [
        (DEVICES, {"node_name": "n"}, DeviceCount(2, 1)),
        (DEVICES, {"all_nodes": True}, DeviceCount(2, 1)),
        (DEVICES, {"node_selector": on_zone("In", "z1")}, DeviceCount(2, 1)),
        (DEVICES, {"node_selector": on_zone("In", "z2")}, DeviceCount()),
        (DEVICES, {"node_name": "other"}, DeviceCount()),
        # As upstream, a slice for no node in particular counts.
        (DEVICES, {}, DeviceCount(2, 1)),
        (DEVICES, {"node_selector": on_zone("Gt", "z1")}, DeviceCount()),
        (OF_DEVICES, {"per_device_node_selection": True}, DeviceCount(2, 1)),
    ],
)
def test_the_devices_that_a_node_reaches_count(
    devices: tuple[Device, ...], spec: dict[str, Any], count: DeviceCount
) -> None:
    of_driver = ResourceSliceSpec("d", ResourcePool("p"), devices=devices, **spec)
    assert counted("true", of_driver) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        # As upstream, each device is one that only one claim can have.
        ("!device.allowMultipleAllocations", DeviceCount(2, 1)),
        ("device.allowMultipleAllocations", DeviceCount()),
        ('device.attributes["d"].nosuch == 1', DeviceCount()),
    ],
)
def test_the_devices_that_the_class_selects_count(expression: str, count: DeviceCount) -> None:
    spec = ResourceSliceSpec("d", ResourcePool("p"), devices=DEVICES, node_name="n")
    assert counted(expression, spec) == count


def counted(expression: str, spec: ResourceSliceSpec) -> DeviceCount:
    """The count on the node with this slice, whose device `a` is allocated."""
    written = Devices()
    written.ids.add(DeviceId("d", "p", "a"))
    selector = DeviceSelector(CELDeviceSelector(expression))
    return device_count(
        NODE,
        DeviceClass(ObjectMeta(name="class"), DeviceClassSpec((selector,))),
        slices=Slices([ResourceSlice(ObjectMeta(name="s"), spec)], rules=PoolRules()),
        state=AllocatedState(written, Devices()),
        verdicts=SelectorVerdicts(frozenset(), DEFAULT_SCHEDULER_VERSION),
    )
