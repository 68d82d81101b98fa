"""The state that DynamicResources keeps of a pod from PreFilter to PreBind.

Source: `stateData` and `claimStore` in `pkg/scheduler/framework/plugins/dynamicresources`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.framework.cycle_state import StateKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.api.core import (
        ContainerExtendedResourceRequest,
        NodeAllocatableResourceClaimStatus,
    )
    from scheduler.api.dynamic_resources import (
        AllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
    )
    from scheduler.api.node_selectors import NodeSelectorMatcher
    from scheduler.devices.allocator import Allocator
    from scheduler.devices.pools import NodePools
    from scheduler.devices.requests import ClaimAllocation
    from scheduler.framework.cycle_state import CycleState
    from scheduler.plugins.dynamic_resources.extended_resources import ExtendedRequests
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes


class NodeAllocation(NamedTuple):
    """The devices that a pod's claims would get on a node.

    `extended_claim` is the claim for the extended resources that devices provide on this node.
    """

    node_pools: NodePools
    claims: Sequence[ClaimAllocation]
    extended_claim: ResourceClaim | None
    mappings: Sequence[ContainerExtendedResourceRequest]


@dataclass(frozen=True, slots=True)
class NodeAllocations:
    """The devices for the nodes of one call of Filter.

    `numbers[i]` is an index into `allocations`, or -1. The pools of an allocation belong to
    another node of the group; `node_pools` returns a node's own pools by its position.
    """

    nodes: Nodes
    numbers: IntArray
    allocations: Sequence[NodeAllocation]
    node_pools: Callable[[int], NodePools]
    #: By position: what the claims take of the node.
    statuses: Mapping[int, Sequence[NodeAllocatableResourceClaimStatus]] = field(
        default_factory=dict
    )

    def on(self, position: int) -> NodeAllocation | None:
        """Return the devices for the node at a position; None if there are none."""
        number = int(self.numbers[position])
        if number < 0:
            return None
        return self.allocations[number]._replace(node_pools=self.node_pools(position))


@dataclass(slots=True)
class ClaimState:
    """One claim of a pod. PreBind replaces `claim` by the written claim."""

    claim: ResourceClaim
    #: True for the claim of the extended resources that devices provide.
    is_extended: bool = False
    #: The pod or the group that it is reserved for; None for the pod.
    user: ResourceClaimConsumerReference | None = None
    #: The nodes that can reach its devices; None for all nodes.
    available_on: NodeSelectorMatcher | None = None
    #: True if an allocated claim is not available on some node.
    is_unavailable: bool = False
    #: The allocation that another member of the pod's group has reserved in this cycle.
    pending: AllocationResult | None = None
    #: True if the node of Reserve cannot reach the devices of `pending`.
    is_unreachable: bool = False
    #: The allocation in flight, set by Reserve and written by PreBind, and the uid that it goes by.
    allocation: AllocationResult | None = None
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.claim.metadata.uid


@dataclass(slots=True)
class StateData:
    """The claims of a pod and their allocation; without claims there is nothing to do.

    The last of `claims` may be the one for extended resources.
    """

    claims: list[ClaimState] = field(default_factory=list)
    #: The extended resources that the pod requests, with their amounts.
    extended_resources: Mapping[str, int] = field(default_factory=dict)
    #: By set of extended resources that devices provide on a node: the claim with the requests.
    extended_claims: dict[frozenset[str], tuple[ResourceClaim, ExtendedRequests]] = field(
        default_factory=dict
    )
    allocator: Allocator | None = None
    #: The devices for the node that Reserve was called with.
    reserved: NodeAllocation | None = None
    #: What the claims take of the node of Reserve; written by PreBind.
    reserved_statuses: Sequence[NodeAllocatableResourceClaimStatus] = ()
    #: The results of Filter, the latest last; a later one for a node replaces an earlier one.
    node_allocations: list[NodeAllocations] = field(default_factory=list)

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        return next((entry.claim for entry in self.claims if entry.is_extended), None)

    @property
    def to_allocate(self) -> list[ClaimState]:
        """The claims without devices, pending ones excluded."""
        return [
            entry
            for entry in self.claims
            if entry.claim.status.allocation is None and entry.pending is None
        ]

    def node_allocation(self, name: str) -> NodeAllocation | None:
        """Return the devices for a node; None if it was rejected, or no claim needs any.

        Valid until the snapshot changes.
        """
        for allocations in reversed(self.node_allocations):
            position = allocations.nodes.position(name)
            if position is not None:
                return allocations.on(position)
        return None

    def claim_statuses(self, name: str) -> Sequence[NodeAllocatableResourceClaimStatus]:
        """Return what the claims take of a node's own resources. Valid as `node_allocation`."""
        for allocations in reversed(self.node_allocations):
            position = allocations.nodes.position(name)
            if position is not None:
                return allocations.statuses.get(position, ())
        return ()


#: In the state of the cycle of a pod group: the uids of the claims that its members have reserved.
_OF_GROUP: Final = StateKey[set[str]]("DynamicResources")

#: Later extension points fail without this state.
STATE: Final = StateKey[StateData]("DynamicResources")


def claims_of_group(state: CycleState) -> set[str]:
    """Return the uids of the claims that members have reserved in the cycle of the group.

    Outside of such a cycle the set is new and empty.
    """
    of_group = state.pod_group_state
    if of_group is None:
        return set()
    uids = of_group.find(_OF_GROUP)
    if uids is None:
        uids = set()
        of_group.write(_OF_GROUP, uids)
    return uids
