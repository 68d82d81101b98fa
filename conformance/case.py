"""Cases: what a file of them says, as values. The format itself is `schema.json` and README.md.

A file is read, judged against the schema, and turned into these types, which follow it name by
name. What is wrong with a file is one line: the file, the case, the field and what was expected.
"""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from .api import Json, Ref, ref_of
from .clock import parse_duration
from .errors import InputError
from .faults import aimed
from .objects import Item, objects_of
from .validation import problem_in, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "BUILT_IN",
    "Bounds",
    "Case",
    "ConditionMatch",
    "EventMatch",
    "Expectation",
    "Step",
    "Subject",
    "TextMatch",
    "load_cases",
    "pod_ref",
    "select",
]

#: The suite's own cases.
BUILT_IN: Final = Path(__file__).parent / "cases"

_SUFFIXES: Final = frozenset({".yaml", ".yml"})


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a case; unknown fields have no place in it."""


class Bounds(_Part, frozen=True, kw_only=True):
    """A number that is not known exactly."""

    at_least: int | None = None
    at_most: int | None = None


class TimeBounds(_Part, frozen=True, kw_only=True):
    """A moment that is not known exactly: durations since the scheduler started."""

    at_least: str | None = None
    at_most: str | None = None


class TextMatch(_Part, frozen=True, kw_only=True):
    """What a pod's PodScheduled=False condition says."""

    reason: str = "Unschedulable"
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None


class ConditionMatch(_Part, frozen=True, kw_only=True):
    """A condition of a pod. `observed_generation` may be `current`: the pod's generation."""

    type: str
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None
    observed_generation: int | str | None = None
    transitioned: TimeBounds | None = None


class EventMatch(_Part, frozen=True, kw_only=True):
    """An event about a pod. `count` is how often it happened, repetitions in a series included.

    `series_count` is what one of the events itself counts.
    """

    reason: str
    type: str | None = None
    action: str | None = None
    note: str | None = None
    note_prefix: str | None = None
    note_contains: str | None = None
    reporting_controller: str | None = None
    count: int | Bounds | None = None
    series_count: int | Bounds | None = None


class Expectation(_Part, frozen=True, kw_only=True):
    """What must be true. One of `pod`, `pods`, `node`, `nodes` and `fault` says of what.

    All else must hold; None means that nothing is said about it.
    """

    pod: str | None = None
    pods: list[str] | None = None
    node: str | None = None
    nodes: str | None = None
    bound_to: str | None = None
    bound_to_one_of: list[str] | None = None
    not_bound: bool | None = None
    unschedulable: TextMatch | None = None
    gated: bool | None = None
    condition: ConditionMatch | None = None
    event: EventMatch | None = None
    no_event: EventMatch | None = None
    nominated_node_name: str | None = None
    phase: str | None = None
    attempts: int | Bounds | None = None
    requeued_by: str | list[str] | None = None
    not_requeued_by: str | list[str] | None = None
    scheduled_after_flush: int | Bounds | None = None
    deleted: bool | None = None
    bound_count: int | Bounds | None = None
    pod_count: int | Bounds | None = None
    fault: str | None = None
    injected: int | Bounds | None = None

    @property
    def reads_metrics(self) -> bool:
        """Whether only the scheduler's own metrics can tell."""
        asked = (self.requeued_by, self.not_requeued_by, self.scheduled_after_flush)
        return any(value is not None for value in asked)


class ObjectName(_Part, frozen=True, kw_only=True, rename="camel"):
    """Which object is meant, in the words of the API."""

    kind: str
    name: str
    api_version: str = "v1"
    namespace: str = "default"


class Subject(_Part, frozen=True, kw_only=True):
    """The object a step is about: a pod (`name` or `namespace/name`), a node, or any object."""

    pod: str | None = None
    node: str | None = None
    object: ObjectName | None = None

    @property
    def ref(self) -> Ref:
        """The object's reference."""
        if self.pod is not None:
            return pod_ref(self.pod)
        if self.node is not None:
            return Ref("Node", self.node)
        assert self.object is not None, "the schema asks for one of them"
        named = self.object
        return Ref(named.kind, named.name, named.namespace, named.api_version)


class Delete(Subject, frozen=True, kw_only=True):
    """Delete an object. Without grace by default: nobody plays the kubelet."""

    grace_period_seconds: int = 0


class Patch(Subject, frozen=True, kw_only=True):
    """Change an object."""

    patch: Json | list[Json]
    type: str = "merge"
    subresource: str = ""


class UpdateStatus(Subject, frozen=True, kw_only=True):
    """Change the status of an object; what is not named stays."""

    status: Json


class Bind(_Part, frozen=True, kw_only=True):
    """Give a pod its node by hand."""

    pod: str
    node: str


class Evict(_Part, frozen=True, kw_only=True):
    """Evict a pod."""

    pod: str


class Repeat(_Part, frozen=True, kw_only=True):
    """The same steps several times."""

    times: int
    steps: list[dict[str, object]]


class Settle(_Part, frozen=True, kw_only=True):
    """Wait until the scheduler has done all it can."""


class Touch(Subject, frozen=True, kw_only=True):
    """Change an annotation that means nothing.

    On a pod it also makes the next failed attempt an event of its own: repetitions are counted in
    a series, and from the third on only now and then.
    """


class Inject(_Part, frozen=True, kw_only=True):
    """Have things go wrong: faults of the API server, in the words of their format."""

    faults: list[Json]


class ClearFaults(_Part, frozen=True, kw_only=True):
    """Have nothing more go wrong, or not these faults; empty means all."""

    names: list[str] = []


class Create(_Part, frozen=True, kw_only=True):
    """Create objects, one after another."""

    objects: list[Item]


class Advance(_Part, frozen=True, kw_only=True):
    """Let time pass."""

    seconds: float


Action: TypeAlias = (
    Create
    | Delete
    | Patch
    | UpdateStatus
    | Touch
    | Bind
    | Evict
    | Settle
    | Advance
    | Inject
    | ClearFaults
    | Repeat
    | Expectation
)

#: Steps whose content is not simply converted.
_MADE_BY_HAND: Final = frozenset(
    {"create", "inject", "clear_faults", "advance", "wait_until_settled"}
)
_SUBJECTS: Final = ("pod", "pods", "node", "nodes", "fault")

_ACTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "delete": Delete,
    "patch": Patch,
    "update_status": UpdateStatus,
    "touch": Touch,
    "bind": Bind,
    "evict": Evict,
    "repeat": Repeat,
    "expect": Expectation,
}


class Step(msgspec.Struct, frozen=True):
    """One step and where it stands in its case, as `steps[3]` or `steps[3].repeat.steps[0]`."""

    where: str
    action: Action
    steps: tuple[Step, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it lets time pass."""
        if isinstance(self.action, Advance):
            return self.action.seconds
        if isinstance(self.action, Repeat):
            return self.action.times * sum(step.seconds for step in self.steps)
        return 0.0

    @property
    def does_something(self) -> bool:
        """Whether it changes anything, if only the time."""
        return not isinstance(self.action, Expectation | Settle | Repeat)

    def in_order(self) -> Iterator[Step]:
        """The step, or the steps that it repeats, once."""
        if not isinstance(self.action, Repeat):
            yield self
        for step in self.steps:
            yield from step.in_order()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case, ready to be run. `origin` is its file."""

    name: str
    area: str
    source: str
    origin: str
    steps: tuple[Step, ...]
    cluster: tuple[Item, ...] = ()
    faults: tuple[Json, ...] = ()
    config: Json | None = None
    description: str = ""
    exact_time: bool = False
    raw: Json = {}

    @property
    def id(self) -> str:
        """What it is called by everybody: `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def seconds(self) -> float:
        """How much time must pass while it runs."""
        return sum(step.seconds for step in self.steps)

    @property
    def reads_metrics(self) -> bool:
        """Whether it asks for what only the scheduler's own metrics can tell."""
        return any(_reads_metrics(step) for step in _in_order(self.steps))


def pod_ref(name: str) -> Ref:
    """The pod called `name` or `namespace/name`."""
    namespace, _, short = name.rpartition("/")
    return Ref("Pod", short, namespace or "default")


def case_of(raw: Json, *, area: str, origin: str) -> Case:
    """A case from what its file says; the schema has judged it. Raises InputError."""
    name = str(raw.get("name", ""))
    try:
        case = Case(
            name=name,
            area=area,
            origin=origin,
            source=str(raw["source"]),
            description=str(raw.get("description", "")),
            exact_time=raw.get("exact_time") is True,
            config=msgspec.convert(raw.get("config"), Json | None),
            cluster=msgspec.convert(raw.get("cluster", []), tuple[Item, ...]),
            faults=tuple(aimed(msgspec.convert(raw.get("faults", []), list[Json]))),
            steps=_steps(msgspec.convert(raw["steps"], list[Json]), "steps"),
            raw=raw,
        )
        _check_objects(case.cluster, "cluster")
        _check_windows(case.steps)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{origin}: case {name}: {error}") from error
    return case


def _check_objects(items: Iterable[Item], where: str) -> None:
    """What only writing the objects out can tell. Raises InputError."""
    for index, item in enumerate(items):
        try:
            for obj in objects_of(item):
                ref_of(obj)
        except InputError as error:
            raise InputError(f"{where}[{index}]: {error}") from error


def _in_order(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield from step.in_order()


def _reads_metrics(step: Step) -> bool:
    return isinstance(step.action, Expectation) and step.action.reads_metrics


def _check_windows(steps: Iterable[Step]) -> None:
    """Metrics tell what has happened since the last look, so something must happen first."""
    for step in _in_order(steps):
        if step.does_something:
            return
        if _reads_metrics(step):
            raise InputError(f"{step.where}.expect: expected a step before it that does something")


def _steps(raw: Sequence[Json], where: str) -> tuple[Step, ...]:
    return tuple(_step(item, f"{where}[{index}]") for index, item in enumerate(raw))


def _step(raw: Json, where: str) -> Step:
    ((verb, value),) = raw.items()
    try:
        if verb == "create":
            items = msgspec.convert(value, list[Item])
            _check_objects(items, "")
            return Step(where, Create(objects=items))
        if verb == "inject":
            return Step(where, Inject(faults=aimed(msgspec.convert(value, list[Json]))))
        if verb == "advance":
            return Step(where, Advance(seconds=parse_duration(str(value))))
        if verb == "wait_until_settled":
            return Step(where, Settle())
        if verb == "clear_faults":
            return Step(where, ClearFaults(names=msgspec.convert(value or [], list[str])))
        action = msgspec.convert(value, _ACTIONS[verb])
        _check_subject(action)
        if isinstance(action, Repeat):
            return Step(where, action, _steps(action.steps, f"{where}.repeat.steps"))
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{where}.{verb}: {error}") from error
    return Step(where, action)  # type: ignore[arg-type]


def _check_subject(action: msgspec.Struct) -> None:
    """Who an action is about is said exactly once; what is asked of it makes sense for it."""
    if isinstance(action, Subject):
        _one_of(pod=action.pod, node=action.node, object=action.object)
    elif isinstance(action, Expectation):
        subjects = {name: getattr(action, name) for name in _SUBJECTS}
        _one_of(**subjects)
        asked = [
            name
            for name in action.__struct_fields__
            if name not in subjects and getattr(action, name) is not None
        ]
        if action.nodes is not None and asked:
            raise InputError(f"nothing else goes with nodes, got {', '.join(asked)}")
        if (action.fault is not None) != (asked == ["injected"]):
            raise InputError("injected is asked of a fault, and nothing else is")
        if action.node is not None and asked != ["pod_count"]:
            raise InputError("expected pod_count, and nothing else, of a node")
        if action.node is None and action.pod_count is not None:
            raise InputError("pod_count is asked of a node")
        if action.pods is None and action.bound_count is not None:
            raise InputError("bound_count is asked of pods")
        if action.nodes is None and not asked:
            raise InputError("nothing is expected")


def _one_of(**values: object) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        raise InputError(f"expected exactly one of {', '.join(values)}, got {len(given)}")


def load_cases(paths: Iterable[Path]) -> list[Case]:
    """The cases in files and below directories, in order of area and file. Raises InputError."""
    cases: list[Case] = []
    seen: dict[str, str] = {}
    for file in _files(paths):
        for case in _load_file(file):
            if case.id in seen:
                raise InputError(
                    f"{file}: case {case.name}: the area {case.area} has a case of that name "
                    f"in {seen[case.id]}"
                )
            seen[case.id] = str(file)
            cases.append(case)
    return cases


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
            if not inside:
                raise InputError(f"{path}: no .yaml file in it or below it")
            found += inside
        else:
            found.append(path)
    return found


def _load_file(file: Path) -> list[Case]:
    document = read_yaml(file)
    problem = problem_in(document)
    if problem is not None:
        raise InputError(f"{file}: {problem}")
    content = msgspec.convert(document, Json)
    return [
        case_of(raw, area=str(content["area"]), origin=str(file))
        for raw in msgspec.convert(content["cases"], list[Json])
    ]


def select(cases: Iterable[Case], pattern: str) -> list[Case]:
    """The cases whose `area/name` contains the pattern, or matches it if it has wildcards.

    Upper and lower case are alike; `*`, `?` and `[...]` are wildcards.
    """
    wanted = pattern.lower()
    if any(character in wanted for character in "*?["):
        return [case for case in cases if fnmatch.fnmatchcase(case.id.lower(), wanted)]
    return [case for case in cases if wanted in case.id.lower()]
