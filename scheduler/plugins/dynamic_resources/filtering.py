"""The Filter of DynamicResources over many nodes.

A node's answer depends on its devices, on which of them are allocated, and on the extended
resources that it does not provide itself. Nodes that are equal in this get one answer; the names of
pools and nodes are filled in later.
"""

from __future__ import annotations

import contextlib
import dataclasses
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from scheduler.api.dynamic_resources import ClaimError
from scheduler.clock import TURN_SECONDS
from scheduler.devices.allocator import AllocationTimeoutError, SearchPausedError
from scheduler.devices.classes import names_offered
from scheduler.devices.pools import NodePools, PoolsError
from scheduler.devices.requests import AllocationError
from scheduler.devices.results import node_selector
from scheduler.devices.rules import declares_operations_optional
from scheduler.framework.failures import FilterPausedError
from scheduler.framework.status import Rejections, error, reject_by, unresolvable
from scheduler.framework.types import NEXT_ON_NODE
from scheduler.plugins.dynamic_resources.extended_resources import (
    ExtendedRequests,
    MakesRequests,
    extended_requests,
)
from scheduler.plugins.dynamic_resources.state import NodeAllocation, NodeAllocations
from scheduler.snapshot.columns import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from scheduler.api.core import Node, Pod
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.devices.allocator import Allocator
    from scheduler.devices.claims import ClaimTracker
    from scheduler.devices.manager import DraManager
    from scheduler.devices.requests import ClaimAllocation
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import Status
    from scheduler.plugins.dynamic_resources.node_allocatable import NodeAllocatable
    from scheduler.plugins.dynamic_resources.state import StateData
    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import Nodes

_STALE_CLAIM: Final = unresolvable("cannot schedule extended resource claim")
_CANNOT_FIT: Final = unresolvable("cannot fit resource")
_NOT_ALLOCATED: Final = unresolvable("cannot allocate all claims")
_TIMED_OUT: Final = unresolvable("timed out trying to allocate devices")
_INVALID_POOLS: Final = unresolvable("invalid resource pools were encountered")
_NOT_AVAILABLE: Final = unresolvable("resourceclaim not available on the node")

_NO_CLAIMS: Final[Mapping[str, Sequence[ResourceClaim]]] = MappingProxyType({})

#: The statuses of nodes in the order of their codes.
_STATUSES: Final = (_CANNOT_FIT, _NOT_ALLOCATED, _INVALID_POOLS, _NOT_AVAILABLE, _TIMED_OUT)
_CODE_OF: Final = {status.message: code for code, status in enumerate(_STATUSES)}


class NodeFilter:
    """One pod's Filter. `is_late` is True for a claim whose devices are not ready in time.

    `next_claims` are the claims of pods that are to follow onto a node, by its name.
    """

    def __init__(
        self,
        data: StateData,
        pod: Pod,
        *,
        manager: DraManager,
        is_late: Callable[[ResourceClaim], bool],
        monotonic: Callable[[], float],
        timeout_seconds: float,
        may_pause: bool = False,
        allocatable: NodeAllocatable | None = None,
        next_claims: Mapping[str, Sequence[ResourceClaim]] = _NO_CLAIMS,
        makes_requests: MakesRequests = extended_requests,
    ) -> None:
        self._data: Final = data
        self._pod: Final = pod
        self._manager: Final = manager
        self._is_late: Final = is_late
        self._monotonic: Final = monotonic
        self._timeout_seconds: Final = timeout_seconds
        self._may_pause: Final = may_pause
        self._allocatable: Final = allocatable
        self._next_claims: Final = next_claims
        self._makes_requests: Final = makes_requests
        #: The time of the first step of a search in this call.
        self._searching_since: float | None = None

    def run(self, nodes: Nodes) -> Rejections | None:
        """Return the rejections; the devices for nodes that pass are kept in the state.

        An Error status, which ends the search, if the claims or classes are wrong. Raises
        `FilterPausedError`; the groups of nodes that are decided, and the search within a group,
        are kept for the next call. The groups and the allocated devices change in PreFilter only,
        but for devices that a failed binding gives back.
        """
        try:
            return self._run(nodes)
        except AllocationError as failure:
            return Rejections(np.zeros(len(nodes), dtype=np.int16), (error(failure),))

    def _run(self, nodes: Nodes) -> Rejections | None:
        data = self._data
        extended = data.extended_claim
        if extended is not None and extended.spec.devices.requests:
            return reject_by((np.ones(len(nodes), dtype=np.bool_), _STALE_CLAIM))
        lacking, by_devices = self._extended_resources(nodes)
        unavailable = self._unavailable(nodes)
        has_others = not all(entry.is_extended for entry in data.claims)
        searched = ~lacking if has_others else ~lacking & _any(by_devices, nodes)
        codes = np.full(len(nodes), ABSENT, dtype=np.int16)
        codes[lacking] = _CODE_OF[_CANNOT_FIT.message]
        statuses, check = [*_STATUSES], self._allocatable
        if check is not None:
            _reject(codes, statuses, check.shared_elsewhere(nodes, searched))
            searched &= codes < 0
        allocations = self._node_allocations(nodes, searched, by_devices)
        numbers = allocations.numbers
        codes[numbers < -1] = (-2 - numbers)[numbers < -1]
        if check is not None:
            rejected, of_claims = check.check(
                nodes, searched & (codes < 0), numbers.tolist(), allocations.on
            )
            _reject(codes, statuses, rejected)
            allocations = dataclasses.replace(allocations, statuses=of_claims)
        _remember(data, unavailable, searched & (codes < 0))
        is_unavailable = np.logical_or.reduce(unavailable)
        codes[(codes < 0) & is_unavailable] = _CODE_OF[_NOT_AVAILABLE.message]
        numbers[codes >= 0] = -1
        data.node_allocations.append(allocations)
        return Rejections(codes, statuses) if (codes >= 0).any() else None

    def _node_allocations(
        self,
        nodes: Nodes,
        searched: BoolArray,
        by_devices: dict[str, BoolArray],
    ) -> NodeAllocations:
        """Find devices for the nodes that need any, once for each group.

        The number of a node is the index of its allocation; -1 if it needs none, and -2 less the
        code of the status if it is rejected. Raises `AllocationError` if the search must end.
        """
        allocator, manager = self._data.allocator, self._manager
        numbers = np.full(len(nodes), -1, dtype=np.int64)
        if allocator is None:
            return NodeAllocations(nodes, numbers, (), lambda at: NodePools(nodes[at].node, ()))
        groups = manager.groups.of(nodes)
        # Nodes of one group may provide different extended resources themselves.
        for rows in by_devices.values():
            groups = groups * 2 + rows
        allocations: list[NodeAllocation] = []
        positions = np.flatnonzero(searched)
        distinct, first, inverse = np.unique(
            groups[positions], return_index=True, return_inverse=True
        )
        of_group = np.empty(len(distinct), dtype=np.int64)
        # In the order of the nodes, so that an error is that of the first node.
        for index in np.argsort(first).tolist():
            position = int(positions[first[index]])
            claims_all = manager.classes.claims_all_resources
            names = frozenset(n for n, rows in by_devices.items() if claims_all or rows[position])
            group = int(groups[position])
            allocation = self._allocate(allocator, nodes[position].node, group, names)
            if isinstance(allocation, str):
                of_group[index] = -2 - _CODE_OF[allocation]
            else:
                of_group[index] = len(allocations)
                allocations.append(allocation)
        numbers[positions] = of_group[inverse]
        return NodeAllocations(
            nodes, numbers, allocations, lambda at: manager.groups.node_pools(nodes[at].node)
        )

    def _unavailable(self, nodes: Nodes) -> list[BoolArray]:
        """Return, for each claim, the nodes on which its devices are not available."""
        masks = []
        for entry in self._data.claims:
            rejected = np.full(len(nodes), self._is_late(entry.claim), dtype=np.bool_)
            if entry.available_on is not None:
                rejected |= ~nodes.selected_by(entry.available_on)
            allocation = entry.claim.status.allocation
            if (
                self._manager.rules.needs_declaration
                and allocation is not None
                and any(result.skip_node_operations for result in allocation.devices.results)
            ):
                rejected |= ~nodes.derive(declares_operations_optional).where(bool)
            masks.append(rejected)
        return masks

    def _extended_resources(self, nodes: Nodes) -> tuple[BoolArray, dict[str, BoolArray]]:
        """Return the nodes that lack a resource, and by resource the nodes with devices for it."""
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        by_devices: dict[str, BoolArray] = {}
        if self._data.extended_claim is None:
            return lacking, by_devices
        unknown: set[str] = set()
        for name in self._data.extended_resources:
            if self._manager.classes.device_class(name) is not None:
                by_devices[name] = self._manager.classes.needs_devices(nodes, name)
            else:
                unknown.add(name)
        offered = nodes.derive(names_offered)
        lacking |= offered.where(lambda names: names is None or not unknown <= names)
        return lacking, by_devices

    def _allocate(
        self, allocator: Allocator, node: Node, group: int, names: frozenset[str]
    ) -> NodeAllocation | str:
        """Return the devices on one node, or the reason if that is impossible.

        Raises `AllocationError` if the search for nodes must end.
        """
        data = self._data
        extended_claim: ResourceClaim | None = None
        extended = ExtendedRequests((), ())
        if data.extended_claim is not None:
            extended_claim, extended = self._extended_claim(data.extended_claim, names)
        claims = [
            extended_claim if entry.is_extended and extended_claim is not None else entry.claim
            for entry in data.to_allocate
        ]
        try:
            node_pools = self._manager.groups.node_pools(node)
        except PoolsError as failure:
            raise AllocationError(f"gather pool information: {failure}") from failure
        try:
            devices = self._leaving_devices(allocator, claims, node_pools, group)
            if devices is None:
                devices = self._found(allocator, claims, node_pools, group)
        except AllocationTimeoutError as failure:
            if not self._manager.rules.ends_at_timeout:
                return _TIMED_OUT.message
            text = f"node {node.metadata.name}: {_TIMED_OUT.message}"
            raise AllocationError(text) from failure
        if devices is None:
            is_invalid = any(pool.invalid_reason for pool in node_pools.pools)
            return (_INVALID_POOLS if is_invalid else _NOT_ALLOCATED).message
        for allocation in devices:
            node_selector(allocation, node_pools)
        return NodeAllocation(node_pools, devices, extended_claim, extended.mappings)

    def _leaving_devices(
        self,
        allocator: Allocator,
        claims: Sequence[ResourceClaim],
        node_pools: NodePools,
        group: int,
    ) -> Sequence[ClaimAllocation] | None:
        """Return devices that leave the next pods of the node theirs; None without any."""
        following = self._next_claims.get(node_pools.node.metadata.name, ())
        if not following:
            return None
        try:
            devices = self._found(allocator, [*claims, *following], node_pools, group)
        except (AllocationError, AllocationTimeoutError):  # Of a claim of another pod.
            return None
        return None if devices is None else devices[: len(claims)]

    def _found(
        self,
        allocator: Allocator,
        claims: Sequence[ResourceClaim],
        node_pools: NodePools,
        group: int,
    ) -> Sequence[ClaimAllocation] | None:
        start, limit = self._monotonic(), self._timeout_seconds

        def expired() -> bool:
            return limit > 0 and self._monotonic() - start > limit

        try:
            return allocator.allocate(claims, node_pools, group, expired, self._pauses)
        except SearchPausedError as pause:
            raise FilterPausedError from pause

    def _pauses(self) -> bool:
        """True after a turn's time of searching, so that each call gets further."""
        now = self._monotonic()
        if self._searching_since is None:
            self._searching_since = now
        return self._may_pause and now - self._searching_since > TURN_SECONDS

    def _extended_claim(
        self, claim: ResourceClaim, names: frozenset[str]
    ) -> tuple[ResourceClaim, ExtendedRequests]:
        """Return the claim with requests for some resources; the same object for the same ones."""
        cached = self._data.extended_claims.get(names)
        if cached is None:
            extended = self._makes_requests(self._pod, names, self._class_name)
            devices = replace(claim.spec.devices, requests=extended.requests)
            spec = replace(claim.spec, devices=devices)
            cached = self._data.extended_claims[names] = (replace(claim, spec=spec), extended)
        return cached

    def _class_name(self, resource: str) -> str | None:
        device_class = self._manager.classes.device_class(resource)
        return device_class.metadata.name if device_class is not None else None


def claims_of_next(
    state: CycleState, claims_of: Callable[[Pod], Sequence[ResourceClaim]], known: ClaimTracker
) -> Mapping[str, Sequence[ResourceClaim]]:
    """Return the claims without devices of the pods that are to follow onto a node, by its name."""
    following = state.find(NEXT_ON_NODE)
    if following is None:
        return _NO_CLAIMS
    claims: list[ResourceClaim] = []
    for pod in following.pods:
        with contextlib.suppress(ClaimError):
            claims += claims_of(pod.pod)
    return {
        following.node_name: [
            claim
            for claim in claims
            if claim.status.allocation is None
            and known.pending_allocation(claim.metadata.uid) is None
        ]
    }


def _reject(
    codes: NDArray[np.int16], statuses: list[Status], rejected: Mapping[int, Status]
) -> None:
    """Give the nodes at these positions a status; equal statuses have one code."""
    code_of = {(status.code, status.reasons): code for code, status in enumerate(statuses)}
    for position, status in rejected.items():
        key = (status.code, status.reasons)
        if key not in code_of:
            code_of[key] = len(statuses)
            statuses.append(status)
        codes[position] = code_of[key]


def _any(by_devices: dict[str, BoolArray], nodes: Nodes) -> BoolArray:
    """Return the nodes on which devices provide one of the resources."""
    provided = np.zeros(len(nodes), dtype=np.bool_)
    for rows in by_devices.values():
        provided |= rows
    return provided


def _remember(data: StateData, unavailable: Sequence[BoolArray], which: BoolArray) -> None:
    """Note the claims that are not available on one of the nodes, for PostFilter."""
    for entry, rejected in zip(data.claims, unavailable, strict=True):
        entry.is_unavailable |= bool((rejected & which).any())
