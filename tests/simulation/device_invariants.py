"""Invariants of claims and devices: at any time, when everything is idle, and at the end.

No device is allocated twice, nor more of a counter or a capacity than there is; nothing is kept for
a pod that is gone; the scheduler's devices are those of the API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from scheduler.api.dynamic_resources import (
    EXTENDED_RESOURCE_CLAIM,
    FINALIZER,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from scheduler.devices.allocated import Devices

from .api_store import ApiStore
from .device_actors import claim_names, owner_of
from .device_traits import UNITS

if TYPE_CHECKING:  # the simulation imports this module
    from .simulation import Simulation


class Used(NamedTuple):
    """A device that a claim has."""

    pool: tuple[str, str]
    device: str
    claim: str
    result: DeviceRequestAllocationResult


def check_nothing_is_taken_twice(simulation: Simulation) -> None:
    """Check the devices of all claims, as the API server has them.

    Counters and capacities are checked in pools that have never changed.
    """
    store = simulation.store
    used = list(_used(store.claims.now.values()))
    whole = Counter((each.pool, each.device) for each in used if not each.result.share_id)
    for device, count in whole.items():
        claims = [each.claim for each in used if (each.pool, each.device) == device]
        assert count == 1, f"{device} belongs to {claims}"
    for resource_slice in store.slices.now.values():
        spec = resource_slice.spec
        pool = (spec.driver, spec.pool.name)
        if pool in simulation.meddled_pools:
            continue
        there = [each for each in used if each.pool == pool]
        consumed = {
            device.name: sum(
                int(str(consumption.counters["units"].value))
                for consumption in device.consumes_counters
            )
            for device in spec.devices
        }
        taken = sum(consumed.get(each.device, 0) for each in there)
        assert taken <= UNITS, f"{taken} of {UNITS} units of {pool} are taken: {there}"
        for device in spec.devices:
            shares = [e.result for e in there if e.device == device.name and e.result.share_id]
            amount = sum(int(str((r.consumed_capacity or {}).get("units", 0))) for r in shares)
            assert amount <= UNITS, f"{amount} of {UNITS} units of {pool} {device.name} are taken"


def check_devices_at_rest(simulation: Simulation) -> None:
    """Check that the devices are counted as the claims are: the informer's or newer ones."""
    tracker = simulation.line.tracker
    tracker.follow_informer()
    expected = Devices()
    for claim in tracker.list():
        if claim.status.allocation is not None:
            expected.add(claim.status.allocation)
    for name in ("ids", "shares", "shared", "capacity"):
        counted = getattr(tracker._devices, name)
        assert counted == getattr(expected, name), f"{name} of devices: {counted}"


def check_devices_idle(simulation: Simulation) -> None:
    """Check that no claim is in flight or assumed, and that nothing is kept for nothing."""
    store, tracker = simulation.store, simulation.line.tracker
    assert not tracker._pending, f"for ever in flight: {tracker._pending}"
    known = {claim.key: claim for claim in tracker.list()}
    assert known == store.claims.now, "the claims differ from those of the API server"
    pods = {pod.metadata.uid: pod for pod in store.pods.now.values()}
    for key, claim in store.claims.now.items():
        owner = owner_of(claim)
        assert not owner or owner in pods, f"{key} is left without its pod"
        users = [user.uid for user in claim.status.reserved_for]
        is_going = claim.metadata.deletion_timestamp is not None
        assert users or not is_going, f"{key} is being deleted for ever"
        assert set(users) <= pods.keys(), f"{key} is reserved for pods that are gone: {users}"
        if claim.status.allocation is not None:
            has_finalizer = FINALIZER in claim.metadata.finalizers
            # A claim for extended resources loses it before it is deleted.
            is_excused = key in simulation.writes.maybe_left
            assert has_finalizer or is_excused, f"{key} is allocated without finalizer"
        waiting = [uid for uid in users if not pods[uid].spec.node_name]
        if key not in simulation.writes.maybe_left:
            assert not waiting, f"{key} is reserved for pods that wait: {waiting}"
    _check_bound_pods(simulation)


def _check_bound_pods(simulation: Simulation) -> None:
    """Check that each pod that this scheduler has bound has its devices."""
    store = simulation.store
    for key, pod in store.pods.now.items():
        has_run = pod.status.phase in {"Succeeded", "Failed"}
        if pod.metadata.uid not in simulation.writes.got_node or has_run:
            continue
        for name in claim_names(pod):
            claim = store.claims.now.get(f"default/{name}")
            if claim is None or claim.metadata.uid in simulation.actors.remade:
                continue
            assert claim.is_reserved_for(pod.metadata.uid), f"{key} runs without {name}"
        extended = [c for c in _extended(store) if owner_of(c) == pod.metadata.uid]
        named = pod.status.extended_resource_claim_status
        for claim in extended:
            is_named = named is not None and named.resource_claim_name == claim.metadata.name
            is_excused = claim.key in simulation.writes.maybe_left
            assert is_named or is_excused, f"{claim.key} is left for {key}, which runs"


def _extended(store: ApiStore) -> Iterator[ResourceClaim]:
    for claim in store.claims.now.values():
        if EXTENDED_RESOURCE_CLAIM in claim.metadata.annotations:
            yield claim


def _used(claims: Iterable[ResourceClaim]) -> Iterator[Used]:
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            yield Used((result.driver, result.pool), result.device, claim.key, result)
