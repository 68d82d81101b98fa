"""Search for lost wake-ups and broken promises: one reason, one remedy, a copy as control.

reasons*.py   Reason.build(random) -> Sketch: objects, a waiter, and its remedies
world.py      a sketch, a remedy and variations -> World: a case with the moments to look at
lane.py       runs world after world on one server and scheduler -> Seen
search.py     many lanes in worker processes, until the budget is over
confirm.py    a find as a case of its own: run anew on the target, shrunk, written
"""

from . import (
    reasons_of_devices,
    reasons_of_groups,
    reasons_of_nodes,
    reasons_of_pods,
    reasons_of_volumes,
)

__all__ = [
    "reasons_of_devices",
    "reasons_of_groups",
    "reasons_of_nodes",
    "reasons_of_pods",
    "reasons_of_volumes",
]
