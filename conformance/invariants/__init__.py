"""Invariants of scheduling: functions that judge the decisions of any scheduler in any case.

    history = History(observe(case, kind))
    assert not list(invariants.no_overcommit(history))
    assert not violations(case, partial(observe, kind=kind))       # all of them

`INVARIANTS` has them by name, each with its sentence and its source.
"""

from .comparisons import (
    feasibility_monotone_in_capacity,
    single_decision,
    verdicts_independent_of_order_and_names,
)
from .decisions import (
    budgets_violated_only_if_unavoidable,
    claims_held,
    devices_given_once,
    evictions_end,
    hard_spread_held,
    no_overcommit,
    no_pod_lost,
    no_pod_starved,
    no_port_conflict,
    node_affinity_held,
    nominated_room_kept,
    pod_affinity_held,
    pod_anti_affinity_held,
    taints_respected,
    victims_minimal,
    victims_of_lower_priority,
    volumes_reachable,
)
from .history import Binding, History, Preemption
from .judge import violations
from .reports import bound_pods_reported_as_scheduled, events_agree, victims_asked_once
from .state import State
from .violation import INVARIANTS, Invariant, Violation
from .with_plugins import invariants_with

__all__ = [
    "INVARIANTS",
    "Binding",
    "History",
    "Invariant",
    "Preemption",
    "State",
    "Violation",
    "bound_pods_reported_as_scheduled",
    "budgets_violated_only_if_unavoidable",
    "claims_held",
    "devices_given_once",
    "events_agree",
    "evictions_end",
    "feasibility_monotone_in_capacity",
    "hard_spread_held",
    "invariants_with",
    "no_overcommit",
    "no_pod_lost",
    "no_pod_starved",
    "no_port_conflict",
    "node_affinity_held",
    "nominated_room_kept",
    "pod_affinity_held",
    "pod_anti_affinity_held",
    "single_decision",
    "taints_respected",
    "verdicts_independent_of_order_and_names",
    "victims_asked_once",
    "victims_minimal",
    "victims_of_lower_priority",
    "violations",
    "volumes_reachable",
]
