"""NodeResourcesFit: the filter and its hints, beyond upstream's tables (`tests/upstream`)."""

import msgspec
import pytest

from scheduler.api.core import (
    Container,
    ContainerStatus,
    Node,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from scheduler.config import SchedulerVersion
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, UNSCHEDULABLE, build, hint, rejected

_, _, V1_36, V1_37 = SchedulerVersion


def node(name: str = "n", *, cpu: str = "10m", pods: str = "32") -> Node:
    return make_node(name, allocatable={"cpu": cpu, "memory": "20", "pods": pods})


def pod(cpu: str, memory: str = "0", *, node_name: str = "") -> Pod:
    return make_pod(requests={"cpu": cpu, "memory": memory}, node_name=node_name)


def test_each_node_gets_all_of_its_own_reasons() -> None:
    nodes = [node("full"), node("small", cpu="1m"), node("free"), node("closed", pods="0")]
    others = [pod("10m", "20", node_name="full")]
    found = rejected(build(NodeResourcesFit), pod("2m", "1"), snapshot_of(nodes, others))
    assert found == {
        "full": (UNSCHEDULABLE, ("Insufficient cpu", "Insufficient memory")),
        "small": (UNRESOLVABLE, ("Insufficient cpu",)),
        "closed": (UNSCHEDULABLE, ("Too many pods",)),
    }


def test_native_resources_cannot_be_ignored() -> None:
    plugin = build(
        NodeResourcesFit, {"ignoredResources": ["cpu"], "ignoredResourceGroups": ["cpu"]}
    )
    assert rejected(plugin, pod("11m"), snapshot_of([node()]))


def test_a_waiting_pod_needs_the_requests_of_its_spec_not_of_its_status() -> None:
    wanting = pod("5m")
    given = ContainerStatus("c", resources=ResourceRequirements(requests={"cpu": "50m"}))
    reported = Pod(wanting.metadata, wanting.spec, PodStatus(container_statuses=(given,)))
    assert PodInfo(reported).requests["cpu"] == 50
    assert not rejected(build(NodeResourcesFit), reported, snapshot_of([node()]))


@pytest.mark.parametrize(("version", "fits"), [(V1_36, False), (V1_37, True)])
def test_without_its_gate_a_sidecar_fits_nowhere(version: SchedulerVersion, *, fits: bool) -> None:
    # The gate can be off only if an old version is emulated; 1.37 has none.
    handle = FakeHandle(version=version, feature_gates=frozenset())
    plugin = Registry([NodeResourcesFit]).create("NodeResourcesFit", None, handle)
    assert isinstance(plugin, NodeResourcesFit)
    sidecar = Container(name="s", restart_policy="Always")
    with_sidecar = msgspec.structs.replace(
        pod("1m"), spec=msgspec.structs.replace(pod("1m").spec, init_containers=(sidecar,))
    )
    found = rejected(plugin, with_sidecar, snapshot_of([node()]))
    reason = "Pod has a restartable init container and the SidecarContainers feature is disabled"
    assert found == ({} if fits else {"n": (UNRESOLVABLE, (reason,))})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, {"memory": "2", "pods": "1"}, QUEUE, id="just enough"),
        pytest.param(None, {"memory": "2", "pods": "0"}, SKIP, id="no pods"),
        pytest.param({"memory": "2", "pods": "1"}, {"memory": "2", "pods": "1", "cpu": "9"}, SKIP,
                     id="more of a resource that the pod does not request"),
    ],
)  # fmt: skip
def test_a_node_that_offers_more_of_a_requested_resource_may_help(
    old: dict[str, str] | None, new: dict[str, str], expected: str
) -> None:
    before = make_node(allocatable=old) if old else None
    waiting = make_pod(requests={"memory": "2", "cpu": "0"})
    found = hint(build(NodeResourcesFit), waiting, old=before, new=make_node(allocatable=new))
    assert found == expected
