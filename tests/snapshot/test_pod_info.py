"""Values kept per pod: upstream's `TestPodInfoCalculateResources` and the rest of `PodInfo`."""

from collections.abc import Mapping

import msgspec
import pytest

from scheduler.api.core import ContainerStatus, Pod, PodStatus, ResourceRequirements
from scheduler.api.host_ports import HostPort
from scheduler.snapshot.pod_info import PodInfo, priority_of
from scheduler.testing import make_node, make_pod

DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 1024**2

Container = dict[str, object]


def _asking(requests: Mapping[str, str], *, sidecar: bool = False) -> Container:
    container: Container = {"resources": {"requests": requests}}
    return container | ({"restartPolicy": "Always"} if sidecar else {})


def _pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    whole: Mapping[str, str] | None = None,
    overhead: Mapping[str, str] | None = None,
) -> Pod:
    resources = None if whole is None else {"requests": whole}
    return make_pod(
        containers=containers, init_containers=init, resources=resources, overhead=overhead
    )


BOTH = {"cpu": "500m", "memory": "500M"}


@pytest.mark.parametrize(
    ("pod", "resources", "non_zero_cpu", "non_zero_memory"),
    [
        # Explicit zeros are no oversight.
        (_pod(_asking({"cpu": "0", "memory": "0"})), {"cpu": 0, "memory": 0}, 0, 0),
        (
            _pod(_asking({"cpu": "1"}), whole={"ephemeral-storage": "1"}),
            {"cpu": 1000},
            1000,
            DEFAULT_MEMORY,
        ),
        (
            _pod(_asking(BOTH), init=(_asking({}, sidecar=True),), overhead={"cpu": "10m"}),
            {"cpu": 510, "memory": 500 * 10**6},
            610,
            500 * 10**6 + DEFAULT_MEMORY,
        ),
        (
            _pod(_asking({"example.com/gpu": "2", "pods": "3", "gpu": "1"})),
            {"example.com/gpu": 2},
            DEFAULT_CPU,
            DEFAULT_MEMORY,
        ),
    ],
)
def test_requests_are_counted_with_and_without_defaults(
    pod: Pod, resources: Mapping[str, int], non_zero_cpu: int, non_zero_memory: int
) -> None:
    requests = PodInfo(pod).requests
    assert requests.resources == resources
    assert (requests.non_zero_cpu, requests.non_zero_memory) == (non_zero_cpu, non_zero_memory)


def test_a_resource_not_asked_for_is_zero() -> None:
    requests = PodInfo(make_pod(requests={"cpu": "1"})).requests
    assert (requests["cpu"], requests["memory"]) == (1000, 0)


def test_pods_that_ask_for_the_same_share_their_counts() -> None:
    first, second = (PodInfo(make_pod(name, requests={"cpu": "2"})) for name in "ab")
    assert first.requests is second.requests


def test_a_running_pod_counts_with_its_allocation_but_needs_the_requests_of_its_spec() -> None:
    status = PodStatus(
        container_statuses=(
            ContainerStatus("c", resources=ResourceRequirements(requests={"cpu": "3"})),
        )
    )
    pod = PodInfo(msgspec.structs.replace(make_pod(requests={"cpu": "1"}), status=status))
    assert pod.requests["cpu"] == 3000
    assert pod.spec_requests == {"cpu": 1000}


def test_a_pod_without_a_container_status_needs_what_it_counts_with() -> None:
    pod = PodInfo(make_pod(requests={"cpu": "1"}))
    assert pod.spec_requests is pod.requests.resources


def test_an_assigned_pod_is_the_same_pod_with_a_node() -> None:
    pod = PodInfo(make_pod("web", requests={"cpu": "1"}, host_ports=[80]))
    assigned = pod.assigned_to("n1")
    assert assigned.spec.node_name == "n1"
    assert pod.spec.node_name == ""
    assert (assigned.uid, assigned.key) == (pod.uid, "default/web")
    assert assigned.requests is pod.requests
    assert assigned.host_ports == pod.host_ports == (HostPort("TCP", "0.0.0.0", 80),)


def test_the_parts_of_a_pod_are_in_reach() -> None:
    pod = PodInfo(
        make_pod("web", namespace="shop", uid="u", labels={"a": "b"}, annotations={"c": "d"})
    )
    assert (pod.name, pod.namespace, pod.uid, pod.key) == ("web", "shop", "u", "shop/web")
    assert (pod.labels, pod.annotations) == ({"a": "b"}, {"c": "d"})
    assert repr(pod) == "PodInfo(shop/web, uid=u)"


def test_node_selector_and_affinity_are_parsed_once() -> None:
    pod = PodInfo(make_pod(node_selector={"zone": "a"}))
    assert pod.required_node_affinity is pod.required_node_affinity
    assert pod.required_node_affinity.matches(make_node(labels={"zone": "a"}))
    assert not pod.required_node_affinity.matches(make_node())


@pytest.mark.parametrize(("priority", "counted"), [(None, 0), (0, 0), (-5, -5), (7, 7)])
def test_a_pod_without_a_priority_has_zero(priority: int | None, counted: int) -> None:
    pod = make_pod(priority=priority)
    assert priority_of(pod) == PodInfo(pod).priority == counted


def test_each_container_gets_defaults_for_missing_requests() -> None:
    pod = _pod(_asking(BOTH), _asking({"cpu": "700m", "example.com/gpu": "1"}))
    assert PodInfo(pod).non_zero_container_requests == {
        "cpu": 1200,
        "memory": 500 * 10**6 + DEFAULT_MEMORY,
        "example.com/gpu": 1,
    }


def test_requests_of_the_whole_pod_are_none_of_its_containers() -> None:
    pod = _pod(_asking({"cpu": "1"}), _asking({}), whole={"cpu": "8", "memory": "8Gi"})
    assert PodInfo(pod).non_zero_container_requests == {
        "cpu": 1000 + DEFAULT_CPU,
        "memory": 2 * DEFAULT_MEMORY,
    }
