"""Restores the state of a server first, keeps it while the server runs, saves it last.

    state to start with   1. the database, if it has one      2. the file to restore from
                          3. the snapshot, if it exists       4. a new state

With a database, `settled` and `guarded` hold answers and watch events back until the changes in
them are committed. Requests wait for one turn of the event loop, so that writes of the same turn
share a commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING

from fakeapi.state.contents import Contents, StateError, contents_of, put_into
from fakeapi.state.database import Database
from fakeapi.state.recording import Recording
from fakeapi.state.snapshots import read_snapshot, write_snapshot
from fakeapi.types.option import file_option, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from fakeapi.clock import Clock
    from fakeapi.store.journal import Journal
    from fakeapi.store.store import Change, Collection, Store

    _Write = Callable[[bytes], Awaitable[None]]

_log = logging.getLogger("fakeapi")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """Files of a server's state; None for a file that is not used."""

    snapshot: Path | None = file_option(
        "Start from this snapshot if it exists; write it at the end and on SIGUSR1.", written=True
    )
    restore: Path | None = file_option(
        "Start from this snapshot, which must exist and is not written."
    )
    data: Path | None = file_option(
        "Keep the state in this SQLite file, each change before its response, and start from it. "
        "A state in this file or in a snapshot replaces --load.",
        written=True,
    )
    keep_uids: bool = option(False, "Leave the objects of --load their uids, instead of new ones.")
    record: Path | None = file_option(
        "Overwrite this file with every change and its time, as JSON lines.",
        metavar="FILE.jsonl",
        written=True,
    )


class Keeper:
    """The files of the state of one server."""

    def __init__(
        self, files: StateFiles | None, store: Store, clock: Clock, journal: Journal
    ) -> None:
        """Restore a store that is still empty, and follow it. Raises StateError."""
        files = self.files = files or StateFiles()
        self._store = store
        self._clock = clock
        self._database: Database | None = None
        self._recording: Recording | None = None
        self._commit_is_due = False
        #: Why the database cannot be written any more; nothing is answered from then on.
        self.failure: StateError | None = None
        #: Called once when that happens.
        self.on_failure: Callable[[StateError], None] | None = None
        #: True if the state was restored.
        self.is_restored = False
        #: True while the server is set up; a failure then means that it does not start.
        self.is_setting_up = False
        try:
            self._restore()
            if files.record is not None:
                self._recording = Recording(files.record, store, clock, journal)
        except BaseException:
            self.abandon()
            raise

    def _restore(self) -> None:
        files = self.files
        if files.data is None:
            self._restore_snapshot()
            return
        database = self._database = Database(files.data)
        if database.is_new:
            self._restore_snapshot()
        elif files.restore is not None:
            raise StateError(
                f"{files.restore}: cannot be restored, {files.data} holds a state already"
            )
        else:
            self._put(files.data, database.contents())
        database.attach(self._store)
        self._store.observers.append(self._changed)

    def _restore_snapshot(self) -> None:
        files = self.files
        if files.snapshot is not None and not files.snapshot.parent.is_dir():
            # It would be too late to find out at the end.
            raise StateError(f"{files.snapshot}: {files.snapshot.parent} is no directory")
        if files.restore is not None:
            self._put(files.restore, read_snapshot(files.restore))
        elif files.snapshot is not None and files.snapshot.exists():
            self._put(files.snapshot, read_snapshot(files.snapshot))

    def _put(self, path: Path, contents: Contents) -> None:
        try:
            put_into(self._store, contents)
        except StateError as error:
            raise StateError(f"{path}: {error}") from error
        self.is_restored = True

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Commit the state at the end of the block, or close the files if the block fails."""
        try:
            self.is_setting_up = True
            yield
            self.is_setting_up = False
            self.commit()
        except BaseException:
            self.abandon()
            raise

    def begin(self) -> None:
        """Begin the recording, once the server has its port. Raises StateError."""
        if self._recording is not None:
            self._recording.begin()

    def save_snapshot(self, path: Path | None = None) -> Path:
        """Write a snapshot, by default to the server's file; return its path. Raises StateError."""
        target = path or self.files.snapshot
        if target is None:
            raise StateError("no file for the snapshot: neither given now nor with the server")
        write_snapshot(target, contents_of(self._store), now_seconds=self._clock.now())
        return target

    def _changed(self, _: Collection, __: Change) -> None:
        """Commit in the next turn of the event loop: not only requests write."""
        if self._commit_is_due:
            return
        with contextlib.suppress(RuntimeError):  # there is no loop yet while the server is set up
            asyncio.get_running_loop().call_soon(self._commit_now)
            self._commit_is_due = True

    def _commit_now(self) -> None:
        self._commit_is_due = False
        with contextlib.suppress(StateError):  # requests that wait for the commit get the error
            self.commit()

    def commit(self) -> None:
        """Commit all changes made so far. Raises StateError."""
        if self.failure is not None:
            raise self.failure
        if self._database is None:
            return
        try:
            self._database.commit()
        except StateError as error:
            self._fail(error)
            raise

    def _fail(self, error: StateError) -> None:
        self.failure = error
        if self.on_failure is not None:
            self.on_failure(error)
        else:
            _log.error("%s: nothing is answered any more", error)

    async def settled(self) -> None:
        """Wait until the changes made so far are committed. Raises StateError."""
        if self._database is None:
            return
        mine = self._database.noted
        if self._database.committed < mine:
            await asyncio.sleep(0)  # the writes of one turn share a commit
        if self._database.committed < mine or self.failure is not None:
            self.commit()

    def guarded(self, write: _Write) -> _Write:
        """Return a `write` that commits first; a failure breaks the connection off."""
        if self._database is None:
            return write

        async def write_committed(data: bytes) -> None:
            try:
                self.commit()
            except StateError as error:
                raise ConnectionAbortedError(str(error)) from error
            await write(data)

        return write_committed

    def close(self) -> None:
        """Save the state at the end. Raises StateError, after all files are closed."""
        with contextlib.ExitStack() as closing:
            if self._database is not None:
                failed = self.failure is not None
                closing.callback(self._database.abandon if failed else self._database.close)
                self._database = None
            if self._recording is not None:
                closing.callback(self._recording.close)
                self._recording = None
            if self.files.snapshot is not None:
                self.save_snapshot()

    def abandon(self) -> None:
        """Close the files as they are: the server does not start."""
        if self._database is not None:
            self._database.abandon()
            self._database = None
        if self._recording is not None:
            self._recording.close()
            self._recording = None
