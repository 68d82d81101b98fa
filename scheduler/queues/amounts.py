"""Amounts of resources by name: cpu in thousandths of a core, all else in whole units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from scheduler.api import resources

#: A resource that is not named has the amount 0. Requests are whole numbers, shares are not.
Amounts: TypeAlias = Mapping[str, float]

#: The error of a deserved amount, as a part of it.
_ROUNDING: Final = 1e-9

#: A limit on the number of pods is not shared between queues.
_NOT_SHARED: Final = frozenset({resources.PODS, resources.EPHEMERAL_STORAGE})


def shared(amounts: Amounts) -> dict[str, float]:
    """Return the amounts that queues share."""
    return {name: a for name, a in amounts.items() if name not in _NOT_SHARED}


def add(total: dict[str, float], amounts: Amounts, times: float = 1) -> None:
    """Add amounts some times to a total."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + times * amount


def ratio(part: float, whole: float) -> float:
    """Return part / whole; of nothing, anything is everything."""
    if whole > 0:
        return part / whole
    return 1.0 if part > 0 else 0.0


def reached(amounts: Amounts, wanted: Amounts, names: Iterable[str]) -> set[str]:
    """Return the names of resources of which there is as much as is wanted."""
    return {n for n in names if amounts.get(n, 0) >= wanted.get(n, 0) * (1 - _ROUNDING)}


def has_all(amounts: Amounts, wanted: Amounts) -> bool:
    """Return True if no resource has less than is wanted."""
    return len(reached(amounts, wanted, wanted)) == len(wanted)


def dominant_share(part: Amounts, whole: Amounts) -> float:
    """Return the largest ratio of a resource of `whole`; 0 without resources."""
    return max((ratio(part.get(name, 0), amount) for name, amount in whole.items()), default=0.0)
