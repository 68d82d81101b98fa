"""The state that DynamicResources keeps of a pod from PreFilter to PreBind.

Source: `stateData` and `claimStore` in `pkg/scheduler/framework/plugins/dynamicresources`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scheduler.framework.cycle_state import StateKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.api.core import ContainerExtendedResourceRequest
    from scheduler.api.dynamic_resources import AllocationResult, ResourceClaim
    from scheduler.api.node_selectors import NodeSelectorMatcher
    from scheduler.devices.allocator import Allocator, ClaimAllocation
    from scheduler.devices.pools import NodePools
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

    `numbers[i]` is an index into `allocations`, or -1. The pools of an allocation are those of
    another node of the group; `node_pools` returns a node's own by its position.
    """

    nodes: Nodes
    numbers: IntArray
    allocations: Sequence[NodeAllocation]
    node_pools: Callable[[int], NodePools]


@dataclass(slots=True)
class StateData:
    """The claims of a pod and their allocation; without claims there is nothing to do.

    `claims` are the user's, followed by the one for extended resources if there is one. PreBind
    replaces them by what it has written.
    """

    claims: list[ResourceClaim] = field(default_factory=list)
    user_claims_count: int = 0
    #: The uid of the claim for extended resources until it is created.
    extended_claim_uid: str = ""
    #: The extended resources that the pod requests, with their amounts.
    extended_resources: Mapping[str, int] = field(default_factory=dict)
    #: By set of extended resources that devices provide on a node: the claim with the requests.
    extended_claims: dict[frozenset[str], tuple[ResourceClaim, ExtendedRequests]] = field(
        default_factory=dict
    )
    #: By claim: the nodes that can reach its devices; None for all nodes.
    available_on: list[NodeSelectorMatcher | None] = field(default_factory=list)
    #: By claim: set by Reserve, written by PreBind.
    allocations: list[AllocationResult | None] = field(default_factory=list)
    #: By claim: the allocation that another member of the pod's group has reserved in this cycle.
    pending: dict[int, AllocationResult] = field(default_factory=dict)
    #: The positions of pending claims whose devices the node of Reserve cannot reach.
    unreachable: set[int] = field(default_factory=set)
    allocator: Allocator | None = None
    #: The positions of allocated claims that are not available on some node.
    unavailable_claims: set[int] = field(default_factory=set)
    #: The devices for the node that Reserve was called with.
    reserved: NodeAllocation | None = None
    #: The results of Filter, the latest last; a later one for a node replaces an earlier one.
    node_allocations: list[NodeAllocations] = field(default_factory=list)

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        extended = self.claims[self.user_claims_count :]
        return extended[0] if extended else None

    @property
    def to_allocate(self) -> list[int]:
        """The positions of the claims without devices, pending ones excluded."""
        return [
            index
            for index, claim in enumerate(self.claims)
            if claim.status.allocation is None and index not in self.pending
        ]

    def node_allocation(self, name: str) -> NodeAllocation | None:
        """Return the devices for a node; None if it was rejected, or no claim needs any.

        Valid until the snapshot changes.
        """
        for found in reversed(self.node_allocations):
            position = found.nodes.position(name)
            if position is not None:
                number = int(found.numbers[position])
                if number < 0:
                    return None
                allocation = found.allocations[number]
                return allocation._replace(node_pools=found.node_pools(position))
        return None


#: In the state of the cycle of a pod group: the uids of the claims that its members have reserved.
GROUP_CLAIMS = StateKey[set[str]]("DynamicResources")

#: Later extension points fail without this state.
STATE = StateKey[StateData]("DynamicResources")
