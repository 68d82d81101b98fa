"""Image states: the cases of `imageStates` in upstream's `cache_test.go`."""

import pytest

from scheduler.api.core import ContainerImage, Node, NodeStatus, ObjectMeta
from scheduler.snapshot.images import Image, ImageStates, ImageTable
from scheduler.testing import make_node

LARGE = {"app:1": 500}


def test_an_image_has_the_size_its_first_node_told_and_all_its_nodes() -> None:
    states = ImageStates()
    states.add_node(make_node("a", images={"app:1": 500}))
    states.add_node(make_node("b", images={"app:1": 700, "db:1": 9}))
    assert states.take_changes() == {
        "app:1": Image(500, frozenset({"a", "b"})),
        "db:1": Image(9, frozenset({"b"})),
    }


def test_an_image_is_known_under_all_its_names() -> None:
    images = (ContainerImage(names=("app:1", "registry/app:1"), size_bytes=5),)
    states = ImageStates()
    states.add_node(Node(metadata=ObjectMeta(name="a"), status=NodeStatus(images=images)))
    assert states.take_changes() == dict.fromkeys(
        ("app:1", "registry/app:1"), Image(5, frozenset({"a"}))
    )


def test_an_image_that_its_last_node_drops_is_forgotten_with_its_size() -> None:
    states = ImageStates()
    states.add_node(make_node("a", images={"app:1": 500}))
    states.remove_node(make_node("a", images={"app:1": 500}))
    assert states.take_changes() == {"app:1": None}
    states.add_node(make_node("b", images={"app:1": 700}))
    assert states.take_changes() == {"app:1": Image(700, frozenset({"b"}))}


def test_an_image_that_another_node_still_has_stays() -> None:
    states = ImageStates()
    for name in ("a", "b"):
        states.add_node(make_node(name, images=LARGE))
    states.remove_node(make_node("a", images=LARGE))
    assert states.take_changes() == {"app:1": Image(500, frozenset({"b"}))}


def test_changes_are_returned_once() -> None:
    states = ImageStates()
    states.add_node(make_node("a", images=LARGE))
    states.take_changes()
    assert states.take_changes() == {}


def test_removing_an_unknown_node_is_no_change() -> None:
    states = ImageStates()
    states.remove_node(make_node("a", images=LARGE))
    assert states.take_changes() == {}


@pytest.fixture
def table() -> ImageTable:
    table = ImageTable()
    table.apply({"app:1": Image(5, frozenset({"b", "gone"})), "db:1": Image(6, frozenset())})
    return table


def test_a_table_follows_the_changes(table: ImageTable) -> None:
    assert set(table.names()) == {"app:1", "db:1"}
    table.apply({"app:1": Image(7, frozenset({"a"})), "db:1": None, "never": None})
    assert table.get("app:1") == Image(7, frozenset({"a"}))
    assert table.get("db:1") is None
    assert set(table.names()) == {"app:1"}


def test_masks_flag_the_rows_of_nodes_that_have_the_image(table: ImageTable) -> None:
    rows = {"a": 0, "b": 1, "c": 2}
    assert table.mask("app:1", rows, 3).tolist() == [False, True, False]
    table.apply({"app:1": Image(5, frozenset({"a", "c"}))})
    assert table.mask("app:1", rows, 3).tolist() == [True, False, True]


def test_masks_are_computed_again_after_rows_have_moved(table: ImageTable) -> None:
    assert table.mask("app:1", {"b": 1}, 2).tolist() == [False, True]
    table.forget_rows()
    assert table.mask("app:1", {"b": 0}, 3).tolist() == [True, False, False]
