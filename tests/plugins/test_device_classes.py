"""Extended resources of device classes, which NodeResourcesFit leaves to DynamicResources."""

from typing import cast

import pytest

from scheduler.api.core import Node
from scheduler.api.dynamic_resources import DeviceClass
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.runtime.registry import Registry
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.devices import lister, make_class
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, UNSCHEDULABLE, hint, rejected

GPU = "example.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/gpu"
GPU_CLASS = make_class("gpu", extended_resource_name=GPU)
SNAPSHOT = snapshot_of(
    [
        make_node("none", allocatable={"cpu": "4", "pods": "10"}),
        make_node("zero", allocatable={"cpu": "4", "pods": "10", GPU: "0"}),
        make_node("one", allocatable={"cpu": "4", "pods": "10", GPU: "1"}),
        make_node("taken", allocatable={"cpu": "4", "pods": "10", GPU: "1"}),
    ],
    [make_pod("other", node_name="taken", requests={GPU: "1"})],
)


def fit(*classes: DeviceClass, is_on: bool = True) -> NodeResourcesFit:
    handle = FakeHandle(listers={"deviceclasses": lister(classes)})
    if not is_on:
        handle.feature_gates -= {"DRAExtendedResource"}
    plugin = Registry([NodeResourcesFit]).create("NodeResourcesFit", None, handle)
    return cast("NodeResourcesFit", plugin)


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        # A node that has some must have enough; what a node has none of is left to devices.
        ({GPU: "1"}, {"taken": UNSCHEDULABLE}),
        ({GPU: "2"}, {"taken": UNRESOLVABLE, "one": UNRESOLVABLE}),
        ({BY_CLASS: "1"}, {}),
    ],
)
def test_a_node_that_has_none_of_it_may_get_it_from_devices(
    requests: dict[str, str], refused: dict[str, str]
) -> None:
    reasons = tuple(f"Insufficient {name}" for name in requests)
    expected = {name: (code, reasons) for name, code in refused.items()}
    assert rejected(fit(GPU_CLASS), make_pod(requests=requests), SNAPSHOT) == expected


def test_without_a_class_it_must_be_there() -> None:
    pod, plugin = make_pod(requests={GPU: "1"}), fit(make_class("other"))
    assert set(rejected(plugin, pod, SNAPSHOT)) == {"none", "zero", "taken"}


def test_with_the_feature_gate_off_classes_mean_nothing() -> None:
    pod, plugin = make_pod(requests={GPU: "1"}), fit(GPU_CLASS, is_on=False)
    assert set(rejected(plugin, pod, SNAPSHOT)) == {"none", "zero", "taken"}
    assert len(plugin.events_to_register()) == 2
    assert len(fit().events_to_register()) == 3


def test_everything_else_must_be_there_all_the_same() -> None:
    pod = make_pod(requests={GPU: "1", "cpu": "5"})
    found = rejected(fit(GPU_CLASS), pod, SNAPSHOT)
    assert found["none"] == (UNRESOLVABLE, ("Insufficient cpu",))
    assert found["taken"] == (UNRESOLVABLE, ("Insufficient cpu", f"Insufficient {GPU}"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node(), QUEUE),
        # Whatever has been added may be what the devices need.
        (make_node(), make_node(allocatable={"pods": "110", "memory": "1"}), QUEUE),
        (make_node(), make_node(allocatable={"pods": "0"}), SKIP),
        (
            make_node(allocatable={"pods": "110", GPU: "1"}),
            make_node(allocatable={"pods": "110", GPU: "1", "cpu": "1"}),
            SKIP,
        ),
    ],
)
def test_a_node_without_it_may_help_through_devices(
    old: Node | None, new: Node, expected: str
) -> None:
    pod = make_pod(requests={GPU: "1"})
    assert hint(fit(GPU_CLASS), pod, old=old, new=new) == expected
    if GPU not in new.status.allocatable:
        assert hint(fit(), pod, old=old, new=new) == SKIP
