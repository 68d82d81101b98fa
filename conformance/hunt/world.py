"""A world: a pod that waits for one reason, a remedy that takes the reason away, and a control."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..format.resources import part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..api import Json

    #: Fields of an object or a step, as a builder takes them.
    Fields: TypeAlias = Mapping[str, object]

WAITER: Final = "waiter"
COPY: Final = "copy"
#: Longer than the backoff of a lane's scheduler.
PAUSE: Final = "3s"
HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_NOTHING: Final[Fields] = MappingProxyType({})
_SETTLE: Final[Json] = {"wait_until_settled": None}
_PAUSE: Final[Json] = {"advance": PAUSE}


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Steps that take a reason away. `waiter` are fields of the waiter that the steps change."""

    steps: Sequence[Fields]
    waiter: Fields = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """Objects in which a waiter has one reason to wait, and the remedies by name."""

    cluster: Sequence[Fields]
    waiter: Fields
    remedies: Mapping[str, Remedy]
    #: Steps before the waiter is created.
    before: Sequence[Fields] = ()


Build: TypeAlias = "Callable[[random.Random], Sketch]"


class Reason(NamedTuple):
    """A reason to wait: the plugin, a part of its message, and the function that draws a sketch."""

    plugin: str
    message: str
    build: Build
    gates: Mapping[str, bool]


#: All reasons by name, in the order of their definition.
REASONS: Final[dict[str, Reason]] = {}


def reason(
    plugin: str, message: str, gates: Mapping[str, bool] | None = None
) -> Callable[[Build], Build]:
    """Register a function that draws sketches. Its name is the name of the reason."""

    def register(build: Build) -> Build:
        REASONS[build.__name__] = Reason(plugin, message, build, gates or {})
        return build

    return register


class Pair(NamedTuple):
    """A reason and a remedy."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.remedy}"


@dataclass(frozen=True, kw_only=True)
class World:
    """A world as a case: the steps up to the control, and the name of the pair."""

    pair: Pair
    variations: tuple[str, ...]
    raw: Json
    message: str
    #: Of a world without a waiter: the pods that must get a node, as there is room for them.
    members: tuple[str, ...] | None = None
    #: The node that they must get; empty for any.
    place: str = ""

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that the world needs."""
        return {name: bool(value) for name, value in part(self.raw, "gates").items()}


def pod(name: str, **fields: object) -> Json:
    """Return an entry for a pod."""
    return {"pod": {"name": name, **fields}}


def node(name: str, **fields: object) -> Json:
    """Return an entry for a node."""
    return {"node": {"name": name, **fields}}


def obj(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "",
    labels: Fields = _NOTHING,
    annotations: Fields = _NOTHING,
    **fields: object,
) -> Json:
    """Return an entry for any other object."""
    more = {"namespace": namespace, "labels": labels, "annotations": annotations}
    metadata: Json = {"name": name, **{key: value for key, value in more.items() if value}}
    return {"object": {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}}


def ref(entry: Fields) -> Json:
    """Return the subject of a step about an entry of another kind."""
    content = entry["object"]
    assert isinstance(content, dict)
    names = {
        key: content["metadata"][key] for key in ("name", "namespace") if key in content["metadata"]
    }
    return {"object": {"apiVersion": content["apiVersion"], "kind": content["kind"], **names}}


def create(*entries: Fields) -> Json:
    """Return a step that creates objects."""
    return {"create": [*entries]}


def remedy(*steps: Fields, **waiter: object) -> Remedy:
    """Return a remedy; the keywords are the fields of the waiter that it changes."""
    return Remedy(steps=steps, waiter=waiter)


def patch(subject: Fields, change: object, **more: object) -> Json:
    """Return a step that changes an object."""
    return {"patch": {**subject, "patch": change, **more}}


def label(subject: Fields, **labels: object) -> Json:
    """Return a step that changes labels; names have `_` for `-`."""
    return patch(subject, {"metadata": {"labels": {**labels}}})


def subject_of(fields: Fields) -> Json:
    """Return the subject of a step about a pod."""
    namespace = fields.get("namespace")
    return {"pod": f"{namespace}/{fields['name']}" if namespace else fields["name"]}


def zones(*names: str) -> list[Json]:
    """Return a node in each of these zones: node `a` in zone `a`."""
    return [node(name, labels={ZONE: name}) for name in names]


def gone(name: str) -> dict[str, Remedy]:
    """Return the remedies by which a pod stops using its node."""
    plain = name.rpartition("/")[2]
    return {
        "pod is deleted": remedy({"delete": {"pod": name}}),
        "pod ends slowly": remedy(
            {"delete": {"pod": name, "grace_period_seconds": 30}},
            {"advance": "1s"},
            {"delete": {"pod": name}},
        ),
        "pod succeeds": remedy({"update_status": {"pod": name, "status": {"phase": "Succeeded"}}}),
        "pod fails": remedy({"update_status": {"pod": name, "status": {"phase": "Failed"}}}),
        "pod is evicted": remedy({"evict": {"pod": name}}),
        "pod is replaced under its name": remedy(
            {"delete": {"pod": name}},
            create(pod(plain, scheduler_name="another", **_namespace(name))),
        ),
        "pod ends and stays": remedy(
            {"delete": {"pod": name, "grace_period_seconds": 30}},
            {"update_status": {"pod": name, "status": {"phase": "Failed"}}},
        ),
    }


def _namespace(name: str) -> Json:
    return {"namespace": name.partition("/")[0]} if "/" in name else {}


def pairs() -> list[Pair]:
    """Return the table: each reason with each of its remedies."""
    return [
        Pair(name, each)
        for name, one in REASONS.items()
        for each in one.build(random.Random(0)).remedies
    ]


def world_of(pair: Pair, rng: random.Random) -> World:
    """Draw a world for a pair: a sketch, and variations of its course."""
    one = REASONS[pair.reason]
    sketch = one.build(rng)
    chosen = sketch.remedies[pair.remedy]
    cluster = [{**entry} for entry in copy.deepcopy([*sketch.cluster])]
    waiter: Json = {"name": WAITER, **sketch.waiter}
    course = _Course(cluster=cluster, steps=[{**step} for step in chosen.steps], waiter=waiter)
    variations = []
    for name, vary in _VARIATIONS.items():
        if rng.random() < _CHANCE and vary(course, rng):
            variations.append(name)
    control = {**waiter, **chosen.waiter, "name": COPY}
    before = [{**step} for step in sketch.before]
    steps: list[Json] = [*before, *course.first, create({"pod": waiter})]
    steps += [_SETTLE] * course.settles + course.before + course.steps
    if "inject" in str(steps):
        steps.append({"clear_faults": None})
    steps += [_PAUSE, _SETTLE, create({"pod": control}), _SETTLE]
    raw: Json = {
        "name": "hunt",
        "source": "kubesched-conformance hunt",
        **({"gates": {**one.gates}} if one.gates else {}),
        **({"cluster": cluster} if cluster else {}),
        "steps": steps,
    }
    return World(
        pair=pair,
        variations=tuple(variations),
        raw=raw,
        message=one.message if course.settles else "",
    )


@dataclass(kw_only=True)
class _Course:
    """The course of a world while its variations are drawn."""

    cluster: list[Json]
    steps: list[Json]
    first: list[Json] = field(default_factory=list)
    before: list[Json] = field(default_factory=list)
    settles: bool = True
    waiter: Json = field(default_factory=dict)


_CHANCE: Final = 0.15


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


def _noise(course: _Course, rng: random.Random) -> bool:
    """Something that does not help happens before the remedy, so that the waiter fails again."""
    course.before += rng.choice(
        [
            [create(node("noise", unschedulable=True)), _SETTLE],
            [create(pod("noise", labels={"noise": "x"}, scheduler_name="another"))],
            [label({"pod": WAITER}, noise="x")],
            [create(node("noise", pods=0)), {"delete": {"node": "noise"}}],
            *(_replaced(entry) for entry in course.cluster if "node" in entry),
        ]
    )
    return True


def _replaced(entry: Json) -> list[Json]:
    """Return the steps by which a node is deleted, and made again as it was."""
    name = part(entry, "node")["name"]
    return [{"delete": {"node": name}}, _SETTLE, create(entry), _SETTLE]


def _made_again(course: _Course, rng: random.Random) -> bool:
    """The waiter is deleted, and made again under its name."""
    del rng
    course.before += [{"delete": subject_of(course.waiter)}, create({"pod": course.waiter})]
    return True


def _changed_otherwise(course: _Course, rng: random.Random) -> bool:
    """The change of a node or a pod also changes what does not matter."""
    del rng
    changed = False
    for number, step in enumerate(course.steps):
        about = part(step, "patch")
        change = about.get("patch")
        if (
            isinstance(change, dict)
            and about.keys() & {"node", "pod"}
            and "subresource" not in about
        ):
            metadata = part(change, "metadata")
            labels = {**part(metadata, "labels"), "noise": "x"}
            wider = {**metadata, "labels": labels, "annotations": {"noise": "x"}}
            course.steps[number] = {"patch": {**about, "patch": {**change, "metadata": wider}}}
            changed = True
    return changed


def _late(course: _Course, rng: random.Random) -> bool:
    """The remedy comes after the backoff."""
    course.before.append({"advance": rng.choice(["1s", "2s"])})
    return course.settles


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


def _relisted(course: _Course, rng: random.Random) -> bool:
    """The scheduler learns of the remedy by a list, because its watches have expired."""
    event = rng.choice(["ADDED", "MODIFIED", "DELETED"])
    course.before.append(
        {"inject": [{"match": {"event": event}, "when": {"times": 1}, "cut": {"how": "expired"}}]}
    )
    return True


def _twice(course: _Course, rng: random.Random) -> bool:
    """Each event comes twice."""
    del rng
    course.before.append({"inject": [{"match": {"event": "MODIFIED"}, "duplicate": {}}]})
    return True


def _status_refused(course: _Course, rng: random.Random) -> bool:
    """The report that the waiter has no node is refused."""
    match = {"verb": "patch", "resource": "pods/status"}
    fault = {"match": match, "when": {"times": 1}, "answer": {"code": rng.choice([409, 500])}}
    course.first.append({"inject": [fault]})
    course.settles = False
    return True


_VARIATIONS: Final[Mapping[str, Callable[[_Course, random.Random], bool]]] = {
    "at once": _at_once,
    "another node": _another_node,
    "noise": _noise,
    "late": _late,
    "made again": _made_again,
    "changed otherwise": _changed_otherwise,
    "bound by the scheduler": _bound_by_scheduler,
    "relisted": _relisted,
    "events twice": _twice,
    "status refused": _status_refused,
}
