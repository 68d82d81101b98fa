"""The steps of a case, and their conversion from the data of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ..api import Json, Ref, ref_of
from ..clock import parse_duration
from ..errors import InputError
from ..extender import ExtenderAnswer
from .expectation import Expectation, ObjectName, Part, one_of, pod_group_ref, pod_ref
from .faults import aimed
from .objects import Item, objects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Subject(Part, frozen=True, kw_only=True):
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
        assert self.object is not None, "a subject is checked when it is read"
        return self.object.ref

    def check(self) -> None:
        """Raise InputError unless there is exactly one subject."""
        one_of(pod=self.pod, pod_group=self.pod_group, node=self.node, object=self.object)


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


class Bind(Part, frozen=True, kw_only=True):
    """Bind a pod to a node."""

    pod: str
    node: str


class Evict(Part, frozen=True, kw_only=True):
    """Evict a pod."""

    pod: str


class Repeat(Part, frozen=True, kw_only=True):
    """Run steps several times."""

    times: int
    steps: list[dict[str, object]]


class Settle(Part, frozen=True, kw_only=True):
    """Wait until the scheduler has nothing left to do."""


class Touch(Subject, frozen=True, kw_only=True):
    """Change an annotation without a meaning.

    For a pod the next failed attempt then is a new event: repetitions are counted in a series,
    which is updated only now and then from the third on.
    """


class Inject(Part, frozen=True, kw_only=True):
    """Inject faults into the API server; the server has the format."""

    faults: list[Json]


class ClearFaults(Part, frozen=True, kw_only=True):
    """Stop injecting faults except the named faults; without names, stop all."""

    names: tuple[str, ...] = ()


class Answer(Part, frozen=True, kw_only=True):
    """Change the answers of an extender to some verbs."""

    extender: str
    answers: dict[str, ExtenderAnswer]


#: The name of the scheduler that runs from the start.
FIRST_SCHEDULER: Final = "first"


class Restart(Part, frozen=True, kw_only=True):
    """End the first scheduler, and start it anew for the same API server."""


class Start(Part, frozen=True, kw_only=True):
    """Start another scheduler, of this name, for the same API server."""

    name: str


class Stop(Part, frozen=True, kw_only=True):
    """Stop the scheduler of this name."""

    name: str


class Create(Part, frozen=True, kw_only=True):
    """Create objects, one after another."""

    objects: list[Item]


class Advance(Part, frozen=True, kw_only=True):
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
    | Start
    | Stop
    | Advance
    | Inject
    | ClearFaults
    | Answer
    | Repeat
    | Expectation
)

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


def check_objects(items: Iterable[Item], where: str) -> None:
    """Check the rules that need the complete objects. Raises InputError."""
    for index, item in enumerate(items):
        try:
            for obj in objects_of(item):
                ref_of(obj)
        except InputError as error:
            raise InputError(f"{where}[{index}]: {error}") from error


def in_order(steps: Iterable[Step]) -> Iterator[Step]:
    """Return all steps, each step of a repetition once."""
    for step in steps:
        yield from step.in_order()


def steps_of(raw: Sequence[Json], where: str) -> tuple[Step, ...]:
    """Convert validated steps of a file. `where` is their place. Raises InputError."""
    return tuple(_step(item, f"{where}[{index}]") for index, item in enumerate(raw))


def _create(value: object) -> Create:
    items = msgspec.convert(value, list[Item])
    check_objects(items, "")
    return Create(objects=items)


#: Steps whose content needs more than a plain conversion.
_MADE_BY_HAND: Final[dict[str, Callable[[object], Action]]] = {
    "create": _create,
    "inject": lambda value: Inject(faults=aimed(msgspec.convert(value, list[Json]))),
    "clear_faults": lambda value: ClearFaults(names=msgspec.convert(value or [], tuple[str, ...])),
    "advance": lambda value: Advance(seconds=parse_duration(str(value))),
    "wait_until_settled": lambda _: Settle(),
    "restart": lambda _: Restart(),
    "start": lambda value: Start(name=str(value)),
    "stop": lambda value: Stop(name=str(value)),
}


def _step(raw: Json, where: str) -> Step:
    ((verb, value),) = raw.items()
    try:
        if verb in _MADE_BY_HAND:
            return Step(where, _MADE_BY_HAND[verb](value))
        action = msgspec.convert(value, _ACTIONS[verb])
        if isinstance(action, Subject | Expectation):
            action.check()
        elif isinstance(action, Repeat):
            return Step(where, action, steps_of(action.steps, f"{where}.repeat.steps"))
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"{where}.{verb}: {error}") from error
    return Step(where, action)  # type: ignore[arg-type]
