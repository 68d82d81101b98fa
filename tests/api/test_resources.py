"""Requests of pods: upstream's `TestPodResourceRequests`, `TestPodLevelResourceRequests` and kin.

Containers are written as `(name, requests)`, sidecars with a `+` before the name.
"""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from scheduler.api import resources
from scheduler.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
    ResourceRequirements,
)
from scheduler.testing import make_pod

Requests = dict[str, str]
Named = tuple[str, Requests]


def _containers(*named: Named) -> list[Container]:
    return [
        Container(
            name=name.removeprefix("+"),
            resources=ResourceRequirements(requests=requests),
            restart_policy="Always" if name.startswith("+") else None,
        )
        for name, requests in named
    ]


def _pod(
    regular: Sequence[Named] = (),
    init: Sequence[Named] = (),
    *,
    whole: Requests | None = None,
    overhead: Requests | None = None,
) -> Pod:
    return make_pod(
        containers=_containers(*regular),
        init_containers=_containers(*init),
        resources=None if whole is None else ResourceRequirements(requests=whole),
        overhead=overhead,
    )


def _with_status(pod: Pod, status: PodStatus) -> Pod:
    return msgspec.structs.replace(pod, status=status)


def _counts(requests: Mapping[str, int]) -> dict[str, int]:
    """Milli-units throughout: enough for all requests of these tests."""
    return {name: nanos // 10**6 for name, nanos in requests.items()}


@pytest.mark.parametrize(
    ("pod", "milli"),
    [
        pytest.param(
            _pod(
                [("a", {"cpu": "1"})],
                [("+s", {"cpu": "1"}), ("i", {"cpu": "5"}), ("+t", {"cpu": "2"})],
            ),
            {"cpu": 6000},
            id="an init container needs what the sidecars before it hold",
        ),
        pytest.param(
            _pod(
                [("a", {"cpu": "1"})],
                [("i", {"cpu": "2"}), ("+s", {"cpu": "3"}), ("+t", {"cpu": "4"})],
            ),
            {"cpu": 8000},
            id="but not what those after it will",
        ),
        pytest.param(
            _pod(
                [("a", {"cpu": "1", "memory": "1", "example.com/gpu": "1"})],
                [("i", {"cpu": "9"})],
                whole={"cpu": "5", "hugepages-2Mi": "4", "example.com/gpu": "7"},
                overhead={"cpu": "1"},
            ),
            {"cpu": 6000, "memory": 1000, "hugepages-2Mi": 4000, "example.com/gpu": 1000},
            id="requests of the whole pod replace cpu, memory and huge pages, and nothing else",
        ),
        pytest.param(
            _pod([("a", {"cpu": "2"})], whole={"cpu": "0"}), {"cpu": 0}, id="even with nothing"
        ),
    ],
)  # fmt: skip
def test_a_pods_requests_are_added_up(pod: Pod, milli: dict[str, int]) -> None:
    assert _counts(resources.pod_requests(pod)) == milli


def test_requests_of_the_whole_pod_can_be_left_out() -> None:
    pod = _pod([("a", {"cpu": "1"})], whole={"cpu": "5"}, overhead={"cpu": "1"})
    assert _counts(resources.pod_requests(pod, use_pod_level=False)) == {"cpu": 2000}


def _status(name: str, actuated: Requests | None, allocated: Requests) -> ContainerStatus:
    given = None if actuated is None else ResourceRequirements(requests=actuated)
    return ContainerStatus(name=name, resources=given, allocated_resources=allocated)


INFEASIBLE = (PodCondition(type="PodResizePending", reason="Infeasible"),)
DEFERRED = (PodCondition(type="PodResizePending", reason="Deferred"),)


@pytest.mark.parametrize(
    ("spec", "actuated", "allocated", "conditions", "milli"),
    [
        ({"cpu": "4"}, {"cpu": "2"}, {"cpu": "2"}, (), {"cpu": 4000}),
        ({"cpu": "4"}, {"cpu": "2"}, {"cpu": "2"}, DEFERRED, {"cpu": 4000}),
        # An infeasible resize does not count, but the allocated resources do.
        ({"cpu": "6"}, {"cpu": "2"}, {"cpu": "4"}, INFEASIBLE, {"cpu": 4000}),
        ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1"}, (), {"cpu": 2000}),
        # The largest of the three, resource by resource.
        (
            {"cpu": "1", "memory": "2"},
            {"cpu": "2", "memory": "1"},
            {"cpu": "1", "memory": "3"},
            (),
            {"cpu": 2000, "memory": 3000},
        ),
        # Without actuated resources in the status, the spec alone counts.
        ({"cpu": "1"}, None, {"cpu": "4"}, (), {"cpu": 1000}),
        ({}, {"cpu": "2"}, {}, (), {"cpu": 2000}),
    ],
)
@pytest.mark.parametrize("kind", ["regular", "sidecar"])
def test_a_resized_container_counts_by_its_actual_and_allocated_resources(
    kind: str,
    spec: Requests,
    actuated: Requests | None,
    allocated: Requests,
    conditions: tuple[PodCondition, ...],
    milli: dict[str, int],
) -> None:
    statuses = (_status("c", actuated, allocated),)
    if kind == "regular":
        pod = _pod([("c", spec)])
        status = PodStatus(container_statuses=statuses, conditions=conditions)
    else:
        pod = _pod([], [("+c", spec)])
        status = PodStatus(init_container_statuses=statuses, conditions=conditions)
    resized = _with_status(pod, status)
    assert _counts(resources.pod_requests(resized, use_status=True)) == milli
    assert resources.pod_requests(resized) == resources.pod_requests(pod)


@pytest.mark.parametrize(
    ("containers", "status", "milli"),
    [
        (
            [("a", {"cpu": "9"}), ("b", {"cpu": "4"})],
            PodStatus(
                conditions=INFEASIBLE,
                container_statuses=(_status("a", {"cpu": "2"}, {"cpu": "3"}),),
            ),
            {"cpu": 3000},
        ),
        (
            [("a", {"cpu": "1"})],
            PodStatus(container_statuses=(_status("a", None, {"cpu": "4"}),)),
            {"cpu": 4000},
        ),
        (
            [("a", {"cpu": "1"})],
            PodStatus(
                resources=ResourceRequirements(requests={"cpu": "2", "memory": "5"}),
                allocated_resources={"cpu": "3"},
            ),
            {"cpu": 3000, "memory": 5000},
        ),
    ],
    ids=["infeasible", "allocated only", "of the whole pod"],
)
def test_sums_of_containers_are_compared_since_1_37(
    containers: list[Named], status: PodStatus, milli: dict[str, int]
) -> None:
    """The numbers are those of `PodRequests` in component-helpers 0.37.2."""
    pod = msgspec.structs.replace(_pod(containers), status=status, sums_resources=True)
    assert _counts(resources.pod_requests(pod, use_status=True)) == milli


def test_an_init_container_that_ends_is_never_resized() -> None:
    pod = _with_status(
        _pod([], [("i", {"cpu": "1"})]),
        PodStatus(init_container_statuses=(_status("i", {"cpu": "5"}, {"cpu": "5"}),)),
    )
    assert _counts(resources.pod_requests(pod, use_status=True)) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("conditions", "milli"),
    [((), {"cpu": 5000, "memory": 2000}), (INFEASIBLE, {"cpu": 3000, "memory": 0})],
)
def test_the_whole_pod_may_be_resized_too(
    conditions: tuple[PodCondition, ...], milli: dict[str, int]
) -> None:
    pod = _with_status(
        _pod([("a", {"cpu": "1"})], whole={"cpu": "5", "memory": "2"}),
        PodStatus(
            conditions=conditions,
            resources=ResourceRequirements(requests={"cpu": "2"}),
            allocated_resources={"cpu": "3", "ephemeral-storage": "1"},
        ),
    )
    assert _counts(resources.pod_requests(pod, use_status=True)) == milli


@pytest.mark.parametrize(
    ("pod", "milli"),
    [
        (_pod([("a", {}), ("b", {})]), {"cpu": 200, "memory": 2 * 209_715_200_000}),
        (_pod([("a", {"cpu": "0"})]), {"cpu": 0, "memory": 209_715_200_000}),
        (_pod([("a", {"cpu": "1"})], [("i", {})]), {"cpu": 1000, "memory": 209_715_200_000}),
        (_pod([("a", {})], [("+s", {})]), {"cpu": 200, "memory": 2 * 209_715_200_000}),
    ],
)
def test_containers_that_do_not_ask_can_be_given_defaults(pod: Pod, milli: dict[str, int]) -> None:
    requests = resources.pod_requests(pod, non_missing=resources.NON_ZERO_REQUESTS)
    assert _counts(requests) == milli


@pytest.mark.parametrize(
    ("whole", "is_set"),
    [
        (None, False),
        ({}, False),
        ({"cpu": "1"}, True),
        ({"memory": "1"}, True),
        ({"hugepages-1Gi": "1"}, True),
        ({"ephemeral-storage": "1", "example.com/gpu": "1"}, False),
        ({"ephemeral-storage": "1", "cpu": "0"}, True),
    ],
)
def test_only_some_resources_can_be_requested_by_the_whole_pod(
    whole: Requests | None, *, is_set: bool
) -> None:
    assert resources.pod_level_requests_set(_pod(whole=whole)) is is_set


@pytest.mark.parametrize(
    ("name", "is_extended", "is_scalar"),
    [
        ("example.com/gpu", True, True),
        ("example.com/foo-bar_baz.1", True, True),
        ("gpu", False, False),
        ("cpu", False, False),
        ("kubernetes.io/batch-cpu", False, True),
        ("scheduler.kubernetes.io/slots", False, True),
        ("requests.example.com/gpu", False, False),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("example.com/", False, False),
        ("UPPER.com/gpu", False, False),
        (f"example.com/{'a' * 64}", False, False),
        # The quota name, `requests.` and all, must be a good one.
        (f"{'a' * 246}.com/gpu", False, False),
    ],
)
def test_resources_are_classified_by_their_names(
    name: str, *, is_extended: bool, is_scalar: bool
) -> None:
    assert resources.is_extended_resource_name(name) is is_extended
    assert resources.is_scalar_resource_name(name) is is_scalar


def test_counting_rounds_once_and_leaves_out_unknown_resources() -> None:
    pod = _pod(
        [
            ("a", {"cpu": "100.5m", "memory": "0.5", "example.com/gpu": "2"}),
            ("b", {"cpu": "100.5m", "memory": "0.5", "pods": "3", "gpu": "1"}),
        ]
    )
    assert resources.counted(resources.pod_requests(pod)) == {
        "cpu": 201,
        "memory": 1,
        "example.com/gpu": 2,
    }


def test_a_node_also_offers_room_for_pods() -> None:
    allocatable = {"cpu": "3920m", "memory": "1Ki", "pods": "110", "gpu": "1", "nvidia.com/gpu": 2}
    assert resources.node_allocatable(allocatable) == {
        "cpu": 3920,
        "memory": 1024,
        "pods": 110,
        "nvidia.com/gpu": 2,
    }
