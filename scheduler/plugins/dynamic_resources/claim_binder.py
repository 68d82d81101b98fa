"""The writes of DynamicResources: claims in PreBind, PostFilter and Unreserve.

A claim is written in this order: its finalizer, then allocation, user and time in its status. The
claim for extended resources is created before, and named in the pod's status after that.
Source: `bindClaim`, `PreBind`, `Unreserve`, `deleteClaim` in
`pkg/scheduler/framework/plugins/dynamicresources/*.go`, v1.36.3.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from scheduler.api.core import PodExtendedResourceClaimStatus
from scheduler.api.dynamic_resources import FINALIZER, ResourceClaimConsumerReference
from scheduler.framework.handle import WriteConflictError
from scheduler.plugins.dynamic_resources.binding_conditions import (
    DeviceBindingError,
    has_binding_conditions,
    is_binding_timed_out,
    is_ready_for_binding,
)
from scheduler.plugins.dynamic_resources.extended_resources import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.api.core import Pod
    from scheduler.api.dynamic_resources import AllocationResult, ResourceClaim
    from scheduler.devices.claims import ClaimTracker
    from scheduler.framework.handle import Handle, ResourceClaimWriter
    from scheduler.plugins.dynamic_resources.state import StateData

_log: Final = logging.getLogger(__name__)

R = TypeVar("R")

#: The number of attempts of a write that is refused because of a conflict, and the pause between.
_ATTEMPTS: Final = 5
_CONFLICT_SECONDS: Final = 0.01

#: The pause between two looks at devices that become ready.
_POLL_SECONDS: Final = 5.0

#: The pause between two looks for a created claim in the informer, and the longest wait for it.
_ASSUME_POLL_SECONDS: Final = 1.0
_ASSUME_SECONDS: Final = 120.0


class ClaimBindingError(Exception):
    """A claim cannot be written as planned; the pod is retried. Upstream's text."""


class ClaimBinder:
    """Writes the claims of pods."""

    def __init__(self, handle: Handle, claims: ClaimTracker, *, timeout_seconds: float) -> None:
        self._handle: Final = handle
        self._claims: Final = claims
        self._timeout_seconds: Final = timeout_seconds

    @property
    def _api(self) -> ResourceClaimWriter:
        return self._handle.api.resource_claims

    async def bind(self, data: StateData, pod: Pod, node_name: str) -> None:
        """Write all claims, then wait until their devices are ready.

        Raises `ClaimBindingError`, `DeviceBindingError`, or the client's errors.
        """
        for index, claim in enumerate(data.claims):
            if not claim.is_reserved_for(pod.metadata.uid):
                data.claims[index] = await self._bind_claim(data, index, pod, node_name)
        if any(map(has_binding_conditions, data.claims)):
            self._handle.event_recorder.event(
                pod,
                type="Normal",
                reason="BindingConditionsPending",
                action="Scheduling",
                note=f"waiting for binding conditions for device on node {node_name}",
            )
            start, status = self._handle.monotonic(), "error"
            try:
                await self._wait_until_ready(data)
                status = "success"
            except DeviceBindingError as error:
                status = error.status
                raise
            finally:
                self._count_wait(data, status, self._handle.monotonic() - start)

    def _count_wait(self, data: StateData, status: str, seconds: float) -> None:
        """Count the wait for each device, and the devices that had to become ready."""
        metrics, profile = self._handle.metrics, self._handle.profile_name
        for claim in data.claims:
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                labels = (profile, result.driver, status)
                metrics.binding_conditions_wait_duration.observe(seconds, *labels)
                if result.binding_conditions:
                    metrics.binding_conditions_allocations[labels] += 1

    async def _bind_claim(
        self, data: StateData, index: int, pod: Pod, node_name: str
    ) -> ResourceClaim:
        claim, allocation = data.claims[index], data.allocations[index]
        is_extended = claim is data.extended_claim
        if is_extended and allocation is None and not claim.spec.devices.requests:
            # The node provides the resources without devices.
            return claim
        uid = claim.metadata.uid
        written: ResourceClaim | None = None
        created: ResourceClaim | None = None
        try:
            if is_extended and claim.metadata.name == IN_MEMORY:
                created = claim = await self._create(data, node_name)
                data.claims[index] = claim
            written = await self._write(claim, allocation, pod)
            if is_extended:
                await self._patch_pod(data, written, pod, node_name)
            return written
        finally:
            await self._finish(
                uid, written or created, has_allocation=allocation is not None, wait=is_extended
            )

    async def _finish(
        self, uid: str, written: ResourceClaim | None, *, has_allocation: bool, wait: bool
    ) -> None:
        """Assume the claim as it was written, and end the allocation in flight."""
        is_assumed = False
        if written is not None and wait:
            await self._assume_when_known(written)
        elif written is not None:
            is_assumed = self._claims.assume(written)
        if has_allocation:
            self._claims.remove_pending_allocation(uid, force=is_assumed)

    async def _assume_when_known(self, claim: ResourceClaim) -> None:
        """Assume a created claim once the informer has it."""
        deadline = self._handle.monotonic() + _ASSUME_SECONDS
        while not self._claims.assume(claim) and self._handle.monotonic() < deadline:
            await self._handle.sleep(_ASSUME_POLL_SECONDS)

    async def _create(self, data: StateData, node_name: str) -> ResourceClaim:
        """Create the claim for the extended resources of a pod on its node."""
        found = data.reserved
        if found is None or found.extended_claim is None:
            raise ClaimBindingError(f"extended resource claim not found for node {node_name}")
        claim = found.extended_claim
        metadata = replace(claim.metadata, name="", uid="")
        creates = self._handle.metrics.resource_claim_creates
        try:
            created = await self._api.create(replace(claim, metadata=metadata))
            creates[("success",)] += 1
            return created
        except Exception as error:
            creates[("failure",)] += 1
            key = f"{metadata.namespace}/"
            text = f"create claim for extended resources {key}: {error}"
            raise ClaimBindingError(text) from error

    async def _write(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod
    ) -> ResourceClaim:
        async def attempt(claim: ResourceClaim) -> ResourceClaim:
            return await self._write_once(claim, allocation, pod)

        return await self._with_newest(claim, attempt)

    async def _write_once(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod
    ) -> ResourceClaim:
        key = claim.key
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        status = claim.status
        if allocation is not None:
            if status.allocation is not None:
                raise ClaimBindingError(f"claim {key} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                metadata = claim.metadata
                metadata = replace(metadata, finalizers=(*metadata.finalizers, FINALIZER))
                update = self._api.update(replace(claim, metadata=metadata))
                claim = await _named(f"add finalizer to claim {key}", update)
            status = replace(claim.status, allocation=allocation)
        if status.allocation is None:
            raise ClaimBindingError(f"claim {key} got deallocated elsewhere in the meantime")
        allocated = status.allocation
        if allocated.allocation_timestamp is None:
            now = datetime.fromtimestamp(int(self._handle.now()), UTC)
            allocated = replace(allocated, allocation_timestamp=now)
        metadata = pod.metadata
        user = ResourceClaimConsumerReference("", "pods", metadata.name, metadata.uid)
        status = replace(status, allocation=allocated, reserved_for=(*status.reserved_for, user))
        what = "reservation" if allocation is None else "allocation and reservation"
        update = self._api.update_status(claim, replace(claim, status=status))
        return await _named(f"add {what} to claim {key}", update)

    async def _with_newest(
        self,
        claim: ResourceClaim,
        attempt: Callable[[ResourceClaim], Awaitable[ResourceClaim]],
        failed: str = "get updated claim {} after conflict",
    ) -> ResourceClaim:
        """Write a claim; after a conflict read it and write again."""
        for number in range(_ATTEMPTS):
            if number:
                claim = await _named(failed.format(claim.key), self._api.get(claim))
            try:
                return await attempt(claim)
            except WriteConflictError:
                if number == _ATTEMPTS - 1:
                    raise
                await self._handle.sleep(_CONFLICT_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    async def _patch_pod(
        self, data: StateData, claim: ResourceClaim, pod: Pod, node_name: str
    ) -> None:
        """Name the claim for extended resources in the status of the pod."""
        found = data.reserved
        mappings = tuple(found.mappings) if found is not None else ()
        if not mappings:
            raise ClaimBindingError(
                f"nil or empty request mappings, no update of pod {pod.key} "
                "ExtendedResourceClaimStatus"
            )
        status = PodExtendedResourceClaimStatus(mappings, claim.metadata.name)
        await _named(
            f"update pod {pod.key} ExtendedResourceClaimStatus",
            self._handle.api.patch_extended_resource_claim_status(pod, status),
        )

    async def _wait_until_ready(self, data: StateData) -> None:
        deadline = self._handle.monotonic() + self._timeout_seconds
        while not self._are_ready(data):
            left = deadline - self._handle.monotonic()
            await self._handle.sleep(min(_POLL_SECONDS, max(left, 0.0)))
            if self._handle.monotonic() >= deadline:
                text = "device binding timeout: context deadline exceeded"
                raise DeviceBindingError(text, status="timeout")

    def _are_ready(self, data: StateData) -> bool:
        """Return True if the devices of all claims are ready.

        Raises `DeviceBindingError` if a device has failed or is late.
        """
        for index, claim in enumerate(data.claims):
            metadata = claim.metadata
            current = self._claims.get(metadata.name, metadata.namespace)
            if current is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{claim.key}"')
            data.claims[index] = current
            if is_ready_for_binding(current):
                continue
            if is_binding_timed_out(current, self._handle.now(), self._timeout_seconds):
                text = f"device binding timeout: claim={metadata.name}"
                raise DeviceBindingError(text, status="timeout")
            return False
        return True

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim, so that others can be allocated."""
        status = replace(claim.status, allocation=None, reserved_for=(), devices=())
        await self._api.update_status(claim, replace(claim, status=status))

    async def release(self, claim: ResourceClaim, pod: Pod) -> None:
        """Remove a pod from the users of a claim; an error is logged."""
        try:
            await self._api.release(claim, pod.metadata.uid)
        except Exception as error:
            # Removed when the pod fails again, or by the controller of claims when it is gone.
            _log.error("unreserve", {"resourceclaim": claim.key, "err": error})

    async def undo_creation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Delete a claim for extended resources; an error is logged."""
        try:
            await self.delete(claim)
        except Exception as error:
            # PostFilter deletes it, or the garbage collector when the pod is gone.
            pair = {"pod": pod.key, "resourceclaim": claim.key, "err": error}
            _log.error("Failed to delete the claim for extended resources", pair)

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim for extended resources, with its finalizer."""

        async def remove_finalizer(claim: ResourceClaim) -> ResourceClaim:
            finalizers = tuple(f for f in claim.metadata.finalizers if f != FINALIZER)
            metadata = replace(claim.metadata, finalizers=finalizers)
            update = self._api.update(replace(claim, metadata=metadata))
            return await _named(f"update resourceclaim {claim.key}", update)

        await self._with_newest(claim, remove_finalizer, "get resourceclaim {}")
        await self._api.delete(claim)


async def _named(what: str, write: Awaitable[R]) -> R:
    """Await a write; an error gets `what` before its text, and stays a conflict if it is one."""
    try:
        return await write
    except WriteConflictError as error:
        raise WriteConflictError(f"{what}: {error}") from error
    except Exception as error:
        raise ClaimBindingError(f"{what}: {error}") from error
