"""The state of a server in files: snapshots, recordings, a database.

    snapshots.py   --snapshot, --restore   the whole state in one file, on request and at the end
    database.py    --data                  every write, before it is answered (SQLite)
    recording.py   --record                every change with its time, as JSON lines
    replaying.py   --replay, --speed       a recording played again, on the clock of the server
    contents.py    the content of a store as values: the objects as of the start of each log, and
                   the changes since
    keeper.py      restores the state first, keeps it while the server runs, saves it last

Everything that clients can observe is restored: objects with their uids and resourceVersions,
the counter of versions, which never goes back, and the logs, so that a watch resumes where it was,
and versions older than a log get 410 Expired as before. Timers and connections are not state.

    StateError     a file cannot be read or written or is damaged; `str()` is one line that names
                   the file, the place in it, and the error
"""

from __future__ import annotations

from fakeapi.state.contents import StateError

__all__ = ["StateError"]
