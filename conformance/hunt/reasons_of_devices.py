"""Reasons that lie in devices: claims, slices, classes, taints of devices, extended resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .device_puzzles import GATES
from .world import Sketch, create, label, node, obj, patch, pod, reason, ref, remedy

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from ..api import Json
    from .world import Fields, Remedy

_API: Final = "resource.k8s.io/v1"
_DRIVER: Final = "gpu.example.com"


def _class(**spec: object) -> Json:
    return obj(_API, "DeviceClass", "gpu", spec=spec)


def _slice(*devices: Fields, node_name: str = "a", where: Fields | None = None) -> Json:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return obj(
        _API,
        "ResourceSlice",
        f"slice-{node_name}",
        spec={
            "driver": _DRIVER,
            "pool": pool,
            "devices": [*devices],
            **(where or {"nodeName": node_name}),
        },
    )


def _device(number: int, **fields: object) -> Json:
    return {"name": f"gpu-{number}", **fields}


def _claim(name: str, request: Fields, **spec: object) -> Json:
    return obj(
        _API,
        "ResourceClaim",
        name,
        namespace="default",
        spec={"devices": {"requests": [{"name": "r", **request}], **spec}},
    )


def _exactly(**fields: object) -> Json:
    return {"exactly": {"deviceClassName": "gpu", **fields}}


def _request(rng: random.Random, *, count: int = 1) -> Json:
    """Draw one of the forms of a request for some devices."""
    selector = [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]
    absent = [{"cel": {"expression": "device.driver == 'none.example.com'"}}]
    first = {"name": "none", "deviceClassName": "gpu", "selectors": absent}
    return rng.choice(
        [
            _exactly(count=count),
            _exactly(count=count, selectors=selector),
            {"firstAvailable": [first, {"name": "some", "deviceClassName": "gpu", "count": count}]},
        ]
    )


def _uses(name: str) -> Json:
    return {"spec": {"resourceClaims": [{"name": "d", "resourceClaimName": name}]}}


def _freed(name: str, claim: str) -> dict[str, Remedy]:
    """Return the remedies by which a claim gives its devices back; controllers do the last step."""
    subject = ref(_claim(claim, {}))
    free = {"update_status": {**subject, "status": {"reservedFor": None, "allocation": None}}}
    unreserve = {"update_status": {**subject, "status": {"reservedFor": None}}}
    end = {"delete": {"pod": name}}
    return {
        "claim is deallocated": remedy(end, free),
        "claim is deallocated later": remedy(end, unreserve, {"advance": "1s"}, free),
        "claim is deleted": remedy(end, free, {"delete": subject}),
    }


_SETTLED: Final[Json] = {"wait_until_settled": None}


@reason("DynamicResources", "")
def claim_is_missing(rng: random.Random) -> Sketch:
    """The claim of the waiter does not exist."""
    claim = _claim("c", _request(rng))
    return Sketch(
        cluster=[node("a"), _class(), _slice(_device(0))],
        waiter=_uses("c"),
        remedies={"claim is added": remedy(create(claim))},
    )


@reason("DynamicResources", "")
def claim_is_not_generated(rng: random.Random) -> Sketch:
    """The claim of the waiter is to be made from a template, by a controller."""
    template = {"metadata": {}, "spec": {"devices": {"requests": [{"name": "r", **_request(rng)}]}}}
    claim = _claim("c", _request(rng))
    named = {"resourceClaimStatuses": [{"name": "d", "resourceClaimName": "c"}]}
    status = {"update_status": {"pod": "waiter", "status": named}}
    made = obj(
        _API,
        "ResourceClaimTemplate",
        "t",
        namespace="default",
        spec=template["spec"] and {"spec": template["spec"]},
    )
    uses = {"spec": {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "t"}]}}
    plain = {**_uses("c")}
    return Sketch(
        cluster=[node("a"), _class(), _slice(_device(0)), made],
        waiter=uses,
        remedies={
            "claim is added and named": remedy(
                {"create": [{**claim, "controlled_by": "waiter"}]}, status, **plain
            )
        },
    )


@reason("DynamicResources", "")
def class_is_missing(rng: random.Random) -> Sketch:
    """The device class does not exist, or selects no device."""
    claim = _claim("c", _request(rng))
    none = _class(selectors=[{"cel": {"expression": "device.driver == 'none'"}}])
    is_there = rng.random() < 0.5
    change = patch(ref(none), {"spec": {"selectors": None}}) if is_there else create(_class())
    return Sketch(
        cluster=[node("a"), *([none] if is_there else []), _slice(_device(0)), claim],
        waiter=_uses("c"),
        remedies={"class comes or changes": remedy(change)},
    )


@reason("DynamicResources", "cannot allocate all claims")
def no_devices(rng: random.Random) -> Sketch:
    """There are too few devices."""
    count = rng.choice([1, 2])
    request = _request(rng, count=count)
    there: Sequence[Json] = [_slice(_device(0))] if count == 2 else []
    enough = [_device(n) for n in range(2)]
    subject = ref(_slice())
    pool = {"name": "a", "generation": 2, "resourceSliceCount": 1}
    grows = (
        patch(subject, {"spec": {"devices": enough, "pool": pool}})
        if there
        else create(_slice(*enough))
    )
    same = patch(subject, {"spec": {"devices": enough}}) if there else create(_slice(*enough))
    return Sketch(
        cluster=[node("a", labels={"rack": "0"}), _class(), *there, _claim("c", request)],
        waiter=_uses("c"),
        remedies={
            "slice comes or grows": remedy(grows),
            "slice grows in its generation": remedy(same),
            "slice is replaced": remedy(
                *([{"delete": subject}] if there else []), create(_slice(*enough))
            ),
            "node with devices is added": remedy(create(node("b"), _slice(*enough, node_name="b"))),
            "devices come before their node": remedy(
                create(_slice(*enough, node_name="b"), node("b"))
            ),
            "claim is replaced": remedy(
                *([] if there else [create(_slice(_device(0)))]),
                {"delete": ref(_claim("c", {}))},
                create(_claim("c", _exactly())),
            ),
        },
    )


@reason("DynamicResources", "cannot allocate all claims")
def devices_of_selected_nodes(rng: random.Random) -> Sketch:
    """The devices are for nodes with a label that the node does not have."""
    rule = {"key": "rack", "operator": "In", "values": ["1"]}
    where: Json = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    return Sketch(
        cluster=[node("a"), _class(), _slice(_device(0), where=where), _claim("c", _request(rng))],
        waiter=_uses("c"),
        remedies={
            "node gets the label": remedy(label({"node": "a"}, rack="1")),
            "node is added": remedy(create(node("b", labels={"rack": "1"}))),
            "devices are for all nodes": remedy(
                {"delete": ref(_slice())}, create(_slice(_device(0), where={"allNodes": True}))
            ),
        },
    )


@reason("DynamicResources", "cannot allocate all claims")
def devices_are_taken(rng: random.Random) -> Sketch:
    """Another pod's claim has the devices."""
    pods = [pod("user", **_uses("taken"))]
    freed = _freed("user", "taken")
    return Sketch(
        cluster=[
            node("a"),
            _class(),
            _slice(_device(0)),
            _claim("taken", _exactly()),
            _claim("c", _request(rng)),
        ],
        before=[create(*pods), _SETTLED],
        waiter=_uses("c"),
        remedies={
            **freed,
            "devices are added": remedy(
                patch(ref(_slice()), {"spec": {"devices": [_device(0), _device(1)]}})
            ),
            "node with devices is added": remedy(
                create(node("b"), _slice(_device(0), node_name="b"))
            ),
        },
    )


@reason("DynamicResources", "")
def claim_is_on_another_node(rng: random.Random) -> Sketch:
    """The claim, which pods share, is allocated on a node where the waiter cannot run."""
    del rng
    end = {"delete": {"pod": "user"}}
    subject = ref(_claim("c", {}))
    free = {"update_status": {**subject, "status": {"reservedFor": None, "allocation": None}}}
    return Sketch(
        cluster=[
            node("a", pods=1),
            node("b"),
            _class(),
            _slice(_device(0)),
            _slice(_device(0), node_name="b"),
            _claim("c", _exactly()),
        ],
        before=[
            create(pod("user", node_selector={"kubernetes.io/hostname": "a"}, **_uses("c"))),
            _SETTLED,
        ],
        waiter=_uses("c"),
        remedies={
            "user of the claim ends": remedy(
                end, {"update_status": {**subject, "status": {"reservedFor": None}}}
            ),
            "claim is deallocated": remedy(end, free),
            "room on its node": remedy(
                {"update_status": {"node": "a", "status": {"allocatable": {"pods": "9"}}}}
            ),
        },
    )


@reason("DynamicResources", "cannot allocate all claims")
def device_has_a_taint(rng: random.Random) -> Sketch:
    """The device has a taint that the claim does not tolerate."""
    taints = [{"key": "broken", "effect": rng.choice(["NoSchedule", "NoExecute"])}]
    free = [_device(0)]
    return Sketch(
        cluster=[
            node("a"),
            _class(),
            _slice(_device(0, taints=taints)),
            _claim("c", _request(rng)),
        ],
        waiter=_uses("c"),
        remedies={
            "taint is removed": remedy(patch(ref(_slice()), {"spec": {"devices": free}})),
            "device without taint is added": remedy(
                create(node("b"), _slice(_device(0), node_name="b"))
            ),
        },
    )


@reason("DynamicResources", "cannot allocate all claims", GATES)
def counters_are_used(rng: random.Random) -> Sketch:
    """A part of the device is taken, so the counters do not suffice for the whole."""
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    counters = obj(
        _API,
        "ResourceSlice",
        "counters",
        spec={
            "driver": _DRIVER,
            "nodeName": "a",
            "pool": pool,
            "sharedCounters": [{"name": "g", "counters": {"m": {"value": "4"}}}],
        },
    )
    parts = [
        {
            "name": name,
            "attributes": {"size": {"int": size}},
            "consumesCounters": [{"counterSet": "g", "counters": {"m": {"value": str(size)}}}],
        }
        for name, size in (("whole", 4), ("half-0", 2), ("half-1", 2))
    ]
    devices = obj(
        _API,
        "ResourceSlice",
        "parts",
        spec={"driver": _DRIVER, "nodeName": "a", "pool": pool, "devices": parts},
    )
    half, whole = (
        _exactly(
            selectors=[{"cel": {"expression": f"device.attributes['{_DRIVER}'].size == {size}"}}]
        )
        for size in (2, 4)
    )
    first, second = (whole, half) if rng.random() < 0.5 else (half, whole)
    return Sketch(
        cluster=[
            node("a"),
            _class(),
            counters,
            devices,
            _claim("taken", first),
            _claim("c", second),
        ],
        before=[create(pod("user", **_uses("taken"))), _SETTLED],
        waiter=_uses("c"),
        remedies=_freed("user", "taken"),
    )


@reason("DynamicResources", "")
def device_is_being_attached(rng: random.Random) -> Sketch:
    """The binding waits for the conditions of the device."""
    subject = ref(_claim("c", {}))
    device = _device(0, bindingConditions=["attached"], bindingFailureConditions=["broken"])
    ready: Json = {"type": "attached", "status": "True", "reason": "Ready", "message": ""}
    shown = {"driver": _DRIVER, "pool": "a", "device": "gpu-0", "conditions": [ready]}
    return Sketch(
        cluster=[node("a"), _class(), _slice(device), _claim("c", _request(rng))],
        waiter=_uses("c"),
        remedies={
            "device is attached": remedy(
                {"advance": "1s"},
                {"update_status": {**subject, "status": {"devices": [shown]}}},
                {"advance": "6s"},
            ),
        },
    )


@reason("NodeResourcesFit", "")
def extended_resource(rng: random.Random) -> Sketch:
    """An extended resource is to come from devices, and class, devices or room are missing."""
    has_class, has_slice = rng.choice([(False, True), (True, False)])
    known = _class(extendedResourceName="example.com/gpu")
    steps = [] if has_class else [create(known)]
    steps += [] if has_slice else [create(_slice(_device(0)))]
    return Sketch(
        cluster=[
            node("a"),
            *([known] if has_class else []),
            *([_slice(_device(0))] if has_slice else []),
        ],
        waiter={"resources": {"example.com/gpu": "1"}},
        remedies={
            "class or devices come": remedy(*steps),
            "node has the resource": remedy(create(node("b", resources={"example.com/gpu": "1"}))),
        },
    )
