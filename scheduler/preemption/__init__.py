"""Preemption: finds a node where evicting pods of lower priority makes room, and evicts them.

    evaluator     eligibility of the preemptor, candidate nodes, choice of the node
      dry_run     the victims on many nodes at once
      reprieve    puts the pods back that can stay, on all of these nodes
      budgets     the victims whose eviction violates a disruption budget
      importance  the order in which victims are reprieved, and the choice of the node
    executor      evicts the victims, in the background by default
    pod_groups    the same for a whole pod group, with all nodes as one domain

Only calls of the API server and of extenders are awaited, both through the handle.
Source: `pkg/scheduler/framework/preemption`, v1.36.3.
"""

from scheduler.preemption.dry_run import VictimRules
from scheduler.preemption.evaluator import PREEMPTION, Evaluator, Preemption
from scheduler.preemption.executor import Executor
from scheduler.preemption.importance import CRITERIA, Candidate
from scheduler.preemption.pod_groups import PodGroupEvaluator

__all__ = [
    "CRITERIA",
    "PREEMPTION",
    "Candidate",
    "Evaluator",
    "Executor",
    "PodGroupEvaluator",
    "Preemption",
    "VictimRules",
]
