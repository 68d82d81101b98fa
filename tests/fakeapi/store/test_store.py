"""The store and its log by themselves: versions, positions, compaction, undoing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.store.store import (
    ADDED,
    DELETED,
    LOG_BYTES,
    MODIFIED,
    ChangeLog,
    Compacted,
    Store,
    with_prefix,
)

KIND = ("", "things")


def thing(value: int) -> dict[str, object]:
    return {"metadata": {"name": "t"}, "value": value}


def test_one_counter_numbers_all_writes() -> None:
    store = Store(resource_version=10, log_size=5)
    assert store.put(KIND, "a", thing(1)).resource_version == 11
    assert store.put(("", "others"), "a", thing(1)).resource_version == 12
    assert store.remove(KIND, "a").resource_version == 13
    assert store.resource_version == 13


def test_the_version_is_written_into_the_object_and_the_given_one_is_left_alone() -> None:
    store = Store(resource_version=0, log_size=5)
    given_object = thing(1)
    revision = store.put(KIND, "a", given_object)
    assert revision.object == {"metadata": {"name": "t", "resourceVersion": "1"}, "value": 1}
    assert given_object == thing(1)


def test_changes_have_the_previous_revision() -> None:
    store = Store(resource_version=0, log_size=5)
    first = store.put(KIND, "a", thing(1))
    second = store.put(KIND, "a", thing(2))
    final = store.remove(KIND, "a")
    log = store.collection(KIND).log
    changes = [log.at(position) for position in range(log.first, log.end)]
    assert [change.type for change in changes] == [ADDED, MODIFIED, DELETED]
    assert [change.previous for change in changes] == [None, first, second]
    assert [change.current for change in changes] == [first, second, None]
    assert final.object["value"] == 2
    assert final.object["metadata"] == {"name": "t", "resourceVersion": "3"}


def test_an_object_is_encoded_once() -> None:
    store = Store(resource_version=0, log_size=5)
    revision = store.put(KIND, "a", thing(1))
    assert revision.json() is revision.json()
    revision.forget_json()
    assert revision.json() == b'{"metadata":{"name":"t","resourceVersion":"1"},"value":1}'


def test_the_log_drops_exactly_the_changes_beyond_its_size() -> None:
    store = Store(resource_version=100, log_size=3)
    log = store.collection(KIND).log
    assert (log.first, log.end, log.compacted_version) == (0, 0, 100)
    for value in range(60):
        store.put(KIND, "a", thing(value))
        assert log.end - log.first == min(value + 1, 3)
        assert log.compacted_version == max(100, 100 + value + 1 - 3)
    assert log.position_after(157) == log.first
    assert log.position_after(160) == log.end
    with pytest.raises(Compacted) as caught:
        log.position_after(156)
    assert (caught.value.wanted, caught.value.oldest) == (156, 157)


def test_a_compacted_log_keeps_its_positions() -> None:
    store = Store(resource_version=0, log_size=10)
    for value in range(4):
        store.put(KIND, "a", thing(value))
    log = store.collection(KIND).log
    log.compact()
    assert (log.first, log.end, log.compacted_version) == (4, 4, 4)
    store.put(KIND, "a", thing(9))
    assert log.at(4).resource_version == 5


def test_a_collection_that_comes_late_begins_where_the_store_began() -> None:
    store = Store(resource_version=50, log_size=10)
    store.put(KIND, "a", thing(1))
    assert store.collection(("", "others")).log.compacted_version == 50


def test_old_encodings_are_given_back() -> None:
    log = ChangeLog(5000, LOG_BYTES, 0)
    store = Store(resource_version=0, log_size=5000)
    store.collection(KIND).log = log
    store.put(KIND, "a", thing(0))
    log.at(0).encoded["x"] = b"event"
    for value in range(1023):
        store.put(KIND, "a", thing(value))
    assert log.at(0).encoded
    store.put(KIND, "a", thing(0))
    assert not log.at(0).encoded


def test_a_log_keeps_about_so_many_bytes() -> None:
    store = Store(resource_version=0, log_size=1000, log_bytes=10_000)
    for value in range(100):
        store.put(KIND, "a", {"metadata": {"name": "t"}, "data": "x" * 1000, "value": value})
    collection = store.collection(KIND)
    kept = list(collection.log.newer_than(collection.log.compacted_version))
    assert 4 <= len(kept) <= 11
    assert [change.resource_version for change in kept] == list(range(100, 100 - len(kept), -1))
    with pytest.raises(Compacted):
        collection.at_version(50)


@pytest.mark.parametrize(
    ("prefix", "found"),
    [("", ["a-b/x", "a/x", "a/y", "b/x"]), ("a/", ["a/x", "a/y"]), ("c/", [])],
)
def test_keys_of_a_namespace(prefix: str, found: list[str]) -> None:
    assert with_prefix(["a-b/x", "a/x", "a/y", "b/x"], prefix) == found


writes = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 3)), max_size=30)


@settings(max_examples=25, deadline=None)
@given(writes)
def test_any_past_state_can_be_had_back(changes: list[tuple[str, bool, int]]) -> None:
    store = Store(resource_version=0, log_size=100)
    collection = store.collection(KIND)
    past: dict[int, dict[str, object]] = {0: {}}
    for key, deletes, value in changes:
        if not deletes:
            store.put(KIND, key, thing(value))
        elif key in collection.revisions:
            store.remove(KIND, key)
        state = {name: revision.object for name, revision in collection.revisions.items()}
        past[store.resource_version] = state
    for version, state in past.items():
        found = collection.at_version(version)
        assert {name: revision.object for name, revision in found.items()} == state
    assert collection.sorted_keys() == sorted(collection.revisions)
