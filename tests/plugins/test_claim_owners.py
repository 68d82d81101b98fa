"""Owners and users of claims that a pod and its group name."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.api.core import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGroup,
)
from scheduler.api.dynamic_resources import (
    ClaimError,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from scheduler.api.pod_groups import PodGroup, PodGroupSpec, PodGroupStatus
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.framework import CycleState, NodeToStatus
from scheduler.plugins.dynamic_resources.claim_owners import WORKLOAD_CLAIMS, ClaimOwners
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.state import STATE, ClaimState, StateData
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from tests.plugins.devices import ALLOCATION, by_name, by_template, lister, make_claim

GATES = DEFAULT_FEATURE_GATES | {WORKLOAD_CLAIMS}


def member(group: str | None = "g") -> Pod:
    pod = make_pod(uid="pod-uid")
    of_group = PodSchedulingGroup(group) if group is not None else None
    return replace(pod, spec=replace(pod.spec, scheduling_group=of_group))


def group_with(
    *claims: PodResourceClaim, statuses: Sequence[PodResourceClaimStatus] = ()
) -> PodGroup:
    return PodGroup(
        ObjectMeta(name="g", namespace="default", uid="group-uid"),
        PodGroupSpec(resource_claims=claims),
        PodGroupStatus(resource_claim_statuses=tuple(statuses)),
    )


def owners(
    *claims: PodResourceClaim,
    statuses: Sequence[PodResourceClaimStatus] = (),
    scheduled: int | None = None,
) -> ClaimOwners:
    """The owners in a cluster with one pod group, which names these claims."""
    group = group_with(*claims, statuses=statuses)
    handle = FakeHandle(listers={"podgroups": lister([group])}, feature_gates=GATES)
    if scheduled is not None:
        state = SimpleNamespace(scheduled_pods_count=scheduled)
        handle.pod_groups["default/g"] = cast("Any", state)
    return ClaimOwners(handle)


@pytest.mark.parametrize(
    ("pod", "entry", "user"),
    [
        (member(), by_name(), ("podgroups", "g", "group-uid")),
        (member(), by_name(entry="own"), ("pods", "pod", "pod-uid")),
        (member(None), by_name(), ("pods", "pod", "pod-uid")),
        (member(), None, ("pods", "pod", "pod-uid")),
    ],
)
def test_the_user_of_a_claim_that_the_group_names_is_the_group(
    pod: Pod, entry: PodResourceClaim | None, user: tuple[str, str, str]
) -> None:
    found = owners(by_name()).user(pod, entry)
    assert (found.resource, found.name, found.uid) == user


@pytest.mark.parametrize(
    ("pod", "claims", "problem"),
    [
        (member("nosuch"), [], 'podgroup.scheduling.k8s.io "nosuch" not found'),
        (
            member(),
            [PodResourceClaim(name="odd")],
            "PodGroup default/g claim odd: none of the supported fields are set",
        ),
    ],
)
def test_a_group_that_cannot_be_read_is_an_error(
    pod: Pod, claims: list[PodResourceClaim], problem: str
) -> None:
    with pytest.raises(ClaimError) as failure:
        owners(*claims).user(pod, by_name())
    assert str(failure.value) == problem


def owned(kind: str, name: str, uid: str, version: str) -> ResourceClaim:
    claim = make_claim()
    owner = OwnerReference(kind=kind, name=name, uid=uid, controller=True, api_version=version)
    return replace(claim, metadata=replace(claim.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("claim", "pod", "is_for_pod"),
    [
        (owned("Pod", "pod", "pod-uid", "v1"), member(), True),
        (owned("Pod", "pod", "pod-uid", "v1"), member(None), True),
        (owned("PodGroup", "g", "group-uid", "scheduling.k8s.io/v1alpha2"), member(), True),
        (owned("PodGroup", "g", "group-uid", "example.com/v1"), member(), False),
        (owned("PodGroup", "other", "u", "scheduling.k8s.io/v1alpha2"), member(), False),
        (owned("PodGroup", "", "u", "scheduling.k8s.io/v1alpha2"), member(None), False),
        (make_claim(), member(), False),
    ],
)
def test_a_claim_is_for_a_pod_if_the_pod_or_its_group_is_the_controller(
    claim: ResourceClaim, pod: Pod, is_for_pod: bool
) -> None:
    if is_for_pod:
        owners().ensure_is_for_pod(pod, claim)
        return
    with pytest.raises(ClaimError, match="was not created for Pod default/pod"):
        owners().ensure_is_for_pod(pod, claim)


@pytest.mark.parametrize(
    ("group", "scheduled", "statuses", "released"),
    [
        ("g", 0, {"devices": "made"}, ["claim", "made"]),
        ("g", None, {"devices": "made"}, ["claim", "made"]),
        # A template may make no claim.
        ("g", 0, {"others": "made", "devices": None}, ["claim"]),
        ("g", 1, {"devices": "made"}, []),
        (None, 0, {"devices": "made"}, []),
    ],
)
def test_claims_are_released_by_a_group_without_members_on_nodes(
    group: str | None,
    scheduled: int | None,
    statuses: dict[str, str | None],
    released: list[str],
) -> None:
    made = [PodResourceClaimStatus(name=n, resource_claim_name=c) for n, c in statuses.items()]
    named = owners(by_name(entry="x"), by_template(), statuses=made, scheduled=scheduled)
    found = [(reference.name, uid) for reference, uid in named.claims_to_release(member(group))]
    assert found == [(name, "group-uid") for name in released]


def test_claims_are_released_up_to_the_first_that_is_not_yet_made() -> None:
    claims = owners(by_name(entry="x"), by_template()).claims_to_release(member())
    assert next(claims) == (("claim", False), "group-uid")
    with pytest.raises(ClaimError, match="PodGroup default/g: ResourceClaim not created yet"):
        next(claims)


@pytest.mark.parametrize(("owner", "is_released"), [("group-uid", True), ("other", False)])
async def test_a_claim_from_a_template_is_released_if_the_group_is_its_owner(
    owner: str, *, is_released: bool
) -> None:
    user = ResourceClaimConsumerReference("scheduling.k8s.io", "podgroups", "g", "group-uid")
    claim = owned("PodGroup", "g", owner, "scheduling.k8s.io/v1alpha2")
    status = ResourceClaimStatus(allocation=ALLOCATION, reserved_for=(user,))
    claim = replace(claim, status=status)
    made = PodResourceClaimStatus(name="devices", resource_claim_name="claim")
    handle = FakeHandle(
        listers={
            "resourceclaims": lister([claim]),
            "podgroups": lister([group_with(by_template(), statuses=[made])]),
        },
        feature_gates=GATES,
    )
    plugin = Registry([DynamicResources]).create("DynamicResources", None, handle)
    assert isinstance(plugin, DynamicResources)
    state = CycleState()
    state.write(STATE, StateData([ClaimState(claim)]))
    await plugin.post_filter(state, PodInfo(member()), NodeToStatus((), {}))
    written = [verb for verb, _ in handle.api.resource_claims.written]
    assert written == (["release"] if is_released else [])
