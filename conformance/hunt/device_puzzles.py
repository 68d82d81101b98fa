"""Puzzles of devices: pods with claims, one after another, on a few nodes with a few devices.

Each theme is sure to be in its worlds; the other themes may be. The invariants judge the worlds, by
trying all choices of devices: a pod waits although a choice exists, or a device is given twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import PAUSE, Pair, World, create, node, obj, pod, ref

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterator

    from ..api import Json

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
    "shared claim",
    "huge counts",
)
#: On by default since 1.36.
GATES: Final = {"DRAPartitionableDevices": True, "DRAConsumableCapacity": True}
_API: Final = "resource.k8s.io/v1"
_DRIVERS: Final = ("gpu.example.com", "nic.example.com")
_CHANCE: Final = 0.15


def device_pair(theme: str) -> Pair:
    """Return the pair of a theme."""
    return Pair("claims of devices", f"a choice exists: {theme}")


def device_world(theme: str, rng: random.Random) -> World:
    """Draw a world with a theme."""
    themes = {theme, *(other for other in THEMES[:-1] if rng.random() < _CHANCE)}
    nodes = ["a", "b"][: rng.choice([1, 2])]
    claims = [f"c{number}" for number in range(rng.choice([2, 3, 4]))]
    entries = [_claim(name, themes, rng) for name in claims]
    shared = ["s"] if "shared claim" in themes else []
    if shared:
        entries.append(_claim("s", {theme, "devices of many nodes"} - {"all devices"}, rng))
    users: list[list[str]] = [[] for _ in range(rng.choice([2, 3]))]
    for name in claims:
        rng.choice(users).append(name)
    names = [f"m{number}" for number in range(len(users))]
    steps: list[Json] = []
    for name, own in zip(names, users, strict=True):
        used = [*shared, *own] if rng.random() < 0.5 else [*own, *shared]
        uses = [{"name": f"d{n}", "resourceClaimName": claim} for n, claim in enumerate(used)]
        steps += [create(pod(name, **({"spec": {"resourceClaims": uses}} if uses else {})))]
        if rng.random() < 0.7:
            steps.append({"wait_until_settled": None})
        if rng.random() < 0.15:
            steps += [{"wait_until_settled": None}, {"delete": {"pod": name}}]
            steps += [freed(claim) for claim in own]
    settle: Json = {"wait_until_settled": None}
    raw: Json = {
        "name": "hunt",
        "source": "kubesched-conformance hunt",
        "gates": GATES,
        "cluster": [*map(node, nodes), *_slices(nodes, themes, rng), *entries],
        "steps": [*steps, settle, {"advance": PAUSE}, settle],
    }
    return World(pair=device_pair(theme), variations=(), raw=raw, message="", members=())


def freed(claim: str) -> Json:
    """Return the step by which a controller takes the devices of a claim away."""
    subject = ref(obj(_API, "ResourceClaim", claim, namespace="default"))
    status: Json = {"reservedFor": None, "allocation": None}
    return {"update_status": {**subject, "status": status}}


def _slices(nodes: list[str], themes: Collection[str], rng: random.Random) -> Iterator[Json]:
    """Yield the class and the slices, with the devices of each pool in any order."""
    yield obj(_API, "DeviceClass", "any", spec={})
    drivers = _DRIVERS if "two drivers" in themes else _DRIVERS[:1]
    pools: list[tuple[str, str, Json]] = [
        (driver, name, {"nodeName": name}) for driver in drivers for name in nodes
    ]
    if "devices of many nodes" in themes:
        terms = [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}
                ]
            }
        ]
        many: Json = rng.choice(
            [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": terms}}]
        )
        pools.append((_DRIVERS[0], "net", many))
    for driver, name, where in pools:
        devices = [_device(number, themes, rng) for number in range(rng.choice([1, 2, 3]))]
        has_counters = any("consumesCounters" in each for each in devices)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + has_counters}
        spec: Json = {"driver": driver, "pool": pool, **where}
        stem = f"{driver.partition('.')[0]}-{name}"
        yield obj(_API, "ResourceSlice", stem, spec={**spec, "devices": devices})
        if has_counters:
            total = {"units": {"value": str(rng.choice([2, 4]))}}
            counters = [{"name": "g", "counters": total}]
            yield obj(
                _API, "ResourceSlice", f"{stem}-counters", spec={**spec, "sharedCounters": counters}
            )


def _device(number: int, themes: Collection[str], rng: random.Random) -> Json:
    device: Json = {
        "name": f"dev-{number}",
        "attributes": {
            "example.com/model": {"string": rng.choice("xy")},
            "example.com/size": {"int": rng.choice([1, 2])},
        },
    }
    is_shared_part = "counters of shared devices" in themes
    if ("counters" in themes or is_shared_part) and rng.random() < 0.8:
        taken = {"units": {"value": str(rng.choice([1, 2, 4]))}}
        device["consumesCounters"] = [{"counterSet": "g", "counters": taken}]
    if ("capacity" in themes or is_shared_part) and rng.random() < 0.8:
        policy: Json = rng.choice(
            [
                {},
                {"requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}},
                {"requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
                {"requestPolicy": {"default": "2", "validRange": {"min": "2", "max": "4"}}},
            ]
        )
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": "4", **policy}}
        if is_shared_part and rng.random() < 0.5:
            # A device that is shared without a limit.
            del device["capacity"]
    return device


def _claim(name: str, themes: Collection[str], rng: random.Random) -> Json:
    requests = [_request(number, themes, rng) for number in range(rng.choice([1, 1, 2]))]
    constraints: list[Json] = []
    for kind, theme in (("match", "equal"), ("distinct", "distinct")):
        if f"{theme} attributes" in themes:
            attribute = f"example.com/{rng.choice(['model', 'size'])}"
            about = {"requests": [requests[0]["name"]]} if rng.random() < 0.3 else {}
            constraints.append({f"{kind}Attribute": attribute, **about})
    spec: Json = {"requests": requests, **({"constraints": constraints} if constraints else {})}
    return obj(_API, "ResourceClaim", name, namespace="default", spec={"devices": spec})


def _request(number: int, themes: Collection[str], rng: random.Random) -> Json:
    name = f"r{number}"
    if "alternatives" in themes or "huge counts" in themes:
        some = [_wanted(themes, rng) for _ in range(rng.choice([2, 3]))]
        return {
            "name": name,
            "firstAvailable": [{"name": f"s{n}", **w} for n, w in enumerate(some)],
        }
    return {"name": name, "exactly": _wanted(themes, rng)}


def _wanted(themes: Collection[str], rng: random.Random) -> Json:
    wanted: Json = {"deviceClassName": "any"}
    many = "equal attributes" in themes or "distinct attributes" in themes
    count = rng.choice([1, 1, 2, 2] if many else [1, 1, 1, 2])
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
        wanted["capacity"] = {"requests": {"memory": rng.choice(["1", "2", "3"])}}
    return wanted
