"""A restored store equals the store after any history."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeapi.state import database
from fakeapi.state.contents import Contents, contents_of, put_into
from fakeapi.state.database import Database
from fakeapi.store.store import Compacted, Store

RESOURCES = (("", "pods"), ("apps", "deployments"))

#: What may happen, in words a failing example can be read in.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(RESOURCES), st.sampled_from("abc")),
        st.tuples(st.just("remove"), st.sampled_from(RESOURCES), st.sampled_from("abc")),
        st.tuples(st.just("rewind"), st.integers(1, 5)),
        st.just(("compact",)),
        st.just(("commit",)),
        st.just(("restart",)),
    ),
    max_size=40,
)
log_sizes = st.integers(1, 6)


def new_store(log_size: int) -> Store:
    return Store(resource_version=10, log_size=log_size)


def take(store: Store, step: tuple[Any, ...]) -> None:
    match step:
        case ("put", resource, name):
            store.put(resource, f"d/{name}", {"metadata": {"namespace": "d", "name": name}})
        case ("remove", resource, name):
            if f"d/{name}" in store.collection(resource).revisions:
                store.remove(resource, f"d/{name}")
        case ("rewind", versions):
            store.rewind(versions)
        case ("compact",):
            store.compact()


def answers(store: Store) -> dict[str, Any]:
    """Return the state of a store at each version, and the changes after it."""
    found: dict[str, Any] = {"newest": store.resource_version}
    for resource in RESOURCES:
        collection = store.collection(resource)
        for version in range(9, store.resource_version + 1):
            where = f"{resource} {version}"
            try:
                state = collection.at_version(version)
                found[where] = (
                    {key: revision.object for key, revision in state.items()},
                    [(change.type, change.key) for change in collection.log.newer_than(version)],
                )
            except Compacted as gone:
                found[where] = str(gone)
    return found


def restored(contents: Contents, log_size: int) -> Store:
    store = new_store(log_size)
    put_into(store, contents)
    return store


@given(steps=steps, log_size=log_sizes)
def test_a_snapshot_is_the_store(steps: list[tuple[Any, ...]], log_size: int) -> None:
    store = new_store(log_size)
    for step in steps:
        take(store, step)
    raw = msgspec.json.encode(contents_of(store))
    again = restored(msgspec.json.decode(raw, type=Contents), log_size)
    assert answers(again) == answers(store)
    assert contents_of(again) == contents_of(store)


class Life:
    """A store and its database, over restarts."""

    def __init__(self, path: Path, log_size: int, end: Callable[[Database], None]) -> None:
        self._path = path
        self._log_size = log_size
        self._end = end
        self.store = new_store(log_size)
        self._begin()

    def _begin(self) -> None:
        self._database = Database(self._path)
        if not self._database.is_new:
            self.store = restored(self._database.contents(), self._log_size)
        self._database.attach(self.store)
        self._database.commit()

    def take(self, step: tuple[Any, ...]) -> None:
        if step == ("commit",):
            self._database.commit()
        elif step == ("restart",):
            self.restart()
        else:
            take(self.store, step)

    def restart(
        self, *, end: Callable[[Database], None] | None = None, log_size: int | None = None
    ) -> None:
        self._log_size = log_size or self._log_size
        self._database.commit()
        (end or self._end)(self._database)
        self._begin()

    def objects(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {
            resource: {
                key: revision.object
                for key, revision in self.store.collection(resource).revisions.items()
            }
            for resource in RESOURCES
        }

    def stop(self) -> None:
        self._database.abandon()


@pytest.mark.slow
@given(steps=steps, log_size=log_sizes)
def test_a_database_is_the_store_however_it_ended(
    steps: list[tuple[Any, ...]], log_size: int
) -> None:
    steps = [step for step in steps if step[0] not in ("rewind", "compact")]
    expected = new_store(log_size)
    for step in steps:
        take(expected, step)
    for end in (Database.close, Database.abandon):
        with tempfile.TemporaryDirectory() as directory:
            life = Life(Path(directory, "state.db"), log_size, end)
            for step in steps:
                life.take(step)
            life.restart()
            assert answers(life.store) == answers(expected)
            life.stop()


@pytest.mark.slow
@given(steps=steps, log_size=log_sizes)
def test_objects_outlive_faults_too(steps: list[tuple[Any, ...]], log_size: int) -> None:
    """Compaction and lost versions are faults; the logs may differ after them."""
    with tempfile.TemporaryDirectory() as directory:
        life = Life(Path(directory, "state.db"), log_size, Database.abandon)
        for step in [*steps, ("put", RESOURCES[0], "a")]:
            life.take(step)
        before = [life.store.collection(resource).revisions for resource in RESOURCES]
        version = life.store.resource_version
        life.restart()
        after = [life.store.collection(resource).revisions for resource in RESOURCES]
        assert life.store.resource_version == version
        for mine, theirs in zip(after, before, strict=True):
            assert {key: revision.object for key, revision in mine.items()} == {
                key: revision.object for key, revision in theirs.items()
            }
        life.stop()


ends = st.sampled_from([Database.close, Database.abandon])
writes = st.tuples(
    st.sampled_from(["put", "put", "remove"]), st.sampled_from(RESOURCES[:1]), st.sampled_from("ab")
)
#: Each life of the process: its writes, how it ends, and the size of the next one's log.
histories = st.lists(
    st.tuples(st.lists(writes, min_size=2, max_size=12), ends, st.integers(1, 6)), min_size=3
)


@pytest.mark.slow
@given(history=histories)
def test_nothing_is_lost_or_revived_over_kills_and_clean_stops(
    history: list[tuple[list[tuple[Any, ...]], Callable[[Database], None], int]],
) -> None:
    """A killed process leaves rows that a later one, with a log of its own size, must not keep."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "_FORGET_EVERY", 3)
        life = Life(Path(directory, "state.db"), 6, Database.close)
        for steps, end, log_size in history:
            for step in steps:
                life.take(step)
            before = life.objects()
            life.restart(end=end, log_size=log_size)
            assert life.objects() == before
        life.stop()
