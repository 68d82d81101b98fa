"""The state of devices that the plugins of all profiles share: claims, classes and slices.

Source: `DefaultDRAManager` in `pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from scheduler.api.dynamic_resources import ResourceSlice
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.claims import ClaimTracker
from scheduler.devices.classes import DeviceClassResolver
from scheduler.devices.counts import device_count
from scheduler.devices.groups import NodeGroups
from scheduler.devices.pools import Slices
from scheduler.devices.rules import device_rules
from scheduler.devices.selectors import SelectorVerdicts
from scheduler.devices.taint_rules import TaintRules, gate_of_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.core import Node
    from scheduler.devices.counts import DeviceCount
    from scheduler.framework.handle import Handle


class DraManager:
    """Devices as the scheduler knows them. Plugins get it by `handle.shared(DraManager)`."""

    def __init__(self, handle: Handle) -> None:
        self.gates: Final = handle.feature_gates
        self._handle: Final = handle
        self.rules: Final = device_rules(self.gates, handle.version)
        self.verdicts: Final = SelectorVerdicts(self.gates, handle.version)
        self._counts_devices: Final = handle.version >= SchedulerVersion.V1_35
        self._cursor = -1
        self._slices = Slices((), rules=self.rules.pools)
        has_rules = gate_of_rules(handle.version) in self.gates
        self._taint_rules: Final = TaintRules(handle) if has_rules else None

    @functools.cached_property
    def claims(self) -> ClaimTracker:
        """The claims."""
        return ClaimTracker(self._handle)

    @functools.cached_property
    def classes(self) -> DeviceClassResolver:
        """The classes of extended resources."""
        return DeviceClassResolver(self._handle)

    @functools.cached_property
    def groups(self) -> NodeGroups:
        """The groups of nodes as of the last call of `refresh`."""
        return NodeGroups(self.claims.allocated)

    def refresh(self) -> None:
        """Bring slices, claims and groups up to date with the informers."""
        self.claims.follow_informer()
        self.slices()
        self.groups.use_changes(self.claims.changed_pools())

    def slices(self) -> Slices:
        """Return the slices of the informer, indexed, with the taints of rules."""
        lister, rules = self._handle.lister(ResourceSlice), self._taint_rules
        is_first = self._cursor < 0
        self._cursor, changed = lister.changes_since(self._cursor)
        if rules is not None and rules.have_changed():
            changed = None
        if is_first or changed is None or changed:
            listed = lister.list() if rules is None else rules.applied_to(lister.list())
            known = filter(self.rules.is_known, listed)
            before = self._slices
            self._slices = Slices(known, before, rules=self.rules.pools)
            nodes = self._slices.nodes_of_changes(before, changed)
            self.groups.use_slices(self._slices, nodes)
        return self._slices

    def counts(self, resource: str) -> Callable[[Node], DeviceCount] | None:
        """Return the function from a node to its devices for an extended resource.

        None if devices do not provide the resource, and in 1.34.
        """
        device_class = self.classes.device_class(resource)
        if device_class is None or not self._counts_devices:
            return None
        self.claims.follow_informer()
        return functools.partial(
            device_count,
            device_class=device_class,
            slices=self.slices(),
            state=self.claims.allocated,
            verdicts=self.verdicts,
        )
