"""The score of prioritised lists: earlier alternatives are better.

The sum over all requests of 8 minus the position of the chosen alternative.
Source: `computeScore` in `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.dynamic_resources import AllocationResult, ResourceClaim
    from scheduler.devices.requests import ClaimAllocation
    from scheduler.plugins.dynamic_resources.state import StateData
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes

#: The most alternatives that a request can have.
_ALTERNATIVES_MAX: Final = 8


class AllocationsError(Exception):
    """A node has fewer allocations than the pod has claims. Upstream's text."""


def scores_of_new_claims(data: StateData, nodes: Nodes) -> IntArray:
    """Return the scores of nodes (v1.35).

    Raises `AllocationsError`, as upstream does, if a claim has devices already.
    """
    new = len(data.to_allocate)
    if new < len(data.claims) and any(map(data.node_allocation, nodes.names)):
        raise AllocationsError(f"number of allocations {new} is smaller than number of claims")
    return scores(data, nodes)


def scores(data: StateData, nodes: Nodes) -> IntArray:
    """Return the scores of nodes."""
    requests = (r for entry in data.claims for r in entry.claim.spec.devices.requests)
    result = np.zeros(len(nodes), dtype=np.int64)
    if not any(request.first_available for request in requests):
        return result
    for position, name in enumerate(nodes.names):
        allocation = data.node_allocation(name)
        if allocation is not None:
            result[position] = score_of(data, allocation.claims)
    return result


def score_of(data: StateData, allocated: Iterable[ClaimAllocation]) -> int:
    """Return the score of a node; `allocated` are its devices for the claims that have none yet.

    As upstream, the new allocations come before the pending ones, whichever claims they are for.
    """
    names = [{device.request.full_name for device in each.devices} for each in allocated]
    names += [_request_names(each.pending) for each in data.claims if each.pending is not None]
    score, allocations = 0, iter(names)
    for claim in (each.claim for each in data.claims):
        allocation = claim.status.allocation
        chosen = _request_names(allocation) if allocation is not None else next(allocations)
        score += _of_claim(claim, chosen)
    return score


def _of_claim(claim: ResourceClaim, chosen: set[str]) -> int:
    return sum(
        _ALTERNATIVES_MAX - index
        for request in claim.spec.devices.requests
        for index, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )


def _request_names(allocation: AllocationResult) -> set[str]:
    return {result.request for result in allocation.devices.results}
