"""Small puzzles with a known answer: worlds in which a placement exists, found by trying them all.

At most 5 pods, 5 nodes and 4 devices a pool. A group that is not placed is *incomplete*: no one
promises that the greedy order of its members finds the placement. A single pod that gets no devices
although a choice of devices exists, or that preempts nothing although that would help, is a bug.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from ..format.objects import Item, objects_of
from ..format.resources import part
from ..invariants.devices import Devices, Taken, claims_of
from ..invariants.feasibility import feasible_nodes, reasons_against
from ..invariants.state import State, placed_on
from .device_puzzles import THEMES, consumes, device_pair, device_world, slices
from .vocabulary import DEVICES, HOST, PAUSE, SETTLE, claim, create, node, obj, pod, uses
from .world import Pair, World, raw_case

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..api import Json
    from .vocabulary import Fields

GROUP: Final = Pair("group", "a placement exists")
REFUSED: Final = Pair("group", "there is room, and bindings are refused")
PREEMPTION: Final = Pair("preemption", "a node fits without its less important pods")
IMAGES: Final = Pair("images", "a node has far more of them")
_GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
_DRIVER: Final = "gpu.example.com"
_IMAGE_UNIT: Final = 100 * 1024 * 1024
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DB: Final[Json] = {"app": "db"}
_TERM: Final[Json] = {"topologyKey": HOST, "labelSelector": {"matchLabels": _DB}}
_APART: Final[Json] = {"labels": _DB, "affinity": {"podAntiAffinity": {_REQUIRED: [_TERM]}}}
_TOGETHER: Final[Json] = {"labels": _DB, "affinity": {"podAffinity": {_REQUIRED: [_TERM]}}}
_AT_LIMIT: Final[Json] = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1)
_DEMANDS: Final[Sequence[Json]] = ({}, {"host_ports": [80]}, _APART)


def placement_worlds() -> dict[Pair, Callable[[random.Random], World]]:
    """Return the functions that draw the puzzles, by pair."""
    devices = {device_pair(theme): functools.partial(device_world, theme) for theme in THEMES}
    return {GROUP: _group, REFUSED: _refused, PREEMPTION: _preemption, IMAGES: _images, **devices}


def _group(rng: random.Random) -> World:
    """Draw a group for which there is room: for devices or CPUs, apart or together."""
    nodes = rng.choice(["a", "ab", "abc"])
    members = _members(rng.choice([2, 3]))
    form = rng.choice(["claims", "one claim", "room", "apart", "together"])
    if form in ("claims", "one claim"):
        names = members if form == "claims" else ("c",)
        cluster = [*map(node, nodes), *_parts(nodes, rng), *(_claim(m, rng) for m in names)]
        wants = [uses(m if form == "claims" else "c") for m in members]
    else:
        cluster = [node(name, cpu=rng.choice([2, 3, 4])) for name in nodes]
        ties = {"apart": _APART, "together": _TOGETHER}.get(form, {})
        wants = [{"cpu": rng.choice([1, 2, 3]), **ties} for _ in members]
    pods = [pod(m, pod_group="train", **each) for m, each in zip(members, wants, strict=True)]
    if not _has_room(cluster, pods):
        return _group(rng)
    group: Json = {"pod_group": {"name": "train", "min_count": len(members)}}
    return _world(GROUP, [*cluster, group], [create(*pods)], members, gates=_GATES)


def _refused(rng: random.Random) -> World:
    """Draw a group for which there is room, and of which some bindings are refused at first."""
    members = _members(rng.choice([2, 3]))
    group: Json = {"pod_group": {"name": "train", "min_count": rng.choice([1, len(members)])}}
    refused = {
        "match": {"verb": "create", "resource": "pods/binding"},
        "when": {"times": rng.choice([1, len(members)])},
        "answer": {"code": rng.choice([409, 500])},
    }
    pods = [create(pod(name, pod_group="train")) for name in members]
    steps: list[Fields] = [{"inject": [refused]}, *pods, SETTLE, PAUSE, SETTLE, PAUSE]
    return _world(REFUSED, [node("a"), group], steps, members, gates=_GATES)


def _members(number: int) -> tuple[str, ...]:
    return tuple(f"m{index}" for index in range(number))


def _parts(nodes: Sequence[str], rng: random.Random) -> Iterator[Json]:
    """Yield a class, and per node a device that can be taken whole or in two halves."""
    yield obj(DEVICES, "DeviceClass", "gpu", spec={})
    for name in nodes:
        parts: list[Json] = [
            {"name": f"part-{index}", "attributes": {"size": {"int": size}}, **consumes(size)}
            for index, size in enumerate((4, 2, 2))
        ]
        rng.shuffle(parts)
        yield from slices(_DRIVER, name, parts, {"nodeName": name}, units=4)


def _claim(name: str, rng: random.Random) -> Json:
    """Draw a claim for the first available of some sizes."""
    expression = f"device.attributes['{_DRIVER}'].size == "
    wanted = [
        {
            "name": f"size-{size}",
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": f"{expression}{size}"}}],
        }
        for size in rng.choice([[4, 2], [2, 4], [4], [2]])
    ]
    return claim(name, {"name": "r", "firstAvailable": wanted})


def _has_room(cluster: Sequence[Json], pods: Sequence[Json]) -> bool:
    """Return True if nodes and devices can be chosen for all pods, by the suite's own rules."""

    def place(some: Sequence[Json], state: State) -> bool:
        if not some:
            return True
        first, *rest = some
        claims = [
            claim
            for claim in claims_of(first, state)
            if claim is not None and not part(claim, "status").get("allocation")
        ]
        there = Devices(state)
        return any(
            place(
                rest, _allocated(claims, name, more[len(there.taken) :], state).with_pods([placed])
            )
            for name, each in state.nodes.items()
            if not reasons_against(first, each, state)
            for placed in [placed_on(first, name)]
            for more in there.choices(claims, each, there.taken)
        )

    return place([*_expanded(pods)], _state(cluster))


def _allocated(
    claims: Sequence[Json], node_name: str, taken: Sequence[Taken], state: State
) -> State:
    """Return a state in which claims have devices of a node. A claim has one request."""
    rule = {"key": HOST, "operator": "In", "values": [node_name]}
    allowed = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    changed = {}
    for each, one in zip(claims, taken, strict=True):
        results = [one.device._asdict() | {"device": one.device.name}]
        allocation = {"devices": {"results": results}, "nodeSelector": allowed}
        metadata = part(each, "metadata")
        key = "ResourceClaim", str(metadata["namespace"]), str(metadata["name"])
        changed[key] = {**each, "status": {"allocation": allocation}}
    return replace(state, others={**state.others, **changed})


def _preemption(rng: random.Random) -> World:
    """Draw nodes with pods, on one of which an important pod fits without the others.

    The pods that it evicts may come again, as a controller makes them. A budget may protect those
    of a namespace, or some of them.
    """
    used = {
        f"u{number}": {
            "cpu": rng.choice([1, 2]),
            "priority": rng.choice([0, 10, 100]),
            "namespace": rng.choice(["default", "kube-public"]),
            **rng.choice(_DEMANDS),
        }
        for number in range(rng.choice([2, 3, 4]))
    }
    there = [pod(name, node=rng.choice("ab"), **fields) for name, fields in used.items()]
    wants: Json = {"cpu": rng.choice([2, 3, 4]), "priority": 50, **rng.choice(_DEMANDS)}
    cluster = [node(name, cpu=4) for name in "ab"]
    selectors: list[Json] = rng.choice([[], [{}], [{"matchLabels": _DB}]])
    for selector in selectors:
        fields: Json = {"spec": {"minAvailable": 1, "selector": selector}, "status": _AT_LIMIT}
        cluster.append(obj("policy/v1", "PodDisruptionBudget", "b", namespace="default", **fields))
    kept = [entry for entry in there if part(entry, "pod")["priority"] == 100]
    (wanted,) = _expanded([pod("m0", **wants)])
    if not feasible_nodes(wanted, _state([*cluster, *kept])):
        return _preemption(rng)
    steps = [create(pod("m0", **wants))]
    for name, fields in used.items() if rng.random() < 0.5 else ():
        if fields["priority"] != 100:
            steps += [{"advance": "1s"}, create(pod(f"{name}-again", **fields))]
    return _world(PREEMPTION, [*cluster, *there], steps, ("m0",))


def _images(rng: random.Random) -> World:
    """Draw two equal nodes, of which one has far more of the images of some pods.

    It has more of them without the images of volumes, too, which do not count before 1.36.
    """
    sizes = {name: rng.choice([5, 10, 20, 30]) * _IMAGE_UNIT for name in ("one", "two", "three")}
    if sizes["one"] - sizes["two"] - sizes["three"] < 5 * _IMAGE_UNIT:
        return _images(rng)
    in_volumes = [name for name in ("two", "three") if rng.random() < 0.5]
    containers = [{"image": f"{name}:v1"} for name in sizes if name not in in_volumes]
    volumes = [{"name": name, "image": {"reference": f"{name}:v1"}} for name in in_volumes]
    most, least = rng.sample("ab", 2)
    cluster = [
        node(place, cpu=64, memory="256Gi", images={f"{name}:v1": sizes[name] for name in some})
        for place, some in ((most, ["one"]), (least, ["two", "three"]))
    ]
    members = _members(3)
    pods = [create(pod(name, spec={"volumes": volumes}, containers=containers)) for name in members]
    return msgspec.structs.replace(_world(IMAGES, cluster, pods, members), place=most)


def _state(entries: Sequence[Json]) -> State:
    made = [(each["kind"], part(each, "metadata"), each) for each in _expanded(entries)]
    return State(
        nodes={str(about["name"]): each for kind, about, each in made if kind == "Node"},
        pods={str(about["name"]): each for kind, about, each in made if kind == "Pod"},
        others={
            (str(kind), str(about.get("namespace", "")), str(about["name"])): each
            for kind, about, each in made
        },
    )


def _expanded(entries: Sequence[Json]) -> Iterator[Json]:
    """Yield nodes and pods of short forms as objects, with priorities but without their classes."""
    for entry in entries:
        for made in objects_of(msgspec.convert(entry, Item)):
            metadata = part(made, "metadata")
            if made["kind"] != "PriorityClass":
                yield {**made, "metadata": {**metadata, "uid": metadata["name"]}}


def _world(
    pair: Pair,
    cluster: Sequence[Fields],
    steps: Sequence[Fields],
    members: tuple[str, ...],
    gates: Mapping[str, bool] | None = None,
) -> World:
    raw = raw_case(cluster, [*steps, SETTLE, PAUSE, SETTLE], gates)
    return World(pair=pair, raw=raw, members=members)
