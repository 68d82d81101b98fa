"""Connections to a server in this process, without sockets, and the meter of its event loop.

Bytes go to the server's own protocol objects, in pieces as a socket delivers them; what the server
writes is read up to the end of the answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import selectors
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Answer", "Meter", "Stretch", "Wire"]

_PIECE_BYTES: Final = 256 * 1024
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclasses.dataclass(frozen=True, order=True)
class Stretch:
    """The longest time that the loop was held: CPU time of its thread, and all but waiting for one.

    The second counts what the loop waits for, such as another process.
    """

    cpu_seconds: float = 0.0
    held_seconds: float = 0.0

    def __str__(self) -> str:
        """Both times, for people."""
        return f"{self.cpu_seconds:.3f} s ({self.held_seconds:.3f} s)"


class Meter(selectors.DefaultSelector):
    """The selector of an event loop, which times what the loop does between two calls of it."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._began: tuple[float, float] | None = None
        self.longest = Stretch()

    def close(self) -> None:
        """Close the files."""
        os.close(self._waits)
        super().close()

    def reset(self) -> None:
        """Forget the longest stretch, and the beginning of this one."""
        self.longest = Stretch()
        self._began = self._times()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """End a stretch, wait, begin the next one."""
        if self._began is not None:
            now, longest = self._times(), self.longest
            cpu, held = now[0] - self._began[0], now[1] - self._began[1]
            if cpu > longest.cpu_seconds or held > longest.held_seconds:
                self.longest = Stretch(
                    max(cpu, longest.cpu_seconds), max(held, longest.held_seconds)
                )
        try:
            return super().select(timeout)
        finally:
            self._began = self._times()

    def _times(self) -> tuple[float, float]:
        """CPU time, and wall time without the time in which the thread waited for a processor."""
        waited = int(os.pread(self._waits, 100, 0).split()[1]) / 1e9
        return time.thread_time(), time.perf_counter() - waited


@dataclasses.dataclass(frozen=True)
class Answer:
    """Status and body; code 0 if the server closed the connection without an answer."""

    code: int
    head: bytes = b""
    body: bytes = b""
    is_stream: bool = False


class Wire(asyncio.Transport):
    """One connection; it carries one request at a time, and is open until the server closes it."""

    def __init__(self, connect: Callable[[], asyncio.Protocol]) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = connect()
        self._received = bytearray()
        self._unsent: memoryview = memoryview(b"")
        self._is_paused = False
        self._method = ""
        self._expected_bytes = 0
        self._answered: asyncio.Future[Answer] | None = None
        self.is_open = True
        self._protocol.connection_made(self)

    def send(self, method: str, raw: bytes) -> asyncio.Future[Answer]:
        """Send a request; the future gets its answer, of a stream the beginning."""
        self._received.clear()
        self._expected_bytes = 0
        self._method = method
        self._answered = self._loop.create_future()
        self._unsent = memoryview(raw)
        self._loop.call_soon(self._deliver)
        return self._answered

    @property
    def is_free(self) -> bool:
        """Return True if another request can be sent: the server has read all of the one before."""
        return self.is_open and not self._unsent

    def take(self) -> bytes:
        """Return the bytes that came since the beginning of a stream."""
        taken = bytes(self._received)
        self._received.clear()
        return taken

    def hang_up(self) -> None:
        """Close the connection as a client that leaves."""
        if self.is_open:
            self.is_open = False
            self._protocol.connection_lost(None)

    def _deliver(self) -> None:
        if not self._unsent or self._is_paused or not self.is_open:
            return
        piece, self._unsent = self._unsent[:_PIECE_BYTES], self._unsent[_PIECE_BYTES:]
        self._protocol.data_received(bytes(piece))
        self._loop.call_soon(self._deliver)

    def _read(self, *, is_end: bool = False) -> None:
        if self._answered is None or self._answered.done():
            return
        if not is_end and len(self._received) < self._expected_bytes:
            return
        answer = self._complete(is_end=is_end)
        if answer is not None:
            self._received.clear()
            self._answered.set_result(answer)
            if _CLOSES.search(answer.head):
                self._loop.call_soon(self.hang_up)

    def _complete(self, *, is_end: bool) -> Answer | None:
        """Return the answer, None if it is not complete."""
        received = bytes(self._received).removeprefix(_CONTINUE)
        head, end, body = received.partition(b"\r\n\r\n")
        if not end:
            return Answer(0) if is_end else None
        code = int(head[9:12])
        length = _LENGTH.search(head)
        is_stream = bool(_CHUNKED.search(head)) and self._method != "HEAD"
        if length and not is_end and self._method != "HEAD" and code not in (204, 304):
            self._expected_bytes = len(self._received) - len(body) + int(length[1])
            if len(self._received) < self._expected_bytes:
                return None
        return Answer(code, head, body, is_stream)

    def write(self, data: Any) -> None:
        """Take bytes of the server."""
        self._received += data
        self._read()

    def close(self) -> None:
        """End the connection, as the server."""
        if self.is_open:
            self.is_open = False
            self._read(is_end=True)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """End the connection at once."""
        self.close()

    def is_closing(self) -> bool:
        return not self.is_open

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._is_paused

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0
