"""Water filling: each queue's deserved amounts of the cluster's resources, by weight.

Each resource is filled by itself. Every queue rises by its weight until it has what it requests or
the resource is used up; what a queue does not need goes to the others. This is weighted max-min
fairness: no queue can have more without another that has no more by weight losing some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api import resources
from scheduler.queues.amounts import add

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.queues.amounts import Amounts


#: A part of the total that is no longer shared.
_REST: Final = 1e-9


class Demand(NamedTuple):
    """The weight of a queue, and what its pods request, running ones included."""

    weight: float
    request: Amounts


def deserved(total: Amounts, demands: Mapping[str, Demand]) -> dict[str, dict[str, float]]:
    """Return the amounts that each queue deserves of each resource that it requests."""
    names = sorted({name for demand in demands.values() for name in demand.request})
    shares: dict[str, dict[str, float]] = {queue: {} for queue in demands}
    for name in names:
        requests = {q: d.request[name] for q, d in demands.items() if name in d.request}
        weights = {queue: demands[queue].weight for queue in requests}
        for queue, amount in fill(total.get(name, 0), weights, requests).items():
            shares[queue][name] = amount
    return shares


def fill(
    room: float, weights: Mapping[str, float], requests: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of each queue in the room for one resource.

    Queues are met in the order of the level, request by weight, at which they have enough.
    A queue of weight 0 gets nothing.
    """
    shares = dict.fromkeys(requests, 0.0)
    rising = sorted(
        (queue for queue, weight in weights.items() if weight > 0),
        key=lambda queue: (requests[queue] / weights[queue], queue),
    )
    weight_left = sum(weights[queue] for queue in rising)
    for queue in rising:
        level = max(room, 0.0) / weight_left
        shares[queue] = min(float(requests[queue]), level * weights[queue])
        room -= shares[queue]
        weight_left -= weights[queue]
    return shares


def deserved_together(total: Amounts, demands: Mapping[str, Demand]) -> dict[str, dict[str, float]]:
    """Return what kube-batch lets queues deserve: all resources are filled together.

    A queue is met once it has more than it requests of every resource that it names, if only to
    request 0. One that wants all of one resource keeps the others' surplus of another from the
    other queues.
    """
    shares: dict[str, dict[str, float]] = {queue: {} for queue in demands}
    left = dict(total)
    rising = {queue: demand for queue, demand in demands.items() if demand.weight > 0}
    while rising and any(a > _REST * total[n] for n, a in left.items()):
        weight_total = sum(demand.weight for demand in rising.values())
        given: dict[str, float] = {}
        met: list[str] = []
        for queue, demand in rising.items():
            before = dict(shares[queue])
            add(shares[queue], left, demand.weight / weight_total)
            share = shares[queue]
            named = {resources.CPU, resources.MEMORY, *demand.request}
            if all(demand.request.get(name, 0) < share.get(name, 0) for name in named):
                shares[queue] = {n: min(a, demand.request.get(n, 0)) for n, a in share.items()}
                met.append(queue)
            add(given, shares[queue])
            add(given, before, -1)
        add(left, given, -1)
        for queue in met:
            del rising[queue]
    return shares
