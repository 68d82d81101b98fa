"""`Nodes` returns the same for slices and index arrays of rows, `NodeInfo` plain ints."""

from collections.abc import Callable

import numpy as np
import pytest

from scheduler.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint
from scheduler.api.host_ports import HostPort
from scheduler.api.node_selectors import RequiredNodeAffinity, parse_node_selector
from scheduler.api.selectors import Requirement
from scheduler.snapshot import Nodes
from scheduler.testing import make_node, make_pod, snapshot_of

TAINT = Taint("dedicated", "db", "NoSchedule")
TIMES = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")

NODES = [
    make_node("n0", labels={"zone": "a", "cores": "8"}, images={"app:1": 100}),
    make_node("n1", labels={"zone": "b"}, unschedulable=True),
    make_node("n2", labels={"zone": "a", "cores": "32"}, taints=[TAINT]),
    make_node("n3", allocatable={"cpu": "2", "example.com/gpu": "4"}, images={"app:1": 100}),
    make_node("n4", labels={"zone": "a"}),
]
PODS = [
    make_pod("p", node_name="n2", requests={"cpu": "500m", "memory": "1Gi"}, host_ports=[80]),
    make_pod("q", node_name="n2"),
    make_pod("r", node_name="n3", requests={"example.com/gpu": "1"}),
]


def _all() -> Nodes:
    return snapshot_of(NODES, PODS).nodes


def _sliced() -> Nodes:
    return _all().slice(1, 4)


def _taken() -> Nodes:
    return _all().take(np.array([1, 2, 3]))


def _masked() -> Nodes:
    return _all().take(np.array([False, True, True, True, False]))


VIEWS = pytest.mark.parametrize("view", [_sliced, _taken, _masked])


@VIEWS
def test_a_view_answers_for_its_rows_however_they_are_held(view: Callable[[], Nodes]) -> None:
    nodes = view()
    assert len(nodes) == 3
    assert nodes.total == 5
    assert nodes.names == ["n1", "n2", "n3"]
    assert [nodes.name(i) for i in range(3)] == ["n1", "n2", "n3"]
    assert list(nodes.rows) == nodes.row_array.tolist() == [1, 2, 3]
    assert nodes.allocatable("cpu").tolist() == [4000, 4000, 2000]
    assert nodes.allocatable("example.com/gpu").tolist() == [0, 0, 4]
    assert nodes.allocatable("nobody.has/it").tolist() == [0, 0, 0]
    assert nodes.requested("cpu").tolist() == [0, 500, 0]
    assert nodes.requested("example.com/gpu").tolist() == [0, 0, 1]
    assert nodes.non_zero_requested("cpu").tolist() == [0, 600, 100]
    assert nodes.pod_count.tolist() == [0, 2, 1]
    assert nodes.unschedulable.tolist() == [True, False, False]
    assert [nodes.labels("zone")[i] for i in range(3)] == ["b", "a", None]
    assert [nodes.taints[i] for i in range(3)] == [(), (TAINT,), ()]
    assert nodes.name_codes.isin(["n2", "n4"]).tolist() == [False, True, False]
    assert nodes.derive(_first_label).where(lambda v: v == "b").tolist() == [True, False, False]
    ports = nodes.host_ports
    assert [ports[i] for i in range(3)] == [None, {HostPort("TCP", "0.0.0.0", 80)}, None]
    assert repr(nodes) == "<Nodes: 3 of 5>"


def test_taints_that_differ_only_in_time_have_one_code() -> None:
    later = {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect}
    nodes = [make_node(f"n{i}", taints=[{**later, "timeAdded": t}]) for i, t in enumerate(TIMES)]
    taints = snapshot_of(nodes).nodes.taints
    assert [taints[i] for i in range(2)] == [(TAINT,), (TAINT,)]
    assert taints.codes[0] == taints.codes[1]


def _first_label(node: Node) -> str | None:
    return node.metadata.labels.get("zone")


@VIEWS
def test_images_are_flagged_for_the_rows_in_view_and_counted_over_all(
    view: Callable[[], Nodes],
) -> None:
    image = view().image("app:1")
    assert image is not None
    assert image.present.tolist() == [False, False, True]
    assert (image.size_bytes, image.num_nodes) == (100, 2)
    assert view().image("unknown:1") is None


@VIEWS
def test_a_nodes_position_is_its_place_in_the_view(view: Callable[[], Nodes]) -> None:
    nodes = view()
    assert [nodes.position(f"n{i}") for i in range(5)] == [None, 0, 1, 2, None]
    assert nodes.position("unknown") is None


@VIEWS
def test_a_view_is_a_sequence_of_nodes(view: Callable[[], Nodes]) -> None:
    nodes = view()
    assert [node.name for node in nodes] == ["n1", "n2", "n3"]
    assert (nodes[0].name, nodes[-1].name) == ("n1", "n3")
    for index in (3, -4):
        with pytest.raises(IndexError):
            nodes[index]


@VIEWS
def test_a_view_of_a_view_has_positions_of_its_own(view: Callable[[], Nodes]) -> None:
    nodes = view()
    assert nodes.slice(1, 3).names == ["n2", "n3"]
    assert nodes.slice(1, 99).names == ["n2", "n3"]
    assert nodes.slice(1, 1).names == []
    assert nodes.take(np.array([2, 0])).names == ["n3", "n1"]
    assert nodes.take(np.array([True, False, True])).names == ["n1", "n3"]
    assert nodes.take(np.zeros(3, dtype=bool)).names == []
    assert nodes.slice(1, 3).take(np.array([1])).names == ["n3"]


@VIEWS
def test_arrays_are_read_only(view: Callable[[], Nodes]) -> None:
    nodes = view()
    image = nodes.image("app:1")
    assert image is not None
    for array in (
        nodes.allocatable("cpu"),
        nodes.requested("cpu"),
        nodes.non_zero_requested("memory"),
        nodes.pod_count,
        nodes.labels("zone").codes,
        nodes.host_ports.codes,
        image.present,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_runs_in_a_row_join_into_one_slice() -> None:
    nodes = _all()
    joined = nodes.slice(0, 2).joined([nodes.slice(2, 4), nodes.slice(4, 5)])
    assert isinstance(joined.rows, range)
    assert joined.names == ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([(3, 5), (0, 1)], ["n3", "n4", "n0"]),
        ([(3, 5), (0, 1), (1, 2)], ["n3", "n4", "n0", "n1"]),
        ([(0, 2), (2, 3), (4, 5)], ["n0", "n1", "n2", "n4"]),
    ],
)
def test_runs_apart_join_in_the_order_given(parts: list[tuple[int, int]], names: list[str]) -> None:
    nodes = _all()
    first, *others = [nodes.slice(*part) for part in parts]
    assert first.joined(others).names == names


def test_slices_and_picked_rows_join() -> None:
    nodes = _all()
    picked = nodes.take(np.array([4, 1]))
    assert nodes.slice(0, 2).joined([picked]).names == ["n0", "n1", "n4", "n1"]
    assert picked.joined([nodes.slice(2, 4)]).names == ["n4", "n1", "n2", "n3"]


REQUIREMENTS = [
    ("zone", "In", ("a", "c")),
    ("zone", "NotIn", ("a",)),
    ("zone", "Exists", ()),
    ("zone", "DoesNotExist", ()),
    ("cores", "Gt", ("8",)),
    ("cores", "Lt", ("9",)),
    ("unheard-of", "NotIn", ("x",)),
]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_a_requirement_over_all_nodes_is_the_one_over_each(
    requirement: tuple[str, str, tuple[str, ...]],
) -> None:
    nodes = _all()
    parsed = Requirement(*requirement)
    expected = [parsed.matches(node.labels) for node in nodes]
    assert nodes.accepted_by(parsed).tolist() == expected


def _term(
    *expressions: tuple[str, str, tuple[str, ...]], fields: tuple[str, str] | None = None
) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(NodeSelectorRequirement(*e) for e in expressions),
        (NodeSelectorRequirement(fields[0], fields[1], ("n2",)),) if fields else (),
    )


SELECTORS = [
    (),
    (_term(),),
    (_term(REQUIREMENTS[0]),),
    (_term(REQUIREMENTS[0], REQUIREMENTS[4]),),
    (_term(REQUIREMENTS[1]), _term(REQUIREMENTS[4])),
    (_term(fields=("metadata.name", "In")),),
    (_term(fields=("metadata.name", "NotIn")),),
    (_term(REQUIREMENTS[0], fields=("metadata.name", "NotIn")),),
    (_term(fields=("metadata.uid", "In")),),
    (_term(fields=("metadata.uid", "NotIn")),),
    (_term(("zone", "Near", ())), _term(REQUIREMENTS[1])),
]


@pytest.mark.parametrize("terms", SELECTORS)
def test_a_node_selector_over_all_nodes_is_the_one_over_each(
    terms: tuple[NodeSelectorTerm, ...],
) -> None:
    nodes = _all()
    selector = parse_node_selector(NodeSelector(terms))
    expected = [selector.matches(node.node) for node in nodes]
    assert nodes.selected_by(selector).tolist() == expected


@pytest.mark.parametrize("node_selector", [{}, {"zone": "a"}, {"zone": "a", "cores": "8"}])
@pytest.mark.parametrize("terms", [None, *SELECTORS[:4]])
def test_a_required_affinity_over_all_nodes_is_the_one_over_each(
    node_selector: dict[str, str], terms: tuple[NodeSelectorTerm, ...] | None
) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node_affinity = {} if terms is None else {required: NodeSelector(terms)}
    pod = make_pod(node_selector=node_selector, affinity={"nodeAffinity": node_affinity})
    affinity = RequiredNodeAffinity(pod.spec)
    nodes = _all()
    assert nodes.allowed_by(affinity).tolist() == [affinity.matches(node.node) for node in nodes]


def test_one_node_reads_its_row_in_plain_numbers() -> None:
    node = _all()[2]
    assert (node.name, node.node.metadata.name) == ("n2", "n2")
    assert node.labels["zone"] == "a"
    assert node.taints == (TAINT,)
    assert node.unschedulable is False
    assert [pod.name for pod in node.pods] == ["p", "q"]
    assert node.host_ports == {HostPort("TCP", "0.0.0.0", 80)}
    assert node.allocatable == {"cpu": 4000, "memory": 16 * 1024**3, "pods": 110}
    assert node.requested == {"cpu": 500, "memory": 1024**3}
    assert node.non_zero_requested == {"cpu": 600, "memory": 1024**3 + 200 * 1024**2}
    assert (node.pod_count, node.allowed_pods) == (2, 110)
    counts = [
        *node.allocatable.values(),
        *node.requested.values(),
        *node.non_zero_requested.values(),
    ]
    assert {type(count) for count in [*counts, node.pod_count, node.allowed_pods]} == {int}
    assert repr(node) == "NodeInfo(n2, 2 pods)"


def test_a_node_without_an_allowed_number_of_pods_takes_none() -> None:
    assert _all()[3].allowed_pods == 0
