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
from scheduler.api.dynamic_resources import FINALIZER
from scheduler.devices.rules import BINDING_CONDITIONS
from scheduler.framework.handle import (
    ObjectNotFoundError,
    WriteConflictError,
    WriteOutcomeUnknownError,
)
from scheduler.plugins.dynamic_resources.binding_conditions import (
    DeviceBindingError,
    binding_texts,
    has_binding_conditions,
    is_binding_timed_out,
    is_ready_for_binding,
)
from scheduler.plugins.dynamic_resources.extended_resources import IN_MEMORY
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.api.core import Pod
    from scheduler.api.dynamic_resources import (
        AllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
    )
    from scheduler.devices.claims import ClaimTracker
    from scheduler.framework.handle import Handle, ResourceClaimWriter
    from scheduler.plugins.dynamic_resources.claim_owners import ClaimOwners
    from scheduler.plugins.dynamic_resources.state import ClaimState, StateData

_log: Final = logging.getLogger(__name__)

R = TypeVar("R")

#: The number of attempts of a write that is refused because of a conflict, and the pause between.
_ATTEMPTS: Final = 5
_CONFLICT_SECONDS: Final = 0.01

#: The pause between two looks at devices that become ready.
_POLL_SECONDS: Final = 5.0

#: The pause between two looks for a created claim in the informer, and the longest wait for it.
_POLL_CREATED_SECONDS: Final = 1.0
_ASSUME_SECONDS: Final = 120.0


class ClaimBindingError(Exception):
    """A claim cannot be written as planned; the pod is retried. Upstream's text."""


class ClaimBinder:
    """Writes the claims of pods."""

    def __init__(
        self, handle: Handle, claims: ClaimTracker, owners: ClaimOwners, *, timeout_seconds: float
    ) -> None:
        self._handle: Final = handle
        self._owners: Final = owners
        self._claims: Final = claims
        self._timeout_seconds: Final = timeout_seconds
        self._texts: Final = binding_texts(handle.version)
        self._has_conditions: Final = handle.feature_gates >= BINDING_CONDITIONS

    @property
    def _api(self) -> ResourceClaimWriter:
        return self._handle.api.resource_claims

    async def bind(self, data: StateData, pod: Pod, node_name: str) -> None:
        """Write all claims, then wait until their devices are ready.

        Raises `ClaimBindingError`, `DeviceBindingError`, or the client's errors.
        """
        for state in data.claims:
            if not self._owners.is_reserved(pod, state.claim):
                state.claim = await self._bind_claim(data, state, pod, node_name)
        if data.reserved_statuses:
            await _named(
                f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses",
                self._handle.api.patch_claim_statuses(pod, data.reserved_statuses),
            )
        has_conditions = any(has_binding_conditions(state.claim) for state in data.claims)
        if has_conditions and self._has_conditions:
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
        for state in data.claims:
            allocation = state.claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                labels = (profile, result.driver, status)
                metrics.binding_conditions_wait_duration.observe(seconds, *labels)
                if result.binding_conditions:
                    metrics.binding_conditions_allocations[labels] += 1

    async def _bind_claim(
        self, data: StateData, state: ClaimState, pod: Pod, node_name: str
    ) -> ResourceClaim:
        claim, allocation = state.claim, state.allocation
        if state.is_unreachable:
            # The member that allocated the devices writes them.
            raise ClaimBindingError(f"claim {claim.key} got allocated elsewhere in the meantime")
        if state.is_extended and allocation is None and not claim.spec.devices.requests:
            # The node provides the resources without devices.
            return claim
        # Of the allocation in flight, if this pod has one.
        uid = state.uid if allocation is not None else ""
        written: ResourceClaim | None = None
        created: ResourceClaim | None = None
        is_canceled = True
        try:
            if state.is_extended and claim.metadata.name == IN_MEMORY:
                state.claim = created = claim = await self._create(data, node_name)
            user = state.user or self._owners.user(pod, None)
            written = await self._write(uid, claim, allocation, user, pod)
            if state.is_extended:
                await self._patch_pod(data, written, pod, node_name)
            is_canceled = False
            return written
        except Exception:
            is_canceled = False
            raise
        finally:
            if is_canceled:
                self._look_up_later(uid, written or claim, pod)
            else:
                await self._finish(uid, written or created, pod, wait=state.is_extended)

    async def _finish(
        self, uid: str, written: ResourceClaim | None, pod: Pod, *, wait: bool
    ) -> None:
        """Assume the claim as it was written, and end the allocation in flight."""
        is_assumed = False
        try:
            if written is not None:
                is_assumed = self._claims.assume(written)
                if wait and not is_assumed:
                    is_assumed = await self._assume_when_known(written)
        finally:
            if written is not None and wait and not is_assumed:
                self._look_up_later(uid, written, pod)
        # After a failure Unreserve gives up the share of the pod; upstream would do so twice.
        if written is not None or not self._claims.is_shared(uid):
            self._claims.remove_pending_allocation(uid, force=is_assumed)

    async def _assume_when_known(self, claim: ResourceClaim) -> bool:
        """Assume a created claim once the informer has it; False if that takes too long."""
        deadline = self._handle.monotonic() + _ASSUME_SECONDS
        while self._handle.monotonic() < deadline:
            await self._handle.sleep(_POLL_CREATED_SECONDS)
            if self._claims.assume(claim):
                return True
        return False

    def _look_up_later(self, uid: str, claim: ResourceClaim, pod: Pod) -> None:
        """Keep the allocation of a claim in flight until it is known what the API server has.

        Upstream drops it, so that the devices may be allocated again before its informer shows
        that the claim has them. `uid` is that of the allocation in flight.
        """
        if claim.metadata.name != IN_MEMORY and self._claims.keep_pending_allocation(uid):
            self._handle.spawn(self._look_up(uid, claim, pod), f"look up {claim.key}")

    async def _look_up(self, uid: str, claim: ResourceClaim, pod: Pod) -> None:
        """Read a claim until the informer has it or it is gone, then retry the pod."""
        while True:
            try:
                stored = await self._api.get(claim)
            except ObjectNotFoundError:
                break
            except Exception as error:  # noqa: BLE001 - read again, as upstream
                _log.error("Cannot read a claim", {"resourceclaim": claim.key, "err": error})
            else:
                if stored.metadata.uid != claim.metadata.uid or self._claims.assume(stored):
                    break
            await self._handle.sleep(_POLL_CREATED_SECONDS)
        self._claims.remove_pending_allocation(uid, force=True)
        # The pod may wait for the claim, which need not have changed.
        self._handle.activate({pod.key: PodInfo(pod)})

    async def _create(self, data: StateData, node_name: str) -> ResourceClaim:
        """Create the claim for the extended resources of a pod on its node."""
        reserved = data.reserved
        if reserved is None or reserved.extended_claim is None:
            raise ClaimBindingError(f"extended resource claim not found for node {node_name}")
        claim = reserved.extended_claim
        metadata = replace(claim.metadata, name="", uid="")
        metrics = self._handle.metrics
        try:
            created = await self._api.create(replace(claim, metadata=metadata))
            metrics.resource_claim_created("success")
            return created
        except Exception as error:
            metrics.resource_claim_created("failure")
            key = f"{metadata.namespace}/"
            text = f"create claim for extended resources {key}: {error}"
            raise ClaimBindingError(text) from error

    async def _write(
        self,
        uid: str,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
        pod: Pod,
    ) -> ResourceClaim:
        async def attempt(claim: ResourceClaim) -> ResourceClaim:
            return await self._write_once(claim, allocation, user)

        try:
            return await self._with_newest(claim, attempt)
        except WriteOutcomeUnknownError as error:
            try:
                stored = await self._api.get(claim)
            except Exception:  # noqa: BLE001 - read again later
                self._look_up_later(uid, claim, pod)
            else:
                self._claims.assume(stored)
                if _is_written(stored, allocation, user):
                    return stored
            raise ClaimBindingError(str(error)) from error

    async def _write_once(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
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
        if self._has_conditions:
            status = replace(status, allocation=self._timed(status.allocation, key))
        status = replace(status, reserved_for=(*status.reserved_for, user))
        change = "reservation" if allocation is None else "allocation and reservation"
        update = self._api.update_status(claim, replace(claim, status=status))
        return await _named(f"add {change} to claim {key}", update)

    def _timed(self, allocation: AllocationResult | None, key: str) -> AllocationResult:
        """Return an allocation with its time, from which on devices have to become ready."""
        if allocation is None:
            raise ClaimBindingError(f"claim {key} got deallocated elsewhere in the meantime")
        if allocation.allocation_timestamp is not None:
            return allocation
        now = datetime.fromtimestamp(int(self._handle.now()), UTC)
        return replace(allocation, allocation_timestamp=now)

    async def _with_newest(
        self,
        claim: ResourceClaim,
        attempt: Callable[[ResourceClaim], Awaitable[ResourceClaim]],
        failed: str = "get updated claim {} after conflict",
    ) -> ResourceClaim:
        """Write a claim; after a conflict read it and write again."""
        conflicts = 0
        while True:
            try:
                return await attempt(claim)
            except WriteConflictError:
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise
            await self._handle.sleep(_CONFLICT_SECONDS)
            claim = await _named(failed.format(claim.key), self._api.get(claim))
            self._claims.assume(claim)

    async def _patch_pod(
        self, data: StateData, claim: ResourceClaim, pod: Pod, node_name: str
    ) -> None:
        """Name the claim for extended resources in the status of the pod."""
        reserved = data.reserved
        mappings = tuple(reserved.mappings) if reserved is not None else ()
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
                raise DeviceBindingError(self._texts.timed_out, status="timeout")

    def _are_ready(self, data: StateData) -> bool:
        """Return True if the devices of all claims are ready.

        Raises `DeviceBindingError` if a device has failed or is late.
        """
        for state in data.claims:
            metadata = state.claim.metadata
            current = self._claims.get(metadata.name, metadata.namespace)
            if current is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{state.claim.key}"')
            state.claim = current
            if is_ready_for_binding(current, self._texts):
                continue
            if is_binding_timed_out(current, self._handle.now(), self._timeout_seconds):
                text = self._texts.is_late.format(claim=metadata.name)
                raise DeviceBindingError(text, status="timeout")
            return False
        return True

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take the devices from a claim, so that other devices can be allocated."""
        status = replace(claim.status, allocation=None, reserved_for=(), devices=())
        await self._api.update_status(claim, replace(claim, status=status))

    async def release(self, claim: ResourceClaim, uid: str) -> bool:
        """Remove a user of a claim by its uid; False for an error, which is logged."""
        try:
            await self._api.release(claim, uid)
        except Exception as error:  # noqa: BLE001 - the undoing goes on
            # Removed when the pod fails again, or by the controller of claims when it is gone.
            _log.error("unreserve", {"resourceclaim": claim.key, "err": error})
            return False
        return True

    async def give_up(self, claim: ResourceClaim, pod: Pod) -> None:
        """Remove a pod from the users of a claim; an error is logged."""
        await self.release(claim, pod.metadata.uid)

    async def clear_statuses(self, pod: Pod) -> None:
        """Remove what the claims take of the node from the status of a pod; an error is logged."""
        try:
            await self._handle.api.patch_claim_statuses(pod, ())
        except Exception as error:  # noqa: BLE001 - the undoing goes on
            text = "Failed to clear NodeAllocatableResourceClaimStatuses on Unreserve"
            _log.error(text, {"pod": pod.key, "err": error})

    async def undo_creation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Delete a claim for extended resources; an error is logged."""
        try:
            await self.delete(claim)
        except Exception as error:  # noqa: BLE001 - the undoing goes on
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


def _is_written(
    claim: ResourceClaim,
    allocation: AllocationResult | None,
    user: ResourceClaimConsumerReference,
) -> bool:
    """Return True if a claim has this allocation, at any time, and this user.

    Without `allocation` any counts.
    """
    found = claim.status.allocation
    if found is None or not claim.is_reserved_for(user.uid):
        return False
    return allocation is None or allocation == replace(
        found, allocation_timestamp=allocation.allocation_timestamp
    )


async def _named(action: str, write: Awaitable[R]) -> R:
    """Await a write; an error gets `action` before its text. Conflicts keep their type."""
    try:
        return await write
    except WriteConflictError as error:
        raise WriteConflictError(f"{action}: {error}") from error
    except WriteOutcomeUnknownError as error:
        raise WriteOutcomeUnknownError(f"{action}: {error}") from error
    except Exception as error:
        raise ClaimBindingError(f"{action}: {error}") from error
