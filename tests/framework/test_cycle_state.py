"""The cycle state: typed places, and copies for dry runs."""

from __future__ import annotations

import pytest

from scheduler.framework.cycle_state import CycleState, CycleStateError, StateKey


class Counter:
    def __init__(self, count: int) -> None:
        self.count = count

    def clone(self) -> Counter:
        return Counter(self.count)


COUNTER = StateKey[Counter]("Counter")
NAMES = StateKey[list[str]]("Names")


def test_a_value_that_was_written_is_read() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    state.write(NAMES, ["b"])
    assert state.read(NAMES) == ["b"]
    assert state.find(NAMES) == ["b"]


def test_a_missing_key_is_an_error_with_upstreams_message() -> None:
    state = CycleState()
    with pytest.raises(CycleStateError) as not_found:
        state.read(NAMES)
    assert str(not_found.value) == "not found"
    assert not_found.value.key == "Names"
    assert state.find(NAMES) is None


def test_a_key_has_its_own_text_for_a_missing_value() -> None:
    key = StateKey[int]("Size", 'error reading "{}" from cycleState: not found')
    with pytest.raises(LookupError) as missing:
        CycleState().read(key)
    assert str(missing.value) == 'error reading "Size" from cycleState: not found'


def test_a_deleted_key_is_gone() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    state.delete(NAMES)
    state.delete(NAMES)
    assert state.find(NAMES) is None


def test_keys_of_the_same_name_are_different() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    assert state.find(StateKey[list[str]]("Names")) is None


def test_a_clone_copies_values_with_a_clone_method_and_shares_the_rest() -> None:
    state = CycleState()
    counter, names = Counter(1), ["a"]
    state.write(COUNTER, counter)
    state.write(NAMES, names)
    state.skip_filter_plugins.add("A")
    state.skip_score_plugins.add("B")
    clone = state.clone()
    clone.read(COUNTER).count = 5
    assert counter.count == 1
    assert clone.read(NAMES) is names
    assert clone.skip_filter_plugins == {"A"}
    assert clone.skip_score_plugins == {"B"}


def test_writing_to_a_clone_leaves_the_original_alone() -> None:
    state = CycleState()
    state.write(NAMES, ["a"])
    clone = state.clone()
    clone.write(NAMES, ["b"])
    clone.write(COUNTER, Counter(1))
    assert state.read(NAMES) == ["a"]
    assert state.find(COUNTER) is None
