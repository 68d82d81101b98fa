"""Small puzzles with a known answer: worlds in which a placement exists, found by trying them all.

At most 5 pods, 5 nodes and 4 devices a node. A group that is not placed is *incomplete*: no one
promises that the greedy order of its members finds the placement. A single pod that gets no devices
although a choice of devices exists, or that preempts nothing although that would help, is a bug.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..format.objects import Item, objects_of
from ..format.resources import part
from ..invariants.feasibility import feasible_nodes
from ..invariants.state import State
from .world import PAUSE, Pair, World, create, node, obj, pod

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from ..api import Json

GROUP: Final = Pair("group", "a placement exists")
CLAIMS: Final = Pair("claims with alternatives", "an allocation exists")
PREEMPTION: Final = Pair("preemption", "a node fits without its less important pods")
_GATES: Final[Json] = {"GenericWorkload": True, "GangScheduling": True}
_API: Final = "resource.k8s.io/v1"
_DRIVER: Final = "gpu.example.com"
#: A device that can be taken whole or in halves: the sizes of its parts. They share 4 units.
_PARTS: Final = (4, 2, 2)
_UNITS: Final = 4


class _Device(NamedTuple):
    node: str
    name: str
    counters: str
    size: int


def placement_worlds() -> dict[Pair, Callable[[random.Random], World]]:
    """Return the functions that draw the puzzles, by pair."""
    return {GROUP: _group, CLAIMS: _claims, PREEMPTION: _preemption}


def _devices(nodes: Sequence[str], sets: int) -> list[_Device]:
    return [
        _Device(name, f"{size}-{number}-{index}", f"g{number}", size)
        for name in nodes
        for number in range(sets)
        for index, size in enumerate(_PARTS)
    ]


def _slices(devices: Sequence[_Device], rng: random.Random) -> Iterator[Json]:
    """Yield the class and the slices of devices, which are published in any order."""
    yield obj(_API, "DeviceClass", "gpu", spec={})
    for name in dict.fromkeys(device.node for device in devices):
        own = [device for device in devices if device.node == name]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
        where: Json = {"driver": _DRIVER, "nodeName": name, "pool": pool}
        units = {"units": {"value": str(_UNITS)}}
        counters = [{"name": each, "counters": units} for each in sorted({d.counters for d in own})]
        parts = [
            {
                "name": device.name,
                "attributes": {"size": {"int": device.size}},
                "consumesCounters": [
                    {
                        "counterSet": device.counters,
                        "counters": {"units": {"value": str(device.size)}},
                    }
                ],
            }
            for device in rng.sample(own, len(own))
        ]
        yield obj(
            _API, "ResourceSlice", f"{name}-counters", spec={**where, "sharedCounters": counters}
        )
        yield obj(_API, "ResourceSlice", f"{name}-parts", spec={**where, "devices": parts})


def _claim(name: str, sizes: Sequence[int]) -> Json:
    """Return a claim for the first available of some sizes."""
    wanted = [
        {
            "name": f"size-{size}",
            "deviceClassName": "gpu",
            "selectors": [
                {"cel": {"expression": f"device.attributes['{_DRIVER}'].size == {size}"}}
            ],
        }
        for size in sizes
    ]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": wanted}]}}
    return obj(_API, "ResourceClaim", name, namespace="default", spec=spec)


def _fit(wishes: Sequence[Sequence[int]], devices: Sequence[_Device]) -> bool:
    """Return True if each wish can get a device of one of its sizes."""
    for choice in itertools.permutations(devices, len(wishes)):
        used: dict[tuple[str, str], int] = {}
        for device in choice:
            key = device.node, device.counters
            used[key] = used.get(key, 0) + device.size
        sized = all(one.size in wish for one, wish in zip(choice, wishes, strict=True))
        if sized and max(used.values()) <= _UNITS:
            return True
    return False


def _wishes(rng: random.Random, number: int) -> list[list[int]]:
    return [rng.choice([[4, 2], [2, 4], [4], [2]]) for _ in range(number)]


def _claims(rng: random.Random) -> World:
    """Draw a pod with several claims for which the devices of a node suffice."""
    devices = _devices("a", rng.choice([1, 2]))
    while True:
        wishes = _wishes(rng, rng.choice([2, 3]))
        if len(wishes) <= len(devices) and _fit(wishes, devices):
            break
    names = [f"c{number}" for number in range(len(wishes))]
    uses = {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}
    claims = [_claim(name, wish) for name, wish in zip(names, wishes, strict=True)]
    cluster = [node("a"), *_slices(devices, rng), *claims]
    return _world(CLAIMS, cluster, [create(pod("m0", spec=uses))], ("m0",))


def _group(rng: random.Random) -> World:
    """Draw a group, of which each member takes a device or some CPUs, for which there is room."""
    nodes = ["a", "b"][: rng.choice([1, 2])]
    number = rng.choice([2, 3])
    members = tuple(f"m{index}" for index in range(number))
    group: Json = {"pod_group": {"name": "train", "min_count": number}}
    if rng.random() < 0.5:
        devices = _devices(nodes, 1)
        wishes = _wishes(rng, number)
        while not _fit(wishes, devices):
            wishes = _wishes(rng, number)
        claims = [_claim(name, wish) for name, wish in zip(members, wishes, strict=True)]
        pods = [
            pod(
                name,
                pod_group="train",
                spec={"resourceClaims": [{"name": "d", "resourceClaimName": name}]},
            )
            for name in members
        ]
        cluster = [*(node(name) for name in nodes), *_slices(devices, rng), *claims, group]
    else:
        room = {name: rng.choice([2, 3, 4]) for name in nodes}
        wants = [rng.choice([1, 2, 3]) for _ in members]
        while not _packs(wants, room):
            wants = [rng.choice([1, 2, 3]) for _ in members]
        pods = [
            pod(name, pod_group="train", cpu=cpu) for name, cpu in zip(members, wants, strict=True)
        ]
        cluster = [*(node(name, cpu=cpu) for name, cpu in room.items()), group]
    return _world(GROUP, cluster, [create(*pods)], members, gates=_GATES)


def _packs(wants: Sequence[int], room: dict[str, int]) -> bool:
    return any(
        all(
            sum(want for want, place in zip(wants, places, strict=True) if place == name) <= size
            for name, size in room.items()
        )
        for places in itertools.product(room, repeat=len(wants))
    )


def _preemption(rng: random.Random) -> World:
    """Draw nodes with pods, on one of which an important pod fits without the others."""
    ports: list[Json] = [{}, {"host_ports": [80]}]
    used = [
        pod(
            f"u{number}",
            node=rng.choice("ab"),
            cpu=rng.choice([1, 2]),
            priority=rng.choice([0, 10, 100]),
            **rng.choice(ports),
        )
        for number in range(rng.choice([2, 3, 4]))
    ]
    wants: Json = {"cpu": rng.choice([2, 3, 4]), "priority": 50, **rng.choice(ports)}
    cluster = [node(name, cpu=4) for name in "ab"]
    kept = [entry for entry in used if part(entry, "pod")["priority"] == 100]
    if not _is_feasible(cluster, kept, pod("m0", **wants)):
        return _preemption(rng)
    return _world(PREEMPTION, [*cluster, *used], [create(pod("m0", **wants))], ("m0",))


def _is_feasible(nodes: Sequence[Json], pods: Sequence[Json], wanted: Json) -> bool:
    """Return True if a pod fits on a node beside some pods, by the suite's own rules."""
    there, placed, (one,) = (list(_expanded(some)) for some in (nodes, pods, [wanted]))
    state = State(
        nodes={str(part(each, "metadata")["name"]): each for each in there},
        pods={str(part(each, "metadata")["name"]): each for each in placed},
    )
    return bool(feasible_nodes(one, state))


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
