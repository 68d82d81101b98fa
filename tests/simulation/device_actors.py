"""The clients of claims beside the scheduler: the controller of claims, and drivers of devices.

The controller makes claims from templates, ends reservations of pods that are done, deallocates
claims without users, and deletes claims whose pod is done or gone. Drivers make devices ready.
Source: `pkg/controller/resourceclaim/controller.go` of Kubernetes v1.36.3; the deletion of claims
whose pod is gone is the garbage collector's.
"""

import asyncio

from msgspec.structs import replace

from scheduler.api.core import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
)
from scheduler.api.dynamic_resources import (
    FINALIZER,
    AllocatedDeviceStatus,
    DeviceCondition,
    ResourceClaim,
)
from scheduler.testing import VirtualClock

from .api_store import ApiStore
from .claim_store import RESERVED_FOR_MAX, ClaimStore
from .device_traits import READY


class DeviceActors:
    """Reacts to changes of pods and claims, `delay_seconds` later."""

    def __init__(self, store: ApiStore, clock: VirtualClock) -> None:
        self._store, self._clock = store, clock
        self._claims = ClaimStore(store)
        self._news = asyncio.Event()
        self.delay_seconds = 0.05
        #: `controller` and `driver`, while they do nothing.
        self.held: set[str] = set()
        #: The uids of claims that were made for a pod that runs.
        self.remade: set[str] = set()
        store.pods.watches.append(self)
        store.claims.watches.append(self)

    def wake(self) -> None:
        """Look at everything again."""
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(self.delay_seconds)
            self._news.clear()
            if "controller" not in self.held:
                self._control()
            if "driver" not in self.held:
                self._make_ready()

    def _control(self) -> None:
        for pod in list(self._store.pods.now.values()):
            if not _is_done(pod) and pod.metadata.deletion_timestamp is None:
                self._make_claims(pod)
                self._reserve(pod)
        for key in list(self._store.claims.now):
            self._sync_claim(key)

    def _make_claims(self, pod: Pod) -> None:
        """Create the claims that a pod lacks, and name them in its status."""
        known = {status.name: status for status in pod.status.resource_claim_statuses}
        named = dict(known)
        for entry in pod.spec.resource_claims:
            spec = self._store.claim_templates.get(entry.resource_claim_template_name or "")
            status = known.get(entry.name)
            name = status.resource_claim_name if status is not None else None
            claim = self._store.claims.now.get(f"default/{name}")
            is_there = claim is not None and owner_of(claim) == pod.metadata.uid
            if entry.resource_claim_template_name is None or is_there or spec is None:
                continue
            made = self._claims.create(ResourceClaim(_owned(pod, entry), spec))
            if pod.spec.node_name:
                self.remade.add(made.metadata.uid)
            named[entry.name] = PodResourceClaimStatus(entry.name, made.metadata.name)
        if named != known:
            statuses = tuple(named.values())
            pod = self._store.pod(pod.key)
            status = replace(pod.status, resource_claim_statuses=statuses)
            self._store.pods.put(replace(pod, status=status))

    def _reserve(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler's reservation."""
        if not pod.spec.node_name:
            return
        for name in claim_names(self._store.pod(pod.key)):
            claim = self._store.claims.now.get(f"default/{name}")
            if claim is None or claim.status.allocation is None:
                continue
            users, uid = claim.status.reserved_for, pod.metadata.uid
            can_be_reserved = (
                claim.metadata.deletion_timestamp is None and len(users) < RESERVED_FOR_MAX
            )
            if can_be_reserved and not claim.is_reserved_for(uid):
                user = {"resource": "pods", "name": pod.metadata.name, "uid": uid}
                patch = {"reservedFor": [*_as_json(claim), user]}
                metadata = {"uid": claim.metadata.uid}
                self._claims.patch(
                    claim.key, {"metadata": metadata, "status": patch}, subresource="status"
                )

    def _sync_claim(self, key: str) -> None:
        claim = self._store.claims.now[key]
        users = claim.status.reserved_for
        left = tuple(user for user in users if self._is_running(user.name, user.uid))
        is_protected = FINALIZER in claim.metadata.finalizers
        is_going = claim.metadata.deletion_timestamp is not None
        if is_protected and not left and (users or is_going):
            self._claims.deallocate(claim)
        elif len(left) < len(users):
            self._store.claims.put(replace(claim, status=replace(claim.status, reserved_for=left)))
        uid = owner_of(claim)
        if uid and not left and key in self._store.claims.now:
            owner = next((p for p in self._store.pods.now.values() if p.metadata.uid == uid), None)
            if owner is None or _is_done(owner):
                self._claims.delete(key)

    def _is_running(self, name: str, uid: str) -> bool:
        pod = self._store.pods.now.get(f"default/{name}")
        return pod is not None and pod.metadata.uid == uid and not _is_done(pod)

    def _make_ready(self) -> None:
        """Set the conditions of devices that pods wait for; a failure that was set stays."""
        for claim in list(self._store.claims.now.values()):
            allocation = claim.status.allocation
            if allocation is None or claim.status.devices:
                continue
            waited_for = [r for r in allocation.devices.results if r.binding_conditions]
            if waited_for:
                set_conditions(self._store, claim, READY)


def set_conditions(store: ApiStore, claim: ResourceClaim, condition: str) -> None:
    """Set one condition of each device of a claim, as its driver does."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    devices = tuple(
        AllocatedDeviceStatus(
            result.driver,
            result.pool,
            result.device,
            result.share_id,
            conditions=(DeviceCondition(type=condition, status="True"),),
        )
        for result in results
    )
    store.claims.put(replace(claim, status=replace(claim.status, devices=devices)))


def claim_names(pod: Pod) -> list[str]:
    """Return the names of a pod's claims that are known."""
    statuses = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
    names = [
        entry.resource_claim_name or statuses.get(entry.name) for entry in pod.spec.resource_claims
    ]
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        names.append(extended.resource_claim_name)
    return [name for name in names if name]


def owner_of(claim: ResourceClaim) -> str:
    """Return the uid of the pod that a claim was made for; empty for any other claim."""
    return next((o.uid for o in claim.metadata.owner_references if o.controller), "")


def _is_done(pod: Pod) -> bool:
    """Return True if no container of the pod runs from now on."""
    has_ended = pod.status.phase in {"Succeeded", "Failed"}
    is_going = pod.metadata.deletion_timestamp is not None
    return has_ended or (is_going and not pod.spec.node_name)


def _owned(pod: Pod, entry: PodResourceClaim) -> ObjectMeta:
    name, uid = pod.metadata.name, pod.metadata.uid
    return ObjectMeta(
        namespace="default",
        generate_name=f"{name}-{entry.name}-",
        owner_references=(OwnerReference("v1", "Pod", name, uid, controller=True),),
    )


def _as_json(claim: ResourceClaim) -> list[dict[str, str]]:
    return [
        {"resource": user.resource, "name": user.name, "uid": user.uid}
        for user in claim.status.reserved_for
    ]
