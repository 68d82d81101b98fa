"""Preemption: which pods of lower priority would have to go, on which node, and how they go.

    evaluator     who may preempt, where it would help, which node it is to be
      dry_run     the victims on many nodes at once
      budgets     which victims no disruption budget lets go
      importance  which of two victims is spared first; which of the nodes is spared most
    executor      evicts the victims, in the background unless told otherwise

Nothing here waits for anything but the API server and extenders, and that through the handle.
Source: `pkg/scheduler/framework/preemption`, v1.36.3, but for whole pod groups.
"""

from scheduler.preemption.dry_run import VictimRules
from scheduler.preemption.evaluator import PREEMPTION, Evaluator, Preemption
from scheduler.preemption.executor import Executor
from scheduler.preemption.importance import CRITERIA, Candidate, Choice

__all__ = [
    "CRITERIA",
    "PREEMPTION",
    "Candidate",
    "Choice",
    "Evaluator",
    "Executor",
    "Preemption",
    "VictimRules",
]
