"""Weighted max-min fairness as linear programs: a second way to the deserved amounts.

The level at which all queues that still rise can be is maximised; the queues that cannot rise
above it are fixed, and the others go on. No order of queues is assumed.
"""

from collections.abc import Mapping

import highspy

_TOLERANCE = 1e-7


def max_min_shares(
    room: float, weights: Mapping[str, float], requests: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of each queue in the room for one resource."""
    fixed = {queue: 0.0 for queue in requests if weights[queue] <= 0}
    while rising := [queue for queue in requests if queue not in fixed]:
        level = _highest_level(room, weights, requests, rising, fixed)
        stuck = [
            queue
            for queue in rising
            if requests[queue] - level * weights[queue] <= _TOLERANCE * max(requests[queue], 1)
        ]
        # If no queue has all that it requests, the room is used up.
        for queue in stuck or rising:
            fixed[queue] = min(level * weights[queue], requests[queue])
    return fixed


def _highest_level(
    room: float,
    weights: Mapping[str, float],
    requests: Mapping[str, float],
    rising: list[str],
    fixed: Mapping[str, float],
) -> float:
    """Return the highest level that all rising queues reach at the same time."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    level = solver.addVariable(lb=0, obj=-1)
    shares = {queue: solver.addVariable(lb=0, ub=requests[queue]) for queue in rising}
    for queue, share in shares.items():
        solver.addConstr(share - weights[queue] * level >= 0)
    solver.addConstr(sum(shares.values()) <= room - sum(fixed.values()))
    solver.run()
    return float(solver.getSolution().col_value[0])
