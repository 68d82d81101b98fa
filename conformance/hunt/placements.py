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
from . import device_puzzles
from .device_puzzles import device_pair, device_world
from .world import HOST, PAUSE, Pair, World, create, node, obj, pod

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from ..api import Json

GROUP: Final = Pair("group", "a placement exists")
PREEMPTION: Final = Pair("preemption", "a node fits without its less important pods")
IMAGES: Final = Pair("images", "a node has far more of them")
_IMAGE_UNIT: Final = 100 * 1024 * 1024
_GATES: Final[Json] = {"GenericWorkload": True, "GangScheduling": True}
_API: Final = "resource.k8s.io/v1"
_DEMANDS: Final[Sequence[Json]] = (
    {},
    {"host_ports": [80]},
    {
        "labels": {"app": "db"},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
                ]
            }
        },
    },
)
_DRIVER: Final = "gpu.example.com"


def placement_worlds() -> dict[Pair, Callable[[random.Random], World]]:
    """Return the functions that draw the puzzles, by pair."""
    devices = {
        device_pair(theme): functools.partial(device_world, theme)
        for theme in device_puzzles.THEMES
    }
    return {GROUP: _group, PREEMPTION: _preemption, IMAGES: _images, **devices}


def _group(rng: random.Random) -> World:
    """Draw a group for which there is room: for devices or CPUs, apart or together."""
    nodes = ["a", "b", "c"][: rng.choice([1, 2, 3])]
    number = rng.choice([2, 3])
    members = tuple(f"m{index}" for index in range(number))
    in_group: Json = {"pod_group": "train"}
    form = rng.choice(["claims", "one claim", "room", "apart", "together"])
    if form in ("claims", "one claim"):
        names = members if form == "claims" else ("c",)
        cluster = [*map(node, nodes), *_parts(nodes, rng), *(_claim(m, rng) for m in names)]
        pods = [pod(m, **in_group, **_uses(m if form == "claims" else "c")) for m in members]
    else:
        cluster = [node(name, cpu=rng.choice([2, 3, 4])) for name in nodes]
        pods = [pod(m, **in_group, cpu=rng.choice([1, 2, 3]), **_ties(form)) for m in members]
    if not _has_room(cluster, pods):
        return _group(rng)
    group: Json = {"pod_group": {"name": "train", "min_count": number}}
    return _world(GROUP, [*cluster, group], [create(*pods)], members, gates=_GATES)


def _ties(form: str) -> Json:
    """Return the fields by which the pods of a group keep apart, or together."""
    kind = {"apart": "podAntiAffinity", "together": "podAffinity"}.get(form)
    if kind is None:
        return {}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    required = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"labels": {"app": "db"}, "affinity": required}


def _uses(claim: str) -> Json:
    return {"spec": {"resourceClaims": [{"name": "d", "resourceClaimName": claim}]}}


def _parts(nodes: Sequence[str], rng: random.Random) -> Iterator[Json]:
    """Yield a class, and per node a device that can be taken whole or in two halves."""
    yield obj(_API, "DeviceClass", "gpu", spec={})
    for name in nodes:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        where: Json = {"driver": _DRIVER, "nodeName": name, "pool": pool}
        counters = [{"name": "g", "counters": {"units": {"value": "4"}}}]
        parts = [
            {
                "name": f"part-{index}",
                "attributes": {"size": {"int": size}},
                "consumesCounters": [
                    {"counterSet": "g", "counters": {"units": {"value": str(size)}}}
                ],
            }
            for index, size in enumerate((4, 2, 2))
        ]
        rng.shuffle(parts)
        yield obj(
            _API, "ResourceSlice", f"{name}-counters", spec={**where, "sharedCounters": counters}
        )
        yield obj(_API, "ResourceSlice", f"{name}-parts", spec={**where, "devices": parts})


def _claim(name: str, rng: random.Random) -> Json:
    """Draw a claim for the first available of some sizes."""
    wanted = [
        {
            "name": f"size-{size}",
            "deviceClassName": "gpu",
            "selectors": [
                {"cel": {"expression": f"device.attributes['{_DRIVER}'].size == {size}"}}
            ],
        }
        for size in rng.choice([[4, 2], [2, 4], [4], [2]])
    ]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": wanted}]}}
    return obj(_API, "ResourceClaim", name, namespace="default", spec=spec)


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
    for claim, one in zip(claims, taken, strict=True):
        results = [one.device._asdict() | {"device": one.device.name}]
        allocation = {"devices": {"results": results}, "nodeSelector": allowed}
        metadata = part(claim, "metadata")
        key = "ResourceClaim", str(metadata["namespace"]), str(metadata["name"])
        changed[key] = {**claim, "status": {"allocation": allocation}}
    return replace(state, others={**state.others, **changed})


def _preemption(rng: random.Random) -> World:
    """Draw nodes with pods, on one of which an important pod fits without the others.

    The pods that it evicts may come again, as a controller makes them.
    """
    used = [
        pod(
            f"u{number}",
            node=rng.choice("ab"),
            cpu=rng.choice([1, 2]),
            priority=rng.choice([0, 10, 100]),
            **rng.choice(_DEMANDS),
        )
        for number in range(rng.choice([2, 3, 4]))
    ]
    wants: Json = {"cpu": rng.choice([2, 3, 4]), "priority": 50, **rng.choice(_DEMANDS)}
    cluster = [node(name, cpu=4) for name in "ab"]
    kept = [entry for entry in used if part(entry, "pod")["priority"] == 100]
    if not _is_feasible(cluster, kept, pod("m0", **wants)):
        return _preemption(rng)
    steps = [create(pod("m0", **wants))]
    for entry in used if rng.random() < 0.5 else ():
        content = {k: v for k, v in part(entry, "pod").items() if k not in ("node", "name")}
        steps += [{"advance": "1s"}, create(pod(f"{part(entry, 'pod')['name']}-again", **content))]
    return _world(PREEMPTION, [*cluster, *used], steps, ("m0",))


def _images(rng: random.Random) -> World:
    """Draw two equal nodes, of which one has far more of the images of some pods."""
    sizes = {name: rng.choice([5, 10, 20, 30]) * _IMAGE_UNIT for name in ("one", "two", "three")}
    places = {name: rng.choice("ab") for name in sizes}
    totals = {
        place: sum(size for name, size in sizes.items() if places[name] == place) for place in "ab"
    }
    if abs(totals["a"] - totals["b"]) < 8 * _IMAGE_UNIT or max(totals.values()) > 55 * _IMAGE_UNIT:
        return _images(rng)
    best = max(totals, key=lambda place: totals[place])
    in_volume = [name for name in sizes if rng.random() < 0.5]
    containers = [{"image": f"{name}:v1"} for name in sizes if name not in in_volume]
    volumes = [{"name": name, "image": {"reference": f"{name}:v1"}} for name in in_volume]
    cluster = [
        node(
            place,
            cpu=64,
            memory="256Gi",
            images={f"{n}:v1": size for n, size in sizes.items() if places[n] == place},
        )
        for place in "ab"
    ]
    names = tuple(f"m{number}" for number in range(3))
    fields: Json = {
        "spec": {"volumes": volumes},
        **({"containers": containers} if containers else {}),
    }
    world = _world(IMAGES, cluster, [create(pod(name, **fields)) for name in names], names)
    return replace(world, place=best)


def _is_feasible(nodes: Sequence[Json], pods: Sequence[Json], wanted: Json) -> bool:
    """Return True if a pod fits on a node beside some pods, by the suite's own rules."""
    (one,) = _expanded([wanted])
    return bool(feasible_nodes(one, _state([*nodes, *pods])))


def _state(entries: Sequence[Json]) -> State:
    made = [*_expanded(entries)]
    named = [(str(each["kind"]), part(each, "metadata"), each) for each in made]
    return State(
        nodes={str(meta["name"]): each for kind, meta, each in named if kind == "Node"},
        pods={str(meta["name"]): each for kind, meta, each in named if kind == "Pod"},
        others={
            (kind, str(meta.get("namespace", "")), str(meta["name"])): each
            for kind, meta, each in named
            if kind not in ("Node", "Pod")
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
    cluster: Sequence[Json],
    steps: Sequence[Json],
    members: tuple[str, ...],
    gates: Json | None = None,
) -> World:
    raw: Json = {
        "name": "hunt",
        "source": "kubesched-conformance hunt",
        **({"gates": gates} if gates else {}),
        "cluster": [*cluster],
        "steps": [
            *steps,
            {"wait_until_settled": None},
            {"advance": PAUSE},
            {"wait_until_settled": None},
        ],
    }
    return World(pair=pair, variations=(), raw=raw, message="", members=members)
