"""Cases as values. The format of a file of cases is `schema.json` and README.md.

A file is read, validated against the schema, and converted to these types, which have the schema's
names. An error in a file is one line: the file, the case, the field and the expected value.
"""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ..api import Json, Ref, ref_of
from ..clock import parse_duration
from ..errors import InputError
from ..extender import Extender, ExtenderAnswer
from .faults import aimed
from .objects import POD_GROUPS, Item, objects_of
from .validation import problem_in, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
BUILT_IN: Final = Path(__file__).parent.parent / "cases"

_SUFFIXES: Final = frozenset({".yaml", ".yml"})


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all parts of a case. Unknown fields are errors."""


class Bounds(_Part, frozen=True, kw_only=True):
    """Bounds of a number that is not known exactly."""

    at_least: int | None = None
    at_most: int | None = None


class TimeBounds(_Part, frozen=True, kw_only=True):
    """Bounds of a time that is not known exactly, as durations since the scheduler started."""

    at_least: str | None = None
    at_most: str | None = None


class TextMatch(_Part, frozen=True, kw_only=True):
    """The expected message of a pod's PodScheduled=False condition."""

    reason: str = "Unschedulable"
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None


class ConditionMatch(_Part, frozen=True, kw_only=True):
    """An expected condition of a pod. `observed_generation: current` means the pod's generation."""

    type: str
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    message_prefix: str | None = None
    message_contains: str | None = None
    observed_generation: int | str | None = None
    transitioned: TimeBounds | None = None


class EventMatch(_Part, frozen=True, kw_only=True):
    """An expected event about a pod. `count` is the number of occurrences, also within a series.

    `series_count` is the count of one event's series.
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


class ObjectName(_Part, frozen=True, kw_only=True, rename="camel"):
    """A reference to an object in the API's terms."""

    kind: str
    name: str
    api_version: str = "v1"
    namespace: str = "default"

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.name, self.namespace, self.api_version)


class Expectation(_Part, frozen=True, kw_only=True):
    """An expectation. One of its first fields, up to `metric`, is its subject.

    All other fields must hold; None means no expectation. `labels` select samples of a metric.
    """

    pod: str | None = None
    pods: list[str] | None = None
    pod_group: str | None = None
    node: str | None = None
    nodes: str | None = None
    fault: str | None = None
    extender: str | None = None
    object: ObjectName | None = None
    metric: str | None = None
    bound_to: str | None = None
    bound_to_one_of: list[str] | None = None
    not_bound: bool | None = None
    unschedulable: TextMatch | None = None
    gated: bool | None = None
    condition: ConditionMatch | None = None
    no_condition: str | None = None
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
    injected: int | Bounds | None = None
    calls: dict[str, int | Bounds] | None = None
    received: dict[str, Json] | None = None
    labels: dict[str, str] | None = None
    value: int | Bounds | None = None
    has: Json | None = None

    @property
    def refs(self) -> list[Ref]:
        """The objects whose fields, conditions and events it is about."""
        if self.object is not None:
            return [self.object.ref]
        if self.pod_group is not None:
            return [pod_group_ref(self.pod_group)]
        return [pod_ref(name) for name in ([self.pod] if self.pod else self.pods or [])]

    @property
    def reads_metrics(self) -> bool:
        """True if only the scheduler's own metrics can answer it."""
        return self.metric is not None or self.reads_moves

    @property
    def reads_moves(self) -> bool:
        """True if it is about what the queue's counters have counted since the last look."""
        asked = (self.requeued_by, self.not_requeued_by, self.scheduled_after_flush)
        return any(value is not None for value in asked)


class Subject(_Part, frozen=True, kw_only=True):
    """The subject of a step: a pod, a pod group, a node, or any object.

    The name of a pod or pod group can be `namespace/name`.
    """

    pod: str | None = None
    pod_group: str | None = None
    node: str | None = None
    object: ObjectName | None = None

    @property
    def ref(self) -> Ref:
        if self.pod is not None:
            return pod_ref(self.pod)
        if self.pod_group is not None:
            return pod_group_ref(self.pod_group)
        if self.node is not None:
            return Ref("Node", self.node)
        assert self.object is not None, "the schema asks for one of them"
        return self.object.ref


class Delete(Subject, frozen=True, kw_only=True):
    """Delete an object, by default without a grace period: there is no kubelet."""

    grace_period_seconds: int = 0


class Patch(Subject, frozen=True, kw_only=True):
    """Change an object."""

    patch: Json | list[Json]
    type: str = "merge"
    subresource: str = ""


class UpdateStatus(Subject, frozen=True, kw_only=True):
    """Change the status of an object. Fields that are not given stay."""

    status: Json


class Bind(_Part, frozen=True, kw_only=True):
    """Bind a pod to a node."""

    pod: str
    node: str


class Evict(_Part, frozen=True, kw_only=True):
    """Evict a pod."""

    pod: str


class Repeat(_Part, frozen=True, kw_only=True):
    """Run steps several times."""

    times: int
    steps: list[dict[str, object]]


class Settle(_Part, frozen=True, kw_only=True):
    """Wait until the scheduler has nothing left to do."""


class Touch(Subject, frozen=True, kw_only=True):
    """Change an annotation without a meaning.

    On a pod it also makes the next failed attempt a new event: repetitions are counted in a series,
    which is updated only now and then from the third on.
    """


class Inject(_Part, frozen=True, kw_only=True):
    """Inject faults into the API server; the format is that of the server."""

    faults: list[Json]


class ClearFaults(_Part, frozen=True, kw_only=True):
    """Stop injecting faults except the named ones; empty means all."""

    names: list[str] = []


class Answer(_Part, frozen=True, kw_only=True):
    """Change the answers of an extender to some verbs."""

    extender: str
    answers: dict[str, ExtenderAnswer]


class Restart(_Part, frozen=True, kw_only=True):
    """End the scheduler, and start it anew for the same API server."""


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
    | Restart
    | Advance
    | Inject
    | ClearFaults
    | Answer
    | Repeat
    | Expectation
)

_SUBJECTS: Final = (
    "pod", "pods", "pod_group", "node", "nodes", "fault", "extender", "object", "metric",
)  # fmt: skip
#: The fields that an expectation can have for any object; others are for pods.
_OF_OBJECTS: Final = frozenset({"condition", "no_condition", "event", "no_event", "deleted", "has"})

_ACTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "delete": Delete,
    "patch": Patch,
    "update_status": UpdateStatus,
    "touch": Touch,
    "bind": Bind,
    "evict": Evict,
    "answer": Answer,
    "repeat": Repeat,
    "expect": Expectation,
}


class Step(msgspec.Struct, frozen=True):
    """A step and its place in the case, such as `steps[3]` or `steps[3].repeat.steps[0]`."""

    where: str
    action: Action
    steps: tuple[Step, ...] = ()

    @property
    def seconds(self) -> float:
        """The time that the step lets pass."""
        if isinstance(self.action, Advance):
            return self.action.seconds
        if isinstance(self.action, Repeat):
            return self.action.times * sum(step.seconds for step in self.steps)
        return 0.0

    @property
    def does_something(self) -> bool:
        """True if the step changes an object or lets time pass."""
        return not isinstance(self.action, Expectation | Settle | Repeat)

    def in_order(self) -> Iterator[Step]:
        """Return the step, or the steps that it repeats, each once."""
        if not isinstance(self.action, Repeat):
            yield self
        for step in self.steps:
            yield from step.in_order()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case that is ready to run. `origin` is its file."""

    name: str
    area: str
    source: str
    origin: str
    steps: tuple[Step, ...]
    cluster: tuple[Item, ...] = ()
    faults: tuple[Json, ...] = ()
    config: Json | None = None
    gates: dict[str, bool] = {}
    extenders: tuple[Extender, ...] = ()
    description: str = ""
    exact_time: bool = False
    raw: Json = {}

    @property
    def id(self) -> str:
        """The identifier `area/name`."""
        return f"{self.area}/{self.name}"

    @property
    def needs_config(self) -> bool:
        """True if the scheduler needs a configuration."""
        return self.config is not None or bool(self.extenders)

    @property
    def seconds(self) -> float:
        """The total time that must pass while the case runs."""
        return sum(step.seconds for step in self.steps)

    @property
    def reads_metrics(self) -> bool:
        """True if the case needs the scheduler's own metrics."""
        return any(_reads_metrics(step) for step in _in_order(self.steps))


def pod_ref(name: str) -> Ref:
    """Return the reference of the pod `name` or `namespace/name`."""
    namespace, _, short = name.rpartition("/")
    return Ref("Pod", short, namespace or "default")


def pod_group_ref(name: str) -> Ref:
    """Return the reference of the PodGroup `name` or `namespace/name`."""
    return pod_ref(name)._replace(kind="PodGroup", api_version=POD_GROUPS)


def case_of(raw: Json, *, area: str, origin: str) -> Case:
    """Convert validated data of a file to a case. Raises InputError."""
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
            gates=msgspec.convert(raw.get("gates", {}), dict[str, bool]),
            extenders=msgspec.convert(raw.get("extenders", []), tuple[Extender, ...]),
            cluster=msgspec.convert(raw.get("cluster", []), tuple[Item, ...]),
            faults=tuple(aimed(msgspec.convert(raw.get("faults", []), list[Json]))),
            steps=_steps(msgspec.convert(raw["steps"], list[Json]), "steps"),
            raw=raw,
        )
        _check_objects(case.cluster, "cluster")
        _check_extenders(case)
        _check_windows(case.steps)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{origin}: case {name}: {error}") from error
    return case


def _check_objects(items: Iterable[Item], where: str) -> None:
    """Check the rules that need the complete objects. Raises InputError."""
    for index, item in enumerate(items):
        try:
            for obj in objects_of(item):
                ref_of(obj)
        except InputError as error:
            raise InputError(f"{where}[{index}]: {error}") from error


def _check_extenders(case: Case) -> None:
    """Check that the extenders that the steps name exist. Raises InputError."""
    names = [extender.name for extender in case.extenders]
    if len({*names}) < len(names):
        raise InputError("extenders: expected different names")
    for step in _in_order(case.steps):
        named = step.action.extender if isinstance(step.action, Answer | Expectation) else None
        if named is not None and named not in names:
            raise InputError(f"{step.where}: expected the name of an extender, got {named}")


def _in_order(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield from step.in_order()


def _reads_metrics(step: Step) -> bool:
    return isinstance(step.action, Expectation) and step.action.reads_metrics


def _check_windows(steps: Iterable[Step]) -> None:
    """Check that a step precedes each look at the metrics, which count from the last look."""
    for step in _in_order(steps):
        if step.does_something:
            return
        if isinstance(step.action, Expectation) and step.action.reads_moves:
            raise InputError(f"{step.where}.expect: expected a step before it that does something")


def _steps(raw: Sequence[Json], where: str) -> tuple[Step, ...]:
    return tuple(_step(item, f"{where}[{index}]") for index, item in enumerate(raw))


def _create(value: object) -> Create:
    items = msgspec.convert(value, list[Item])
    _check_objects(items, "")
    return Create(objects=items)


#: Steps whose content needs more than a plain conversion.
_MADE_BY_HAND: Final[dict[str, Callable[[object], Action]]] = {
    "create": _create,
    "inject": lambda value: Inject(faults=aimed(msgspec.convert(value, list[Json]))),
    "clear_faults": lambda value: ClearFaults(names=msgspec.convert(value or [], list[str])),
    "advance": lambda value: Advance(seconds=parse_duration(str(value))),
    "wait_until_settled": lambda _: Settle(),
    "restart": lambda _: Restart(),
}


def _step(raw: Json, where: str) -> Step:
    ((verb, value),) = raw.items()
    try:
        if verb in _MADE_BY_HAND:
            return Step(where, _MADE_BY_HAND[verb](value))
        action = msgspec.convert(value, _ACTIONS[verb])
        _check_subject(action)
        if isinstance(action, Repeat):
            return Step(where, action, _steps(action.steps, f"{where}.repeat.steps"))
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{where}.{verb}: {error}") from error
    return Step(where, action)  # type: ignore[arg-type]


def _check_subject(action: msgspec.Struct) -> None:
    """Check that an action has exactly one subject and that its fields fit the subject."""
    if isinstance(action, Subject):
        _one_of(pod=action.pod, pod_group=action.pod_group, node=action.node, object=action.object)
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
            raise InputError("expected injected, and nothing else, for a fault")
        if (action.metric is not None) != ("value" in asked) or (
            action.metric is not None and not {*asked} <= {"labels", "value"}
        ):
            raise InputError("expected value, perhaps labels, and nothing else, for a metric")
        for kind in ("pod_group", "object"):
            if subjects[kind] is not None and not {*asked} <= _OF_OBJECTS:
                fields = ", ".join(sorted(_OF_OBJECTS))
                raise InputError(f"expected only {fields} of {kind}")
        if (action.extender is not None) != (bool(asked) and {*asked} <= {"calls", "received"}):
            raise InputError("expected calls, received, and nothing else, for an extender")
        if action.node is not None and asked != ["pod_count"]:
            raise InputError("expected pod_count, and nothing else, of a node")
        if action.node is None and action.pod_count is not None:
            raise InputError("expected pod_count only with node")
        if action.pods is None and action.bound_count is not None:
            raise InputError("expected bound_count only with pods")
        if action.nodes is None and not asked:
            raise InputError("nothing is expected")


def _one_of(**values: object) -> None:
    given = [name for name, value in values.items() if value is not None]
    if len(given) != 1:
        raise InputError(f"expected exactly one of {', '.join(values)}, got {len(given)}")


def load_cases(paths: Iterable[Path]) -> list[Case]:
    """Load the cases in files and directories, ordered by area and file. Raises InputError."""
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
    """Return the cases whose `area/name` contains the pattern, or matches its wildcards.

    The comparison ignores case. Wildcards are `*`, `?` and `[...]`.
    """
    wanted = pattern.lower()
    if any(character in wanted for character in "*?["):
        return [case for case in cases if fnmatch.fnmatchcase(case.id.lower(), wanted)]
    return [case for case in cases if wanted in case.id.lower()]
