"""Draw cases, run them, and find the smallest cases that break an invariant.

The search is cut into tasks of a few examples, each with a seed of its own:

    explore(task) -> Exploration   run all examples; keep the first case that breaks each invariant
    shrink(task)  -> Found         draw the examples again, and shrink the case of one invariant

Both are plain functions of bytes, so any executor can run them on any machine. The result depends
on the seed and the target only, not on the workers.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Final

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from .. import strategies
from ..api import Json
from ..errors import InputError
from ..format.case import case_of
from ..format.resources import objects
from ..invariants import INVARIANTS, violations
from ..invariants.judge import NotObserved
from ..outcome import Verdict
from ..run.observation import observe
from ..targets import target_kind
from ..targets.target import TargetOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..format.case import Case
    from ..invariants import Violation
    from ..targets.target import TargetKind

#: The name under which a scheduler that dies or never comes to rest is reported.
RUNS_TO_THE_END: Final = "runs_to_the_end"
AREA: Final = "fuzz"
_REFUSED: Final = re.compile(r"(cluster|steps\S*): (GET|POST|PUT|PATCH|DELETE) ")
_SLOW: Final = "still running after"
_SETTLE: Final[Json] = {"wait_until_settled": None}
#: Backoff in real time: the shortest that there is.
_SHORT_BACKOFF: Final[Json] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some examples of a search: the examples of one seed, without the skipped first ones."""

    target: TargetOptions
    seed: int
    examples: int
    #: Examples that are only drawn, for another task has them.
    skipped: int = 0
    invariants: tuple[str, ...]
    nodes_max: int = 4
    pods_max: int = 4
    steps_max: int = 6
    timeout_seconds: float = 60.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A case that breaks an invariant. `raw` ends with an expectation that is not met."""

    invariant: str
    text: str
    raw: Json

    @property
    def size(self) -> tuple[int, str]:
        """The order of cases: the smallest comes first."""
        content = msgspec.json.encode(self.raw, order="sorted").decode()
        return len(content), content


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. `refused` are the reasons of examples that could not be run."""

    examples: int
    found: tuple[Found, ...] = ()
    refused: tuple[str, ...] = ()


class _Broken(Exception):
    """An example that breaks the invariant that is being shrunk."""


def explore(task: bytes) -> bytes:
    """Run a task's examples and return an Exploration, both as JSON."""
    order = msgspec.json.decode(task, type=Task)
    count = 0
    found: dict[str, Found] = {}
    refused: list[str] = []

    def look(case: Case) -> None:
        nonlocal count
        count += 1
        some, reason = judged(case, order)
        refused.extend([reason] if reason else [])
        for violation in some:
            found.setdefault(violation.invariant, violation)

    _draw(order, look, phases=(Phase.generate,))
    result = Exploration(examples=count, found=tuple(found.values()), refused=tuple(refused))
    return msgspec.json.encode(result)


def shrink(task: bytes) -> bytes:
    """Return the smallest case of a task that breaks its one invariant, as JSON; or null."""
    order = msgspec.json.decode(task, type=Task)
    smallest: Found | None = None

    def look(case: Case) -> None:
        nonlocal smallest
        some, _ = judged(case, order)
        if some:
            best = min(some, key=lambda each: each.size)
            if smallest is None or best.size < smallest.size:
                smallest = best
            raise _Broken

    # A scheduler in real time may break it once and not again, which Hypothesis calls flaky.
    with contextlib.suppress(_Broken, hypothesis.errors.Flaky, ExceptionGroup):
        _draw(order, look, phases=(Phase.generate, Phase.shrink))
    return msgspec.json.encode(smallest)


def _draw(order: Task, look: Callable[[Case], None], *, phases: tuple[Phase, ...]) -> None:
    """Draw the cases of a task, always the same."""
    drawn = 0

    @hypothesis.seed(order.seed)
    @hypothesis.settings(
        max_examples=order.skipped + order.examples,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=[*HealthCheck],
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(_cases(order))
    def run(case: Case) -> None:
        nonlocal drawn
        drawn += 1
        if drawn > order.skipped:
            look(case)

    run()


def _cases(order: Task) -> st.SearchStrategy[Case]:
    """Return the strategy for a target: in real time pauses are short, and nothing is restarted.

    There the end is looked at again after a longer pause, see `judged`.
    """
    sizes = functools.partial(
        strategies.cases,
        nodes_max=order.nodes_max,
        pods_max=order.pods_max,
        steps_max=order.steps_max,
    )
    if not order.target.in_real_time:
        return sizes()
    configures = "{config}" in order.target.command
    return sizes(
        restarts=False,
        advances=("1s",),
        config=st.just(_SHORT_BACKOFF if configures else {}),
    ).map(_settling)


def _settling(case: Case) -> Case:
    """Return a case that waits after each step until the scheduler is idle, and not for longer."""
    *steps, _ = objects(case.raw["steps"])
    return _with_steps(case, [part for step in steps for part in (step, _SETTLE)] or [_SETTLE])


def _rested(case: Case, order: Task) -> Case:
    """Return a case that ends with a pause in which each pod can be tried again."""
    rest: Json = {"advance": "3s" if "{config}" in order.target.command else "12s"}
    return _with_steps(case, [*objects(case.raw["steps"]), rest, _SETTLE])


def _with_steps(case: Case, steps: list[Json]) -> Case:
    return case_of({**case.raw, "steps": steps}, area=case.area, origin=case.origin)


def judged(case: Case, order: Task) -> tuple[list[Found], str]:
    """Return the invariants that a case breaks, and the reason if it could not be run.

    In real time a mistake at the end of a short run only counts if a longer run has it too.
    """
    try:
        some = _violations(case, order, order.invariants)
        at_the_end = [each.invariant for each in some if not each.step]
        if order.target.in_real_time and at_the_end:
            case = _rested(case, order)
            some = [each for each in some if each.step]
            some += _violations(case, order, at_the_end)
    except NotObserved as error:
        reason = error.outcome.reason
        # In real time a busy machine is slow; a scheduler that never rests is found before.
        is_slow = order.target.in_real_time and _SLOW in reason
        if is_slow or error.outcome.verdict is Verdict.SKIPPED or _REFUSED.match(reason):
            return [], reason
        if RUNS_TO_THE_END not in order.invariants:
            return [], ""
        steps = objects(case.raw["steps"])
        raw: Json = {**case.raw, "steps": [*steps, {"expect": {"nodes": "no_overcommit"}}]}
        return [Found(invariant=RUNS_TO_THE_END, text=reason, raw=raw)], ""
    return [_found(case, violation) for violation in some], ""


def _violations(case: Case, order: Task, invariants: Iterable[str]) -> list[Violation]:
    return violations(
        case,
        functools.partial(observe, kind=_kind(order.target), timeout_seconds=order.timeout_seconds),
        invariants=[INVARIANTS[name] for name in invariants if name in INVARIANTS],
    )


@functools.cache
def _kind(options: TargetOptions) -> TargetKind:
    return target_kind(options)


def _found(case: Case, violation: Violation) -> Found:
    """Return the case up to the step of a violation, and then what the scheduler should do."""
    raw = (violation.case or case).raw
    steps = raw["steps"]
    assert isinstance(steps, list)
    place = re.match(r"steps\[(\d+)\]", violation.step)
    kept = steps[: int(place[1]) + 1] if place else steps
    return Found(
        invariant=violation.invariant,
        text=violation.text,
        raw={**raw, "steps": [*kept, {"expect": violation.expect}]},
    )


def invariant_names(text: str) -> tuple[str, ...]:
    """Parse the names of invariants, with commas between them. Raises InputError."""
    names_known = [*INVARIANTS, RUNS_TO_THE_END]
    names = [name.strip() for name in text.split(",") if name.strip()] or names_known
    for name in names:
        if name not in names_known:
            raise InputError(f"--invariants: expected some of {', '.join(names_known)}, got {name}")
    return tuple(names)
