"""A proxy between a scheduler and its API server that counts the writes and can kill the scheduler.

Every scheduler has a proxy of its own. Once that is dead, nothing passes any more, in either
direction: whatever the scheduler still does before it is really gone does not happen.
Requests are parsed, responses are passed on as they come: HTTP clients of this project have one
request at a time on a connection, so the first byte of a response means that its write is done.
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

_READS: Final = frozenset({"GET", "HEAD"})
_HEAD_END: Final = b"\r\n\r\n"
_CHUNK_BYTES: Final = 1 << 16
#: What a scheduler is given to act on an answer before it goes.
_AFTER_SECONDS: Final = 0.002


class Moment(enum.Enum):
    """The moment of a kill, relative to a write of the scheduler."""

    BEFORE = "before the server has heard of it"
    DURING = "after it was carried out, before the answer"
    AFTER = "after the answer"


class Mishap(enum.Enum):
    """The fate of a write whose connection breaks, while the scheduler lives on."""

    NOT_HEARD = "before the server has heard of it"
    ANSWER_LOST = "after it was carried out, before the answer"


Fate = Moment | Mishap


class Write(NamedTuple):
    """A scheduler's first, second, ... write: `POST pods/binding`."""

    number: int
    kind: str
    path: str


class _Link:
    """A connection of the scheduler's, and ours to the server that goes with it."""

    def __init__(self, writer: asyncio.StreamWriter, upstream: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.upstream = upstream
        #: The action for the request whose response is awaited.
        self.fate: Fate | None = None


class WriteProxy:
    """`plan` is the fate of each write; `on_death` is called once, if the plan kills."""

    def __init__(
        self,
        upstream: str,
        *,
        plan: Callable[[Write], Fate | None] = lambda write: None,
        on_death: Callable[[], None] = lambda: None,
    ) -> None:
        self._upstream: Final = urlsplit(upstream)
        self._plan: Final = plan
        self._on_death: Final = on_death
        self._works: set[asyncio.Task[None]] = set()
        self.writes: list[Write] = []
        self.dead = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        # Not as soon as it is dead: asyncio loses a connection that it is about to accept then.
        self._server.close()
        self._cut_off()
        await asyncio.gather(*self._works, return_exceptions=True)

    def _die(self) -> None:
        if not self.dead.is_set():
            self.dead.set()
            self._on_death()
            self._cut_off()

    def _cut_off(self) -> None:
        for work in self._works:
            work.cancel()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        # Here, because a task that is cancelled before its first turn does not run its `finally`.
        work.add_done_callback(lambda _: writer.transport.abort())
        if self.dead.is_set():
            work.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host, port = self._upstream.hostname, self._upstream.port
            answers, upstream = await asyncio.open_connection(host, port)
            link = _Link(writer, upstream)
            try:
                async with asyncio.TaskGroup() as group:
                    passing = group.create_task(self._pass_answers(link, answers))
                    await self._pass_requests(link, reader)
                    passing.cancel()
            finally:
                upstream.transport.abort()
        except* (ConnectionError, asyncio.IncompleteReadError):
            pass

    async def _pass_requests(self, link: _Link, reader: asyncio.StreamReader) -> None:
        while not self.dead.is_set():
            head = await reader.readuntil(_HEAD_END)
            body = await reader.readexactly(_content_length(head))
            method, path = head.split(b" ", 2)[:2]
            link.fate = self._fate(method.decode(), path.decode())
            if link.fate is Moment.BEFORE:
                self._die()
            elif link.fate is Mishap.NOT_HEARD:
                return
            if not self.dead.is_set():
                link.upstream.write(head + body)

    def _fate(self, method: str, path: str) -> Fate | None:
        if method in _READS or self.dead.is_set():
            return None
        kind = f"{method} {resource_of(path.partition('?')[0])}"
        write = Write(len(self.writes) + 1, kind, path)
        self.writes.append(write)
        return self._plan(write)

    async def _pass_answers(self, link: _Link, answers: asyncio.StreamReader) -> None:
        while chunk := await answers.read(_CHUNK_BYTES):
            if link.fate is Moment.DURING:
                self._die()
            if link.fate is Mishap.ANSWER_LOST:
                # Ends the other half, too.
                raise ConnectionAbortedError
            if self.dead.is_set():
                return
            link.writer.write(chunk)
            if link.fate is Moment.AFTER:
                asyncio.get_running_loop().call_later(_AFTER_SECONDS, self._die)
        link.writer.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def resource_of(path: str) -> str:
    """The resource and subresource in a path: `pods/binding`."""
    parts = path.strip("/").split("/")
    del parts[: 2 if parts[0] == "api" else 3]
    if parts[0] == "namespaces" and len(parts) > 2:
        del parts[:2]
    return "/".join([parts[0], *parts[2:]])
