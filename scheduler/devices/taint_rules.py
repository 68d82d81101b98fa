"""Slices as the taint rules of the cluster change them.

Source: `applyPatches` in `k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.dynamic_resources import DeviceTaintRule, DeviceTaintSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.dynamic_resources import Device, DeviceTaint, ResourceSlice
    from scheduler.framework.handle import Handle, Lister

#: The gate of rules that taint devices.
DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"


class TaintRules:
    """The taint rules as the informer has them."""

    def __init__(self, handle: Handle) -> None:
        self._lister: Final[Lister[DeviceTaintRule]] = handle.lister(DeviceTaintRule)
        self._cursor = -1
        #: By name: a slice as stored, and with the taints of the rules.
        self._tainted: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}

    def have_changed(self) -> bool:
        """Return True if a rule is new, changed or gone since the last call."""
        self._cursor, changed = self._lister.changes_since(self._cursor)
        if changed is None or changed:
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
                known = (stored, with_taints(stored, rules))
            self._tainted[stored.metadata.name] = known
            yield known[1]


def with_taints(slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return a slice whose devices have the taints of the rules as well."""
    matching = [rule for rule in rules if _selects_some(rule, slice)]
    if not matching:
        return slice
    devices = tuple(_with_taints(device, matching) for device in slice.spec.devices)
    return replace(slice, spec=replace(slice.spec, devices=devices))


def taints_of(rule: DeviceTaintRule | None, slice: ResourceSlice) -> list[DeviceTaint | None]:
    """Return the taint of a rule for each device of a slice; None where it has none."""
    if rule is None or not _selects_some(rule, slice):
        return [None] * len(slice.spec.devices)
    taint = rule.spec.taint
    return [taint if _selects(rule, device) else None for device in slice.spec.devices]


def _with_taints(device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    added = tuple(rule.spec.taint for rule in rules if _selects(rule, device))
    return replace(device, taints=(*device.taints, *added)) if added else device


def _selects_some(rule: DeviceTaintRule, slice: ResourceSlice) -> bool:
    """Return True if a rule is for devices of the slice's driver and pool.

    As upstream a rule without a selector is for all devices.
    """
    selector = rule.spec.device_selector or DeviceTaintSelector()
    return selector.driver in (None, slice.spec.driver) and selector.pool in (
        None,
        slice.spec.pool.name,
    )


def _selects(rule: DeviceTaintRule, device: Device) -> bool:
    """Return True if a rule for the device's driver and pool is for this device."""
    selector = rule.spec.device_selector or DeviceTaintSelector()
    return selector.device in (None, device.name)
