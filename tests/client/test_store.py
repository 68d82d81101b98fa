"""Objects by key and by namespace."""

import pytest

from scheduler.api.core import Pod
from scheduler.client.store import CHANGES_MAX, Store
from tests.client.objects import pod


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


@pytest.fixture
def store() -> Store[Pod]:
    return Store()


def test_an_object_replaces_the_one_under_its_key(store: Store[Pod]) -> None:
    assert store.put(pod("a", "1")) is None
    assert store.put(pod("a", "2")) == pod("a", "1")
    assert store.get("a", "default") == pod("a", "2")
    assert len(store) == 1


def test_replacing_everything_replaces_the_namespaces_too(store: Store[Pod]) -> None:
    store.put(pod("a", "1"))
    before = store.replace([pod("b", "5", namespace="x"), pod("c", "5", namespace="y")])

    assert before == {"default/a": pod("a", "1")}
    assert names(store.list()) == ["b", "c"]
    assert [names(store.list(namespace)) for namespace in ("default", "x", "y")] == [
        [],
        ["b"],
        ["c"],
    ]


def test_removing_an_unknown_key_is_no_error(store: Store[Pod]) -> None:
    assert store.remove("default/a") is None


def test_a_list_is_the_callers_own(store: Store[Pod]) -> None:
    store.put(pod("a"))
    store.list().clear()

    assert len(store) == 1


def test_one_namespace_is_listed(store: Store[Pod]) -> None:
    store.put(pod("a", namespace="x"))
    store.put(pod("b", namespace="y"))
    store.put(pod("a", "2", namespace="x"))

    assert names(store.list()) == ["a", "b"]
    assert store.list("x") == [pod("a", "2", namespace="x")]
    assert store.list("z") == []
    assert store.get("b", "y") == pod("b", namespace="y")
    assert store.get("b", "x") is None
    store.remove("x/a")
    assert store.list("x") == []


def test_a_reader_gets_the_changes_since_its_last_call(store: Store[Pod]) -> None:
    cursor, changed = store.changes_since(-1)
    assert changed is None, "to a new reader anything may have changed"
    store.put(pod("a", "1"))
    store.put(pod("b", "1"))
    store.remove("default/a")
    store.remove("default/never-there")
    cursor, changed = store.changes_since(cursor)
    assert changed == ["default/a", "default/b", "default/a"]
    assert store.changes_since(cursor) == (cursor, [])


def test_a_list_changes_the_keys_with_another_version(store: Store[Pod]) -> None:
    for name in ("same", "newer", "gone"):
        store.put(pod(name, "1"))
    cursor, _ = store.changes_since(-1)
    store.replace([pod("same", "1"), pod("newer", "2"), pod("new", "1")])
    cursor, changed = store.changes_since(cursor)
    assert sorted(changed or ()) == ["default/gone", "default/new", "default/newer"]
    store.put(pod("same", "2"))
    assert store.changes_since(cursor)[1] == ["default/same"]


def test_after_a_list_with_too_many_changes_anything_may_have_changed(store: Store[Pod]) -> None:
    cursor, _ = store.changes_since(-1)
    store.replace([pod(f"p{number}", "1") for number in range(CHANGES_MAX)])
    cursor, changed = store.changes_since(cursor)
    assert changed is None
    assert store.changes_since(cursor) == (cursor, [])


def test_a_reader_that_has_missed_too_much_gets_no_keys(store: Store[Pod]) -> None:
    early, _ = store.changes_since(-1)
    store.put(pod("a", "1"))
    late = early + CHANGES_MAX // 2 + 1
    for _ in range(CHANGES_MAX):
        store.put(pod("a", "1"))
    assert store.changes_since(early)[1] is None
    assert len(store.changes_since(late)[1] or ()) == CHANGES_MAX + 1 - late
