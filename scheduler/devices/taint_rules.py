"""Slices as the taint rules of the cluster change them.

Source: `applyPatches` in `k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from scheduler.api.dynamic_resources import DeviceClass, DeviceTaintRule
from scheduler.api.references import reference_to
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.pools import PoolDevice
from scheduler.devices.selectors import SelectorError, SelectorVerdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scheduler.api.dynamic_resources import (
        Device,
        DeviceSelector,
        DeviceTaint,
        ResourceSlice,
    )
    from scheduler.framework.handle import EventSink, Handle, Lister

    #: Decides if a rule selects a device of a slice.
    Selects: TypeAlias = Callable[[DeviceTaintRule, ResourceSlice, Device], bool]


def gate_of_rules(version: SchedulerVersion) -> str:
    """Return the gate of rules that taint devices; 1.34 has none for the rules alone."""
    return "DRADeviceTaintRules" if version >= SchedulerVersion.V1_35 else "DRADeviceTaints"


class TaintRules:
    """The taint rules as the informer has them."""

    def __init__(self, handle: Handle) -> None:
        self._selects: Final = rule_selection(handle, events=handle.event_recorder)
        self._lister: Final[Lister[DeviceTaintRule]] = handle.lister(DeviceTaintRule)
        self._classes: Final[Lister[DeviceClass]] = handle.lister(DeviceClass)
        self._cursor = self._class_cursor = -1
        #: By name: a slice as stored, and with the taints of the rules.
        self._tainted: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}

    def have_changed(self) -> bool:
        """Return True if a rule is new, changed or gone since the last call, or a class is new.

        As in 1.34, where rules may select by class, devices keep the taints of a deleted class.
        """
        self._cursor, changed = self._lister.changes_since(self._cursor)
        self._class_cursor, classes = self._classes.changes_since(self._class_cursor)
        if changed is None or changed or classes is None or any(map(self._classes.get, classes)):
            self._tainted.clear()
            return True
        return False

    def applied_to(self, slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
        """Yield the slices with the taints of all rules; the same object for the same slice."""
        rules = list(self._lister.list())
        before, self._tainted = self._tainted, {}
        for stored in slices:
            known = before.get(stored.metadata.name)
            if known is None or known[0] is not stored:
                known = (stored, with_taints(stored, rules, self._selects))
            self._tainted[stored.metadata.name] = known
            yield known[1]


def rule_selection(handle: Handle, *, events: EventSink | None = None) -> Selects:
    """Return how the version finds the devices of a rule.

    `events` are those of 1.34 for the rules whose expressions fail on a device.
    """
    if handle.version >= SchedulerVersion.V1_37:
        return _is_given
    if handle.version >= SchedulerVersion.V1_35:
        return _is_given_or_all
    verdicts = SelectorVerdicts(handle.feature_gates, handle.version)
    return functools.partial(_matches, handle.lister(DeviceClass), verdicts, events)


def _is_given(rule: DeviceTaintRule, slice: ResourceSlice, device: Device) -> bool:
    return rule.spec.device_selector is not None and _is_given_or_all(rule, slice, device)


def _is_given_or_all(rule: DeviceTaintRule, slice: ResourceSlice, device: Device) -> bool:
    """Return True if all fields are equal. As upstream a rule without them is for all (v1.36)."""
    selector = rule.spec.device_selector
    return selector is None or (
        selector.driver in (None, slice.spec.driver)
        and selector.pool in (None, slice.spec.pool.name)
        and selector.device in (None, device.name)
    )


def _matches(
    classes: Lister[DeviceClass],
    verdicts: SelectorVerdicts,
    events: EventSink | None,
    rule: DeviceTaintRule,
    slice: ResourceSlice,
    device: Device,
) -> bool:
    """Return True if all fields are equal and all selectors match, with its class (v1.34)."""
    if not _is_given_or_all(rule, slice, device):
        return False
    selector = rule.spec.device_selector
    if selector is None:
        return True
    of_class: tuple[DeviceSelector, ...] = ()
    if selector.device_class_name is not None:
        device_class = classes.get(selector.device_class_name)
        if device_class is None:
            return False
        of_class = device_class.spec.selectors
    # As upstream they do not see that a device can be shared.
    seen = PoolDevice(slice, replace(device, allow_multiple_allocations=None))
    try:
        if not verdicts.match([each for each in of_class if each.cel is not None], seen):
            return False
    except SelectorError:
        return False
    try:
        return verdicts.match([each for each in selector.selectors if each.cel is not None], seen)
    except SelectorError as error:
        if events is not None:
            _report(rule, error, events)
        return False


def _report(rule: DeviceTaintRule, error: SelectorError, events: EventSink) -> None:
    events.event(
        reference_to("resource.k8s.io/v1alpha3", "DeviceTaintRule", rule.metadata),
        type="Warning",
        reason="CELRuntimeError",
        action="Tainting",
        note=str(error).replace("CEL ", "", 1),
    )


def with_taints(
    slice: ResourceSlice, rules: Iterable[DeviceTaintRule], selects: Selects
) -> ResourceSlice:
    """Return a slice whose devices have the taints of the rules as well."""
    added = [taints_of(rule, slice, selects) for rule in rules]
    if not any(map(any, added)):
        return slice
    devices = tuple(
        replace(device, taints=(*device.taints, *filter(None, taints)))
        for device, *taints in zip(slice.spec.devices, *added, strict=True)
    )
    return replace(slice, spec=replace(slice.spec, devices=devices))


def taints_of(
    rule: DeviceTaintRule | None, slice: ResourceSlice, selects: Selects
) -> list[DeviceTaint | None]:
    """Return the taint of a rule for each device of a slice; None where it has none."""
    return [
        rule.spec.taint if rule is not None and selects(rule, slice, device) else None
        for device in slice.spec.devices
    ]
