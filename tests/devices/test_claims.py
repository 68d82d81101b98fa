"""The claims ahead of the informer, and the devices that they have."""

from datetime import datetime

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.client import Store
from scheduler.config import FeatureGates, SchedulerVersion
from scheduler.devices.claims import ClaimTracker
from scheduler.devices.classes import DRA_EXTENDED_RESOURCE, DeviceClassResolver
from scheduler.devices.pools import DeviceId, PoolId
from scheduler.testing import FakeHandle

X, Y = DeviceId("d", "p", "x"), DeviceId("d", "p", "y")


def allocation(*devices: DeviceId, **more: object) -> AllocationResult:
    results = tuple(DeviceRequestAllocationResult("r", *device, **more) for device in devices)
    return AllocationResult(DeviceAllocationResult(results))


def claim(
    version: int, allocated: AllocationResult | None = None, name: str = "c", uid: str = ""
) -> ResourceClaim:
    metadata = ObjectMeta(
        name=name, namespace="ns", uid=uid or f"uid-{name}", resource_version=str(version)
    )
    return ResourceClaim(metadata, status=ResourceClaimStatus(allocation=allocated))


def tracker_of(*claims: ResourceClaim) -> tuple[ClaimTracker, Store[ResourceClaim]]:
    store = Store(claims)
    return ClaimTracker(FakeHandle(listers={"resourceclaims": store})), store


def has(tracker: ClaimTracker, device: DeviceId) -> bool:
    tracker.follow_informer()
    return tracker.allocated.is_allocated(device)


def test_an_assumed_claim_counts_until_the_informer_has_a_newer_one() -> None:
    tracker, store = tracker_of(claim(1))
    assert tracker.assume(claim(3, allocation(X)))
    assert tracker.get("c", "ns") == claim(3, allocation(X))
    assert [*tracker.list("ns")] == [claim(3, allocation(X))]
    assert has(tracker, X)
    # The informer is behind.
    store.put(claim(2))
    assert has(tracker, X)
    assert tracker.get("c", "ns") == claim(3, allocation(X))
    store.put(claim(4))
    assert not has(tracker, X)
    assert tracker.get("c", "ns") == claim(4)


def test_an_older_claim_is_not_assumed_and_a_missing_one_cannot_be() -> None:
    tracker, store = tracker_of(claim(5, allocation(Y)))
    assert tracker.assume(claim(4, allocation(X)))
    assert tracker.get("c", "ns") == claim(5, allocation(Y))
    store.remove("ns/c")
    assert not tracker.assume(claim(6, allocation(X)))
    assert not has(tracker, X)
    assert not has(tracker, Y)


def test_a_restored_claim_is_the_one_of_the_informer() -> None:
    tracker, _ = tracker_of(claim(1))
    tracker.assume(claim(2, allocation(X)))
    tracker.restore(claim(1))
    assert tracker.get("c", "ns") == claim(1)
    assert not has(tracker, X)
    tracker.restore(claim(1))


def test_a_claim_that_was_created_again_has_other_devices() -> None:
    tracker, store = tracker_of(claim(1, allocation(X)))
    store.put(claim(9, allocation(Y), uid="another"))
    assert has(tracker, Y)
    assert not has(tracker, X)


def test_devices_are_taken_while_an_allocation_is_in_flight() -> None:
    tracker, _ = tracker_of(claim(1))
    given = claim(1, allocation(X))
    tracker.signal_pending_allocation("uid-c", given)
    tracker.signal_pending_allocation("uid-c", given)
    assert tracker.pending_allocation("uid-c") == given.status.allocation
    assert has(tracker, X)
    assert tracker.changed_pools() == {PoolId("d", "p")}
    # Two pods wait for it.
    assert not tracker.remove_pending_allocation("uid-c", force=False)
    assert has(tracker, X)
    assert tracker.remove_pending_allocation("uid-c", force=False)
    assert not has(tracker, X)
    assert tracker.changed_pools() == {PoolId("d", "p")}
    assert not tracker.remove_pending_allocation("uid-c", force=True)
    assert tracker.pending_allocation("uid-c") is None


def test_one_pod_that_has_written_the_claim_ends_the_flight_for_all() -> None:
    tracker, _ = tracker_of(claim(1))
    for _ in range(2):
        tracker.signal_pending_allocation("uid-c", claim(1, allocation(X)))
    assert tracker.remove_pending_allocation("uid-c", force=True)
    assert not has(tracker, X)


def test_admin_access_takes_no_device() -> None:
    tracker, _ = tracker_of(claim(1, allocation(X, admin_access=True)))
    assert not has(tracker, X)


def test_shares_add_up_and_the_last_one_frees_the_device() -> None:
    first = claim(1, allocation(X, share_id="1", consumed_capacity={"memory": "2Gi"}))
    second = claim(2, allocation(X, share_id="2", consumed_capacity={"memory": "1Gi"}), "second")
    tracker, store = tracker_of(first, second)
    state = tracker.allocated
    assert not state.has_device(X)
    assert state.capacity(X) == {"memory": 3 * 2**30 * 10**9}
    third = claim(3, allocation(X, share_id="3", consumed_capacity={"memory": "1", "a": "1"}))
    tracker.signal_pending_allocation("third", third)
    assert state.capacity(X) == {"memory": (3 * 2**30 + 1) * 10**9, "a": 10**9}
    tracker.remove_pending_allocation("third", force=True)
    store.put(replace(first, status=ResourceClaimStatus()))
    store.remove("ns/second")
    assert not has(tracker, X)
    assert state.capacity(X) == {}
    # A share without capacity takes the device all the same.
    store.put(claim(9, allocation(X, share_id="4")))
    assert has(tracker, X)
    store.remove("ns/c")
    assert not has(tracker, X)


def device_class(name: str, resource: str | None, created: datetime | None = None) -> DeviceClass:
    metadata = ObjectMeta(name=name, creation_timestamp=created)
    return DeviceClass(metadata, DeviceClassSpec(extended_resource_name=resource))


def test_classes_follow_the_informer() -> None:
    store = Store([device_class("b", "example.com/gpu")])
    resolver = DeviceClassResolver(FakeHandle(listers={"deviceclasses": store}))

    def name(resource: str) -> str | None:
        found = resolver.device_class(resource)
        return found.metadata.name if found is not None else None

    prefix = "deviceclass.resource.kubernetes.io/"
    assert name("example.com/gpu") == name(f"{prefix}b") == "b"
    # Of two equally old classes the lower name counts; one that loses has no name of its own.
    store.put(device_class("c", "example.com/gpu"))
    assert name("example.com/gpu") == "b"
    assert name(f"{prefix}c") is None
    store.put(device_class("a", "example.com/gpu"))
    assert name("example.com/gpu") == name(f"{prefix}a") == "a"
    store.put(device_class("a", "example.com/other"))
    assert name("example.com/other") == "a"
    assert name("example.com/gpu") is None
    store.remove("a")
    assert name("example.com/other") is None
    assert name(f"{prefix}a") is None
    assert resolver.backed_by_devices(["cpu", f"{prefix}b"]) == {f"{prefix}b"}


def test_in_1_34_only_a_class_that_names_no_resource_has_an_implicit_one() -> None:
    store = Store([device_class("a", "example.com/gpu"), device_class("b", "example.com/gpu")])
    handle = FakeHandle(
        listers={"deviceclasses": store},
        version=SchedulerVersion.V1_34,
        feature_gates=FeatureGates({DRA_EXTENDED_RESOURCE}),
    )
    resolver = DeviceClassResolver(handle)
    found = resolver.device_class("example.com/gpu")
    assert found is not None
    assert found.metadata.name == "b"
    assert resolver.device_class("deviceclass.resource.kubernetes.io/b") is None
    store.put(device_class("b", None))
    assert resolver.device_class("deviceclass.resource.kubernetes.io/b") == store.get("b")
    store.remove("b")
    assert resolver.device_class("example.com/gpu") == store.get("a")
    store.remove("a")
    assert resolver.device_class("example.com/gpu") is None
