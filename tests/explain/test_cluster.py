"""The defaults that an API server fills in, for pods that were read from a file.

Source: `pkg/apis/core/v1/defaults_test.go` (`TestPodResourcesDefaults`,
`TestSetDefaultPodSpecHostNetwork`), v1.36.3.
"""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api.quantity import parse_quantity
from scheduler.explain.cluster import with_api_defaults
from scheduler.testing import make_pod

Amounts = dict[str, str]


def _limited(*limits: Amounts) -> list[dict[str, object]]:
    return [{"name": f"c{i}", "resources": {"limits": each}} for i, each in enumerate(limits)]


def _asking(*requests: Amounts) -> list[dict[str, object]]:
    return [{"name": f"c{i}", "resources": {"requests": each}} for i, each in enumerate(requests)]


def _amounts(quantities: Mapping[str, str | int | float]) -> dict[str, object]:
    return {name: parse_quantity(text) for name, text in quantities.items()}


def _pod_level(pod: Pod) -> tuple[dict[str, object], dict[str, object]]:
    wanted = with_api_defaults(pod).spec.resources
    assert wanted is not None
    return _amounts(wanted.requests), _amounts(wanted.limits)


def test_a_pod_without_a_scheduler_gets_the_default_one() -> None:
    assert with_api_defaults(make_pod(scheduler_name="")).spec.scheduler_name == "default-scheduler"
    assert with_api_defaults(make_pod(scheduler_name="mine")).spec.scheduler_name == "mine"


def test_limits_become_requests() -> None:
    limits = {"cpu": "2m", "memory": "1Mi"}
    pod = with_api_defaults(
        make_pod(
            containers=[{"name": "c", "resources": {"limits": limits, "requests": {"cpu": "1m"}}}],
            init_containers=_limited(limits),
        )
    )
    (container,), (init_container,) = pod.spec.containers, pod.spec.init_containers
    assert container.resources.requests == {"cpu": "1m", "memory": "1Mi"}
    assert init_container.resources.requests == limits


def test_a_port_is_tcp_by_default() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]
    pod = with_api_defaults(make_pod(containers=[{"name": "c", "ports": ports}]))
    assert [port.protocol for port in pod.spec.containers[0].ports] == ["TCP", "UDP"]
    assert [port.host_port for port in pod.spec.containers[0].ports] == [0, 0]


def test_on_the_hosts_network_a_container_port_is_a_host_port() -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 81, "hostPort": 81}]
    containers = [{"name": "c", "ports": ports}]
    pod = make_pod(containers=containers, init_containers=containers)
    spec = with_api_defaults(replace(pod, spec=replace(pod.spec, host_network=True))).spec
    assert [port.host_port for port in spec.containers[0].ports] == [8080, 81]
    assert [port.host_port for port in spec.init_containers[0].ports] == [8080, 81]


TWO_LIMITED = _limited({"cpu": "2m", "memory": "1Mi"}, {"cpu": "1m", "memory": "5Mi"})
HUGE = "hugepages-2Mi"


@pytest.mark.parametrize(
    ("containers", "wanted", "requests", "limits"),
    [
        pytest.param(
            [],
            {"limits": {"cpu": "2m", "memory": "1Mi"}},
            {"cpu": "2m", "memory": "1Mi"},
            {"cpu": "2m", "memory": "1Mi"},
            id="the pod's limits are its requests where containers say nothing",
        ),
        pytest.param(
            TWO_LIMITED,
            {"limits": {"cpu": "5m", "memory": "7Mi"}},
            {"cpu": "3m", "memory": "6Mi"},
            {"cpu": "5m", "memory": "7Mi"},
            id="the containers' requests go before the pod's limits",
        ),
        pytest.param(
            TWO_LIMITED,
            {"limits": {"cpu": "5m", "memory": "7Mi"}, "requests": {"memory": "7Mi"}},
            {"cpu": "3m", "memory": "7Mi"},
            {"cpu": "5m", "memory": "7Mi"},
            id="what the pod requests stays",
        ),
        pytest.param(
            TWO_LIMITED,
            {"limits": {"cpu": "5m"}, "requests": {"cpu": "4m"}},
            {"cpu": "4m", "memory": "6Mi"},
            {"cpu": "5m"},
            id="one limit is enough for the containers' requests to be added up",
        ),
        pytest.param(
            TWO_LIMITED,
            {"requests": {"cpu": "4m"}},
            {"cpu": "4m"},
            {},
            id="without any limit nothing is added",
        ),
        pytest.param(
            _limited({HUGE: "4Mi"}, {HUGE: "2Mi"}),
            {"requests": {"cpu": "4m"}},
            {"cpu": "4m", HUGE: "6Mi"},
            {HUGE: "6Mi"},
            id="hugepages are limited as the containers limit them",
        ),
        pytest.param(
            _limited({HUGE: "4Mi"}),
            {"limits": {HUGE: "10Mi"}},
            {HUGE: "10Mi"},
            {HUGE: "10Mi"},
            id="hugepages cannot be overcommitted, so the limit is the request",
        ),
        pytest.param(
            _limited({HUGE: "4Mi"}),
            {"requests": {HUGE: "10Mi"}},
            {HUGE: "10Mi"},
            {},
            id="hugepages that the pod requests get no limit from its containers",
        ),
        pytest.param(
            _asking({"example.com/gpu": "1", "cpu": "1m"}),
            {"limits": {"cpu": "2m"}},
            {"cpu": "1m"},
            {"cpu": "2m"},
            id="extended resources are not for whole pods",
        ),
    ],
)
def test_a_pods_own_resources_are_completed(
    containers: Sequence[dict[str, object]],
    wanted: dict[str, Amounts],
    requests: Amounts,
    limits: Amounts,
) -> None:
    pod = make_pod(containers=containers, resources=wanted, overhead={"cpu": "100m"})
    assert _pod_level(pod) == (_amounts(requests), _amounts(limits))


def test_empty_resources_stay_empty() -> None:
    assert _pod_level(make_pod(containers=TWO_LIMITED, resources={})) == ({}, {})
