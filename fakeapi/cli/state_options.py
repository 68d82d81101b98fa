"""The flags of the command line that are about state, and what they mean while the server runs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fakeapi.state.errors import StateError
from fakeapi.state.keeper import StateFiles
from fakeapi.state.recording import check_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fakeapi.server import FakeApiServer

__all__ = ["StateOptions", "state_options"]

_R = TypeVar("_R")
_FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--snapshot",
        metavar="FILE",
        type=_FILE,
        help="Save the state to this file at the end and on SIGUSR1, and begin with what is in it "
        "if it is there.",
    ),
    click.option(
        "--restore",
        metavar="FILE",
        type=_FILE,
        help="Begin with this snapshot, which must be there and is not written to.",
    ),
    click.option(
        "--data",
        metavar="FILE",
        type=_FILE,
        help="Keep the state in this SQLite file, every change before it is answered, and begin "
        "with what is in it. A state that is found, here or in a snapshot, takes the place of "
        "--load.",
    ),
    click.option(
        "--keep-uids",
        is_flag=True,
        help="Leave what --load finds the uids it has, instead of new ones.",
    ),
    click.option(
        "--record",
        metavar="FILE.jsonl",
        type=_FILE,
        help="Write every change with its time to this file, anew, as JSON lines.",
    ),
    click.option(
        "--replay",
        metavar="FILE.jsonl",
        type=_FILE,
        help="Make the changes of a recording again, once the server listens.",
    ),
    click.option(
        "--speed",
        type=click.FloatRange(min=0),
        help="How much faster than it was a recording is replayed, by default 1; 0 is all at once.",
    ),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """What the flags say."""

    files: StateFiles
    replay: Path | None
    speed: float

    @property
    def written(self) -> list[tuple[str, Path | None]]:
        """The files that are written, with their flags."""
        files = self.files
        return [("--snapshot", files.snapshot), ("--data", files.data), ("--record", files.record)]

    @property
    def read(self) -> list[tuple[str, Path | None]]:
        """The files that are only read, with their flags."""
        return [("--restore", self.files.restore), ("--replay", self.replay)]

    def check(self) -> None:
        """Find out what is wrong with the recording before anything begins. Raises StateError."""
        if self.replay is not None:
            check_recording(self.replay)

    @contextlib.asynccontextmanager
    async def running(self, server: FakeApiServer, stop: asyncio.Event) -> AsyncIterator[None]:
        """While the server runs: save when asked to, replay, and stop if the state is in danger.

        Raises StateError at the end for what went wrong in between.
        """
        failures: list[StateError] = []

        def fail(error: StateError) -> None:
            failures.append(error)
            stop.set()

        async def play(path: Path) -> None:
            try:
                await server.replay(path, speed=self.speed)
            except StateError as error:
                fail(error)

        server.state.on_failure = fail
        loop = asyncio.get_running_loop()
        if self.files.snapshot is not None:
            loop.add_signal_handler(signal.SIGUSR1, _save, server)
        playing = asyncio.ensure_future(play(self.replay)) if self.replay is not None else None
        try:
            yield
        finally:
            if playing is not None:
                playing.cancel()
                await asyncio.wait([playing])
        if failures:
            raise failures[0]


def _save(server: FakeApiServer) -> None:
    """On SIGUSR1: a snapshot that cannot be written is no reason to stop."""
    try:
        server.save_snapshot()
    except StateError as error:
        click.echo(f"kubesched-fakeapi: {error}", err=True)


def state_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Give a command the flags; it gets what they say as its argument `state`."""

    @functools.wraps(command)
    def wrapped(*, replay: Path | None, speed: float | None, **others: Any) -> _R:
        names = [field.name for field in dataclasses.fields(StateFiles)]
        files = StateFiles.of(**{name: others.pop(name) for name in names})
        if files.keep_uids and not others.get("load"):
            raise click.UsageError("--keep-uids is for --load")
        if speed is not None and replay is None:
            raise click.UsageError("--speed is for --replay")
        if speed is not None and not math.isfinite(speed):
            raise click.UsageError("--speed: expected a finite number; 0 is all at once")
        options = StateOptions(files=files, replay=replay, speed=1.0 if speed is None else speed)
        return command(state=options, **others)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
