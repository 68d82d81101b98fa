"""Taint rules: the slices that they change, and the events of these changes."""

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    CELDeviceSelector,
    Device,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.assembly.event_handlers import TaintRuleEventHandler
from scheduler.config import SchedulerVersion
from scheduler.devices.taint_rules import TaintRules, rule_selection, with_taints
from scheduler.testing.doubles import FakeHandle, FakeLister

TAINT = DeviceTaint("broken", "", "NoSchedule")
#: An expression that fails on a device without this attribute.
SLOT = "device.attributes['gpu'].slot > 0"


def slice_of(name: str, driver: str) -> ResourceSlice:
    spec = ResourceSliceSpec(driver, ResourcePool("pool"), devices=(Device("a"), Device("b")))
    return ResourceSlice(ObjectMeta(name=name), spec)


def handle_of(version: str) -> FakeHandle:
    listers = {DeviceClass: FakeLister()}
    return FakeHandle(version=SchedulerVersion.parse(version), listers=listers)


def rule(**selector: str) -> DeviceTaintRule:
    return DeviceTaintRule(spec=DeviceTaintRuleSpec(DeviceTaintSelector(**selector), TAINT))


def cel(expression: str) -> DeviceSelector:
    return DeviceSelector(CELDeviceSelector(expression))


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, ["a", "b"]),
        ({"device": "b"}, ["b"]),
        ({"driver": "gpu", "pool": "pool", "device": "a"}, ["a"]),
        ({"driver": "other", "device": "a"}, []),
        ({"pool": "other"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(
    selector: dict[str, str], tainted: list[str]
) -> None:
    changed = with_taints(
        slice_of("s", "gpu"), [rule(**selector)], rule_selection(handle_of("1.36"))
    )
    assert [device.name for device in changed.spec.devices if device.taints == (TAINT,)] == tainted


def test_a_rule_without_a_selector_taints_all_devices_before_v1_37_and_none_then() -> None:
    part, everything = slice_of("s", "gpu"), DeviceTaintRule(spec=DeviceTaintRuleSpec(None, TAINT))
    changed = with_taints(part, [everything], rule_selection(handle_of("1.36")))
    assert all(device.taints == (TAINT,) for device in changed.spec.devices)
    assert with_taints(part, [everything], rule_selection(handle_of("1.37"))) is part


def test_a_changed_rule_is_an_update_of_the_slices_that_it_tainted_or_taints() -> None:
    changed: list[str] = []
    slices = [slice_of("s-1", "gpu"), slice_of("s-2", "nic"), slice_of("s-3", "fpga")]
    handler = TaintRuleEventHandler(
        slices=FakeLister(slices),
        selects=rule_selection(handle_of("1.36")),
        on_slice_change=lambda old, new: changed.append(new.metadata.name),
    )
    handler.on_change(None, rule(driver="gpu"))
    handler.on_change(rule(driver="gpu"), rule(driver="nic"))
    handler.on_change(rule(driver="nic"), rule(driver="nic", pool="pool"))
    handler.on_change(rule(device="a", driver="fpga"), None)
    assert changed == ["s-1", "s-1", "s-2", "s-3"]


@pytest.mark.parametrize(
    ("of_class", "of_rule", "notes"),
    [
        ("true", SLOT, ["selector #1: runtime error: no such key: slot"]),
        (SLOT, "true", []),
        ("false", SLOT, []),
    ],
)
def test_1_34_writes_an_event_for_a_rule_whose_expression_fails_on_a_device(
    of_class: str, of_rule: str, notes: list[str]
) -> None:
    gpus = DeviceClass(ObjectMeta(name="gpus"), DeviceClassSpec(selectors=(cel(of_class),)))
    fails = DeviceTaintSelector(device_class_name="gpus", selectors=(cel("true"), cel(of_rule)))
    rules = DeviceTaintRule(ObjectMeta(name="r"), DeviceTaintRuleSpec(fails, TAINT))
    handle = FakeHandle(
        version=SchedulerVersion.V1_34,
        listers={DeviceClass: FakeLister([gpus]), DeviceTaintRule: FakeLister([rules])},
    )
    (seen,) = TaintRules(handle).applied_to([slice_of("s", "gpu")])
    events = handle.event_recorder.recorded
    assert [event.note for event in events] == notes * len(seen.spec.devices)
    assert {event[:3] for event in events} <= {("r", "Warning", "CELRuntimeError")}
