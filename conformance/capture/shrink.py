"""Make a case smaller while its outcome of interest stays the same (delta debugging).

Objects, steps, then fields are left out, as many at once as possible; a smaller case with the same
outcome, and no new finding of `lint`, is kept. The result depends on the case, the seed and the
number of attempts only, unless the time is over. The outcome of interest of a failing case is the
failure: the same expectation or step, with the same problem up to its first comma. A case that
passes must keep all its expectations. Messages with counts of nodes must keep their reasons; the
counts are then written anew. A bound pod must keep a rival of its node, so that it had a choice.
Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from ..clock import RealClock
from ..errors import InputError
from ..format.case import case_of
from ..format.resources import objects, part
from ..format.validation import problem_in
from ..judge.reasons import reasons_of
from ..lint.checks import findings_in_cases
from ..outcome import Verdict
from ..run.observation import Observation, observe
from .build import head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ..api import Json
    from ..targets.target import TargetKind

T = TypeVar("T")
#: A candidate that runs for longer than the first run by this factor is not the same case.
_SLOWER: Final = 3.0
_RUN_SECONDS_MIN: Final = 30.0
#: The pause between two lines of progress while nothing gets smaller.
_PROGRESS_SECONDS: Final = 10.0
_PLACE: Final = re.compile(r"(cluster|steps\[\d+\]\S*): (.*)", re.DOTALL)
_INDEX: Final = re.compile(r"\[(\d+)\]")
_DIGITS: Final = re.compile(r"\d+")
#: Fields of a case that can be left out as a whole.
_SETTINGS: Final = (
    "cluster",
    "labels",
    "config",
    "gates",
    "extenders",
    "faults",
    "exact_time",
)
#: Fields that make a message exact; its counts change with the number of nodes.
_MESSAGES: Final = ("message", "message_prefix", "message_contains")


class Limits(NamedTuple):
    """The number of smaller cases to try, and the time for it."""

    attempts_max: int
    seconds_max: float


class Interest(Protocol):
    """An outcome that stays the same. `raw` is the case to start with."""

    raw: Json

    @property
    def described(self) -> str: ...

    def may_be_in(self, raw: Json) -> bool:
        """Return False if a case cannot have the same outcome; without a run."""
        ...

    def is_in(self, raw: Json) -> bool:
        """Run a case, and return True if it has the same outcome."""
        ...

    def finished(self, raw: Json) -> Json:
        """Return the smallest case with its expectations written anew."""
        return raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest case that was found."""

    raw: Json
    summary: str


@dataclass(slots=True, kw_only=True)
class _Runner:
    """Runs candidates on one target."""

    area: str
    kind: TargetKind
    seed: int
    seconds_max: float = math.inf

    def run(self, raw: Json) -> Observation | None:
        """Return what happens in a candidate; None if it is no valid case."""
        try:
            case = case_of(raw, area=self.area, origin="shrink")
        except (InputError, KeyError, msgspec.ValidationError):
            return None
        return observe(
            case,
            self.kind,
            seed=self.seed,
            timeout_seconds=self.seconds_max,
            explains=True,
            judges=True,
        )


def interest_in(
    raw: Json, area: str, kind: TargetKind, *, seed: int, seconds_max: float = 600.0
) -> Interest:
    """Run a case, for at most `seconds_max`, and return the outcome to keep.

    Raises InputError for a skipped case.
    """
    runner = _Runner(area=area, kind=kind, seed=seed, seconds_max=seconds_max)
    clock = RealClock()
    started = clock.monotonic()
    seen = runner.run(raw)
    assert seen is not None, "the case was loaded from a file"
    runner.seconds_max = max(_RUN_SECONDS_MIN, _SLOWER * (clock.monotonic() - started))
    if seen.outcome.verdict is Verdict.SKIPPED:
        raise InputError(f"the case is skipped: {seen.outcome.reason}")
    if seen.outcome.verdict is Verdict.PASSED:
        return _Decisions(raw, runner)
    return _Failure(raw, seen, runner)


class _Failure(Interest):
    """A failed expectation or step."""

    def __init__(self, raw: Json, seen: Observation, runner: _Runner) -> None:
        self._runner = runner
        self._verdict = seen.outcome.verdict
        self._step, self._problem = _failure_in(raw, seen.outcome.reason)
        number = _top_index(seen.outcome.reason)
        steps = objects(raw["steps"])
        # Later steps have not run, or do not matter.
        shorter = raw if number is None else {**raw, "steps": steps[: number + 1]}
        self.raw = shorter if self.is_in(shorter) else raw
        self._reason = seen.outcome.reason

    @property
    def described(self) -> str:
        return f"the failure: {self._reason}"

    def may_be_in(self, raw: Json) -> bool:
        return not isinstance(self._step, dict) or self._step in [*_all_steps(raw)]

    def is_in(self, raw: Json) -> bool:
        seen = self._runner.run(raw)
        if seen is None or seen.outcome.verdict is not self._verdict:
            return False
        return _failure_in(raw, seen.outcome.reason) == (self._step, self._problem)


class _Decisions(Interest):
    """All that a passing case expects: each pod's node, or the reasons why it has none."""

    def __init__(self, raw: Json, runner: _Runner) -> None:
        self._runner = runner
        self._expected = [*_expectations(raw)]
        self.raw = _map_expectations(raw, _without_counts)
        self._kept = [*_expectations(self.raw)]
        seen = runner.run(self.raw)
        assert seen is not None, "the case is valid without messages too"
        self._reasons = self._reasons_in(seen)
        self._rivals = self._rivals_in(seen, raw)

    @property
    def described(self) -> str:
        number = len(self._expected)
        lines = [f"{number} expectation{'s' if number != 1 else ''}"]
        lines += [f"{pod}: {', '.join(sorted(reasons))}" for pod, reasons in self._reasons.items()]
        lines += [
            f"{pod}: {number} or more {'feasible' if is_feasible else ''} nodes".replace("  ", " ")
            for pod, (number, is_feasible) in self._rivals.items()
        ]
        return "; ".join(lines)

    def may_be_in(self, raw: Json) -> bool:
        return [*_expectations(raw)] == self._kept

    def is_in(self, raw: Json) -> bool:
        seen = self._runner.run(raw)
        if seen is None or seen.outcome.verdict is not Verdict.PASSED:
            return False
        if self._reasons_in(seen) != self._reasons:
            return False
        rivals = self._rivals_in(seen, raw)
        return all(
            pod in rivals and rivals[pod][0] >= number and rivals[pod][1] >= is_feasible
            for pod, (number, is_feasible) in self._rivals.items()
        )

    def finished(self, raw: Json) -> Json:
        """Write the messages of the smallest case, and leave out nodes that are gone."""
        seen = self._runner.run(raw)
        assert seen is not None, "it has been run before"
        messages = {pod.key: pod.message for pod in seen.pods}
        nodes = {str(part(node, "metadata").get("name")) for node in seen.objects("Node")}
        originals = iter(self._expected)
        return _map_expectations(raw, lambda _: _anew(next(originals), messages, nodes))

    def _reasons_in(self, seen: Observation) -> dict[str, frozenset[str]]:
        """Return the reasons of the pods whose messages are expected."""
        wanted = {
            _key(expected)
            for expected in self._expected
            if any(name in part(expected, "unschedulable") for name in _MESSAGES)
        }
        return {
            pod.key: frozenset(reason.reason for reason in reasons_of({pod.message: 1}))
            for pod in seen.pods
            if pod.key in wanted
        }

    def _rivals_in(self, seen: Observation, raw: Json) -> dict[str, tuple[int, bool]]:
        """Return by bound pod the number of nodes to keep, at most 2, and if these are feasible."""
        bound = {
            _key(expected)
            for expected in self._expected
            if "bound_to" in expected or "bound_to_one_of" in expected
        }
        nodes = len(seen.objects("Node"))
        rivals: dict[str, tuple[int, bool]] = {}
        for pod in bound:
            feasible = _feasible_nodes(seen.stories.get(pod, {}))
            rivals[pod] = (2, True) if feasible > 1 else (min(nodes, 2), False)
        return rivals


def _feasible_nodes(story: Json) -> int:
    """Return the number of feasible nodes of the last attempt of a story; 0 if it is not known."""
    counts = [entry.get("feasible_nodes") for entry in objects(story.get("entries"))]
    numbers = [count for count in counts if isinstance(count, int)]
    return numbers[-1] if numbers else 0


def _anew(expected: Json, messages: dict[str, str], nodes: set[str]) -> Json:
    """Return an expectation with the message and the nodes of the smallest case."""
    anew = {**expected}
    unschedulable = part(expected, "unschedulable")
    if any(name in unschedulable for name in _MESSAGES):
        kept = {name: value for name, value in unschedulable.items() if name not in _MESSAGES}
        anew["unschedulable"] = {**kept, "message_prefix": head_of(messages[_key(expected)])}
    some = expected.get("bound_to_one_of")
    if isinstance(some, list):
        there = [node for node in some if node in nodes]
        anew["bound_to_one_of"] = there or some
    return anew


def _without_counts(expected: Json) -> Json:
    unschedulable = part(expected, "unschedulable")
    if not unschedulable:
        return expected
    kept = {name: value for name, value in unschedulable.items() if name not in _MESSAGES}
    return {**expected, "unschedulable": kept}


def _key(expected: Json) -> str:
    pod = str(expected.get("pod", ""))
    return pod if "/" in pod else f"default/{pod}"


def _expectations(raw: Json) -> Iterator[Json]:
    """Yield the expectations of a case, expectations of repeated steps once."""
    for step in _all_steps(raw):
        if "expect" in step:
            yield part(step, "expect")


def _all_steps(raw: Json) -> Iterator[Json]:
    """Yield the steps of a case, and the steps of its repetitions."""
    for step in objects(raw.get("steps")):
        yield step
        yield from _all_steps(part(step, "repeat"))


def _map_expectations(raw: Json, convert: Callable[[Json], Json]) -> Json:
    """Return a case, or the part of one, with each expectation converted."""
    steps: list[Json] = []
    for step in objects(raw.get("steps")):
        if "expect" in step:
            steps.append({"expect": convert(part(step, "expect"))})
        elif "repeat" in step:
            steps.append({"repeat": _map_expectations(part(step, "repeat"), convert)})
        else:
            steps.append(step)
    return {**raw, "steps": steps}


def _failure_in(raw: Json, reason: str) -> tuple[object, str]:
    """Return the content of the failed step, and the problem without numbers."""
    place = _PLACE.match(reason)
    where, problem = (place[1], place[2]) if place else ("", reason)
    step: Any = raw
    for number in map(int, _INDEX.findall(where)):
        inner = step.get("repeat", step)
        if number < len(inner.get("steps", ())):
            step = inner["steps"][number]
    content = step if step is not raw else where
    return content, _DIGITS.sub("N", problem.partition(",")[0])


def _top_index(reason: str) -> int | None:
    place = _PLACE.match(reason)
    match = _INDEX.search(place[1]) if place else None
    return int(match[1]) if match else None


def shrunk(
    interest: Interest, limits: Limits, *, on_progress: Callable[[str], None] = lambda _: None
) -> Shrunk:
    """Return the smallest case that was found within the limits.

    `on_progress` gets the size of the smallest case so far.
    """
    search = _Search(interest, limits, on_progress)
    before = _size(interest.raw)
    search.run()
    raw = interest.finished(search.raw)
    after = _size(raw)
    ended = f", {search.stopped}" if search.stopped else ""
    return Shrunk(
        raw=raw,
        summary=f"{after[0]} of {before[0]} objects, {after[1]} of {before[1]} steps, "
        f"{search.attempts} attempts{ended}",
    )


def _size(raw: Json) -> tuple[int, int]:
    """Return the number of objects and of steps of a case."""
    steps = objects(raw.get("steps"))
    created = sum(len(objects(step.get("create"))) for step in steps)
    return len(objects(raw.get("cluster"))) + created, len(steps)


@dataclass(slots=True)
class _Search:
    """The search for a smaller case. `raw` is the smallest one so far."""

    interest: Interest
    limits: Limits
    on_progress: Callable[[str], None]
    raw: Json = field(init=False)
    attempts: int = field(default=0, init=False)
    stopped: str = field(default="", init=False)
    _clock: RealClock = field(default_factory=RealClock, init=False)
    _deadline: float = field(init=False)
    _shown_at: float = field(init=False)
    _mistakes: frozenset[str] = field(init=False)
    _tried: set[bytes] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.raw = self.interest.raw
        self._mistakes = _mistakes_in(self.raw)
        self._shown_at = self._clock.monotonic()
        self._deadline = self._shown_at + self.limits.seconds_max

    def run(self) -> None:
        """Leave things out until nothing more can be left out, or until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            self._reduce()
            return
        self.stopped = "interrupted"

    def _reduce(self) -> None:
        self._reduce_groups()
        self._reduce_common_fields()
        before: Json = {}
        while before != self.raw and not self.stopped:
            before = self.raw
            self._reduce_list(("cluster",))
            self._reduce_list(("steps",))
            for number, step in enumerate(objects(self.raw["steps"])):
                if "create" in step:
                    self._reduce_list(("steps", number, "create"))
            for name in _SETTINGS:
                self._try_without((name,))
            for path in [*_entry_paths(self.raw)]:
                self._reduce_fields(path)

    def _holds(self, raw: Json) -> bool:
        """Run a candidate, unless it was run before; keep it if it has the outcome of interest."""
        if self.stopped or not self.interest.may_be_in(raw) or not self._is_new(raw):
            return False
        if not (_is_valid(raw) and _mistakes_in(raw) <= self._mistakes):
            return False
        if self.attempts >= self.limits.attempts_max:
            self.stopped = "stopped at the limit of attempts"
            return False
        if self._clock.monotonic() > self._deadline:
            self.stopped = "stopped at the limit of time"
            return False
        self.attempts += 1
        is_same = self.interest.is_in(raw)
        if is_same:
            self.raw = raw
        now = self._clock.monotonic()
        if is_same or now - self._shown_at >= _PROGRESS_SECONDS:
            self._shown_at = now
            sizes = _size(self.raw)
            self.on_progress(f"{sizes[0]} objects, {sizes[1]} steps, {self.attempts} attempts")
        return is_same

    def _is_new(self, raw: Json) -> bool:
        content = hashlib.sha256(msgspec.json.encode(raw)).digest()
        is_new = content not in self._tried
        self._tried.add(content)
        return is_new

    def _reduce_groups(self) -> None:
        """Leave out nodes, each together with the objects on it."""
        cluster = objects(self.raw.get("cluster"))
        groups: dict[str, list[int]] = {}
        for index, entry in enumerate(cluster):
            node = _node_of(entry)
            groups.setdefault(node or f"entry {index}", []).append(index)

        def holds(kept: Sequence[list[int]]) -> bool:
            indexes = sorted(index for group in kept for index in group)
            return self._holds({**self.raw, "cluster": [cluster[index] for index in indexes]})

        _minimal([*groups.values()], holds)

    def _reduce_common_fields(self) -> None:
        """Leave out fields of all objects at once, such as the labels of all nodes."""
        names = dict.fromkeys(
            name for path in _entry_paths(self.raw) for name in _field_names(_at(self.raw, path))
        )
        base = self.raw
        _minimal([*names], lambda kept: self._holds(_with_fields(base, {*names} - {*kept})))

    def _reduce_list(self, path: tuple[str | int, ...]) -> None:
        """Leave out items of a list."""
        items = _at(self.raw, path)
        if isinstance(items, list) and items:
            base = self.raw

            def holds(kept: Sequence[object]) -> bool:
                smaller = _with(base, path, [*kept])
                return self._holds(smaller) or self._holds(_recounted(smaller))

            _minimal(items, holds)

    def _try_without(self, path: tuple[str | int, ...]) -> None:
        """Leave out a field."""
        holder = _at(self.raw, path[:-1])
        if isinstance(holder, dict) and path[-1] in holder:
            kept = {name: value for name, value in holder.items() if name != path[-1]}
            self._holds(_with(self.raw, path[:-1], kept))

    def _reduce_fields(self, path: tuple[str | int, ...]) -> None:
        """Leave out fields of an object and items of its lists, the outermost first."""
        value = _at(self.raw, path)
        if isinstance(value, list):
            self._reduce_list(path)
            value = _at(self.raw, path)
            for index in range(len(value) if isinstance(value, list) else 0):
                self._reduce_fields((*path, index))
        elif isinstance(value, dict):
            for name in [*value]:
                self._try_without((*path, name))
                self._reduce_fields((*path, name))
        elif path[-1] == "count" and isinstance(value, int):
            while value > 0 and self._holds(_with(self.raw, path, value // 2)):
                value //= 2


def _is_valid(raw: Json) -> bool:
    return problem_in({"area": "shrunk", "cases": [raw]}) is None


def _minimal(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of the items that holds, of which no item can be left out (ddmin)."""
    kept = list(items)
    chunk = len(kept)
    while kept and chunk:
        start, removed = 0, False
        while start < len(kept):
            candidate = kept[:start] + kept[start + chunk :]
            if holds(candidate):
                kept, removed = candidate, True
            else:
                start += chunk
        if chunk == 1 and not removed:
            break
        chunk = chunk if chunk == 1 else (chunk + 1) // 2
    return kept


def _node_of(entry: Json) -> str:
    """Return the node that an entry of the cluster is, or is on; empty without one."""
    if "node" in entry:
        return str(part(entry, "node").get("name"))
    if "pod" in entry:
        return str(part(entry, "pod").get("node", ""))
    obj = part(entry, "object")
    if obj.get("kind") in ("Node", "CSINode"):
        return str(part(obj, "metadata").get("name"))
    return str(part(obj, "spec").get("nodeName", ""))


def _recounted(raw: Json) -> Json:
    """Return a copy in which each slice of devices has the number of its pool's slices."""
    copied = copy.deepcopy(raw)
    entries = [part(entry, "object") for entry in objects(copied.get("cluster"))]
    specs = [part(entry, "spec") for entry in entries if entry.get("kind") == "ResourceSlice"]
    pools = [(spec.get("driver"), part(spec, "pool").get("name")) for spec in specs]
    for spec, pool in zip(specs, pools, strict=True):
        part(spec, "pool")["resourceSliceCount"] = pools.count(pool)
    return copied


def _entry_paths(raw: Json) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of the objects of a case."""
    for number, _ in enumerate(objects(raw.get("cluster"))):
        yield "cluster", number
    for number, step in enumerate(objects(raw["steps"])):
        for index, _ in enumerate(objects(step.get("create"))):
            yield "steps", number, "create", index


def _field_names(entry: Json) -> Iterator[tuple[str, ...]]:
    """Yield the paths of an entry's fields, except the fields that identify it."""
    for form, content in entry.items():
        for name, value in part(entry, form).items() if isinstance(content, dict) else ():
            if form != "object" and name not in ("name", "namespace", "count"):
                yield form, name
            elif name in ("metadata", "spec", "status") and isinstance(value, dict):
                yield from (
                    (form, name, inner) for inner in value if inner not in ("name", "namespace")
                )


def _with_fields(raw: Json, left_out: Collection[tuple[str, ...]]) -> Json:
    """Return a copy without some fields of the objects."""
    copied = copy.deepcopy(raw)
    for path in _entry_paths(copied):
        for names in left_out:
            holder = _at(copied, (*path, *names[:-1]))
            if isinstance(holder, dict):
                holder.pop(names[-1], None)
    return copied


def _mistakes_in(raw: Json) -> frozenset[str]:
    """Return the checks of `lint` that find something in a case; empty if it is no valid case."""
    try:
        case = case_of(raw, area="shrunk", origin="shrink")
    except (InputError, KeyError, msgspec.ValidationError):
        return frozenset()
    return frozenset(finding.check for finding in findings_in_cases([case]))


def _at(raw: object, path: tuple[str | int, ...]) -> Any:
    value: Any = raw
    for name in path:
        try:
            value = value[name]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with(raw: Json, path: tuple[str | int, ...], value: object) -> Json:
    """Return a copy with another value at a path."""
    copied = copy.deepcopy(raw)
    if not path:
        assert isinstance(value, dict), "a case is a mapping"
        return value
    _at(copied, path[:-1])[path[-1]] = value
    return copied
