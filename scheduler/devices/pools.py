"""The resource pools that a node can reach, from the slices of all drivers.

Outdated slices are left out. A pool may be incomplete (not all its slices are there) or invalid;
then no device of it is allocated. 1.34 has other rules (`PoolRules`).
Source: `k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api.dynamic_resources import ResourceSlice, ResourceSliceSpec
from scheduler.api.node_selectors import parse_node_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.core import Node, NodeSelector
    from scheduler.api.dynamic_resources import CounterSet, Device


class DeviceId(NamedTuple):
    """A device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolId(NamedTuple):
    """A pool in the cluster."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolsError(Exception):
    """The pools of a node cannot be determined. Upstream's text."""


class PoolDevice:
    """A device of a slice."""

    __slots__ = ("_content", "device", "id", "slice")

    def __init__(self, slice: ResourceSlice, device: Device) -> None:
        spec = slice.spec
        self.id: Final = DeviceId(spec.driver, spec.pool.name, device.name)
        self.slice: Final = slice
        self.device: Final = device
        self._content: bytes | None = None

    @property
    def driver(self) -> str:
        return self.id.driver

    @property
    def content(self) -> bytes:
        """All that a selector can read of the device: equal for equal devices."""
        if self._content is None:
            device = self.device
            read = (
                self.driver,
                device.allow_multiple_allocations,
                sorted(device.attributes.items()),
                sorted(device.capacity.items()),
            )
            self._content = msgspec.json.encode(read)
        return self._content


class Pool(NamedTuple):
    """A pool as one node sees it.

    `devices` come from the slices for this node, in the order in which the allocator tries them.
    An invalid or incomplete pool has some in 1.34 only.
    `unreachable` are the pool's devices for other nodes, which consume counters as well.
    """

    id: PoolId
    is_incomplete: bool = False
    invalid_reason: str = ""
    devices: Sequence[PoolDevice] = ()
    unreachable: Sequence[PoolDevice] = ()
    counter_sets: Mapping[str, CounterSet] = {}


def node_matches(
    node: Node, name: str | None, *, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    """Return True if a node is among the nodes that can reach devices (`NodeMatches`)."""
    if name:
        return node.metadata.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    matcher = parse_node_selector(selector)
    if matcher.errors:
        errors = ", ".join(map(str, matcher.errors))
        raise PoolsError(f"failed to parse node selector: {errors}")
    return matcher.matches(node)


def device_matches(node: Node, device: PoolDevice) -> bool:
    """Return True if a node can reach a device of one of its slices."""
    if not device.slice.spec.per_device_node_selection:
        return True
    spec = device.device
    return node_matches(node, spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)


def targets_node_or_has_counters(node: Node, slice: ResourceSlice) -> bool:
    """Return True if a slice has devices for a node; slices with counters always count (v1.36)."""
    return bool(slice.spec.shared_counters) or targets_node(node, slice)


def targets_node(node: Node, slice: ResourceSlice) -> bool:
    """Return True if a slice is for a node. Raises `PoolsError`."""
    spec = slice.spec
    name = slice.metadata.name
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        try:
            return node_matches(
                node, spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector
            )
        except PoolsError as error:
            raise PoolsError(
                f"failed to perform node selection for slice {name}: {error}"
            ) from error
    if not spec.per_device_node_selection:
        return False
    for device in spec.devices:
        try:
            if node_matches(
                node, device.node_name, all_nodes=device.all_nodes, selector=device.node_selector
            ):
                return True
        except PoolsError as error:
            text = f"device {device.name} in slice {name}: {error}"
            raise PoolsError(f"failed to perform node selection for {text}") from error
    return False


class Slices:
    """All slices of the cluster, indexed by node and pool."""

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        before: Slices | None = None,
        *,
        rules: PoolRules,
    ) -> None:
        self._rules: Final = rules
        self._on_node: Final[dict[str, list[ResourceSlice]]] = {}
        self._shared: Final[list[ResourceSlice]] = []
        self._of_pool: Final[dict[PoolId, list[ResourceSlice]]] = {}
        self._devices: Final[dict[str, list[PoolDevice]]] = {}
        self._by_name: Final = {slice.metadata.name: slice for slice in slices}
        for name, devices in before._devices.items() if before is not None else ():
            if devices and self._by_name.get(name) is devices[0].slice:
                self._devices[name] = devices
        for slice in self._by_name.values():
            spec = slice.spec
            self._of_pool.setdefault(PoolId(spec.driver, spec.pool.name), []).append(slice)
            if not spec.node_name or spec.shared_counters:
                self._shared.append(slice)
            else:
                self._on_node.setdefault(spec.node_name, []).append(slice)

    def devices_of(self, slice: ResourceSlice) -> list[PoolDevice]:
        """Return the devices of a slice; the same objects each time."""
        devices = self._devices.get(slice.metadata.name)
        if devices is None:
            devices = [PoolDevice(slice, device) for device in slice.spec.devices]
            self._devices[slice.metadata.name] = devices
        return devices

    def nodes_of_changes(self, before: Slices, names: Collection[str] | None) -> set[str] | None:
        """Return the nodes whose devices differ after changes of these slices; None for all."""
        if names is None:
            return None
        nodes: set[str] = set()
        for name in names:
            for slices in (before, self):
                slice = slices._by_name.get(name)
                if slice is None:
                    continue
                # Other slices of the pool may become outdated or complete.
                pool = PoolId(slice.spec.driver, slice.spec.pool.name)
                of_pool = {*map(_node_of, before._of_pool.get(pool, ()))}
                of_pool |= {*map(_node_of, self._of_pool.get(pool, ()))}
                if "" in of_pool:
                    return None
                nodes |= of_pool
        return nodes

    def device_of_pool_named(self, pool: str, name: str) -> Device | None:
        """Return a device by the name of its pool, whatever the driver; None if there is none."""
        slices = (s for id, of_pool in self._of_pool.items() if id.pool == pool for s in of_pool)
        return _device_named(name, slices)

    def device_on_node(self, driver: str, pool: str, name: str, node: Node | None) -> Device | None:
        """Return a device that a node can reach, or any node if it is None.

        A malformed selector selects no node.
        """
        slices: Iterable[ResourceSlice] = self._of_pool.get(PoolId(driver, pool), ())
        if node is None:
            return _device_named(name, slices)
        for slice in slices:
            if _is_for_node(node, slice) and (found := _device_named(name, [slice])) is not None:
                of_device = slice.spec.per_device_node_selection
                return found if not of_device or _is_for_node(node, found) else None
        return None

    def candidates(self, node_name: str) -> Iterator[ResourceSlice]:
        """Return the slices that may be for a node: its own, and slices for several nodes."""
        yield from self._on_node.get(node_name, ())
        yield from self._shared

    def pools(self, node: Node) -> list[Pool]:
        """Return the pools of a node in the order in which they are tried.

        Pools with a device that has binding conditions come last. Raises `PoolsError`.
        """
        slices: dict[PoolId, list[ResourceSlice]] = {}
        for slice in self.candidates(node.metadata.name):
            if self._rules.is_relevant(node, slice):
                _add_slice(slices, slice)
        built = (self._rules.build(self, id, of_pool) for id, of_pool in slices.items())
        pools = [pool for pool in built if pool is not None]
        return sorted(pools, key=lambda pool: (_has_binding_conditions(pool), pool.id))

    def pool_on_node(self, id: PoolId, slices: list[ResourceSlice]) -> Pool | None:
        """Return a pool of its slices for the node, whatever others there are (v1.34)."""
        is_incomplete = len(slices) != slices[0].spec.pool.resource_slice_count
        devices = self._sorted_devices(slices)
        return Pool(id, is_incomplete, _duplicate_name(devices), devices)

    def whole_pool(self, id: PoolId, slices: list[ResourceSlice]) -> Pool | None:
        """Return a pool; None if a newer generation of it has no slice for the node."""
        spec = slices[0].spec.pool
        if len(slices) == spec.resource_slice_count:
            return self._built(id, slices, ())
        generations = [slice.spec.pool.generation for slice in self._of_pool[id]]
        if max(generations) > spec.generation:
            return None
        current = [s for s in self._of_pool[id] if s.spec.pool.generation == spec.generation]
        if len(current) != spec.resource_slice_count:
            return Pool(id, is_incomplete=True)
        names = {slice.metadata.name for slice in slices}
        return self._built(id, slices, [s for s in current if s.metadata.name not in names])

    def _built(
        self, id: PoolId, slices: list[ResourceSlice], others: Sequence[ResourceSlice]
    ) -> Pool:
        devices = self._sorted_devices(s for s in slices if not s.spec.shared_counters)
        if reason := _duplicate_name(devices):
            return Pool(id, invalid_reason=reason)
        if not self._rules.checks_counters:
            return Pool(id, devices=devices)
        counter_sets: dict[str, CounterSet] = {}
        for slice in (*slices, *others):
            for counter_set in slice.spec.shared_counters:
                if counter_set.name in counter_sets:
                    return Pool(id, invalid_reason=f"duplicate counter set name {counter_set.name}")
                counter_sets[counter_set.name] = counter_set
        for slice in (*slices, *others):
            if reason := _wrong_consumption(slice, counter_sets):
                return Pool(id, invalid_reason=reason)
        unreachable = [device for slice in others for device in self.devices_of(slice)]
        return Pool(id, devices=devices, unreachable=unreachable, counter_sets=counter_sets)

    def _sorted_devices(self, slices: Iterable[ResourceSlice]) -> list[PoolDevice]:
        in_order = sorted(slices, key=self._rules.order)
        return [device for slice in in_order for device in self.devices_of(slice)]


def attached_last(slice: ResourceSlice) -> tuple[object, ...]:
    """Put slices with devices that are attached by a binding last (up to v1.35)."""
    has_conditions = any(device.binding_conditions for device in slice.spec.devices)
    return (has_conditions, slice.metadata.name)


class PoolRules(NamedTuple):
    """The rules of a version for the pools of a node; the defaults are of 1.36."""

    is_relevant: Callable[[Node, ResourceSlice], bool] = targets_node_or_has_counters
    #: Builds a pool of its slices for the node; None if it counts for nothing.
    build: Callable[[Slices, PoolId, list[ResourceSlice]], Pool | None] = Slices.whole_pool
    #: The key by which the slices of a pool are sorted.
    order: Callable[[ResourceSlice], tuple[object, ...]] = lambda slice: (slice.metadata.name,)
    #: True if devices that take counters without counter sets make a pool invalid.
    checks_counters: bool = True


def _duplicate_name(devices: Sequence[PoolDevice]) -> str:
    """Return the fault if two devices of a pool have one name; else an empty text."""
    names: set[str] = set()
    for device in devices:
        if device.device.name in names:
            return f"duplicate device name {device.device.name}"
        names.add(device.device.name)
    return ""


def _device_named(name: str, slices: Iterable[ResourceSlice]) -> Device | None:
    devices = (device for slice in slices for device in slice.spec.devices)
    return next((device for device in devices if device.name == name), None)


def _is_for_node(node: Node, part: ResourceSlice | Device) -> bool:
    """Return True if a slice, or a device of its own, may be on the node."""
    spec = part.spec if isinstance(part, ResourceSlice) else part
    if spec.node_name == node.metadata.name or spec.all_nodes:
        return True
    if spec.node_selector is not None:
        matcher = parse_node_selector(spec.node_selector)
        return not matcher.errors and matcher.matches(node)
    return isinstance(spec, ResourceSliceSpec) and bool(spec.per_device_node_selection)


def _node_of(slice: ResourceSlice) -> str:
    """Return the only node that a slice is for; empty if there may be several."""
    spec = slice.spec
    return "" if spec.shared_counters else spec.node_name or ""


def _add_slice(slices: dict[PoolId, list[ResourceSlice]], slice: ResourceSlice) -> None:
    """Add a slice to its pool; a newer generation replaces the older one."""
    spec = slice.spec
    of_pool = slices.setdefault(PoolId(spec.driver, spec.pool.name), [])
    if of_pool and spec.pool.generation > of_pool[0].spec.pool.generation:
        of_pool.clear()
    if not of_pool or spec.pool.generation == of_pool[0].spec.pool.generation:
        of_pool.append(slice)


def _wrong_consumption(slice: ResourceSlice, counter_sets: Mapping[str, CounterSet]) -> str:
    """Return why a device of the slice consumes counters that do not exist; else an empty text."""
    for device in slice.spec.devices:
        for consumption in device.consumes_counters:
            counter_set = counter_sets.get(consumption.counter_set)
            if counter_set is None:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.counters:
                if name not in counter_set.counters:
                    return f"counter {name} not found in counter set {counter_set.name}"
    return ""


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.device.binding_conditions for device in pool.devices)


class NodePools:
    """The pools of one node, and their usable devices in the order in which they are tried.

    `shape` is equal for nodes whose devices differ only in the names of pools and nodes.
    """

    def __init__(self, node: Node, pools: Sequence[Pool]) -> None:
        self.node: Final = node
        self.pools: Final = pools
        self.devices: Final = [(pool, device) for pool in pools for device in pool.devices]
        #: The devices whose allocation matters for this node.
        self.counted: Final = [
            device.id for pool in pools for device in (*pool.devices, *pool.unreachable)
        ]

    @functools.cached_property
    def shape(self) -> bytes:
        names: dict[str, int] = {}
        slices: dict[str, int] = {}
        skips = any(device.slice.spec.skip_node_operations for _, device in self.devices)
        pools = [
            (
                skips and self.node.status.declared_features,
                pool.id.driver,
                names.setdefault(pool.id.pool, len(names)),
                pool.is_incomplete,
                pool.invalid_reason,
                [_shape_of(device) for device in pool.devices],
                [
                    slices.setdefault(device.slice.metadata.name, len(slices))
                    for device in pool.devices
                ],
                [device_matches(self.node, device) for device in pool.devices],
                [_shape_of(device) for device in pool.unreachable],
                list(pool.counter_sets.values()),
            )
            for pool in self.pools
        ]
        return msgspec.json.encode(pools)


def _shape_of(device: PoolDevice) -> tuple[object, ...]:
    spec = device.slice.spec
    return (
        device.device,
        spec.node_name is not None,
        spec.node_selector,
        spec.per_device_node_selection,
        spec.shared_counters,
        spec.skip_node_operations,
    )
