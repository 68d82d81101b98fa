"""Views of views of nodes equal the same slices of a plain list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.testing import make_node, make_pod, snapshot_of
from tests.thoroughness import examples

TOTAL = 12
CPUS = [str(1 + n % 5) for n in range(TOTAL)]
SNAPSHOT = snapshot_of(
    [
        make_node(f"n{n}", zone="ab"[n % 2] if n % 3 else "", allocatable={"cpu": CPUS[n]})
        for n in range(TOTAL)
    ],
    [make_pod(f"p{n}", node_name=f"n{n}", host_ports=[80 + n % 2]) for n in range(0, TOTAL, 2)],
)
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.slow
@settings(max_examples=examples(80))
@given(st.data())
def test_a_view_holds_the_nodes_that_the_same_cuts_leave_of_a_list(data: st.DataObject) -> None:
    nodes, names = SNAPSHOT.nodes, [f"n{n}" for n in range(TOTAL)]
    for _ in range(data.draw(st.integers(0, 5))):
        count = len(names)
        match data.draw(st.sampled_from(["slice", "mask", "positions", "join"])):
            case "slice":
                start = data.draw(st.integers(0, count))
                stop = data.draw(st.integers(start, count + 2))
                nodes, names = nodes.slice(start, stop), names[start:stop]
            case "mask":
                mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
                nodes = nodes.take(np.array(mask, dtype=bool))
                names = [name for name, kept in zip(names, mask, strict=True) if kept]
            case "positions":
                chosen = data.draw(st.permutations(range(count)))[
                    : data.draw(st.integers(0, count))
                ]
                nodes = nodes.take(np.array(chosen, dtype=np.int64))
                names = [names[position] for position in chosen]
            case "join":
                cut = data.draw(st.integers(0, count))
                again = data.draw(st.integers(cut, count))
                parts = [nodes.slice(cut, again), nodes.slice(again, count)]
                nodes, names = nodes.slice(0, cut).joined(parts), names
    assert nodes.names == [node.name for node in nodes] == names
    assert len(nodes) == len(names)
    assert nodes.row_array.tolist() == list(nodes.rows) == [int(name[1:]) for name in names]
    assert [nodes.position(f"n{n}") for n in range(TOTAL)] == [
        names.index(f"n{n}") if f"n{n}" in names else None for n in range(TOTAL)
    ]
    each = [SNAPSHOT.get(name) for name in names]
    assert nodes.allocatable("cpu").tolist() == [node.allocatable["cpu"] for node in each]
    assert nodes.pod_count.tolist() == [node.pod_count for node in each]
    zones, ports = nodes.labels(ZONE), nodes.host_ports
    assert [zones[i] for i in range(len(names))] == [node.labels.get(ZONE) for node in each]
    assert [ports[i] for i in range(len(names))] == [node.host_ports or None for node in each]
