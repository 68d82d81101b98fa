"""A world: a pod that waits for one reason, a remedy that takes the reason away, and a control."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ..api import Json
from ..format.resources import objects, part
from .table import REASONS
from .vocabulary import COPY, HOST, PAUSE, SETTLE, WAITER, create, node, pod, subject_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from .vocabulary import Fields


class Pair(NamedTuple):
    """A reason and a remedy."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.remedy}"


class World(msgspec.Struct, frozen=True, kw_only=True):
    """A world as a case without its control, and the name of the pair.

    `first` is the number of steps up to the creation of the waiter, which is in `namespace`.
    `changed` are the fields in which the control differs from the waiter.
    """

    pair: Pair
    variations: tuple[str, ...] = ()
    raw: Json
    first: int = 1
    namespace: str = "default"
    message: str = ""
    changed: Json = {}
    #: Of a world without a waiter: the pods that must get a node, as there is room for them.
    members: tuple[str, ...] | None = None
    #: The node that they must get; empty for any.
    place: str = ""

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that the world needs."""
        return {name: bool(value) for name, value in part(self.raw, "gates").items()}


def raw_case(
    cluster: Sequence[Fields], steps: Sequence[Fields], gates: Mapping[str, bool] | None = None
) -> Json:
    """Return a case as it is in a file."""
    return {
        "name": "hunt",
        "source": "kubesched-conformance hunt",
        **({"gates": {**gates}} if gates else {}),
        **({"cluster": [*cluster]} if cluster else {}),
        "steps": [*steps],
    }


def with_control(raw: Json, changed: Json) -> Json:
    """Return a case at whose end a copy of the waiter is created; it differs in some fields."""
    steps = objects(raw["steps"])
    created = [part(entry, "pod") for step in steps for entry in objects(step.get("create"))]
    waiters = [each for each in created if each.get("name") == WAITER]
    control = [create({"pod": {**each, **changed, "name": COPY}}) for each in waiters[:1]]
    return {**raw, "steps": [*steps, *control, SETTLE]}


def pairs() -> list[Pair]:
    """Return the table: each reason with each of its remedies."""
    return [Pair(name, each) for name, one in REASONS.items() for each in one.remedy_names]


def world_of(pair: Pair, rng: random.Random) -> World:
    """Draw a world for a pair: a sketch, and variations of its course."""
    one = REASONS[pair.reason]
    sketch = copy.deepcopy(one.sketch(rng))
    waiter: Json = {"name": WAITER, **sketch.waiter}
    course = _Course(cluster=sketch.cluster, steps=sketch.remedies[pair.remedy], waiter=waiter)
    course.settles = one.settles
    variations = [
        name
        for name, (chance, vary) in _VARIATIONS.items()
        if rng.random() < chance and vary(course, rng)
    ]
    steps: list[Fields] = [*sketch.before, *course.first, create({"pod": waiter})]
    steps += [SETTLE] * course.settles + course.before + course.steps
    if "inject" in str(steps):
        steps.append({"clear_faults": None})
    steps += [PAUSE, SETTLE]
    return World(
        pair=pair,
        variations=tuple(variations),
        raw=raw_case(course.cluster, steps, one.gates),
        first=len(sketch.before) + len(course.first) + 1,
        namespace=str(waiter.get("namespace", "default")),
        message=one.message if course.settles else "",
        changed={**sketch.changed.get(pair.remedy, {}), **sketch.control},
    )


@dataclass(kw_only=True)
class _Course:
    """The course of a world while its variations are drawn.

    `first` are steps before the waiter is created, `before` those before the remedy. `settles`:
    the first attempt is over before them.
    """

    cluster: list[Json]
    steps: list[Json]
    waiter: Json
    first: list[Json] = field(default_factory=list)
    before: list[Json] = field(default_factory=list)
    settles: bool = True


_Vary: TypeAlias = "Callable[[_Course, random.Random], bool]"


def _before(steps: Callable[[_Course, random.Random], Sequence[Json]]) -> _Vary:
    """Return the variation that puts steps before the remedy."""

    def vary(course: _Course, rng: random.Random) -> bool:
        course.before += steps(course, rng)
        return True

    return vary


def _at_once(course: _Course, rng: random.Random) -> bool:
    """The remedy comes before, during or right after the first attempt."""
    del rng
    course.settles = False
    return True


def _another_node(course: _Course, rng: random.Random) -> bool:
    """A node that rejects the waiter for another reason is there."""
    more: Json = rng.choice(
        [{"unschedulable": True}, {"taints": ["other=x:NoSchedule"]}, {"pods": 0}]
    )
    course.cluster.insert(0, node("other", labels={"other": "x"}, **more))
    return True


def _noise(course: _Course, rng: random.Random) -> Sequence[Json]:
    """Draw steps that do not help, but make the waiter fail again."""
    nodes = [entry for entry in course.cluster if "node" in entry]
    replaced: list[list[Json]] = [
        [{"delete": {"node": part(entry, "node")["name"]}}, SETTLE, create(entry), SETTLE]
        for entry in nodes
    ]
    return rng.choice(
        [
            [create(node("noise", unschedulable=True)), SETTLE],
            [create(pod("noise", labels={"noise": "x"}, scheduler_name="another"))],
            [{"patch": {**subject_of(course.waiter), "patch": _NOISE}}],
            [create(node("noise", pods=0)), {"delete": {"node": "noise"}}],
            *replaced,
        ]
    )


def _made_again(course: _Course, rng: random.Random) -> Sequence[Json]:
    """Return the steps by which the waiter is deleted, and made again under its name."""
    del rng
    return [{"delete": subject_of(course.waiter)}, create({"pod": course.waiter})]


def _late(course: _Course, rng: random.Random) -> Sequence[Json]:
    """Return the step that lets the backoff pass before the remedy."""
    return [{"advance": rng.choice(["1s", "2s"])}] if course.settles else []


def _relisted(course: _Course, rng: random.Random) -> Sequence[Json]:
    """Return the step by which the scheduler learns by a list, as its watches have expired."""
    del course
    event = rng.choice(["ADDED", "MODIFIED", "DELETED"])
    match = {"event": event}
    return [{"inject": [{"match": match, "when": {"times": 1}, "cut": {"how": "expired"}}]}]


def _changed_otherwise(course: _Course, rng: random.Random) -> bool:
    """The change of a node or a pod also changes what does not matter."""
    del rng
    changed = False
    for number, step in enumerate(course.steps):
        about = part(step, "patch")
        change = about.get("patch")
        is_plain = about.keys() & {"node", "pod"} and "subresource" not in about
        if isinstance(change, dict) and is_plain:
            metadata = part(change, "metadata")
            labels = {**part(metadata, "labels"), "noise": "x"}
            wider = {**metadata, "labels": labels, "annotations": {"noise": "x"}}
            course.steps[number] = {"patch": {**about, "patch": {**change, "metadata": wider}}}
            changed = True
    return changed


def _bound_by_scheduler(course: _Course, rng: random.Random) -> bool:
    """The pods of the cluster are bound by the scheduler, not created with their node."""
    del rng
    changed = False
    for entry in course.cluster:
        content = entry.get("pod")
        if isinstance(content, dict) and "node" in content and "node_selector" not in content:
            content["node_selector"] = {HOST: content.pop("node")}
            content["tolerations"] = [{"operator": "Exists"}]
            changed = True
    return changed


def _status_refused(course: _Course, rng: random.Random) -> bool:
    """The report that the waiter has no node is refused."""
    match = {"verb": "patch", "resource": "pods/status"}
    fault = {"match": match, "when": {"times": 1}, "answer": {"code": rng.choice([409, 500])}}
    course.first.append({"inject": [fault]})
    course.settles = False
    return True


_NOISE: Final[Json] = {"metadata": {"labels": {"noise": "x"}}}
_TWICE: Final[Json] = {"inject": [{"match": {"event": "MODIFIED"}, "duplicate": {}}]}
#: The chance of each variation, and the function that makes it.
_VARIATIONS: Final[Mapping[str, tuple[float, _Vary]]] = {
    "at once": (0.15, _at_once),
    "another node": (0.15, _another_node),
    "noise": (0.15, _before(_noise)),
    "late": (0.15, _before(_late)),
    "made again": (0.15, _before(_made_again)),
    "changed otherwise": (0.15, _changed_otherwise),
    "bound by the scheduler": (0.15, _bound_by_scheduler),
    "relisted": (0.15, _before(_relisted)),
    "events twice": (0.15, _before(lambda course, rng: [_TWICE])),
    "status refused": (0.15, _status_refused),
    "restarted": (0.03, _before(lambda course, rng: [{"restart": None}])),
}
