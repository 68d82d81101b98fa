"""A find as a case of its own: run anew, shrunk, and written so that `lint` accepts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..capture.shrink import Limits, shrunk
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
from .lane import is_on, is_placed
from .placements import GROUP
from .search import PLACES, WAKES, Find
from .vocabulary import COPY, PAUSE, SETTLE, WAITER, subject_of

if TYPE_CHECKING:
    from ..api import Json
    from ..run.observation import Observation

#: Longer than the longest backoff of a configuration without changes.
_PAUSE: Final[Json] = {"advance": "12s"}
_ATTEMPTS: Final = {False: 300, True: 30}
_KINDS: Final = ("Pod", "PersistentVolumeClaim", "PersistentVolume")
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
    find, ours = given.find, TargetOptions()
    raw = with_pauses(find)
    is_shown = shows(raw, find, given.target, times=2)
    if not is_shown and find.promise == WAKES:
        # Ours has settled after each step; in real time a step has to wait for that.
        calm = _settled(raw)
        if shows(calm, find, given.target, times=2):
            raw, is_shown = calm, True
    whole = raw
    is_ours = shows(raw, find, ours, times=1) if given.target != ours else is_shown
    # Without its devices or its room a smaller case has no placement.
    if find.promise != PLACES:
        if is_ours:
            raw = _smaller(raw, find, ours, seconds=given.seconds / 2)
        if is_shown and not (is_ours and shows(raw, find, given.target, times=1)):
            raw = _smaller(whole, find, given.target, seconds=given.seconds)
    kind = "only ours" if is_ours else "chance"
    if is_shown:
        is_greedy = find.promise == PLACES and find.pair == GROUP
        kind = "incomplete" if is_greedy else "confirmed"
    case = given.path if kind != "chance" else ""
    if case:
        _write(Path(given.path), raw, find)
    return msgspec.json.encode(
        Finding(
            promise=find.promise,
            sentence=find.text,
            pair=str(find.pair),
            seed=find.seed,
            variations=find.variations,
            objects=size_of(raw),
            case=case,
            confirmed=kind == "confirmed",
            kind=kind,
            also={name: shows(raw, find, each, times=1) for name, each in given.others.items()},
        )
    )


def with_pauses(find: Find) -> Json:
    """Return the case of a find with pauses for the longest backoff, up to the broken promise."""
    steps = objects(find.raw["steps"])
    return {**find.raw, "steps": [_PAUSE if step == PAUSE else step for step in steps]}


def _settled(raw: Json) -> Json:
    """Return a case that waits after each change until the scheduler has come to rest."""
    quiet: list[Json] = []
    for step in objects(raw["steps"]):
        quiet += [step] if step.keys() & {"advance", "wait_until_settled"} else [step, SETTLE]
    return {**raw, "steps": quiet}


def size_of(raw: Json) -> int:
    """Return the number of objects of a case, without the control."""
    steps = objects(raw["steps"])
    entries = [*objects(raw.get("cluster")), *(e for s in steps for e in objects(s.get("create")))]
    return sum(part(entry, "pod").get("name") != COPY for entry in entries)


def shows(raw: Json, find: Find, target: TargetOptions, *, times: int) -> bool:
    """Return True if a target breaks the promise of a find in each of some runs."""
    return all(_breaks(raw, find, target) for _ in range(times))


def _breaks(raw: Json, find: Find, target: TargetOptions) -> bool:
    if target.in_real_time:
        target = msgspec.structs.replace(target, real_seconds_max=_REAL_SECONDS_MAX)
    try:
        case = case_of(raw, area=_AREA, origin=_AREA)
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
        return bool(some)
    seen = observe(case, kind, timeout_seconds=_REAL_SECONDS_MAX)
    if find.promise == WAKES:
        return is_lost(seen)
    if find.promise == PLACES:
        pods = {pod.key.rpartition("/")[2]: pod for pod in seen.pods}
        is_whole = {*find.members} <= {*pods} and not seen.outcome.is_bad
        return is_whole and not all(is_on(pods[name].object, find.place) for name in find.members)
    reason = seen.outcome.reason
    return seen.outcome.is_bad and not (_REFUSED.match(reason) or _SLOW in reason)


def is_lost(seen: Observation) -> bool:
    """Return True if the waiter has no node when its copy is made, and the copy gets one."""
    created = next(
        (c.resource_version for c in seen.changes if (c.resource, c.name) == ("pods", COPY)), None
    )
    if created is None:
        return False
    before, after = seen.objects_before(created), seen.objects_before(None)
    return _has_node(before, WAITER) is False and _has_node(after, COPY) is True


def _has_node(there: list[Json], name: str) -> bool | None:
    """Return whether a pod has a node, or one for its volumes; None if there is no such pod."""
    kinds = {kind: [one for one in there if one["kind"] == kind] for kind in _KINDS}
    pods = [pod for pod in kinds["Pod"] if part(pod, "metadata")["name"] == name]
    if not pods:
        return None
    return is_placed(pods[0], kinds["PersistentVolumeClaim"], kinds["PersistentVolume"])


@dataclass
class _Interest:
    """A find that a smaller case must show on a target."""

    raw: Json
    find: Find
    target: TargetOptions

    @property
    def described(self) -> str:
        return self.find.text

    def may_be_in(self, raw: Json) -> bool:
        """Return True if the backoff passes at the end, or before the control of a lost wake-up."""
        steps = objects(raw["steps"])
        if self.find.promise != WAKES:
            return _PAUSE in steps or _PAUSE not in objects(self.raw["steps"])
        control = next((number for number, step in enumerate(steps) if _makes_copy(step)), 0)
        differs = _differing(raw)
        has_pause = _PAUSE in steps[max(0, control - 2) : control]
        return has_pause and differs is not None and differs <= (_differing(self.raw) or set())

    def is_in(self, raw: Json) -> bool:
        return shows(raw, self.find, self.target, times=1)

    def finished(self, raw: Json) -> Json:
        return raw


def _differing(raw: Json) -> set[str] | None:
    """Return the fields in which the control differs from the waiter; None if one is missing."""
    pods = {
        str(pod["name"]): pod
        for step in objects(raw["steps"])
        for entry in objects(step.get("create"))
        if (pod := part(entry, "pod")) and pod.get("name") in (WAITER, COPY)
    }
    if len(pods) < 2:
        return None
    one, other = pods[WAITER], pods[COPY]
    return {name for name in {*one, *other} - {"name"} if one.get(name) != other.get(name)}


def _smaller(raw: Json, find: Find, target: TargetOptions, *, seconds: float) -> Json:
    limits = Limits(_ATTEMPTS[target.in_real_time], seconds)
    interest = _Interest(raw, find, target)
    return shrunk(interest, limits).raw


def _write(path: Path, raw: Json, find: Find) -> None:
    """Write the case of a find, which expects what the scheduler should have done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    steps = objects(raw["steps"])
    expected: Json = find.expect or {"nodes": "no_overcommit"}
    if find.promise == WAKES:
        control = next(number for number, step in enumerate(steps) if _makes_copy(step))
        pod = part(objects(steps[control]["create"])[0], "pod")
        name = str(subject_of({**pod, "name": WAITER})["pod"])
        steps, expected = steps[:control], {"pods": [name], "bound_count": 1}
    elif find.promise == PLACES:
        expected = {"pods": [*find.members], "bound_count": len(find.members)}
        if find.place:
            expected = {"node": find.place, "pod_count": len(find.members)}
    case: Json = {
        "name": path.stem,
        "source": INVARIANTS[find.promise].source if find.promise in INVARIANTS else _HINTS,
        "description": f"{find.pair}. {find.text}",
        **{name: raw[name] for name in ("gates", "config", "cluster") if name in raw},
        "steps": [*steps, {"expect": expected}],
    }
    write_case(path, {"area": _AREA, "cases": [case]})
    text = bug_report(case, title=f"{find.promise}: {find.pair}", seen=find.text)
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def _makes_copy(step: Json) -> bool:
    return any(part(entry, "pod").get("name") == COPY for entry in objects(step.get("create")))
