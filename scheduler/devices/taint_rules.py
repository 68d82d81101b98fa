"""Slices as the taint rules of the cluster change them.

Source: `applyPatches` in `k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from scheduler.api.dynamic_resources import DeviceTaintRule, DeviceTaintSelector
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scheduler.api.dynamic_resources import DeviceTaint, ResourceSlice
    from scheduler.framework.handle import Handle, Lister

    #: Finds the devices that a rule is for; None for no device.
    SelectorOf: TypeAlias = Callable[[DeviceTaintRule], DeviceTaintSelector | None]

#: The gate of rules that taint devices.
DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"


class TaintRules:
    """The taint rules as the informer has them."""

    def __init__(self, handle: Handle) -> None:
        self._selector_of: Final = taint_selector(handle.version)
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
                known = (stored, with_taints(stored, rules, self._selector_of))
            self._tainted[stored.metadata.name] = known
            yield known[1]


def taint_selector(version: SchedulerVersion) -> SelectorOf:
    """Return how a version finds the selector of a rule; without one a rule has no effect."""
    return _given if version >= SchedulerVersion.V1_37 else _given_or_all


def _given(rule: DeviceTaintRule) -> DeviceTaintSelector | None:
    return rule.spec.device_selector


def _given_or_all(rule: DeviceTaintRule) -> DeviceTaintSelector:
    """Return the selector of a rule. As upstream a rule without one is for all devices (v1.36)."""
    return rule.spec.device_selector or DeviceTaintSelector()


def with_taints(
    slice: ResourceSlice, rules: Iterable[DeviceTaintRule], selector_of: SelectorOf
) -> ResourceSlice:
    """Return a slice whose devices have the taints of the rules as well."""
    added = [taints_of(rule, slice, selector_of) for rule in rules]
    if not any(map(any, added)):
        return slice
    devices = tuple(
        replace(device, taints=(*device.taints, *filter(None, taints)))
        for device, *taints in zip(slice.spec.devices, *added, strict=True)
    )
    return replace(slice, spec=replace(slice.spec, devices=devices))


def taints_of(
    rule: DeviceTaintRule | None, slice: ResourceSlice, selector_of: SelectorOf
) -> list[DeviceTaint | None]:
    """Return the taint of a rule for each device of a slice; None where it has none."""
    spec = slice.spec
    selector = selector_of(rule) if rule is not None else None
    if (
        rule is None
        or selector is None
        or selector.driver not in (None, spec.driver)
        or selector.pool not in (None, spec.pool.name)
    ):
        return [None] * len(spec.devices)
    return [
        rule.spec.taint if selector.device in (None, device.name) else None
        for device in spec.devices
    ]
