"""A find as a case of its own: run anew, shrunk, and written so that `lint` accepts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..capture.shrink import Interest, Limits, shrunk
from ..errors import InputError
from ..format.case import case_of
from ..format.resources import objects, part
from ..format.writing import write_case
from ..fuzz.bug_report import bug_report
from ..invariants import INVARIANTS, violations
from ..invariants.judge import NotObserved
from ..run.observation import observe
from ..targets import target_kind
from ..targets.target import TargetOptions
from .lane import judged
from .placements import GROUP
from .search import LIVES, PLACES, WAKES, Find
from .vocabulary import PAUSE, SETTLE, WAITER, create
from .world import with_control

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..api import Json

#: Longer than the longest backoff of a configuration without changes.
_PAUSE: Final[Json] = {"advance": "12s"}
_ATTEMPTS: Final = {False: 1000, True: 60}
_AREA: Final = "hunt"
_REAL_SECONDS_MAX: Final = 120.0
#: Runs that the server or the machine ended, not the scheduler.
_REFUSED: Final = re.compile(r"(cluster|steps\S*): (GET|POST|PUT|PATCH|DELETE) ")
_SLOW: Final = "still running after"
_HINTS: Final = "pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A find to confirm on a target; `others` are further targets by name."""

    find: Find
    target: TargetOptions
    others: dict[str, TargetOptions] = {}
    path: str
    seconds: float = 600.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A find that was run anew.

    `kind` is `confirmed`; `incomplete` where nothing is promised; `only ours` if our scheduler
    shows the find again and the target does not; `chance` if it does not happen again.
    """

    promise: str
    sentence: str
    pair: str
    seed: str
    variations: tuple[str, ...]
    objects: int
    case: str
    confirmed: bool
    kind: str
    also: dict[str, bool] = {}


def confirm(order: bytes) -> bytes:
    """Run a find anew on its target, shrink it and write its case; all as JSON."""
    given = msgspec.json.decode(order, type=Order)
    find, ours, seconds = given.find, TargetOptions(), given.seconds
    whole = with_pauses(find.world.raw)
    shown = _shown(whole, find, given.target, times=2)
    is_shown = shown is not None
    in_ours = _shown(whole, find, ours, times=1) if given.target != ours else shown
    raw = shown or in_ours or whole
    # Without its devices or its room a smaller case has no placement.
    if find.promise != PLACES:
        if in_ours is not None:
            raw = _smaller(in_ours, find, ours, seconds=seconds)
        if shown is not None:
            small = _shown(raw, find, given.target, times=1) if in_ours is not None else None
            raw = small or _smaller(shown, find, given.target, seconds=seconds)
    kind = "only ours" if in_ours is not None else "chance"
    if is_shown:
        is_greedy = find.promise == PLACES and find.world.pair == GROUP
        kind = "incomplete" if is_greedy else "confirmed"
    case = given.path if kind != "chance" else ""
    if case:
        _write(Path(given.path), raw, find)
    return msgspec.json.encode(
        Finding(
            promise=find.promise,
            sentence=find.text,
            pair=str(find.world.pair),
            seed=find.seed,
            variations=find.world.variations,
            objects=size_of(raw),
            case=case,
            confirmed=kind == "confirmed",
            kind=kind,
            also={
                name: _shown(raw, find, each, times=1) is not None
                for name, each in given.others.items()
            },
        )
    )


def with_pauses(raw: Json) -> Json:
    """Return a case with pauses for the longest backoff."""
    return {**raw, "steps": [_PAUSE if s == PAUSE else s for s in objects(raw["steps"])]}


def size_of(raw: Json) -> int:
    """Return the number of objects of a case."""
    created = [objects(step.get("create")) for step in objects(raw["steps"])]
    return len(objects(raw.get("cluster"))) + sum(map(len, created))


def _shown(raw: Json, find: Find, target: TargetOptions, *, times: int) -> Json | None:
    """Return the form of a case in which a target breaks the promise; None if it does not."""
    forms = _forms(raw, in_real_time=target.in_real_time)
    return next((form for form in forms if shows(form, find, target, times=times)), None)


def _forms(raw: Json, *, in_real_time: bool) -> Iterator[Json]:
    """Yield a case; then with its objects created while the scheduler runs, as in a lane.

    Ours has settled after each step; in real time a step may have to wait for that.
    """
    steps = objects(raw["steps"])
    late = {**raw, "steps": [create(*objects(raw.get("cluster"))), *steps]}
    late.pop("cluster", None)
    for form in (raw, late):
        yield form
        quiet: list[Json] = []
        for step in objects(form["steps"]) if in_real_time else ():
            quiet += [step] if step.keys() & {"advance", "wait_until_settled"} else [step, SETTLE]
        if quiet:
            yield {**form, "steps": quiet}


def shows(raw: Json, find: Find, target: TargetOptions, *, times: int) -> bool:
    """Return True if a target breaks the promise of a find in each of some runs."""
    return all(_breaks(raw, find, target) for _ in range(times))


def _breaks(raw: Json, find: Find, target: TargetOptions) -> bool:
    if target.in_real_time:
        target = msgspec.structs.replace(target, real_seconds_max=_REAL_SECONDS_MAX)
    try:
        whole = with_control(raw, find.world.changed) if find.promise == WAKES else raw
        case = case_of(whole, area=_AREA, origin=_AREA)
    except InputError:
        # A smaller case may be none.
        return False
    kind = target_kind(target)
    if find.promise in INVARIANTS:
        try:
            some = violations(
                case,
                lambda one: observe(one, kind, timeout_seconds=_REAL_SECONDS_MAX),
                invariants=[INVARIANTS[find.promise]],
            )
        except NotObserved:
            return False
        # Another pod may have another reason.
        return any(one.expect.get("pod") == find.expect.get("pod") for one in some)
    seen = observe(case, kind, timeout_seconds=_REAL_SECONDS_MAX)
    if find.promise != LIVES:
        return not seen.outcome.is_bad and judged(seen, find.world)[0] in ("lost", "unplaced")
    reason = seen.outcome.reason
    return seen.outcome.is_bad and not (_REFUSED.match(reason) or _SLOW in reason)


@dataclass
class _Interest(Interest):
    """A find that a smaller case must show on a target."""

    raw: Json
    find: Find
    target: TargetOptions

    @property
    def described(self) -> str:
        return self.find.text

    def may_be_in(self, raw: Json) -> bool:
        """Return True if the backoff passes at the end; what changes the waiter must stay."""
        steps, whole = objects(raw["steps"]), objects(self.raw["steps"])
        if self.find.promise != WAKES:
            return _PAUSE in steps or _PAUSE not in whole
        changes = [step for step in whole if self.find.world.changed and _changes_waiter(step)]
        return _PAUSE in steps[-2:] and all(step in steps for step in changes)

    def is_in(self, raw: Json) -> bool:
        return shows(raw, self.find, self.target, times=1)


def _changes_waiter(step: Json) -> bool:
    changed = part(step, "patch") or part(step, "update_status")
    return str(changed.get("pod")).rpartition("/")[2] == WAITER


def _smaller(raw: Json, find: Find, target: TargetOptions, *, seconds: float) -> Json:
    limits = Limits(_ATTEMPTS[target.in_real_time], seconds)
    interest = _Interest(raw, find, target)
    return shrunk(interest, limits).raw


def _write(path: Path, raw: Json, find: Find) -> None:
    """Write the case of a find, which expects what the scheduler should have done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    world = find.world
    expected: Json = find.expect or {"nodes": "no_overcommit"}
    if find.promise == WAKES:
        name = WAITER if world.namespace == "default" else f"{world.namespace}/{WAITER}"
        expected = {"pods": [name], "bound_count": 1}
    elif find.promise == PLACES:
        members = world.members or ()
        expected = {"pods": [*members], "bound_count": len(members)}
        if world.place:
            expected = {"node": world.place, "pod_count": len(members)}
    case: Json = {
        "name": path.stem,
        "source": INVARIANTS[find.promise].source if find.promise in INVARIANTS else _HINTS,
        "description": f"{world.pair}. {find.text}",
        **{name: raw[name] for name in ("gates", "config", "cluster") if name in raw},
        "steps": [*objects(raw["steps"]), {"expect": expected}],
    }
    write_case(path, {"area": _AREA, "cases": [case]})
    text = bug_report(case, title=f"{find.promise}: {world.pair}", seen=find.text)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
