"""Nodes that could hold some pods, by their amounts only: proposals for a grown cluster.

Nothing is decided here. The scheduler checks each proposal in a grown cluster.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The most mixes of shapes that are tried.
_MIXES_MAX: Final = 2_000


class Bin(NamedTuple):
    """A node to add: the amounts that its daemons leave, and its cost."""

    name: str
    amounts: Mapping[str, int]
    cost: float
    max: int


class Items(NamedTuple):
    """Equal pods: what each requests, and the bins that the scheduler accepts for them."""

    requests: Mapping[str, int]
    number: int
    bins: frozenset[str]

    def share(self, amounts: Mapping[str, int]) -> float:
        """Return the largest part of a bin's amounts that one pod takes; infinite if too much."""
        parts = [
            requested / amounts[name] if amounts.get(name) else math.inf
            for name, requested in self.requests.items()
            if requested
        ]
        share = max(parts, default=0.0)
        return share if share <= 1 else math.inf


Mix = Counter[str]


def cheapest_mix(items: Sequence[Items], bins: Sequence[Bin]) -> Mix:
    """Return the cheapest bins found that hold all items; all of them where none is enough.

    Mixes are tried by their cost, from no bin on. If that are too many, each bin of the mix is the
    one that holds most for its cost.
    """
    tried = [(0.0, 0, (0,) * len(bins))]
    seen = {tried[0][2]}
    for _ in range(_MIXES_MAX):
        if not tried:
            break
        cost, number, counts = heapq.heappop(tried)
        mix = Counter({each.name: n for each, n in zip(bins, counts, strict=True) if n})
        if fits(items, mix, bins):
            return mix
        for index, each in enumerate(bins):
            more = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
            if counts[index] < each.max and more not in seen:
                seen.add(more)
                heapq.heappush(tried, (round(cost + each.cost, 6), number + 1, more))
    return _greedy(items, bins)


def fits(items: Sequence[Items], mix: Mix, bins: Sequence[Bin]) -> bool:
    """True if first fit finds a place for all items, the largest first."""
    left = {index: each.number for index, each in enumerate(items)}
    # Bins that few items may use come first: the others may be needed elsewhere.
    for each in sorted(bins, key=lambda each: sum(each.name in item.bins for item in items)):
        for _ in range(mix[each.name]):
            _fill(items, left, each)
    return not any(left.values())


def _greedy(items: Sequence[Items], bins: Sequence[Bin]) -> Mix:
    """Return a mix of bins, each the one that holds most for its cost."""
    left = {index: each.number for index, each in enumerate(items)}
    weights = [
        min((b.cost * each.share(b.amounts) for b in bins if b.name in each.bins), default=0.0)
        for each in items
    ]
    mix: Mix = Counter()
    while True:
        chosen, value = None, 0.0
        for each in bins:
            if mix[each.name] >= each.max:
                continue
            trial = dict(left)
            _fill(items, trial, each)
            held = sum(weights[i] * (left[i] - trial[i]) for i in left)
            worth = held / each.cost if each.cost else held
            if worth > value + 1e-12:
                chosen, value = each, worth
        if chosen is None:
            return +mix
        _fill(items, left, chosen)
        mix[chosen.name] += 1


def _fill(items: Sequence[Items], left: dict[int, int], into: Bin) -> None:
    """Take as many items as fit into one bin, the largest first, off `left`."""
    free = dict(into.amounts)
    order = sorted(left, key=lambda index: -items[index].share(into.amounts))
    for index in order:
        each = items[index]
        if not left[index] or into.name not in each.bins:
            continue
        room = min((free.get(k, 0) // v for k, v in each.requests.items() if v), default=0)
        number = min(left[index], max(room, 0))
        for name, requested in each.requests.items():
            free[name] = free.get(name, 0) - number * requested
        left[index] -= number
