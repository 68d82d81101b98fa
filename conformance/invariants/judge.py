"""Judge a case by invariants: run it, and look at its history."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from ..format.resources import objects
from ..outcome import Verdict
from .history import History
from .violation import INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ..format.case import Case
    from ..outcome import Outcome
    from ..run.observation import Observation
    from .violation import Invariant, Observe, Violation


class NotObserved(Exception):
    """A case that could not be run to its end. The outcome has the reason."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def violations(
    case: Case, observe: Observe, *, invariants: Iterable[Invariant] | None = None
) -> list[Violation]:
    """Run a case, once or more often, and return the violations of some invariants, or of all.

    `invariants` may be some of one's own. `observe` runs one case. Raises NotObserved for a case
    that does not run to its end.
    """
    chosen = list(INVARIANTS.values() if invariants is None else invariants)
    seen: dict[bytes, Observation] = {}

    def observed(one: Case) -> Observation:
        # Several invariants compare with the same run.
        key = msgspec.json.encode(one.raw)
        observation = seen.get(key)
        if observation is None:
            observation = seen[key] = observe(one)
        if observation.outcome.verdict is not Verdict.PASSED:
            raise NotObserved(observation.outcome)
        return observation

    broken: list[Violation] = []
    history = History(observed(case), scheduler_names=_scheduler_names(case))
    for invariant in chosen:
        if invariant.check is not None:
            broken += _named(invariant.check(history), invariant)
    for invariant in chosen:
        if invariant.comparison is not None:
            broken += _named(invariant.comparison(case, observed), invariant)
    return broken


def _named(broken: Iterable[Violation], invariant: Invariant) -> list[Violation]:
    return [replace(violation, invariant=invariant.name) for violation in broken]


def _scheduler_names(case: Case) -> Collection[str]:
    """Return the names of the profiles in a case's configuration."""
    profiles = objects((case.config or {}).get("profiles"))
    return {str(profile.get("schedulerName", "default-scheduler")) for profile in profiles} or {
        "default-scheduler"
    }
