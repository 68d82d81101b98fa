"""The device classes behind extended resources.

A class may name an extended resource (`spec.extendedResourceName`); besides, each class has an
implicit one, `deviceclass.resource.kubernetes.io/` and its name. Of two classes with one extended
resource the newer wins, then the lower name. A new class that loses has no implicit one either.
In 1.34 only a class that names none has an implicit one, which NodeResourcesFit alone looks at; of
two classes any counts, here it is the last name.
Source: `k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache`, v0.36.3, and
`pkg/scheduler/framework/plugins/dynamicresources/extended/util.go`, v1.34.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api import resources
from scheduler.api.dynamic_resources import DEVICE_CLASS_PREFIX, DeviceClass
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from scheduler.api.core import Node
    from scheduler.framework.handle import Handle, Lister
    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import Nodes

#: The feature gate of extended resources backed by device classes.
DRA_EXTENDED_RESOURCE: Final = "DRAExtendedResource"

#: Resources that are never devices; most pods request nothing else.
_NATIVE: Final = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE})


class DeviceClassResolver:
    """Finds the class of an extended resource. One resolver serves all profiles."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle
        self._is_enabled: Final = DRA_EXTENDED_RESOURCE in handle.feature_gates
        self._cursor = -1
        self._known: Final[dict[str, DeviceClass]] = {}
        self._of_resource: Final[dict[str, DeviceClass]] = {}
        since_1_35 = handle.version >= SchedulerVersion.V1_35
        self._follow: Final = self._follow_changes if since_1_35 else self._read_all
        #: Returns the nodes that leave an extended resource to devices.
        self.needs_devices: Final = _without_any if since_1_35 else _without_entry
        #: True if a claim for some extended resources is for those that the node has itself, too.
        self.claims_all_resources: Final = not since_1_35

    def device_class(self, resource: str) -> DeviceClass | None:
        """Return the class of an extended resource; None if devices do not provide it."""
        if not self._is_enabled:
            return None
        self.follow_informer()
        return self._of_resource.get(resource)

    def named(self, name: str) -> DeviceClass | None:
        """Return a class by its own name."""
        return self._handle.lister(DeviceClass).get(name)

    def backed_by_devices(self, names: Iterable[str]) -> frozenset[str]:
        """Return the resources of these names that have a class."""
        candidates = [name for name in names if name not in _NATIVE]
        return frozenset(name for name in candidates if self.device_class(name) is not None)

    def follow_informer(self) -> None:
        """Take over the changes of classes since the last call.

        Which class provides a resource depends on the order of changes, so that each change calls.
        """
        lister = self._handle.lister(DeviceClass)
        self._cursor, changed = lister.changes_since(self._cursor)
        self._follow(lister, changed)

    def _follow_changes(self, lister: Lister[DeviceClass], changed: Collection[str] | None) -> None:
        if changed is None:
            changed = sorted({item.metadata.name for item in lister.list()} | self._known.keys())
        for name in changed:
            self._change(self._known.pop(name, None), lister.get(name))

    def _read_all(self, lister: Lister[DeviceClass], changed: Collection[str] | None) -> None:
        """Map the resource that each class names, or its implicit one (v1.34)."""
        if changed is None or changed:
            self._of_resource.clear()
            for item in sorted(lister.list(), key=lambda item: item.metadata.name):
                implicit = f"{DEVICE_CLASS_PREFIX}{item.metadata.name}"
                self._of_resource[item.spec.extended_resource_name or implicit] = item

    def _change(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is None:
            if old is not None:
                self._forget(old)
            return
        self._known[new.metadata.name] = new
        if new is old or self._loses(new):
            return
        if old is not None:
            self._forget(old)
        if new.spec.extended_resource_name is not None:
            self._of_resource[new.spec.extended_resource_name] = new
        self._of_resource[f"{DEVICE_CLASS_PREFIX}{new.metadata.name}"] = new

    def _loses(self, new: DeviceClass) -> bool:
        """Return True if the class that has the extended resource keeps it."""
        name = new.spec.extended_resource_name
        rival = self._of_resource.get(name) if name is not None else None
        if rival is None:
            return False
        ages = [_created(item) for item in (new, rival)]
        if ages[0] != ages[1]:
            return ages[0] < ages[1]
        return new.metadata.name >= rival.metadata.name

    def _forget(self, old: DeviceClass) -> None:
        self._of_resource.pop(f"{DEVICE_CLASS_PREFIX}{old.metadata.name}", None)
        if old.spec.extended_resource_name is not None:
            self._of_resource.pop(old.spec.extended_resource_name, None)


def _without_any(nodes: Nodes, resource: str) -> BoolArray:
    without: BoolArray = nodes.allocatable(resource) == 0
    return without


def _without_entry(nodes: Nodes, resource: str) -> BoolArray:
    """Return the nodes whose resources do not list one, even with an amount of 0 (v1.34)."""
    return nodes.derive(names_offered).where(lambda names: names is None or resource not in names)


def names_offered(node: Node) -> frozenset[str]:
    """Return the names of the node's resources, including resources with an amount of 0."""
    return frozenset(node.status.allocatable)


def _created(device_class: DeviceClass) -> float:
    created = device_class.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
