"""Requests and limits of pods: the outcomes of upstream's `Test_podResourceCollector_*`."""

import msgspec
import pytest

from scheduler.api.core import Container, Pod, PodStatus, ResourceRequirements
from scheduler.metrics.pod_resources import pod_resources_text
from scheduler.testing import make_pod

Amounts = dict[str, str]

REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"
LABELS = 'namespace="test",node="{}",pod="{}",priority="{}",resource="{}",scheduler="{}",unit="{}"'
EXPECTED = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod "
    "for resources along with the unit for the resource if any.\n"
)


def _requirements(requests: Amounts | None, limits: Amounts | None) -> ResourceRequirements:
    return ResourceRequirements(requests=requests or {}, limits=limits or {})


def _container(
    requests: Amounts | None = None, limits: Amounts | None = None, *, sidecar: bool = False
) -> Container:
    return Container(
        resources=_requirements(requests, limits), restart_policy="Always" if sidecar else None
    )


def _pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    whole: ResourceRequirements | None = None,
    overhead: Amounts | None = None,
    name: str = "foo",
    node_name: str = "",
    phase: str = "",
    priority: int | None = None,
    scheduler_name: str = "",
) -> Pod:
    pod = make_pod(
        name,
        namespace="test",
        containers=list(containers),
        init_containers=list(init),
        resources=whole,
        overhead=overhead,
    )
    spec = msgspec.structs.replace(
        pod.spec, node_name=node_name, priority=priority, scheduler_name=scheduler_name
    )
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase=phase))


def _samples(*pods: Pod) -> dict[str, list[str]]:
    """The samples of the page by metric, as `node pod priority resource scheduler unit value`."""
    found: dict[str, list[str]] = {}
    for line in pod_resources_text(pods).decode().splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels, _, value = rest.rpartition("} ")
            values = [pair.partition("=")[2].strip('"') for pair in labels.split(",")]
            assert values[0] == "test"
            found.setdefault(name, []).append(" ".join([*(v or "-" for v in values[1:]), value]))
    return found


def test_the_page_is_upstreams_to_the_byte() -> None:
    pod = _pod(
        _container({"cpu": "1", "custom": "0"}, {"memory": "2.5Gi", "custom": "6"}),
        init=(_container({"cpu": "2", "custom": "3"}, {"memory": "1G", "custom": "5"}),),
        node_name="node-one",
    )
    assert pod_resources_text([pod]).decode() == (
        f"# HELP {LIMIT} [STABLE] Resources limit for workloads on the cluster, {EXPECTED}"
        f"# TYPE {LIMIT} gauge\n"
        f"{LIMIT}{{{LABELS.format('node-one', 'foo', '', 'custom', '', '')}}} 6\n"
        f"{LIMIT}{{{LABELS.format('node-one', 'foo', '', 'memory', '', 'bytes')}}} 2.68435456e+09\n"
        f"# HELP {REQUEST} [STABLE] Resources requested by workloads on the cluster, {EXPECTED}"
        f"# TYPE {REQUEST} gauge\n"
        f"{REQUEST}{{{LABELS.format('node-one', 'foo', '', 'cpu', '', 'cores')}}} 2\n"
        f"{REQUEST}{{{LABELS.format('node-one', 'foo', '', 'custom', '', '')}}} 3\n"
    )


ZERO = {"cpu": "0", "custom": "0", "test.com/custom-metric": "0"}
INITIALIZED = _pod(
    _container({"cpu": "1", "custom": "0"}, {"memory": "2G", "custom": "6"}),
    init=(_container({"cpu": "2", "custom": "3"}, {"memory": "1G", "custom": "5"}),),
    overhead={"cpu": "0.25", "memory": "0.75G", "custom": "0.5"},
)


@pytest.mark.parametrize(
    ("pod", "requests", "limits"),
    [
        (_pod(), [], []),
        (_pod(_container({"cpu": "1"})), ["- foo - cpu - cores 1"], []),
        (_pod(_container(None, {"cpu": "1"})), [], ["- foo - cpu - cores 1"]),
        (_pod(_container(ZERO, ZERO), init=(_container(ZERO, ZERO),)), [], []),
        (
            _pod(
                _container({"cpu": "1"}),
                node_name="node-one",
                priority=0,
                scheduler_name="default-scheduler",
            ),
            ["node-one foo 0 cpu default-scheduler cores 1"],
            [],
        ),
        (
            _pod(
                _container({"cpu": "1"}, {"cpu": "2"}),
                _container({"memory": "1G"}, {"memory": "2G"}),
                _container({"cpu": "0.5"}, {"cpu": "1.25"}),
                _container(None, {"memory": "2G"}),
            ),
            ["- foo - cpu - cores 1.5", "- foo - memory - bytes 1e+09"],
            ["- foo - cpu - cores 3.25", "- foo - memory - bytes 4e+09"],
        ),
        (
            INITIALIZED,
            [
                "- foo - cpu - cores 2.25",
                "- foo - custom - - 3.5",
                "- foo - memory - bytes 7.5e+08",
            ],
            ["- foo - custom - - 6.5", "- foo - memory - bytes 2.75e+09"],
        ),
        (
            _pod(
                _container({"cpu": "100m"}, {"cpu": "200m"}),
                init=(
                    _container({"cpu": "9m"}, {"cpu": "1"}, sidecar=True),
                    _container({"cpu": "150m"}, {"cpu": "2"}),
                ),
            ),
            ["- foo - cpu - cores 0.159"],
            ["- foo - cpu - cores 3"],
        ),
        (
            _pod(
                _container(
                    {"storage": "5", "ephemeral-storage": "6"},
                    {
                        "hugepages-x": "1",
                        "hugepages-": "2",
                        "attachable-volumes-aws": "3",
                        "attachable-volumes-": "4",
                    },
                )
            ),
            ["- foo - ephemeral-storage - bytes 6", "- foo - storage - bytes 5"],
            [
                "- foo - attachable-volumes- - integer 4",
                "- foo - attachable-volumes-aws - integer 3",
                "- foo - hugepages- - bytes 2",
                "- foo - hugepages-x - bytes 1",
            ],
        ),
        (
            _pod(
                _container({"cpu": "2", "memory": "4G"}, {"cpu": "2", "memory": "4G"}),
                whole=_requirements({"cpu": "4", "memory": "8G"}, {"cpu": "4", "memory": "8G"}),
            ),
            ["- foo - cpu - cores 4", "- foo - memory - bytes 8e+09"],
            ["- foo - cpu - cores 4", "- foo - memory - bytes 8e+09"],
        ),
        (
            _pod(
                _container({"custom": "1"}, {"custom": "1"}),
                whole=_requirements({"custom": "2"}, {"custom": "2"}),
            ),
            ["- foo - custom - - 1"],
            ["- foo - custom - - 1"],
        ),
        (
            _pod(
                _container(None, {"cpu": "1", "memory": "2G"}),
                _container(None, {"cpu": "2", "memory": "3G"}),
                whole=_requirements({"cpu": "2", "memory": "4G"}, None),
            ),
            ["- foo - cpu - cores 2", "- foo - memory - bytes 4e+09"],
            ["- foo - cpu - cores 3", "- foo - memory - bytes 5e+09"],
        ),
        (
            _pod(
                _container({"cpu": "1", "memory": "2G"}, {"cpu": "1", "memory": "2G"}),
                whole=_requirements(None, {"cpu": "2", "memory": "4G"}),
            ),
            ["- foo - cpu - cores 1", "- foo - memory - bytes 2e+09"],
            ["- foo - cpu - cores 2", "- foo - memory - bytes 4e+09"],
        ),
    ],
)
def test_a_pod_has_its_effective_requests_and_limits(
    pod: Pod, requests: list[str], limits: list[str]
) -> None:
    found = _samples(pod)
    assert found.get(REQUEST, []) == requests
    assert found.get(LIMIT, []) == limits


def test_bound_pods_that_have_ended_are_left_out() -> None:
    cpu = _container({"cpu": "1"})
    assert _samples(
        _pod(cpu, name="unscheduled-succeeded", phase="Succeeded"),
        _pod(cpu, name="succeeded", node_name="node-one", phase="Succeeded"),
        _pod(cpu, name="failed", node_name="node-one", phase="Failed"),
        _pod(cpu, name="unknown", node_name="node-one", phase="Unknown"),
        _pod(cpu, name="pending", node_name="node-one", phase="Pending", init=(cpu,)),
    ) == {
        REQUEST: [
            "- unscheduled-succeeded - cpu - cores 1",
            "node-one pending - cpu - cores 1",
            "node-one unknown - cpu - cores 1",
        ]
    }


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("9m", "0.009000000000000001"),
        ("1u", "1e-06"),
        ("1500n", "1.5e-06"),
        ("100m", "0.1"),
        ("999999", "999999"),
        ("1M", "1e+06"),
        ("123456789", "1.23456789e+08"),
        ("16Gi", "1.7179869184e+10"),
        ("2Ei", "2.305843009213694e+18"),
        ("-2", "-2"),
    ],
)
def test_numbers_are_written_as_go_does(quantity: str, text: str) -> None:
    (sample,) = _samples(_pod(_container({"custom": quantity})))[REQUEST]
    assert sample.split()[-1] == text
