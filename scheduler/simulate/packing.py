"""Nodes that could hold some pods, by their amounts only: proposals for a grown cluster.

Nothing is decided here. The scheduler checks each proposal in a grown cluster.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Mixes of shapes are all tried if there are at most this many.
_MIXES_MAX: Final = 4_000


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
    """Return the cheapest bins found that hold all items; all of them where none is enough."""
    known = {each.name: each for each in bins}
    best = _greedy(items, bins)
    limits = [_most(items, each, best, known) for each in bins]
    if math.prod(limit + 1 for limit in limits) <= _MIXES_MAX:
        for counts in itertools.product(*(range(limit + 1) for limit in limits)):
            mix = Counter({b.name: n for b, n in zip(bins, counts, strict=True) if n})
            if _key(mix, known) < _key(best, known) and fits(items, mix, known):
                best = mix
        return best
    return _improved(items, best, known)


def cost_of(mix: Mix, bins: Mapping[str, Bin]) -> float:
    """Return the cost of all bins of a mix."""
    return sum(bins[name].cost * number for name, number in mix.items())


def fits(items: Sequence[Items], mix: Mix, bins: Mapping[str, Bin]) -> bool:
    """True if first fit finds a place for all items, the largest first."""
    left = {index: each.number for index, each in enumerate(items)}
    # Bins that few items may use come first: the others may be needed elsewhere.
    order = sorted(mix, key=lambda name: sum(name in each.bins for each in items))
    for name in order:
        for _ in range(mix[name]):
            _fill(items, left, bins[name])
    return not any(left.values())


def _key(mix: Mix, bins: Mapping[str, Bin]) -> tuple[float, int]:
    return round(cost_of(mix, bins), 6), mix.total()


def _most(items: Sequence[Items], of: Bin, best: Mix, bins: Mapping[str, Bin]) -> int:
    """Return the largest number of a bin in a mix that is not dearer than the best."""
    by_cost = math.floor(cost_of(best, bins) / of.cost + 1e-9) if of.cost else best.total()
    return min(by_cost, of.max, sum(each.number for each in items if of.name in each.bins))


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


def _improved(items: Sequence[Items], best: Mix, bins: Mapping[str, Bin]) -> Mix:
    """Return a mix after replacing bins, one by one, by nothing or by a cheaper bin."""
    while True:
        better = next((mix for mix in _cheaper(best, bins) if fits(items, mix, bins)), None)
        if better is None:
            return best
        best = better


def _cheaper(mix: Mix, bins: Mapping[str, Bin]) -> Iterator[Mix]:
    for name in sorted(mix, key=lambda name: -bins[name].cost):
        yield +(mix - Counter([name]))
        for other in sorted(bins, key=lambda name: bins[name].cost):
            if bins[other].cost < bins[name].cost and mix[other] < bins[other].max:
                yield +(mix - Counter([name]) + Counter([other]))


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
