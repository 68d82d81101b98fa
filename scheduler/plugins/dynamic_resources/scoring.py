"""The score of prioritised lists: earlier alternatives are better.

Source: `computeScore` in `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.dynamic_resources import AllocationResult
    from scheduler.devices.requests import ClaimAllocation
    from scheduler.plugins.dynamic_resources.state import StateData

#: The most alternatives that a request can have.
_ALTERNATIVES_MAX: Final = 8


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
        for request in claim.spec.devices.requests:
            for index, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += _ALTERNATIVES_MAX - index
    return score


def _request_names(allocation: AllocationResult) -> set[str]:
    return {result.request for result in allocation.devices.results}
