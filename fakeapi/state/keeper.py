"""What a server does about its state: restores it first, keeps it while it runs, saves it last.

    new or restored?   1. the database, if it holds anything   2. the file to restore from
                       3. the snapshot, if it is there         4. nothing: a new state

With a database, `settled` and `guarded` hold back whatever leaves the server until the changes it
may tell of are committed. Requests wait for one turn of the event loop, so that all that write in
the same turn share a commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING

from fakeapi.state.contents import Contents, contents_of, put_into
from fakeapi.state.database import Database
from fakeapi.state.errors import StateError
from fakeapi.state.recording import Recording
from fakeapi.state.snapshots import read_snapshot, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from fakeapi.clock import Clock
    from fakeapi.store.journal import Journal
    from fakeapi.store.store import Change, Collection, Store

    _Write = Callable[[bytes], Awaitable[None]]

__all__ = ["Keeper", "StateFiles"]

_log = logging.getLogger("fakeapi")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateFiles:
    """Files of a server's state; None for a file that is not used."""

    #: SQLite file that holds every change before it is answered, and from which a server starts.
    data: Path | None = None
    #: Snapshot to start from if it exists; it is written when the server stops.
    snapshot: Path | None = None
    #: Snapshot to start from, which must exist; it is not written.
    restore: Path | None = None
    #: Recording of every change, overwritten when the server starts.
    record: Path | None = None
    #: True to leave loaded objects the uids they have, instead of new ones.
    keep_uids: bool = False


class Keeper:
    """The state of one server beyond its memory."""

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
        #: Whether the state is an earlier one.
        self.is_restored = False
        #: Whether the server is not there yet: if something fails, it never will be.
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
        """While the server begins: at the end it is committed, or the files are let go of."""
        try:
            self.is_setting_up = True
            yield
            self.is_setting_up = False
            self.commit()
        except BaseException:
            self.abandon()
            raise

    def begin(self) -> None:
        """The server has its port: what is recorded begins. Raises StateError."""
        if self._recording is not None:
            self._recording.begin()

    def save_snapshot(self, path: Path | None = None) -> Path:
        """Write a snapshot, by default to the server's own file; where it is. Raises StateError."""
        target = path or self.files.snapshot
        if target is None:
            raise StateError("no file for the snapshot: neither given now nor with the server")
        write_snapshot(target, contents_of(self._store), now_seconds=self._clock.now())
        return target

    def _changed(self, _: Collection, __: Change) -> None:
        """Commit soon, whoever made the change: not only requests write."""
        if self._commit_is_due:
            return
        with contextlib.suppress(RuntimeError):  # there is no loop yet while the server is set up
            asyncio.get_running_loop().call_soon(self._commit_now)
            self._commit_is_due = True

    def _commit_now(self) -> None:
        self._commit_is_due = False
        with contextlib.suppress(StateError):  # who waits for the commit will be told
            self.commit()

    def commit(self) -> None:
        """Have all that was changed until now in the database. Raises StateError."""
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

    @property
    def is_durable(self) -> bool:
        """Whether answers have to wait until what they tell of is committed."""
        return self._database is not None

    async def settled(self) -> None:
        """Wait until what an answer may tell of is committed. Raises StateError."""
        if self._database is None:
            return
        mine = self._database.noted
        if self._database.committed < mine:
            await asyncio.sleep(0)  # what others write in this turn goes along
        if self._database.committed < mine or self.failure is not None:
            self.commit()

    def guarded(self, write: _Write) -> _Write:
        """The same, but not before all it may tell of is committed: breaks off if it cannot be."""
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
        """Save what is to be saved at the end. Raises StateError; everything is closed even so."""
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
        """Let go of the files as they are: there will be no server."""
        if self._database is not None:
            self._database.abandon()
            self._database = None
        if self._recording is not None:
            self._recording.close()
            self._recording = None
