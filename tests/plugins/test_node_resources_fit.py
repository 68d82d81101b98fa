"""NodeResourcesFit: the filter and its hints. Scores are in `test_node_resources_fit_score.py`."""

import pytest

from scheduler.api.core import (
    Container,
    ContainerStatus,
    Node,
    Pod,
    PodStatus,
    ResourceRequirements,
)
from scheduler.framework import CycleState
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, UNSCHEDULABLE, build, hint, rejected

GPU, FPGA = "example.com/gpu", "vendor.io/fpga"


def node(name: str = "n", *, pods: str = "32", **offered: str) -> Node:
    allocatable = {"cpu": "10m", "memory": "20", GPU: "5", "ephemeral-storage": "20", **offered}
    return make_node(name, allocatable={**allocatable, "pods": pods})


def pod(cpu: str = "0", memory: str = "0", name: str = "pod", **more: str) -> Pod:
    """Return a pod; `node_name` is its node, other keywords are requests."""
    node_name = more.pop("node_name", "")
    requests = {"cpu": cpu, "memory": memory, **more}
    return make_pod(name, node_name=node_name, requests=requests)


def verdict(wanting: Pod, *running: Pod, on: Node | None = None) -> tuple[str, ...] | None:
    """The reasons on a node of 10m cpu and 20 bytes, with an exclamation mark if unresolvable."""
    snapshot = snapshot_of([on or node()], running)
    found = rejected(build(NodeResourcesFit), wanting, snapshot)
    if not found:
        return None
    code, reasons = found["n"]
    assert code in (UNSCHEDULABLE, UNRESOLVABLE)
    return (*reasons, "!") if code == UNRESOLVABLE else reasons


def running(cpu: str = "0", memory: str = "0", **more: str) -> Pod:
    return pod(cpu, memory, name="running", node_name="n", **more)


@pytest.mark.parametrize(
    ("wanting", "other", "expected"),
    [
        (pod(), running("10m", "20"), None),
        (pod("1m", "1"), running("5m", "5"), None),
        (pod("1m", "1"), running("10m", "20"), ("Insufficient cpu", "Insufficient memory")),
        (pod("1m", "1"), running("9m", "19"), None),
        (pod("2m", "1"), running("9m", "5"), ("Insufficient cpu",)),
        (pod("1m", "2"), running("5m", "19"), ("Insufficient memory",)),
        (pod("5m", "1"), running("5m", "19"), None),
        (pod("10m", "1"), running("1m", "1"), ("Insufficient cpu",)),
        (pod("10m", "1"), running("0", "1"), None),
        (pod("11m", "1"), running("0", "0"), ("Insufficient cpu", "!")),
        (pod("11m", "2"), running("0", "19"), ("Insufficient cpu", "Insufficient memory", "!")),
        (pod(**{GPU: "1"}), running("10m", "20"), None),
        (pod(**{GPU: "1"}), running(**{GPU: "5"}), (f"Insufficient {GPU}",)),
        (pod(**{GPU: "6"}), running(), (f"Insufficient {GPU}", "!")),
        (pod(**{FPGA: "1"}), running(), (f"Insufficient {FPGA}", "!")),
        (pod(**{FPGA: "0"}), running(), None),
        (pod(**{"ephemeral-storage": "25"}), running(), ("Insufficient ephemeral-storage", "!")),
        (
            pod("2m", "2", **{"ephemeral-storage": "2", GPU: "1", FPGA: "1"}),
            running("9m", "19", **{"ephemeral-storage": "19", GPU: "5"}),
            (
                "Insufficient cpu",
                "Insufficient memory",
                "Insufficient ephemeral-storage",
                f"Insufficient {GPU}",
                f"Insufficient {FPGA}",
                "!",
            ),
        ),
    ],
)
def test_a_node_must_have_enough_left_of_everything(
    wanting: Pod, other: Pod, expected: tuple[str, ...] | None
) -> None:
    """`TestEnoughRequests`, `TestStorageRequests`."""
    assert verdict(wanting, other) == expected


@pytest.mark.parametrize(
    ("wanting", "expected"),
    [
        (pod(), ("Too many pods",)),
        (pod("1m", "1"), ("Too many pods", "Insufficient cpu", "Insufficient memory")),
    ],
)
def test_a_node_takes_only_so_many_pods(wanting: Pod, expected: tuple[str, ...]) -> None:
    """`TestNotEnoughRequests`."""
    assert verdict(wanting, running("10m", "20"), on=node(pods="1")) == expected


@pytest.mark.parametrize(
    ("init_containers", "fits"),
    [
        ([{"cpu": "8m"}], True),
        ([{"cpu": "11m"}], False),
        ([{"cpu": "6m"}, {"cpu": "6m"}], True),
    ],
)
def test_init_containers_run_one_at_a_time(
    init_containers: list[dict[str, str]], fits: bool
) -> None:
    containers = [Container(resources=ResourceRequirements(requests=r)) for r in init_containers]
    wanting = make_pod(requests={"cpu": "5m"}, init_containers=containers)
    assert verdict(wanting) == (None if fits else ("Insufficient cpu", "!"))


def test_each_node_gets_all_of_its_own_reasons() -> None:
    nodes = [node("full"), node("small", cpu="1m"), node("free"), node("closed", pods="0")]
    others = [pod("10m", "20", name="a", node_name="full")]
    found = rejected(build(NodeResourcesFit), pod("2m", "1"), snapshot_of(nodes, others))
    assert found == {
        "full": (UNSCHEDULABLE, ("Insufficient cpu", "Insufficient memory")),
        "small": (UNRESOLVABLE, ("Insufficient cpu",)),
        "closed": (UNSCHEDULABLE, ("Too many pods",)),
    }


@pytest.mark.parametrize(
    ("args", "fits"),
    [
        ({}, False),
        ({"ignoredResources": [FPGA]}, True),
        ({"ignoredResources": [GPU]}, False),
        ({"ignoredResourceGroups": ["vendor.io"]}, True),
        ({"ignoredResourceGroups": ["example.com"]}, False),
    ],
)
def test_extended_resources_can_be_left_to_others(args: dict[str, object], fits: bool) -> None:
    found = rejected(build(NodeResourcesFit, args), pod(**{FPGA: "1"}), snapshot_of([node()]))
    assert (found == {}) == fits


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
    assert verdict(reported) is None


def test_without_pre_filter_the_filter_fails() -> None:
    """`TestPreFilterDisabled`."""
    plugin, snapshot = build(NodeResourcesFit), snapshot_of([node()])
    with pytest.raises(LookupError) as caught:
        plugin.filter_nodes(CycleState(), PodInfo(pod()), snapshot.nodes)
    expected = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
    assert str(caught.value) == expected


ONE_CPU = make_pod(requests={"cpu": "1"})


def other(cpu: str = "", memory: str = "", *, node_name: str = "", nominated: str = "") -> Pod:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return make_pod("other", requests=requests, node_name=node_name, nominated_node_name=nominated)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (other("1", node_name="n"), None, QUEUE),
        (other("1"), None, SKIP),
        (other("2", nominated="n"), None, QUEUE),
        (other("2"), other("1"), SKIP),
        (other("", "2", node_name="n"), other("", "1", node_name="n"), SKIP),
        (other("2", node_name="n"), other("1", node_name="n"), QUEUE),
        (make_pod(requests={"cpu": "2"}), ONE_CPU, QUEUE),
    ],
)
def test_a_pod_that_leaves_or_shrinks_may_help(old: Pod, new: Pod | None, expected: str) -> None:
    """`Test_isSchedulableAfterPodChange`."""
    assert hint(build(NodeResourcesFit), ONE_CPU, old=old, new=new) == expected


def offering(pods: str = "1", **offered: str) -> Node:
    return make_node(allocatable={"pods": pods, **offered})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, offering(memory="1", **{GPU: "2"}), SKIP),
        (None, offering(memory="4", **{FPGA: "1"}), SKIP),
        (None, offering(memory="4", **{GPU: "2"}), QUEUE),
        (None, offering("0", memory="4", **{GPU: "2"}), SKIP),
        (
            offering(memory="2", **{GPU: "2"}),
            offering(memory="2", **{GPU: "1", FPGA: "2"}),
            SKIP,
        ),
        (offering(memory="2", **{GPU: "1"}), offering(memory="2", **{GPU: "2"}), QUEUE),
        (offering(memory="4", **{GPU: "2"}), offering(memory="1", **{GPU: "2"}), SKIP),
        (offering(memory="1", **{GPU: "2"}), offering(memory="4", **{GPU: "2"}), QUEUE),
        (offering(memory="4", **{GPU: "2"}), offering("2", memory="4", **{GPU: "2"}), QUEUE),
        (offering(memory="4", **{GPU: "2"}), offering(memory="4", cpu="9", **{GPU: "2"}), SKIP),
    ],
)
def test_a_node_that_offers_more_of_a_requested_resource_may_help(
    old: Node | None, new: Node, expected: str
) -> None:
    """`Test_isSchedulableAfterNodeChange`, `TestHaveAnyRequestedResourcesIncreased`."""
    wanting = make_pod(requests={"memory": "2", GPU: "1", "cpu": "0"})
    assert hint(build(NodeResourcesFit), wanting, old=old, new=new) == expected
