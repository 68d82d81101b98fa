"""Puzzles of devices: pods with claims, one after another, on a few nodes with a few devices.

Each theme is sure to be in its worlds; the other themes may be. The invariants judge the worlds, by
trying all choices of devices: a pod waits although a choice exists, or a device is given twice.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ..format.resources import part
from .vocabulary import DEVICES, HOST, PAUSE, SETTLE, claim, create, node, obj, pod, uses
from .world import Pair, World, raw_case

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterator, Sequence

    from ..api import Json
    from .vocabulary import Fields

THEMES: Final = (
    "plain",
    "counters",
    "capacity",
    "counters of shared devices",
    "two drivers",
    "all devices",
    "alternatives",
    "equal attributes",
    "distinct attributes",
    "devices of many nodes",
    "incomplete pools",
    "pool of many nodes",
    "slices that change",
    "huge amounts",
    "shared claim",
    "huge counts",
)
#: On by default since 1.36.
_GATES: Final = {"DRAPartitionableDevices": True, "DRAConsumableCapacity": True}
_DRIVERS: Final = ("gpu.example.com", "nic.example.com")
_CHANCE: Final = 0.15
#: Beyond 64 bits, twice, and without a shorter form.
_HUGE: Final = 5 * 10**18 + 1
#: The first device of a slice is for one claim from now on.
_UNSHARED: Final[Json] = {
    "object": {"apiVersion": DEVICES, "kind": "ResourceSlice", "name": "gpu-a"},
    "type": "json",
    "patch": [{"op": "add", "path": "/spec/devices/0/allowMultipleAllocations", "value": False}],
}


def device_pair(theme: str) -> Pair:
    """Return the pair of a theme."""
    return Pair("claims of devices", f"a choice exists: {theme}")


def device_world(theme: str, rng: random.Random) -> World:
    """Draw a world with a theme."""
    themes = {theme, *(other for other in THEMES[:-1] if rng.random() < _CHANCE)}
    nodes = rng.choice(["a", "ab"])
    claims = [f"c{number}" for number in range(rng.choice([2, 3, 4]))]
    entries = [_claim(name, themes, rng) for name in claims]
    shared = ["s"] if "shared claim" in themes else []
    if shared:
        entries.append(_claim("s", {theme, "devices of many nodes"} - {"all devices"}, rng))
    users: list[list[str]] = [[] for _ in range(rng.choice([2, 3]))]
    for name in claims:
        rng.choice(users).append(name)
    steps: list[Fields] = []
    for number, own in enumerate(users):
        used = [*shared, *own] if rng.random() < 0.5 else [*own, *shared]
        steps.append(create(pod(f"m{number}", **uses(*used))))
        if rng.random() < 0.7:
            steps.append(SETTLE)
        if rng.random() < 0.15:
            steps += [SETTLE, {"delete": {"pod": f"m{number}"}}, *map(_freed, own)]
    offers = [*_slices(nodes, themes, rng)]
    if "incomplete pools" in themes:
        spec = part(part(rng.choice(offers[1:]), "object"), "spec")
        part(spec, "pool")["resourceSliceCount"] = 3
    if "slices that change" in themes:
        steps.insert(rng.randint(1, len(steps)), {"patch": _UNSHARED})
    cluster = [*map(node, nodes), *offers, *entries]
    if "huge amounts" in themes:
        text = re.sub(r'"(\d+)"', lambda each: f'"{int(each[1]) * _HUGE}"', json.dumps(cluster))
        cluster = json.loads(text)
    raw = raw_case(cluster, [*steps, SETTLE, PAUSE, SETTLE], _GATES)
    return World(pair=device_pair(theme), raw=raw, members=())


def _freed(name: str) -> Json:
    """Return the step by which a controller takes the devices of a claim away."""
    subject = {"apiVersion": DEVICES, "kind": "ResourceClaim", "name": name, "namespace": "default"}
    status: Json = {"reservedFor": None, "allocation": None}
    return {"update_status": {"object": subject, "status": status}}


def slices(
    driver: str, pool: str, devices: Sequence[Json], where: Fields, *, units: int
) -> Iterator[Json]:
    """Yield the slices of a pool: its devices, and their counter if a device consumes from it."""
    has_counters = any("consumesCounters" in each for each in devices)
    named = {"name": pool, "generation": 1, "resourceSliceCount": 1 + has_counters}
    spec: Json = {"driver": driver, "pool": named, **where}
    stem = f"{driver.partition('.')[0]}-{pool}"
    yield obj(DEVICES, "ResourceSlice", stem, spec={**spec, "devices": devices})
    if has_counters:
        shared = {**spec, "sharedCounters": [{"name": "g", "counters": _units(units)}]}
        yield obj(DEVICES, "ResourceSlice", f"{stem}-counters", spec=shared)


def consumes(units: int) -> Json:
    """Return the field of a device that takes units of its pool's counter."""
    return {"consumesCounters": [{"counterSet": "g", "counters": _units(units)}]}


def _units(number: int) -> Json:
    return {"units": {"value": str(number)}}


def _slices(nodes: str, themes: Collection[str], rng: random.Random) -> Iterator[Json]:
    """Yield the class and the slices, with the devices of each pool in any order."""
    yield obj(DEVICES, "DeviceClass", "any", spec={})
    drivers = _DRIVERS if "two drivers" in themes else _DRIVERS[:1]
    pools: list[tuple[str, str, Json]] = [
        (driver, name, {"nodeName": name}) for driver in drivers for name in nodes
    ]
    if "devices of many nodes" in themes:
        rule = {"key": HOST, "operator": "In", "values": [*nodes]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        pools.append(
            (_DRIVERS[0], "net", rng.choice([{"allNodes": True}, {"nodeSelector": terms}]))
        )
    for driver, name, where in pools:
        devices = [_device(number, themes, rng) for number in range(rng.choice([1, 2, 3]))]
        yield from slices(driver, name, devices, where, units=rng.choice([2, 4]))
    pool = {"name": "both", "generation": 1, "resourceSliceCount": len(nodes)}
    for number, name in enumerate(nodes if "pool of many nodes" in themes else ""):
        devices = [_device(number, {*themes} - {"counters", "counters of shared devices"}, rng)]
        spec = {"driver": _DRIVERS[0], "nodeName": name, "pool": pool, "devices": devices}
        yield obj(DEVICES, "ResourceSlice", f"both-{name}", spec=spec)


def _device(number: int, themes: Collection[str], rng: random.Random) -> Json:
    attributes = {
        "example.com/model": {"string": rng.choice("xy")},
        "example.com/size": {"int": rng.choice([1, 2])},
    }
    device: Json = {"name": f"dev-{number}", "attributes": attributes}
    is_shared_part = "counters of shared devices" in themes
    if ("counters" in themes or is_shared_part) and rng.random() < 0.8:
        device |= consumes(rng.choice([1, 2, 4]))
    changes = "slices that change" in themes
    if ("capacity" in themes or is_shared_part or changes) and rng.random() < 0.8:
        policies: list[Json] = [
            {},
            {"requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}},
            {"requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
            {"requestPolicy": {"default": "2", "validRange": {"min": "2", "max": "4"}}},
        ]
        # A policy is for shared devices, a range for amounts of 64 bits.
        policy = rng.choice(policies[: 1 if changes else 2 if "huge amounts" in themes else 4])
        device["allowMultipleAllocations"] = True
        # A device of a shared part may be shared without a limit.
        if not is_shared_part or rng.random() < 0.5:
            device["capacity"] = {"memory": {"value": "4", **policy}}
    return device


def _claim(name: str, themes: Collection[str], rng: random.Random) -> Json:
    requests = [_request(number, themes, rng) for number in range(rng.choice([1, 1, 2]))]
    constraints: list[Json] = []
    for kind, theme in (("match", "equal"), ("distinct", "distinct")):
        if f"{theme} attributes" in themes:
            attribute = f"example.com/{rng.choice(['model', 'size'])}"
            about = {"requests": [requests[0]["name"]]} if rng.random() < 0.3 else {}
            constraints.append({f"{kind}Attribute": attribute, **about})
    return claim(name, *requests, **({"constraints": constraints} if constraints else {}))


def _request(number: int, themes: Collection[str], rng: random.Random) -> Json:
    name = f"r{number}"
    if "alternatives" in themes or "huge counts" in themes:
        some = [_wanted(themes, rng) for _ in range(rng.choice([2, 3]))]
        options = [{"name": f"s{n}", **wanted} for n, wanted in enumerate(some)]
        return {"name": name, "firstAvailable": options}
    return {"name": name, "exactly": _wanted(themes, rng)}


def _wanted(themes: Collection[str], rng: random.Random) -> Json:
    wanted: Json = {"deviceClassName": "any"}
    many = "equal attributes" in themes or "distinct attributes" in themes
    count = rng.choice([1, 1, 2, 2, 3] if many else [1, 1, 1, 2])
    if "huge counts" in themes and rng.random() < 0.5:
        count = rng.choice([33, 2**31, 2**62, 2**63 - 1])
    if "all devices" in themes and rng.random() < 0.6:
        wanted["allocationMode"] = "All"
    elif count > 1:
        wanted["count"] = count
    rule = rng.choice(
        [
            "",
            "",
            f"device.attributes['example.com'].size == {rng.choice([1, 2])}",
            f"device.attributes['example.com'].model == '{rng.choice('xy')}'",
            f"device.driver == '{rng.choice(_DRIVERS)}'" if "two drivers" in themes else "",
        ]
    )
    if rule:
        wanted["selectors"] = [{"cel": {"expression": rule}}]
    if "capacity" in themes and rng.random() < 0.5:
        name = rng.choice(["memory", "memory", f"{_DRIVERS[0]}/memory"])
        wanted["capacity"] = {"requests": {name: rng.choice(["1", "2", "3"])}}
    return wanted
