"""Objects by key and by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduler.client.store import CHANGES_MAX, NAMESPACE_INDEX, Lister, Store, by_namespace
from tests.client.objects import pod

if TYPE_CHECKING:
    from scheduler.api.core import Pod


def by_uid_and_version(obj: Pod) -> tuple[str, str]:
    return obj.metadata.uid, f"v{obj.metadata.resource_version}"


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


@pytest.fixture
def store() -> Store[Pod]:
    return Store({NAMESPACE_INDEX: by_namespace, "more": by_uid_and_version})


def test_an_object_replaces_the_one_under_its_key(store: Store[Pod]) -> None:
    assert store.put(pod("a", "1")) is None
    assert store.put(pod("a", "2")) == pod("a", "1")
    assert store.get("default/a") == pod("a", "2")
    assert len(store) == 1


def test_an_index_follows_its_objects(store: Store[Pod]) -> None:
    store.put(pod("a", "1"))
    store.put(pod("b", "1"))
    store.put(pod("a", "2"))
    store.remove("default/b")

    assert names(store.by_index("more", "v2")) == ["a"]
    assert store.by_index("more", "v1") == []
    assert store.index_values("more") == ["uid-a", "v2"]


def test_replacing_everything_replaces_the_indices_too(store: Store[Pod]) -> None:
    store.put(pod("a", "1"))
    before = store.replace([pod("b", "5", namespace="x"), pod("c", "5", namespace="y")])

    assert before == {"default/a": pod("a", "1")}
    assert names(store.list()) == ["b", "c"]
    assert store.index_values(NAMESPACE_INDEX) == ["x", "y"]
    assert names(store.by_index("more", "v5")) == ["b", "c"]


def test_removing_what_is_not_there_is_no_error(store: Store[Pod]) -> None:
    assert store.remove("default/a") is None


def test_a_list_is_the_callers_own(store: Store[Pod]) -> None:
    store.put(pod("a"))
    store.list().clear()

    assert "default/a" in store


def test_an_index_that_is_not_there_is_an_error(store: Store[Pod]) -> None:
    with pytest.raises(KeyError):
        store.by_index("typo", "x")


@pytest.mark.parametrize("indexers", [{NAMESPACE_INDEX: by_namespace}, {}])
def test_a_lister_lists_one_namespace_with_or_without_an_index(
    indexers: dict[str, object],
) -> None:
    store: Store[Pod] = Store(indexers)  # type: ignore[arg-type]
    store.put(pod("a", namespace="x"))
    store.put(pod("b", namespace="y"))
    lister = Lister(store)

    assert names(lister.list()) == ["a", "b"]
    assert names(lister.list("x")) == ["a"]
    assert lister.list("z") == []
    assert lister.get("b", "y") == pod("b", namespace="y")
    assert lister.get("b", "x") is None


def test_a_reader_learns_what_has_changed_since_it_last_asked(store: Store[Pod]) -> None:
    cursor, changed = store.changes_since(-1)
    assert changed is None, "to a new reader anything may have changed"
    store.put(pod("a", "1"))
    store.put(pod("b", "1"))
    store.remove("default/a")
    store.remove("default/never-there")
    cursor, changed = store.changes_since(cursor)
    assert changed == ["default/a", "default/b", "default/a"]
    assert Lister(store).changes_since(cursor) == (cursor, [])


def test_a_list_changes_what_is_in_another_state_than_before(store: Store[Pod]) -> None:
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


def test_a_reader_that_has_missed_too_much_is_told_so(store: Store[Pod]) -> None:
    early, _ = store.changes_since(-1)
    store.put(pod("a", "1"))
    late = early + CHANGES_MAX // 2 + 1
    for _ in range(CHANGES_MAX):
        store.put(pod("a", "1"))
    assert store.changes_since(early)[1] is None
    assert len(store.changes_since(late)[1] or ()) == CHANGES_MAX + 1 - late
