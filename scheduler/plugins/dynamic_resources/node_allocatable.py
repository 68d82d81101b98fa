"""Devices that stand for resources of their node, such as cores: what a pod's claims take of it.

    claims and their devices --> status of each claim --> requests of the pod --> room on the node

The status is a part of the pod's once it is assumed, so that the node has less left for all
plugins. Rules differ between versions: `RULES_OF_1_36` and `RULES_OF_1_37`.
Source: `pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.core import (
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
)
from scheduler.api.dynamic_resources import claim_referenced_by
from scheduler.api.quantity import parse_quantity, quantity_text
from scheduler.devices.requests import AllocationError
from scheduler.devices.results import allocation_result
from scheduler.framework.status import Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.api.dynamic_resources import (
        AllocationResult,
        Device,
        DeviceRequestAllocationResult,
        Quantity,
        ResourceClaim,
    )
    from scheduler.devices.manager import DraManager
    from scheduler.devices.pools import Slices
    from scheduler.plugins.dynamic_resources.state import ClaimState, NodeAllocation, StateData
    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes

NODE_ALLOCATABLE_RESOURCES: Final = "DRANodeAllocatableResources"

_NANO: Final = 10**9

#: The devices of a claim, each with its result in the claim's allocation.
Taken: TypeAlias = "Sequence[tuple[DeviceRequestAllocationResult, Device]]"


class Rules(NamedTuple):
    """The rules that differ between versions.

    `counts_allocated`: claims that were allocated before count as well. `needs_container`: a
    container must name the claim. `sharing` returns why a claim cannot be used on a node.
    """

    counts_allocated: bool
    needs_container: bool
    device: Callable[[Slices, DeviceRequestAllocationResult, Node | None], Device | None]
    takes: Callable[[Device], bool]
    status: Callable[[ResourceClaim, Taken], NodeAllocatableResourceClaimStatus | None]
    uncovered: Callable[[Pod], str]
    sharing: Callable[[NodeAllocatable, ClaimState, NodeInfo], str]


class _Footprint(NamedTuple):
    """The resources of a node that the claims of a pod take, and the pod's requests with them."""

    statuses: tuple[NodeAllocatableResourceClaimStatus, ...]
    requests: Mapping[str, int]
    rejection: Status | None = None


class NodeAllocatable:
    """The check of one pod."""

    def __init__(
        self,
        rules: Rules,
        data: StateData,
        pod: Pod,
        manager: DraManager,
        *,
        is_reserved: Callable[[ResourceClaim], bool],
    ) -> None:
        self.rules: Final = rules
        #: True for a claim that the pod, or its group, has reserved.
        self.is_reserved: Final = is_reserved
        self.pod: Final = pod
        self.slices: Final = manager.slices()
        self._devices: Final = manager.rules
        self._data: Final = data
        #: By number of the allocation, where all nodes with it are alike.
        self._footprints: Final[dict[int, _Footprint]] = {}

    def shared_elsewhere(self, nodes: Nodes, which: BoolArray) -> dict[int, Status]:
        """Return, by position, the nodes on which a claim's devices cannot be shared."""
        found: dict[int, Status] = {}
        for entry in self._data.claims:
            if entry.claim.status.allocation is None and entry.pending is None:
                continue
            reached = which.copy()
            if entry.available_on is not None:
                reached &= nodes.selected_by(entry.available_on)
            for position in np.flatnonzero(reached).tolist():
                if position not in found:
                    reason = self.rules.sharing(self, entry, nodes[position])
                    if reason:
                        found[position] = unresolvable(reason)
        return found

    def check(
        self,
        nodes: Nodes,
        which: BoolArray,
        numbers: Sequence[int],
        allocation_on: Callable[[int], NodeAllocation | None],
    ) -> tuple[dict[int, Status], dict[int, Sequence[NodeAllocatableResourceClaimStatus]]]:
        """Return, by position, the nodes without room, and the status of claims on the others.

        Raises `AllocationError`, which ends the search.
        """
        rejected: dict[int, Status] = {}
        statuses: dict[int, Sequence[NodeAllocatableResourceClaimStatus]] = {}
        for position in np.flatnonzero(which).tolist():
            footprint = self._footprint(
                numbers[position], allocation_on(position), nodes[position].node
            )
            rejection = footprint.rejection or _insufficient(footprint, nodes, position)
            if rejection is not None:
                rejected[position] = rejection
            elif footprint.statuses:
                statuses[position] = footprint.statuses
        return rejected, statuses

    def _footprint(self, number: int, allocation: NodeAllocation | None, node: Node) -> _Footprint:
        differs = self.rules.counts_allocated and any(
            entry.claim.status.allocation is not None for entry in self._data.claims
        )
        known = None if differs else self._footprints.get(number)
        if known is None:
            known = self._footprints[number] = self._footprint_of(allocation, node)
        return known

    def _footprint_of(self, allocation: NodeAllocation | None, node: Node) -> _Footprint:
        used_by = self._containers()
        found = [(c, self._taken(c, result, node)) for c, result in self._results(allocation)]
        taking = [(claim, taken) for claim, taken in found if taken]
        if not taking:
            return _Footprint((), {})
        statuses = []
        for claim, taken in taking:
            status = self.rules.status(claim, taken)
            if status is not None:
                statuses.append(replace(status, containers=tuple(used_by.get(claim.key, ()))))
        statuses.sort(key=lambda status: status.resource_claim_name)
        for status in statuses if self.rules.needs_container else ():
            if not status.containers:
                text = "node-allocatable resource claim not referenced by any container within the"
                reason = f"claim {status.resource_claim_name}: {text} pod"
                return _Footprint((), {}, unresolvable(reason))
        pod = replace(
            self.pod,
            status=replace(
                self.pod.status, node_allocatable_resource_claim_statuses=tuple(statuses)
            ),
        )
        if uncovered := self.rules.uncovered(pod):
            return _Footprint((), {}, unresolvable(uncovered))
        requests = resources.counted(resources.pod_requests(pod, use_claims=True))
        return _Footprint(tuple(statuses), requests)

    def _results(
        self, allocation: NodeAllocation | None
    ) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        """Yield the claims that count, each with its devices."""
        new = iter(allocation.claims if allocation is not None else ())
        for entry in self._data.claims:
            stored = entry.claim.status.allocation
            if stored is not None:
                if self.rules.counts_allocated:
                    yield entry.claim, stored
            elif entry.pending is not None:
                yield entry.claim, entry.pending
            elif allocation is not None and (found := next(new, None)) is not None:
                result = allocation_result(found, allocation.node_pools, self._devices.results, str)
                yield entry.claim, result

    def _taken(self, claim: ResourceClaim, result: AllocationResult, node: Node) -> Taken:
        """Return the devices of a claim; none if no device stands for resources of the node."""
        devices = [
            (each, self.rules.device(self.slices, each, node)) for each in result.devices.results
        ]
        if not any(device is not None and self.rules.takes(device) for _, device in devices):
            return []
        for each, device in devices:
            if device is None:
                raise AllocationError(
                    f"claim {claim.key}, device {each.device}, driver {each.driver}: "
                    f"device {each.device} not found in pool {each.pool} for driver {each.driver}"
                )
        return [(each, device) for each, device in devices if device is not None]

    def _containers(self) -> dict[str, list[str]]:
        """Return, by key of the claim, the containers that name it, once for each time."""
        keys: dict[str, str] = {}
        for entry in self.pod.spec.resource_claims:
            reference = claim_referenced_by(self.pod, entry)
            if reference is not None:
                keys[entry.name] = f"{self.pod.metadata.namespace}/{reference.name}"
        used_by: dict[str, list[str]] = {}
        for container in (*self.pod.spec.init_containers, *self.pod.spec.containers):
            for claim in container.resources.claims:
                if claim.name in keys:
                    used_by.setdefault(keys[claim.name], []).append(container.name)
        return used_by


def _insufficient(footprint: _Footprint, nodes: Nodes, position: int) -> Status | None:
    """Return why a node has too little left for the requests of the pod (`nodeFitsResources`)."""
    reasons, is_resolvable = [], True
    for name, wanted in footprint.requests.items():
        is_native = name in (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE)
        if not (wanted if is_native else resources.is_huge_page_resource_name(name)):
            continue
        if wanted > nodes.unrequested(name)[position]:
            reasons.append(f"Insufficient {name}")
            is_resolvable &= bool(wanted <= nodes.allocatable(name)[position])
    if not reasons:
        return None
    return (unschedulable if is_resolvable else unresolvable)(*reasons)


class _Sum:
    """Amounts by name, each in the notation of the first amount above 0."""

    def __init__(self) -> None:
        self._amounts: Final[dict[str, tuple[int, Quantity]]] = {}

    def add(self, name: str, nanos: int, like: Quantity) -> None:
        before, notation = self._amounts.get(name, (0, like))
        self._amounts[name] = (before + nanos, notation if before else like)

    def text(self, name: str) -> str | None:
        """Return an amount; None if there is none of this name."""
        found = self._amounts.get(name)
        return quantity_text(*found) if found is not None else None

    @property
    def texts(self) -> dict[str, str]:
        return {name: quantity_text(*amount) for name, amount in sorted(self._amounts.items())}


def _mapped(
    claim: ResourceClaim,
    result: DeviceRequestAllocationResult,
    *,
    capacity_key: str | None,
    capacity_multiplier: Quantity | None,
    device_multiplier: Quantity | None,
    where: str,
) -> tuple[int, Quantity] | None:
    """Return the amount that a device stands for; None if this allocation has none of it.

    `where` is the field and the resource, for the error.
    """
    if not capacity_key:
        if device_multiplier is None:
            return None
        return parse_quantity(device_multiplier), device_multiplier
    if result.consumed_capacity is None:
        raise AllocationError(
            f"claim {claim.key}, device {result.device}: ConsumedCapacity is nil, but Capacity key "
            f"'{capacity_key}' is set in {where}"
        )
    consumed = result.consumed_capacity.get(capacity_key)
    if consumed is None:
        return None
    nanos = parse_quantity(consumed)
    if capacity_multiplier is not None:
        nanos = -(-nanos * parse_quantity(capacity_multiplier) // _NANO)
    return nanos, consumed


def _status_of_1_36(
    claim: ResourceClaim, taken: Taken
) -> NodeAllocatableResourceClaimStatus | None:
    amounts = _Sum()
    for result, device in taken:
        for name, mapping in device.node_allocatable_resource_mappings.items():
            multiplier = mapping.allocation_multiplier
            amount = _mapped(
                claim,
                result,
                capacity_key=mapping.capacity_key,
                capacity_multiplier=multiplier,
                device_multiplier=multiplier if multiplier is not None else "0",
                where=f"NodeAllocatableResourceMappings for resource {name}",
            )
            if amount is not None:
                amounts.add(name, *amount)
    texts = amounts.texts
    if not texts:
        return None
    return NodeAllocatableResourceClaimStatus(claim.metadata.name, resources=texts)


def _status_of_1_37(
    claim: ResourceClaim, taken: Taken
) -> NodeAllocatableResourceClaimStatus | None:
    mapped, per_pod, per_container = _Sum(), _Sum(), _Sum()
    for result, device in taken:
        for name, resource in device.node_allocatable_resources.items():
            mapping, overhead = resource.mapping, resource.overhead
            if mapping is not None:
                amount = _mapped(
                    claim,
                    result,
                    capacity_key=mapping.capacity_key,
                    capacity_multiplier=mapping.capacity_multiplier,
                    device_multiplier=mapping.device_multiplier,
                    where=f"NodeAllocatableResources for resource {name}",
                )
                if amount is not None:
                    mapped.add(name, *amount)
            if overhead is not None and overhead.per_pod is not None:
                per_pod.add(name, parse_quantity(overhead.per_pod), overhead.per_pod)
            if overhead is not None and overhead.per_container is not None:
                cost = overhead.per_container
                per_container.add(name, parse_quantity(cost), cost)
    texts, names = mapped.texts, sorted({*per_pod.texts, *per_container.texts})
    if not (texts or names):
        return None
    return NodeAllocatableResourceClaimStatus(
        claim.metadata.name,
        mapping=tuple(NodeAllocatableMappedResources(*each) for each in texts.items()),
        overhead=tuple(
            NodeAllocatableOverheadResources(name, per_pod.text(name), per_container.text(name))
            for name in names
        ),
    )


def _uncovered_in_1_36(pod: Pod) -> str:
    """Return why the requests of the whole pod are too small; empty if they are not."""
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return ""
    summed = resources.pod_requests(pod, use_pod_level=False, use_claims=True)
    return _too_small(summed, resources.pod_requests(pod, use_claims=True))


def _uncovered_in_1_37(pod: Pod) -> str:
    """Return why the requests or limits of the whole pod are too small; empty if they are not."""
    whole = pod.spec.resources
    if whole is None:
        return ""
    without_overhead = replace(pod, spec=replace(pod.spec, overhead={}))
    summed = resources.pod_requests(without_overhead, use_pod_level=False, use_claims=True)
    requests = {name: parse_quantity(text) for name, text in whole.requests.items()}
    supported = {n: nanos for n, nanos in requests.items() if resources.is_pod_level_resource(n)}
    return _too_small(summed, supported) or _limits_too_small(without_overhead, whole.limits)


def _too_small(summed: Mapping[str, int], requests: Mapping[str, int]) -> str:
    for name, nanos in sorted(requests.items()):
        if summed.get(name, nanos) > nanos:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
    return ""


def _limits_too_small(pod: Pod, limits: Mapping[str, Quantity]) -> str:
    of_claims = resources.claim_requests(pod.status.node_allocatable_resource_claim_statuses)
    summed = resources.pod_limits(replace(pod, spec=replace(pod.spec, resources=None)))
    for name, text in limits.items():
        if resources.is_huge_page_resource_name(name):
            wanted = summed.get(name, 0) + of_claims.get(name, 0)
            if (name in summed or name in of_claims) and wanted > parse_quantity(text):
                return (
                    f"pod level limit for {name} is insufficient to cover the aggregated container "
                    "and node-allocatable DRA limits"
                )
    for container in pod.spec.containers:
        statuses = [
            replace(status, containers=(container.name,))
            for status in pod.status.node_allocatable_resource_claim_statuses
            if container.name in status.containers
        ]
        added = resources.claim_requests(statuses)
        for name, text in container.resources.limits.items():
            if resources.is_huge_page_resource_name(name) or name not in limits:
                continue
            if parse_quantity(text) + added.get(name, 0) > parse_quantity(limits[name]):
                return (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA "
                    f"overhead for container {container.name}"
                )
    return ""


def _used_by_a_pod_of_the_node(check: NodeAllocatable, entry: ClaimState, node: NodeInfo) -> str:
    """Return the reason if another pod on the node has the claim in its status (v1.36)."""
    if entry.claim.status.allocation is None:
        return ""
    name, pod = entry.claim.metadata.name, check.pod
    users = {
        other.uid
        for other in node.pods
        if other.namespace == pod.metadata.namespace
        and any(s.resource_claim_name == name for s in _statuses(other.pod))
    }
    if len(users) > 1:
        return f"node allocatable resource claim {name} shared by multiple pods"
    if users and pod.metadata.uid not in users:
        return f"node allocatable resource claim {name} is already used by another pod"
    return ""


def _statuses(pod: Pod) -> Iterable[NodeAllocatableResourceClaimStatus]:
    return pod.status.node_allocatable_resource_claim_statuses


def _mapped_and_reserved(check: NodeAllocatable, entry: ClaimState, node: NodeInfo) -> str:
    """Return the reason if a claim that stands for resources is another pod's (v1.37).

    An allocation in flight is that of another member of the pod's group.
    """
    claim, allocation = entry.claim, entry.claim.status.allocation or entry.pending
    is_reserved = not claim.status.reserved_for or check.is_reserved(claim)
    if is_reserved and entry.pending is None:
        return ""
    for result in allocation.devices.results if allocation is not None else ():
        device = check.rules.device(check.slices, result, None)
        of_device = device.node_allocatable_resources.values() if device is not None else ()
        if any(resource.mapping is not None for resource in of_device):
            return (
                f"node allocatable resource claim {claim.metadata.name} has a mapped device and "
                "cannot be shared across pods"
            )
    return ""


RULES_OF_1_36: Final = Rules(
    counts_allocated=False,
    needs_container=True,
    device=lambda slices, result, node: slices.device_of_pool_named(result.pool, result.device),
    takes=lambda device: bool(device.node_allocatable_resource_mappings),
    status=_status_of_1_36,
    uncovered=_uncovered_in_1_36,
    sharing=_used_by_a_pod_of_the_node,
)
RULES_OF_1_37: Final = Rules(
    counts_allocated=True,
    needs_container=False,
    device=lambda slices, result, node: slices.device_on_node(
        result.driver, result.pool, result.device, node
    ),
    takes=lambda device: bool(device.node_allocatable_resources),
    status=_status_of_1_37,
    uncovered=_uncovered_in_1_37,
    sharing=_mapped_and_reserved,
)
