"""The rules of devices: what a claim can get on a node, and which claims a bound pod may use."""

from collections import Counter
from collections.abc import Sequence

import pytest

from conformance.api import Json
from conformance.format.resources import NANO, part
from conformance.invariants import devices as rules
from conformance.invariants.devices import Device, Devices, Taken, Unjudged, held_claims
from conformance.invariants.state import State

_DRIVER = "gpu.example.com"
_NODE: Json = {"metadata": {"name": "a"}}
_NOT_JUDGED = "its claims or the devices have forms that are not judged"
_NO_CHOICE = "no choice of devices of the node meets its claims"
_MISSING = "a claim of it does not exist"
_OTHER_NODES: Json = {
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
        ]
    }
}


def _claim(*requests: Json, status: Json | None = None, **metadata: object) -> Json:
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default", **metadata},
        "spec": {"devices": {"requests": [*requests]}},
        "status": status or {},
    }


def _exactly(**fields: object) -> Json:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}


def _selecting(expression: str) -> Json:
    return _exactly(selectors=[{"cel": {"expression": expression}}])


def _slice(*devices: Json, slices: int = 1) -> Json:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": _DRIVER,
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": slices},
            "devices": [*devices],
        },
    }


def _class(**spec: object) -> Json:
    return {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def _state(*objects: Json) -> State:
    keyed: dict[tuple[str, str, str], Json] = {}
    for each in objects:
        metadata = each["metadata"]
        assert isinstance(metadata, dict)
        key = str(each["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])
        keyed[key] = each
    return State(nodes={"a": _NODE}, others=keyed)


def _pod(**spec: object) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}], **spec},
    }


def _shared(value: str, **capacity: object) -> Json:
    """A device whose memory several claims share."""
    memory = {"value": value, **capacity}
    return {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": memory}}


def _asks(memory: str | None) -> Json:
    return _exactly(**({"capacity": {"requests": {"memory": memory}}} if memory else {}))


@pytest.mark.parametrize(
    ("devices", "request_", "reason"),
    [
        ([{"name": "gpu-0"}], _exactly(), None),
        ([], _exactly(), _NO_CHOICE),
        ([{"name": "gpu-0"}], _exactly(count=2), _NO_CHOICE),
        ([{"name": "gpu-0"}], _exactly(deviceClassName="missing"), _NO_CHOICE),
        ([{"name": "gpu-0", "new-field": 1}], _exactly(), _NOT_JUDGED),
        # Attributes.
        (
            [{"name": "gpu-0", "attributes": {"size": {"int": 2}}}],
            _selecting(f"device.attributes['{_DRIVER}'].size == 2"),
            None,
        ),
        (
            [{"name": "gpu-0", "attributes": {"size": {"int": 1}}}],
            _selecting(f"device.attributes['{_DRIVER}'].size == 2"),
            _NO_CHOICE,
        ),
        (
            [{"name": "gpu-0"}],
            _selecting(f"device.attributes['{_DRIVER}'].size == 2"),
            _NOT_JUDGED,
        ),
        ([{"name": "gpu-0"}], _selecting("device.driver.startsWith('gpu')"), _NOT_JUDGED),
        # Capacity.
        ([_shared("4")], _asks("4"), None),
        ([_shared("4")], _asks("5"), _NO_CHOICE),
        ([{"name": "gpu-0"}], _asks("1"), _NO_CHOICE),
        # All devices that match.
        ([{"name": "gpu-0"}, {"name": "gpu-1"}], _exactly(allocationMode="All"), None),
        ([], _exactly(allocationMode="All"), _NO_CHOICE),
        ([_shared("4")], _exactly(allocationMode="All"), _NOT_JUDGED),
    ],
)
def test_a_claim_gets_devices_of_the_node(
    devices: Sequence[Json], request_: Json, reason: str | None
) -> None:
    state = _state(_class(), _slice(*devices), _claim(request_))
    assert rules.devices(_pod(), _NODE, state) == reason


_ELSEWHERE: Json = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
_HERE: Json = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"nodeName": "a"}, None),
        ({"nodeName": "b"}, _NO_CHOICE),
        ({"nodeName": "", "allNodes": True}, None),
        ({"nodeName": "", "allNodes": False}, _NO_CHOICE),
        ({"nodeName": "", "nodeSelector": {"nodeSelectorTerms": [_HERE]}}, None),
        ({"nodeName": "", "nodeSelector": {"nodeSelectorTerms": [_ELSEWHERE]}}, _NO_CHOICE),
        # The place of each device counts, and this one has none.
        ({"nodeName": "", "allNodes": True, "perDeviceNodeSelection": True}, _NO_CHOICE),
    ],
)
def test_a_device_is_reachable_from_the_nodes_of_its_slice(where: Json, reason: str | None) -> None:
    slice_ = _slice({"name": "gpu-0"})
    assert isinstance(slice_["spec"], dict)
    slice_["spec"] |= where
    state = _state(_class(), slice_, _claim(_exactly()))
    assert rules.devices(_pod(), _NODE, state) == reason


@pytest.mark.parametrize(
    ("sizes", "rule", "reason"),
    [
        ([1, 1], "matchAttribute", None),
        ([1, 2], "matchAttribute", _NO_CHOICE),
        ([1, 2], "distinctAttribute", None),
        ([1, 1], "distinctAttribute", _NO_CHOICE),
        # A device without the attribute meets neither.
        ([1, None], "distinctAttribute", _NO_CHOICE),
        ([None, None], "matchAttribute", _NO_CHOICE),
    ],
)
def test_the_devices_of_a_claim_meet_its_constraints(
    sizes: Sequence[int | None], rule: str, reason: str | None
) -> None:
    some = [
        {"name": f"gpu-{number}", "attributes": {"size": {"int": size}} if size else {}}
        for number, size in enumerate(sizes)
    ]
    claim = _claim()
    constraints = [{rule: f"{_DRIVER}/size"}]
    claim["spec"] = {"devices": {"requests": [_exactly(count=2)], "constraints": constraints}}
    assert rules.devices(_pod(), _NODE, _state(_class(), _slice(*some), claim)) == reason


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], _MISSING),
        (
            [_claim(_exactly(), deletionTimestamp="2026-01-01T00:00:00Z")],
            "its claim c is being deleted",
        ),
        (
            [_claim(_exactly(), status={"allocation": _OTHER_NODES})],
            "its claim c is allocated for other nodes",
        ),
        (
            [_claim(_exactly()), {"kind": "DeviceTaintRule", "metadata": {"name": "t"}}],
            _NOT_JUDGED,
        ),
    ],
)
def test_a_claim_is_judged_by_its_state(objects: Sequence[Json], reason: str) -> None:
    state = _state(_class(), _slice({"name": "gpu-0"}), *objects)
    assert rules.devices(_pod(), _NODE, state) == reason


@pytest.mark.parametrize("request_", [_exactly(), _exactly(allocationMode="All")])
def test_a_pool_without_all_its_slices_gives_no_devices(request_: Json) -> None:
    state = _state(_class(), _slice({"name": "gpu-0"}, slices=2), _claim(request_))
    assert rules.devices(_pod(), _NODE, state) == _NO_CHOICE


def test_a_pool_of_another_node_without_all_its_slices_is_no_obstacle() -> None:
    other = _slice({"name": "gpu-0"}, slices=2)
    pool = {"name": "b", "generation": 1, "resourceSliceCount": 2}
    other |= {"metadata": {"name": "t"}, "spec": {**part(other, "spec"), "nodeName": "b"}}
    part(other, "spec")["pool"] = pool
    wants = _claim(_exactly(allocationMode="All"))
    state = _state(_class(), _slice({"name": "gpu-0"}), other, wants)
    assert rules.devices(_pod(), _NODE, state) is None


@pytest.mark.parametrize(
    ("name", "reason"), [(f"{_DRIVER}/memory", None), ("nic.example.com/memory", _NO_CHOICE)]
)
def test_a_capacity_has_the_domain_of_its_driver(name: str, reason: str | None) -> None:
    wants = _claim(_exactly(capacity={"requests": {name: "2"}}))
    state = _state(_class(), _slice(_shared("4")), wants)
    assert rules.devices(_pod(), _NODE, state) == reason


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("gpu-0", "gpu-1"), None),
        (("gpu-0",), "its claim c has some devices of those that it wants all of"),
    ],
)
def test_a_claim_of_all_devices_has_all(names: Sequence[str], reason: str | None) -> None:
    results = [{"driver": _DRIVER, "pool": "a", "device": name, "request": "r"} for name in names]
    status: Json = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "p"}]}
    wants = _claim(_exactly(allocationMode="All"), status=status)
    state = _state(_class(), _slice({"name": "gpu-0"}, {"name": "gpu-1"}), wants)
    assert held_claims(_pod(), _NODE, state) == reason


def test_resources_that_devices_may_provide_are_not_judged() -> None:
    pod = _pod(containers=[{"resources": {"requests": {"example.com/gpu": "1"}}}])
    state = _state(_class(extendedResourceName="example.com/gpu"))
    expected = "its resources may come from devices, which is not judged"
    assert rules.devices(pod, _NODE, state) == expected


def test_a_template_that_makes_no_claim_is_no_obstacle() -> None:
    pod = _pod(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])
    assert rules.devices(pod, _NODE, _state(_class())) == _MISSING
    known: Json = {**pod, "status": {"resourceClaimStatuses": [{"name": "c"}]}}
    assert rules.devices(known, _NODE, _state(_class())) is None


def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.invariants.devices._STEPS_MAX", 10)
    some = [{"name": f"gpu-{number}", "attributes": {}} for number in range(6)]
    claim = _claim(_exactly(count=3))
    different = [{"distinctAttribute": f"{_DRIVER}/size"}]
    claim["spec"] = {"devices": {"requests": [_exactly(count=3)], "constraints": different}}
    state = _state(_class(), _slice(*some), claim)
    assert rules.devices(_pod(), _NODE, state) == _NOT_JUDGED


@pytest.mark.parametrize(
    ("policy", "wanted", "taken"),
    [
        ({}, None, 8),
        ({}, "3", 3),
        ({"default": "2"}, None, 2),
        ({"validValues": ["2", "4"]}, "3", 4),
        ({"validValues": ["2", "4"]}, "5", None),
        ({"validRange": {"min": "2", "max": "6"}}, "1", 2),
        ({"validRange": {"min": "2", "max": "6"}}, "5", 5),
        ({"validRange": {"min": "2", "max": "6"}}, "6", 6),
        ({"validRange": {"min": "2", "max": "6"}}, "7", None),
        # In steps of 3 from the minimum: 1, 4, 7.
        ({"validRange": {"min": "1", "step": "3"}}, "2", 4),
        ({"validRange": {"min": "1", "step": "3"}}, "4", 4),
        ({"validRange": {"min": "1", "max": "6", "step": "3"}}, "5", None),
    ],
)
def test_a_claim_takes_capacity_by_the_policy(
    policy: Json, wanted: str | None, taken: int | None
) -> None:
    there = Devices(_state(_class(), _slice(_shared("8", requestPolicy=policy))))
    exactly = _asks(wanted)["exactly"]
    assert isinstance(exactly, dict)
    given = there.given(Device(_DRIVER, "a", "gpu-0"), exactly)
    amount = None if given is None else given.amounts["memory"] / NANO
    assert amount == taken


def test_parts_of_units_in_a_range_are_not_judged() -> None:
    there = Devices(
        _state(_class(), _slice(_shared("8", requestPolicy={"validRange": {"min": "1"}})))
    )
    with pytest.raises(Unjudged):
        there.given(Device(_DRIVER, "a", "gpu-0"), {"capacity": {"requests": {"memory": "500m"}}})


def test_claims_share_no_more_than_a_device_has() -> None:
    there = Devices(_state(_slice(_shared("8"))))
    half = Taken(device=Device(_DRIVER, "a", "gpu-0"), amounts=Counter({"memory": 4 * NANO}))
    assert there.conflict([half, half]) is None
    assert there.conflict([half, half, half]) == (
        f"more of the capacity memory of device {_DRIVER}/a/gpu-0 is allocated than it has"
    )


def test_a_device_without_a_slice_is_not_taken() -> None:
    results = [{"driver": _DRIVER, "pool": "a", "device": name} for name in ("gpu-0", "gone")]
    claim = _claim(status={"allocation": {"devices": {"results": results}}})
    there = Devices(_state(_slice({"name": "gpu-0"}), claim))
    assert there.taken == [Taken(device=Device(_DRIVER, "a", "gpu-0"))]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ([], _MISSING),
        ([_claim()], "its claim c is not allocated"),
        (
            [_claim(status={"allocation": _OTHER_NODES})],
            "its claim c is allocated for other nodes",
        ),
        (
            [_claim(status={"allocation": {"devices": {}}, "reservedFor": [{"uid": "q"}]})],
            "its claim c is not reserved for it",
        ),
        ([_claim(status={"allocation": {"devices": {}}, "reservedFor": [{"uid": "p"}]})], None),
    ],
)
def test_a_bound_pod_uses_claims_that_are_for_it(
    claims: Sequence[Json], reason: str | None
) -> None:
    assert held_claims(_pod(), _NODE, _state(*claims)) == reason
