"""The state of a server in a SQLite file; a change is committed before any client sees it.

One row per version of an object that a watch or list may still request, as etcd keeps them:

    revisions     version (primary key), resource, deleted, object
    collections   where the log of each resource starts; older versions are deleted
    counter       the newest version of all, in case its own row was deleted

A change is one insert. Changes are committed in groups: all changes of one turn of the event loop,
before the first byte of an answer or watch event that depends on them. So every change that a
client has seen is in the file, and its version is never used again. The file is in WAL mode and
`synchronous` is NORMAL: committed changes survive the death of the process at any moment (`kill
-9`); a loss of power may cost the newest commits, but does not damage the file.

One process at a time: the file is locked as long as it is open.
"""

from __future__ import annotations

import collections
import contextlib
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fakeapi import private_file
from fakeapi.state.contents import Contents, SavedChange, SavedCollection, StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fakeapi.store.store import Change, ChangeLog, Collection, Store
    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.objects import Json

#: "kube" as a number, in the header of the file: whose it is.
_APPLICATION_ID: Final = 0x6B756265
_FORMAT_VERSION: Final = 1
_SCHEMA: Final = (
    """
    CREATE TABLE collections (
        id INTEGER PRIMARY KEY, api_group TEXT NOT NULL, resource TEXT NOT NULL,
        start INTEGER NOT NULL, UNIQUE (api_group, resource)
    )
    """,
    """
    CREATE TABLE revisions (
        version INTEGER PRIMARY KEY, collection INTEGER NOT NULL, deleted INTEGER NOT NULL,
        object BLOB NOT NULL
    )
    """,
    "CREATE TABLE counter (newest INTEGER NOT NULL, start INTEGER NOT NULL)",
)
#: Rows that cannot be requested any more are deleted after so many changes.
_FORGET_EVERY: Final = 512


class _Row(NamedTuple):
    """A row of `revisions`."""

    version: int
    collection: int
    deleted: bool
    object: bytes


class _Entry(NamedTuple):
    """A change in the log of its collection, and the row that the change makes superfluous."""

    version: int
    previous: int  # the version it superseded, 0 if it was the first
    deleted: bool


class _Written:
    """The rows of one collection: its number in the file, and the changes of its log."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: collections.deque[_Entry] = collections.deque()

    def forget(self, log: ChangeLog) -> tuple[int, list[tuple[int]]]:
        """Return the start of the log, 0 if unchanged, and the versions that can be deleted."""
        start, gone = 0, []
        while self.entries and self.entries[0].version <= log.compacted_version:
            entry = self.entries.popleft()
            start = entry.version
            if entry.previous:
                gone.append((entry.previous,))
            if entry.deleted:
                gone.append((entry.version,))
        return start, gone


class Database:
    """The file of one store: open it, restore the store, attach the store, then note and commit."""

    def __init__(self, path: Path) -> None:
        """Open or create the file, lock it and check it. Raises StateError."""
        self._path = path
        self._store: Store | None = None
        self._written: dict[ResourceKey, _Written] = {}
        self._numbers: dict[ResourceKey, int] = {}
        #: Where the logs of resources that are new to the file started.
        self._starts: dict[ResourceKey, int] = {}
        self._newest = 0
        self._pending: list[tuple[Collection, Change]] = []
        #: How many changes it was ever told of, and how many of these are in the file.
        self.noted = 0
        self.committed = 0
        self._since_forgetting = 0
        #: Versions from here on were taken back (a fault does that) and are given anew.
        self._taken_back_from: int | None = None
        with _errors_about(path):
            with contextlib.suppress(OSError):  # SQLite has the error, too
                private_file.create(path)
            # Isolation None: transactions begin and end by explicit statements only.
            self._connection = sqlite3.connect(
                path, timeout=0.0, isolation_level=None, check_same_thread=False
            )
            try:
                self.is_new = self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> bool:
        """Make the file ours; whether nothing was ever stored in it. Raises sqlite3.Error."""
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("BEGIN EXCLUSIVE")  # the lock is taken here, and stays
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables and not application:
            for statement in _SCHEMA:
                execute(statement)
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            execute(f"PRAGMA user_version = {_FORMAT_VERSION}")
        elif application != _APPLICATION_ID:
            raise StateError(f"{self._path}: a SQLite file, but not one of kubesched-fakeapi")
        elif version != _FORMAT_VERSION:
            raise StateError(f"{self._path}: format version {version}, expected {_FORMAT_VERSION}")
        execute("COMMIT")
        (verdict,) = execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StateError(f"{self._path}: damaged: {' '.join(verdict.split())}")
        is_new = execute("SELECT newest FROM counter").fetchone() is None
        if is_new and execute("SELECT version FROM revisions LIMIT 1").fetchone() is not None:
            raise StateError(f"{self._path}: damaged: revisions, but no counter of versions")
        return is_new

    def contents(self) -> Contents:
        """Return the contents of a file that is not new. Raises StateError."""
        with _errors_about(self._path):
            return self._read()

    def _read(self) -> Contents:
        execute = self._connection.execute
        newest, started_at = execute("SELECT newest, start FROM counter").fetchone()
        saved: dict[int, SavedCollection] = {}
        for number, group, resource, start in execute(
            "SELECT id, api_group, resource, start FROM collections ORDER BY id"
        ):
            saved[number] = SavedCollection(group, resource, start, [], [])
            self._numbers[group, resource] = number
        for version, number, deleted, raw in execute(
            "SELECT version, collection, deleted, object FROM revisions ORDER BY version"
        ):
            collection = saved.get(number)
            if collection is None:
                raise StateError(f"{self._path}: damaged: revision {version} is of no collection")
            obj = self._decoded(raw, version)
            newest = max(newest, version)
            if version <= collection.start:
                collection.objects.append(obj)
            else:
                collection.changes.append(SavedChange(obj, bool(deleted)))
        return Contents(newest, started_at, list(saved.values()))

    def _decoded(self, raw: object, version: int) -> Json:
        if not isinstance(raw, bytes):
            raise StateError(f"{self._path}: damaged: revision {version}: expected a blob")
        try:
            return msgspec.json.decode(raw, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StateError(f"{self._path}: damaged: revision {version}: {error}") from error

    def attach(self, store: Store) -> None:
        """Follow a store with the content of the file; a new file is filled first.

        Its content is part of the first commit: a server that cannot be set up leaves no state.
        Raises StateError.
        """
        self._store = store
        self._newest = store.resource_version
        with _errors_about(self._path):
            self._connection.execute("BEGIN")
            if self.is_new:
                counter = (store.resource_version, store.started_at)
                self._connection.execute("INSERT INTO counter VALUES (?, ?)", counter)
            for collection in store.collections():
                self._attach(collection)
        store.observers.insert(0, self.note)

    def _attach(self, collection: Collection) -> None:
        log = collection.log
        start = log.compacted_version
        written = self._of(collection)
        changes = list(log.newer_than(start))[::-1]
        for change in changes:
            written.entries.append(_entry(change))
        if not self.is_new:
            self._delete_superseded(collection, written.number)
        else:
            rows = [
                _Row(revision.resource_version, written.number, False, revision.json())
                for revision in collection.at_version(start).values()
            ]
            self._insert([*rows, *(_row(change, written.number) for change in changes)])

    def _delete_superseded(self, collection: Collection, number: int) -> None:
        """Delete the rows that the log of a restored collection does not reach back to.

        The file of a process that was killed may hold a longer log than the store restores. Of
        those changes only the objects as of the start of the log are kept.
        """
        start = collection.log.compacted_version
        kept = {revision.resource_version for revision in collection.at_version(start).values()}
        rows = self._connection.execute(
            "SELECT version FROM revisions WHERE collection = ? AND version <= ?", (number, start)
        ).fetchall()
        gone = [(version,) for (version,) in rows if version not in kept]
        self._connection.executemany("DELETE FROM revisions WHERE version = ?", gone)
        self._connection.execute("UPDATE collections SET start = ? WHERE id = ?", (start, number))

    def _of(self, collection: Collection) -> _Written:
        """Return the rows of a collection; may insert one, so it needs a transaction."""
        written = self._written.get(collection.resource)
        if written is None:
            start = self._starts.pop(collection.resource, collection.log.compacted_version)
            number = self._numbers.get(collection.resource)
            if number is None:
                cursor = self._connection.execute(
                    "INSERT INTO collections (api_group, resource, start) VALUES (?, ?, ?)",
                    (*collection.resource, start),
                )
                number = cursor.lastrowid
                assert number is not None
            written = _Written(number)
            self._written[collection.resource] = written
        return written

    def note(self, collection: Collection, change: Change) -> None:
        """Note a change; it is in the file after the next `commit`."""
        version = change.resource_version
        if version <= self._newest:
            self._take_back(version)
        self._newest = version
        self.noted += 1
        if collection.resource not in self._written:
            # By the time of the commit the log may have moved on beyond its first changes.
            self._starts.setdefault(collection.resource, collection.log.compacted_version)
        self._pending.append((collection, change))

    def _take_back(self, version: int) -> None:
        self._pending = [
            (collection, change)
            for collection, change in self._pending
            if change.resource_version < version
        ]
        before = self._taken_back_from
        self._taken_back_from = version if before is None else min(version, before)

    def commit(self) -> None:
        """Write the noted changes. Raises StateError; the file then has none of them."""
        if not self._pending and not self._connection.in_transaction:
            return
        pending, self._pending = self._pending, []
        until = self.noted
        with _errors_about(self._path):
            try:
                if not self._connection.in_transaction:
                    self._connection.execute("BEGIN")
                self._write(pending)
                self._connection.execute("COMMIT")
                self.committed = until
            except sqlite3.Error:
                if self._connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                raise

    def _write(self, pending: list[tuple[Collection, Change]]) -> None:
        if self._taken_back_from is not None:
            self._delete_from(self._taken_back_from)
            self._taken_back_from = None
        rows = []
        for collection, change in pending:
            written = self._of(collection)
            written.entries.append(_entry(change))
            rows.append(_row(change, written.number))
        self._insert(rows)
        self._since_forgetting += len(rows)
        if self._since_forgetting >= _FORGET_EVERY:
            self._forget()

    def _insert(self, rows: Iterable[_Row]) -> None:
        self._connection.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?)", rows)

    def _delete_from(self, version: int) -> None:
        self._connection.execute("DELETE FROM revisions WHERE version >= ?", (version,))
        for written in self._written.values():
            while written.entries and written.entries[-1].version >= version:
                written.entries.pop()

    def _forget(self) -> None:
        """Delete what the logs do not hold any more; in a transaction."""
        self._since_forgetting = 0
        execute = self._connection.execute
        assert self._store is not None, "a file without a store is not written"
        for resource, written in self._written.items():
            start, gone = written.forget(self._store.collection(resource).log)
            if start:
                self._connection.executemany("DELETE FROM revisions WHERE version = ?", gone)
                execute("UPDATE collections SET start = ? WHERE id = ?", (start, written.number))
        execute("UPDATE counter SET newest = ?", (self._newest,))

    def close(self) -> None:
        """Commit, tidy up and unlock. Raises StateError."""
        with contextlib.closing(self._connection), _errors_about(self._path):
            self.commit()
            self._connection.execute("BEGIN")
            self._forget()
            self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def abandon(self) -> None:
        """Unlock the file as it is."""
        self._connection.close()


def _entry(change: Change) -> _Entry:
    previous = change.previous.resource_version if change.previous is not None else 0
    return _Entry(change.resource_version, previous, change.current is None)


def _row(change: Change, number: int) -> _Row:
    raw = change.revision.json()  # the answer needs it as well
    return _Row(change.resource_version, number, change.current is None, raw)


@contextlib.contextmanager
def _errors_about(path: Path) -> Iterator[None]:
    """Make StateErrors of SQLite's errors, with advice."""
    try:
        yield
    except sqlite3.Error as error:
        advice = ": another process is using it" if "locked" in str(error) else ""
        raise StateError(f"{path}: {error}{advice}") from error
