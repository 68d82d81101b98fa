"""The score of prioritised lists: earlier alternatives are better.

Source: `computeScore` in `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.devices.allocator import ClaimAllocation

#: The most alternatives that a request can have.
_ALTERNATIVES_MAX: Final = 8


def score_of(claims: Sequence[ResourceClaim], found: Iterable[ClaimAllocation]) -> int:
    """Return the score of a node; `found` are the devices for the claims that have none yet."""
    score, allocations = 0, iter(found)
    for claim in claims:
        allocation = claim.status.allocation
        if allocation is not None:
            chosen = {result.request for result in allocation.devices.results}
        else:
            chosen = {device.request.full_name for device in next(allocations).devices}
        for request in claim.spec.devices.requests:
            for index, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += _ALTERNATIVES_MAX - index
    return score
