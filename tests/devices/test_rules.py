"""The rules for devices of each version. `conformance/cases` has the decisions on pods."""

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import CounterSet, Device, ResourcePool, ResourceSlice
from scheduler.api.dynamic_resources import ResourceSliceSpec as Spec
from scheduler.config import FeatureGates
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.allocated import AllocatedState, Devices
from scheduler.devices.pools import Pool, PoolDevice, PoolId
from scheduler.devices.rules import DeviceRules, device_rules

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
