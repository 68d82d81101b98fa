"""The arguments of the plugin `Queues`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.types import FeatureGates


class Rule(StrEnum):
    """A rule, under the name of kube-batch's plugin."""

    #: Order by the priority of jobs and of tasks; a job evicts only those of lower priority.
    PRIORITY = "priority"
    #: Bind at least minMember tasks of a job, or none; keep that many of a victim's.
    GANG = "gang"
    #: Order jobs of equal priority by their dominant share; the lesser evicts the larger.
    DRF = "drf"
    #: Share the cluster between queues by their weights.
    PROPORTION = "proportion"
    #: Evict no pods of the system.
    CONFORMANCE = "conformance"


class Action(StrEnum):
    """An action for a job besides the ordinary search for nodes, as in kube-batch."""

    #: Evict pods of queues that have more than they deserve.
    RECLAIM = "reclaim"
    #: Evict pods of the same queue.
    PREEMPT = "preempt"
    #: Schedule pods without requests.
    BACKFILL = "backfill"


class QueuesArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The arguments; from `fill_each_resource` on they are improvements on kube-batch."""

    default_queue: str = "default"
    """The queue of groups that name none, and of pods without a group."""

    rules: tuple[Rule, ...] = tuple(Rule)
    """The rules by which jobs are ordered, held and limited. Default: all."""

    actions: tuple[Action, ...] = tuple(Action)
    """The actions that are taken. Default: all."""

    queue_order: tuple[Rule, ...] = (Rule.PROPORTION,)
    """The rules of `rules` that order queues, most significant first."""

    job_order: tuple[Rule, ...] = (Rule.PRIORITY, Rule.GANG, Rule.DRF)
    """The rules of `rules` that order the jobs of a queue, most significant first."""

    task_order: tuple[Rule, ...] = (Rule.PRIORITY,)
    """The rules of `rules` that order the tasks of a job."""

    reclaim_rules: tuple[Rule, ...] = (Rule.GANG, Rule.CONFORMANCE, Rule.PROPORTION)
    """The rules that protect pods of another queue."""

    preempt_rules: tuple[Rule, ...] = (Rule.PRIORITY, Rule.GANG, Rule.CONFORMANCE, Rule.DRF)
    """The rules that protect pods of the same queue."""

    gang_timeout_seconds: float = 600.0
    """The longest time that a member waits for the others. Default: 600."""

    fill_each_resource: bool = True
    """Share each resource between the queues by itself. Else all together, as kube-batch."""

    release_unfit_gangs: bool = True
    """Release the room of a gang as soon as it cannot become complete, and lend other queues what
    jobs that fit nowhere cannot use. Else members keep their room until `gangTimeoutSeconds`, and
    a gang with fewer pods than minMember takes room as well."""

    stable_evictions: bool = True
    """Within a queue, a job evicts one of lower priority, or of equal priority and a share that
    stays as large: two jobs never evict each other in turns. Else as kube-batch: the shares decide,
    whatever the priorities."""

    count_idle_room: bool = True
    """Evict where victims and idle room together are enough for a pod, and compare the shares of
    those resources alone of which the cluster has too little idle. Else, as kube-batch: the victims
    of each pod must be enough by themselves and make room for it alone, the node must allow one
    more pod, and a victim's queue keeps its deserved amount of every scarce resource."""

    reservation_after_seconds: float = 60.0
    """Reserve nodes for the first job in the order that has waited this long and fits nowhere; 0
    for never. One job at a time has a reservation."""

    backfill_respects_reservations: bool = True
    """Let pods without requests take no place on a node that a reserved job needs."""

    return_borrowed_room: bool = True
    """Evict for all waiting pods of a job that its queue deserves room for in the cycle of the
    first one, down to the last pod that a queue has too much. Else for one pod a cycle, and a queue
    keeps its deserved amounts, even if another one then has nothing."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Return the errors: a negative time, and an order by a rule that gives none."""
        errors = [
            field.invalid(field.child_path(path, name), value, "must not be negative")
            for name, value in (
                ("gangTimeoutSeconds", self.gang_timeout_seconds),
                ("reservationAfterSeconds", self.reservation_after_seconds),
            )
            if value < 0
        ]
        for name, allowed in _ALLOWED.items():
            for rule in getattr(self, name):
                if rule not in allowed:
                    expected = f"expected one of {', '.join(sorted(allowed))}"
                    errors.append(
                        field.invalid(field.child_path(path, _camel(name)), rule, expected)
                    )
        return errors


_ALLOWED: Final = {
    "queue_order": frozenset({Rule.PROPORTION}),
    "job_order": frozenset({Rule.PRIORITY, Rule.GANG, Rule.DRF}),
    "task_order": frozenset({Rule.PRIORITY}),
    "reclaim_rules": frozenset({Rule.GANG, Rule.CONFORMANCE, Rule.PROPORTION}),
    "preempt_rules": frozenset({Rule.PRIORITY, Rule.GANG, Rule.CONFORMANCE, Rule.DRF}),
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
