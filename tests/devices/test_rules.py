"""The rules for devices of each version. `conformance/cases` has the decisions on pods."""

import contextlib

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    CapacityRequirements,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
)
from scheduler.api.dynamic_resources import ResourceSliceSpec as Spec
from scheduler.config import FeatureGates
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.allocated import AllocatedState, Devices
from scheduler.devices.allocator import Allocator
from scheduler.devices.pools import NodePools, Pool, PoolDevice, PoolId, Slices
from scheduler.devices.requests import AllocationError, Request, refuse_capacity
from scheduler.devices.rules import DeviceRules, device_rules
from scheduler.devices.selectors import SelectorVerdicts
from scheduler.testing import make_node

V1_34, V1_35, V1_36, V1_37 = SchedulerVersion
OWN, OF_POOL = CounterSet("own"), CounterSet("pool")
DEVICES = tuple(map(Device, ("first", "second")))
SLICE = ResourceSlice(
    ObjectMeta(name="slice"),
    Spec("driver", ResourcePool("pool"), devices=DEVICES, shared_counters=(OWN,)),
)
SECOND = PoolDevice(SLICE, DEVICES[1])
POOL = Pool(PoolId("driver", "pool"), devices=[SECOND], counter_sets={"pool": OF_POOL})


def rules_of(version: SchedulerVersion, *gates: str) -> DeviceRules:
    return device_rules(FeatureGates(gates), version)


@pytest.mark.parametrize(
    ("version", "key", "counter_set"),
    [
        (V1_34, "slice", OWN),
        (V1_35, "pool", OF_POOL),
        (V1_36, "pool", OF_POOL),
        (V1_37, PoolId("driver", "pool"), OF_POOL),
    ],
)
def test_counters_are_those_of_the_slice_or_of_the_pool(
    version: SchedulerVersion, key: object, counter_set: CounterSet
) -> None:
    rules = rules_of(version)
    assert rules.counters_key(POOL, SECOND) == key
    assert list(rules.counter_sets(POOL, SECOND)) == [counter_set]


@pytest.mark.parametrize(
    ("version", "consumes", "has_counters"),
    [
        (V1_34, False, False),
        (V1_35, False, True),
        (V1_36, True, True),
        (V1_37, True, True),
    ],
)
def test_a_device_that_claims_share_has_its_counters_once(
    version: SchedulerVersion, *, consumes: bool, has_counters: bool
) -> None:
    written = Devices()
    written.capacity[SECOND.id] = {"memory": 1}
    state, rules = AllocatedState(written, Devices()), rules_of(version)
    assert rules.consumes(state, SECOND.id) is consumes
    assert rules.has_shares(state, SECOND.id, ()) is has_counters


@pytest.mark.parametrize(("number", "name"), [(0, "first"), (1, "second"), (2, "second")])
def test_version_1_34_compares_the_capacity_of_another_device(number: int, name: str) -> None:
    assert rules_of(V1_34).compared(SECOND, number).device.name == name
    assert rules_of(V1_35).compared(SECOND, number) is SECOND


@pytest.mark.parametrize("version", SchedulerVersion)
def test_with_shared_devices_the_search_starts_over_up_to_1_35(version: SchedulerVersion) -> None:
    assert not rules_of(version).starts_over
    assert rules_of(version, "DRAConsumableCapacity").starts_over is (version <= V1_35)
    assert rules_of(version, "DRAPartitionableDevices").starts_over is (version <= V1_35)


def slice_named(name: str, *devices: Device, count: int = 1, pool: str = "pool") -> ResourceSlice:
    spec = Spec("d", ResourcePool(pool, resource_slice_count=count), node_name="n", devices=devices)
    return ResourceSlice(ObjectMeta(name=name), spec)


def pools_of(version: SchedulerVersion, *slices: ResourceSlice) -> NodePools:
    node = make_node("n")
    return NodePools(node, Slices(slices, rules=rules_of(version).pools).pools(node))


@pytest.mark.parametrize("version", SchedulerVersion)
def test_an_incomplete_pool_has_devices_in_1_34_only(version: SchedulerVersion) -> None:
    found = pools_of(version, slice_named("s", *DEVICES, count=2))
    assert [pool.is_incomplete for pool in found.pools] == [True]
    assert len(found.devices) == (2 if version == V1_34 else 0)


@pytest.mark.parametrize("version", SchedulerVersion)
def test_an_invalid_pool_ends_the_search_in_1_34_only(version: SchedulerVersion) -> None:
    first, second = (slice_named(name, DEVICES[0], count=2) for name in "ab")
    found = pools_of(version, first, second)
    (pool,) = found.pools
    assert pool.invalid_reason == "duplicate device name first"
    allocator = Allocator(
        state=AllocatedState(Devices(), Devices()),
        class_of=lambda name: DeviceClass(),
        verdicts=SelectorVerdicts(frozenset(), version),
        gates=FeatureGates(),
        rules=rules_of(version),
    )
    request = DeviceRequest("r", ExactDeviceRequest("class", allocation_mode="ExactCount", count=1))
    claim = ResourceClaim(spec=ResourceClaimSpec(DeviceClaim((request,))))
    fault = pytest.raises(AllocationError, match="pool pool is invalid: duplicate")
    with fault if version == V1_34 else contextlib.nullcontext():
        assert allocator.allocate([claim], found, 0, expired=lambda: False) is None


def test_an_invalid_pool_with_devices_to_attach_is_last_in_1_34() -> None:
    attached = Device("attached", binding_conditions=("ready",))
    parts = [slice_named(name, attached, pool="a") for name in ("first", "second")]
    found = pools_of(V1_34, *parts, slice_named("plain", Device("plain"), pool="b"))
    assert [bool(pool.invalid_reason) for pool in found.pools] == [False, True]


@pytest.mark.parametrize("version", SchedulerVersion)
def test_slices_with_devices_to_attach_are_last_up_to_1_35(version: SchedulerVersion) -> None:
    attached = slice_named("a", Device("attached", binding_conditions=("ready",)), count=2)
    found = pools_of(version, attached, slice_named("b", Device("plain"), count=2))
    names = ["attached", "plain"]
    assert [device.device.name for _, device in found.devices] == (
        names if version >= V1_36 else names[::-1]
    )


@pytest.mark.parametrize("version", SchedulerVersion)
def test_taints_of_unknown_effects_keep_away_in_1_34_only(version: SchedulerVersion) -> None:
    keeps_away = rules_of(version).keeps_away
    assert keeps_away(DeviceTaint("key", effect="NoSchedule"))
    assert keeps_away(DeviceTaint("key", effect="None")) is (version == V1_34)


@pytest.mark.parametrize("version", SchedulerVersion)
def test_an_allocation_has_no_tolerations_in_1_34(version: SchedulerVersion) -> None:
    assert rules_of(version, "DRAAdminAccess").results.repeats_tolerations is (version != V1_34)
    # Without gates 1.35 takes its oldest allocator.
    assert rules_of(version).results.repeats_tolerations is (version >= V1_36)


def request_in_mode(mode: str) -> Request:
    spec = ExactDeviceRequest(allocation_mode=mode)
    return Request(ResourceClaim(), "r", "", spec, DeviceClass())


@pytest.mark.parametrize("version", SchedulerVersion)
def test_only_the_same_device_has_the_same_value_in_1_34(version: SchedulerVersion) -> None:
    values, value = rules_of(version).distinct(), DeviceAttribute(string_value="x")
    request = request_in_mode("ExactCount")
    assert values.add(request, PoolDevice(SLICE, DEVICES[0]), value)
    assert not values.add(request, PoolDevice(SLICE, DEVICES[0]), value)
    assert values.add(request, SECOND, value) is (version == V1_34)


@pytest.mark.parametrize("version", SchedulerVersion)
def test_alternatives_for_all_devices_are_mixed_up_to_1_35(version: SchedulerVersion) -> None:
    alternatives = [request_in_mode("All") for _ in range(3)]
    first, second, third = alternatives
    rules, is_mixed = rules_of(version), version <= V1_35
    assert rules.selects_as(alternatives, second) is (first if is_mixed else second)
    assert rules.goes_on_as(alternatives, third) is (first if is_mixed else third)
    assert rules.selects_as(alternatives, third) is third
    some = request_in_mode("ExactCount")
    assert rules.selects_as([some, second, third], second) is second
    assert rules.selects_as([some], some) is some


@pytest.mark.parametrize("version", SchedulerVersion)
def test_1_34_names_the_request_of_an_alternative_with_capacity(version: SchedulerVersion) -> None:
    request = DeviceRequest(
        "r", first_available=(DeviceSubRequest("a", capacity=CapacityRequirements()),)
    )
    name = "request r" if version == V1_34 else "subrequest a"
    with pytest.raises(AllocationError, match=f", {name}: has capacity requests, but"):
        refuse_capacity(
            ResourceClaim(), request, names_alternatives=rules_of(version).names_alternatives
        )
