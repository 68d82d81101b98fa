"""NodeName."""

from scheduler.plugins.node_name import NodeName
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, UNRESOLVABLE, hint, rejected

SNAPSHOT = snapshot_of([make_node("a"), make_node("b"), make_node("c")])
NO_MATCH = (UNRESOLVABLE, ("node(s) didn't match the requested node name",))


def test_a_pod_that_names_no_node_fits_everywhere() -> None:
    assert rejected(NodeName(), make_pod(), SNAPSHOT) == {}


def test_a_pod_that_names_a_node_fits_only_there() -> None:
    found = rejected(NodeName(), make_pod(node_name="b"), SNAPSHOT)
    assert found == {"a": NO_MATCH, "c": NO_MATCH}


def test_a_pod_that_names_a_node_there_is_not_fits_nowhere() -> None:
    assert set(rejected(NodeName(), make_pod(node_name="x"), SNAPSHOT)) == {"a", "b", "c"}


def test_any_new_node_is_worth_a_try() -> None:
    assert hint(NodeName(), make_pod(node_name="x"), new=make_node("y")) == QUEUE
