"""Groups of nodes with equal devices and equal usage."""

from scheduler.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
)
from scheduler.api.dynamic_resources import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from scheduler.devices.allocated import AllocatedState, Devices
from scheduler.devices.groups import NodeGroups
from scheduler.devices.pools import PoolRules, Slices
from scheduler.testing import make_node, snapshot_of


def groups_of(slices: list[ResourceSlice], *names: str) -> list[int]:
    groups = NodeGroups(AllocatedState(Devices(), Devices()))
    groups.use_slices(Slices(slices, rules=PoolRules()), None)
    nodes = snapshot_of([make_node(name) for name in names], []).nodes
    return [int(group) for group in groups.of(nodes)]


def slice_of(pool: str, *devices: str, **spec: object) -> ResourceSlice:
    of_pool = ResourceSliceSpec(
        "d", ResourcePool(pool, resource_slice_count=1), devices=tuple(map(Device, devices)), **spec
    )
    return ResourceSlice(ObjectMeta(name=pool), of_pool)


def test_many_nodes_with_equal_devices_are_in_one_group() -> None:
    names = [f"n-{number}" for number in range(100)]
    slices = [slice_of(name, "a", node_name=name) for name in names]
    assert len({*groups_of(slices, *names)}) == 1
    assert len({*groups_of(slices[:99], *names)}) == 2


def test_nodes_whose_pools_cannot_be_determined_are_in_groups_of_their_own() -> None:
    term = NodeSelectorTerm((NodeSelectorRequirement("zone", "Gt", ("z",)),))
    malformed = slice_of("p", "a", node_selector=NodeSelector((term,)))
    assert len({*groups_of([malformed], "n-1", "n-2")}) == 2
