"""The keyed heap, beyond upstream's tests of it (`tests/upstream/test_scheduling_queue.py`)."""

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.heap import Heap


class Item(NamedTuple):
    name: str
    value: int


def heap_of(**values: int) -> Heap[Item]:
    heap: Heap[Item] = Heap(lambda item: (item.value,))
    for name, value in values.items():
        heap.add_or_update(name, Item(name, value))
    return heap


def put(heap: Heap[Item], name: str, value: int) -> None:
    heap.add_or_update(name, Item(name, value))


def pop_all(heap: Heap[Item]) -> list[Item]:
    items = []
    while (item := heap.pop()) is not None:
        items.append(item)
    return items


def test_all_items_can_be_listed() -> None:
    """TestHeap_List; and in the order in which they would leave."""
    assert list(heap_of()) == []
    heap = heap_of(foo=10, bar=1, bal=30, baz=11, faz=30)
    assert sorted(item.name for item in heap) == ["bal", "bar", "baz", "faz", "foo"]
    assert [item.name for item in heap.in_order()] == ["bar", "foo", "baz", "bal", "faz"]
    assert len(heap) == 5


def test_equal_items_leave_in_the_order_in_which_they_came() -> None:
    heap = heap_of(c=1, a=1, b=1)
    put(heap, "a", 1)
    assert [item.name for item in pop_all(heap)] == ["c", "a", "b"]


def test_an_item_that_changes_and_changes_back_leaves_after_its_equals() -> None:
    heap = heap_of(a=1, b=1)
    put(heap, "a", 2)
    put(heap, "a", 1)
    assert [item.name for item in pop_all(heap)] == ["b", "a"]


def test_dead_entries_do_not_pile_up() -> None:
    heap = heap_of(stays=0)
    for value in range(10_000):
        put(heap, "moves", value)
    assert list(heap.complaints()) == []
    assert len(heap) == 2


Steps = st.lists(
    st.tuples(st.sampled_from(["add", "delete", "pop"]), st.integers(0, 9), st.integers(0, 5))
)


@pytest.mark.slow
@given(Steps)
def test_a_heap_behaves_as_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    heap: Heap[Item] = Heap(lambda item: (item.value,))
    model: dict[str, tuple[int, int]] = {}
    turns = itertools.count()
    for step, number, value in steps:
        name = f"i{number}"
        if step == "add":
            put(heap, name, value)
            if name not in model or model[name][0] != value:
                model[name] = (value, next(turns))
        elif step == "delete":
            assert (heap.delete(name) is None) == (model.pop(name, None) is None)
        elif model:
            least = min(model, key=lambda key: model[key])
            assert heap.pop() == Item(least, model.pop(least)[0])
        else:
            assert heap.pop() is None
        assert list(heap.complaints()) == []
        assert [i.name for i in heap.in_order()] == sorted(model, key=lambda key: model[key])


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda heap: heap._entries.reverse(), "lies below"),
        (lambda heap: heap._entries.pop(), "has no entry in it"),
        (lambda heap: heap._entries.extend(heap._entries * 40), "were not swept"),
    ],
)
def test_a_broken_heap_complains(break_it: object, complaint: str) -> None:
    heap = heap_of(a=1, b=2, c=3)
    assert callable(break_it)
    break_it(heap)
    assert any(complaint in text for text in heap.complaints())


def test_the_first_items_are_listed_in_order_and_stay() -> None:
    heap = heap_of(c=3, a=1, b=2)
    assert [item.name for item in heap.first(2)] == ["a", "b"]
    assert [item.name for item in heap.first(9)] == ["a", "b", "c"]
    assert len(heap) == 3
