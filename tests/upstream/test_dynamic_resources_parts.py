"""Tables of the parts of `dynamicresources`: claims in flight, scores, extended resources."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from scheduler.api.core import ContainerExtendedResourceRequest, PodResourceClaim
from scheduler.api.dynamic_resources import (
    ClaimError,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    claim_referenced_by,
)
from scheduler.api.pod_groups import PodGroup
from scheduler.api.quantity import parse_quantity
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.devices.claims import ClaimTracker
from scheduler.devices.classes import DeviceClassResolver
from scheduler.devices.pools import DeviceId, NodePools
from scheduler.devices.requests import ChosenDevice, ClaimAllocation, Request
from scheduler.framework import CycleState
from scheduler.plugins.dynamic_resources.claim_owners import (
    WORKLOAD_CLAIMS,
    ClaimOwners,
    claim_of_group,
)
from scheduler.plugins.dynamic_resources.extended_resources import extended_requests
from scheduler.plugins.dynamic_resources.scoring import (
    AllocationsError,
    scores,
    scores_of_new_claims,
)
from scheduler.plugins.dynamic_resources.state import (
    ClaimState,
    NodeAllocation,
    NodeAllocations,
    StateData,
)
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.devices import ALLOCATION, dynamic_resources, lister, make_claim
from tests.upstream.loading import Case, Fields, api_object, cases, feature_gates, pod


@pytest.mark.parametrize("case", cases("dynamic_resources", "extended_resources"))
def test_extended_resources(case: Case) -> None:
    found = extended_requests(pod(case["pod"]), case["resources"], case["classes"].get)
    if "requests" in case.fields:
        assert [*found.requests] == [api_object(DeviceRequest, each) for each in case["requests"]]
        return
    mappings = sorted(found.mappings, key=lambda each: (each.request_name, each.container_name))
    expected = [api_object(ContainerExtendedResourceRequest, each) for each in case["mappings"]]
    assert mappings == expected


@pytest.mark.parametrize("case", cases("dynamic_resources", "scores"))
def test_allocations_get_upstreams_scores(case: Case) -> None:
    claims = [api_object(ResourceClaim, each) for each in case["claims"]]
    without = [claim for claim in claims if claim.status.allocation is None]
    found = [
        ClaimAllocation(claim, [_chosen(claim, name) for name in names], ())
        for claim, names in zip(without, case["chosen"], strict=True)
    ]
    node = make_node("n")
    nodes, pools = snapshot_of([node]).nodes, NodePools(node, [])
    allocations = NodeAllocations(
        nodes, np.array([0]), [NodeAllocation(pools, found, None, ())], lambda position: pools
    )
    data = StateData(list(map(ClaimState, claims)), node_allocations=[allocations])
    assert scores(data, nodes).tolist() == [case["score"]]
    # 1.35 knows no claims that have devices already.
    if without == claims:
        assert scores_of_new_claims(data, nodes).tolist() == [case["score"]]
    else:
        with pytest.raises(AllocationsError, match="is smaller than number of claims"):
            scores_of_new_claims(data, nodes)


def _chosen(claim: ResourceClaim, name: str) -> ChosenDevice:
    parent, slash, subrequest = name.partition("/")
    device_class = api_object(DeviceClass, {"metadata": {"name": "class"}})
    if slash:
        request = Request(claim, subrequest, parent, DeviceSubRequest(subrequest), device_class)
    else:
        request = Request(claim, name, "", ExactDeviceRequest(), device_class)
    return ChosenDevice(request, 0, None)


@pytest.mark.parametrize("case", cases("dynamic_resources", "normalized_scores"))
def test_normalized_scores(case: Case) -> None:
    scores = np.array(case["scores"], dtype=np.int64)
    found = dynamic_resources().normalize_score(CycleState(), PodInfo(make_pod()), scores)
    assert found.tolist() == case["normalized"]


@pytest.mark.parametrize("case", cases("dynamic_resources", "allocated_state"))
def test_allocated_state(case: Case) -> None:
    written, in_flight = (
        [api_object(ResourceClaim, value) for value in case[name]]
        for name in ("claims", "in_flight")
    )
    handle = FakeHandle(
        listers={"resourceclaims": lister(written)}, feature_gates=feature_gates(case)
    )
    tracker = ClaimTracker(handle)
    for claim in in_flight:
        tracker.signal_pending_allocation(claim.metadata.uid, claim)
    state, shared = tracker.allocated, _device("shared-instance")
    names = ("instance-1", "shared-instance")
    assert [name for name in names if state.has_device(_device(name))] == case["whole"]
    shares = len(tracker._devices.shares) + len(tracker._in_flight.shares)
    assert shares == case["shared_count"]
    assert state.is_shared(shared) == (case["shared_count"] > 0)
    assert state.capacity(shared).get("my-cap", 0) == parse_quantity(case["capacity"])


def _device(name: str) -> DeviceId:
    return DeviceId("some-driver", "worker", name)


@pytest.mark.parametrize("case", cases("dynamic_resources", "pending_allocations"))
def test_pending_allocations(case: Case) -> None:
    tracker = ClaimTracker(FakeHandle(listers={"resourceclaims": lister(())}))
    claim = make_claim(allocation=ALLOCATION)
    for uid, count in case["pending"].items():
        for _ in range(count):
            tracker.signal_pending_allocation(uid, claim)
    if "signal" in case.fields:
        tracker.signal_pending_allocation(case["signal"], claim)
    if "remove" in case.fields:
        removed = tracker.remove_pending_allocation(case["remove"], force=case["force"])
        assert removed is case["removed"]
    for uid in ("uid-1", "uid-2"):
        expected = ALLOCATION if uid in case["after"] else None
        assert tracker.pending_allocation(uid) == expected
        assert _sharers(tracker, uid) == case["after"].get(uid, 0)


def _sharers(tracker: ClaimTracker, uid: str) -> int:
    """Return the number of pods that wait for a claim; it is no longer pending then."""
    if tracker.pending_allocation(uid) is None:
        return 0
    count = 1
    while not tracker.remove_pending_allocation(uid, force=False):
        count += 1
    return count


@pytest.mark.parametrize("case", cases("dynamic_resources", "device_classes"))
def test_device_classes(case: Case) -> None:
    store = lister(())
    resolver = DeviceClassResolver(FakeHandle(listers={"deviceclasses": store}))
    for step in case["steps"]:
        if "put" in step:
            store.put(api_object(DeviceClass, step["put"]))
        else:
            store.remove(step["remove"])
        for resource, name in step["classes"].items():
            found = resolver.device_class(resource)
            assert (found.metadata.name if found is not None else None) == name


@pytest.mark.parametrize("case", cases("dynamic_resources", "claim_names"))
def test_claim_names(case: Case) -> None:
    statuses = [case["status"]] if "status" in case.fields else []
    metadata = {"name": "test-pod", "namespace": "default"}
    waiting = pod({"metadata": metadata, "status": {"resourceClaimStatuses": statuses}})
    entry = api_object(PodResourceClaim, case["entry"])
    if "error" in case.fields:
        with pytest.raises(ClaimError, match=f"^{re.escape(case['error'])}$"):
            claim_referenced_by(waiting, entry)
    else:
        assert claim_referenced_by(waiting, entry) == tuple(case["claim"])


def _group(name: str, *entries: Fields, statuses: Sequence[Fields] = ()) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "uid": "podgroup-uid"}
    value = {
        "metadata": metadata,
        "spec": {"resourceClaims": entries},
        "status": {"resourceClaimStatuses": statuses},
    }
    return api_object(PodGroup, value)


@pytest.mark.parametrize("case", cases("dynamic_resources", "group_claim_names"))
def test_claim_names_of_groups(case: Case) -> None:
    statuses = [case["status"]] if "status" in case.fields else []
    group = _group("test-podgroup", statuses=statuses)
    entry = api_object(PodResourceClaim, case["entry"])
    if "error" in case.fields:
        with pytest.raises(ClaimError, match=f"^{re.escape(case['error'])}$"):
            claim_of_group(group, entry)
    else:
        assert claim_of_group(group, entry) == tuple(case["claim"])


@pytest.mark.parametrize("case", cases("dynamic_resources", "claim_users"))
def test_users_of_claims(case: Case) -> None:
    groups = [_group("my-podgroup", *case["group"])] if "group" in case.fields else []
    metadata = {"name": "my-pod", "namespace": "default", "uid": "pod-uid"}
    spec = {"schedulingGroup": {"podGroupName": "my-podgroup"}} if groups else {}
    gates = DEFAULT_FEATURE_GATES | {WORKLOAD_CLAIMS}
    owners = ClaimOwners(FakeHandle(listers={"podgroups": lister(groups)}, feature_gates=gates))
    entry = api_object(PodResourceClaim, case["entry"])
    user = owners.user(pod({"metadata": metadata, "spec": spec}), entry)
    assert [user.resource, user.name, user.uid] == case["user"]
