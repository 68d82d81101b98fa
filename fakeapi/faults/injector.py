"""`server.faults`: what goes wrong on a server, from the outside.

server.faults.add(Fault(match=Match(resource="pods/binding"), answer=AnswerWith(code=503)))
server.faults.log            # what was injected so far
server.faults.clear()
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeapi.faults.book import Book
from fakeapi.faults.files import FaultFile, faults_of, read_faults
from fakeapi.faults.log import script_from
from fakeapi.faults.model import Fault
from fakeapi.faults.requests import RequestFaults
from fakeapi.faults.streams import Channel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiohttp import web

    from fakeapi.clock import Clock, Timer
    from fakeapi.faults.book import SetFault
    from fakeapi.faults.incidents import Incidents
    from fakeapi.faults.log import Injection
    from fakeapi.faults.streams import Write
    from fakeapi.store.registry import Registry
    from fakeapi.store.watch import Watcher
    from fakeapi.types.objects import Json

__all__ = ["FaultOptions", "Faults"]

_LOG_SUFFIX: Final = ".jsonl"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """Options of fault injection."""

    #: Faults to set: values, mappings, files of faults, logs of an earlier run.
    faults: Iterable[Fault | Json | str | Path] = ()
    #: File for the injected faults, as JSON lines; it is overwritten when the server starts.
    log: Path | None = None
    #: True to serve /_fakeapi/faults, where clients set and remove faults over HTTP.
    admin_endpoint: bool = True

    @classmethod
    def from_value(cls, value: FaultOptions | Iterable[Fault | Json | str | Path]) -> FaultOptions:
        """Return the options; an iterable is the faults alone."""
        return value if isinstance(value, FaultOptions) else cls(faults=value)


class Faults:
    """The faults of one server. All methods may be called at any time, and work at once."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        options: FaultOptions,
        *,
        seed: int | None,
    ) -> None:
        """Set the faults of the options. Raises FaultError, OSError."""
        self._registry = registry
        self._clock = clock
        seed = random.randrange(1 << 32) if seed is None else seed
        self._book = Book(clock, seed=str(seed))
        self._requests = RequestFaults(self._book, registry, clock)
        self._channels: dict[Watcher, Channel] = {}
        self._incidents: Incidents | None = None
        self._timers: dict[str, list[Timer]] = {}
        self._pending: list[SetFault] = []
        self.add(*options.faults)
        if options.log is not None:  # after the faults: they may be read from a log of that name
            self._book.log.write_to(options.log)

    @property
    def current(self) -> tuple[Fault, ...]:
        """The faults that are set, in the order in which they were added."""
        return tuple(self._book.faults)

    @property
    def log(self) -> tuple[Injection, ...]:
        """What was injected, in order."""
        return self._book.log.injections

    @property
    def of_requests(self) -> bool:
        """Whether any fault looks at requests; if not, the server need not ask."""
        return self._book.of_requests

    @property
    def requests_delayed(self) -> int:
        """Requests that wait for time to pass."""
        return self._requests.delayed

    @property
    def requests_held(self) -> int:
        """Requests that wait for a fault to end."""
        return self._requests.held

    @property
    def stalled(self) -> set[Watcher]:
        """The watches that are kept silent."""
        return {watcher for watcher, channel in self._channels.items() if channel.stalled}

    @property
    def is_at_work(self) -> bool:
        """Whether any fault may strike yet, or something waits for a fault's end."""
        return self._book.is_at_work

    @property
    def followed(self) -> set[str]:
        """The resources with an open watch that is not kept silent, by their plural names."""
        routes = [channel.facts.route for channel in self._channels.values() if not channel.stalled]
        return {route.kind.plural for route in routes if route is not None}

    def count(self, name: str) -> int:
        """How often a fault of that name was injected."""
        return self._book.log.count(name)

    def script(self) -> list[Fault]:
        """Faults that do again, without chance, what was injected so far."""
        return self._book.log.script()

    def add(self, *faults: Fault | FaultFile | Json | str | Path) -> tuple[Fault, ...]:
        """Set faults: values, or those in files; answers them, each with a name.

        A file ending in .jsonl is a log, and its script is set. Raises FaultError, in which case
        none has been set.
        """
        found: list[Fault] = []
        for fault in faults:
            found += [fault] if isinstance(fault, Fault) else self._read(fault)
        self._book.check_names(found)
        return tuple(self._add(fault) for fault in found)

    def begin_log(self) -> None:
        """The server has its port: the file of the log is written. Raises OSError."""
        self._book.log.begin()

    def remove(self, name: str) -> bool:
        """Take a fault away, and let go of what waits for its end; False if there is none."""
        for timer in self._timers.pop(name, ()):
            timer.cancel()
        return self._book.remove(name) is not None

    def clear(self) -> None:
        """Take all faults away. What has been done is not undone, but outages end."""
        for fault in self.current:
            self.remove(fault.name)

    async def serve(
        self,
        http: web.BaseRequest,
        serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Answer a request as the faults want it; `serve` carries it out."""
        return await self._requests.serve(http, serve)

    def channel(self, http: web.BaseRequest, watcher: Watcher, write: Write) -> Channel:
        """What stands between a watch and its client, for the time of the watch."""
        return Channel(
            http,
            watcher,
            write,
            book=self._book,
            registry=self._registry,
            clock=self._clock,
            channels=self._channels,
        )

    def server_started(self, incidents: Incidents) -> None:
        """The server listens: what is to happen to it can."""
        self._incidents = incidents
        pending, self._pending = self._pending, []
        for entry in pending:
            self._strike_server(entry)

    def server_stopping(self) -> None:
        """The server is about to stop: let go of everything."""
        self._book.log.close()
        self.clear()
        for channel in self._channels.values():
            channel.release()

    def _read(self, given: FaultFile | Json | str | Path) -> list[Fault]:
        if isinstance(given, FaultFile):
            return self._of_file(given)
        if isinstance(given, dict):
            return self._of_file(faults_of(given))
        path = Path(given)
        return script_from(path) if path.suffix == _LOG_SUFFIX else self._of_file(read_faults(path))

    def _of_file(self, file: FaultFile) -> list[Fault]:
        if file.seed is not None:
            self._book.set_seed(str(file.seed))
        return file.faults

    def _add(self, fault: Fault) -> Fault:
        entry = self._book.add(fault, version=self._registry.store.resource_version)
        fault = entry.fault
        if fault.when.until_seconds is not None:
            self._later(fault.name, fault.when.until_seconds, entry.end)
        if fault.is_of_server:
            if fault.when.from_seconds:
                self._later(fault.name, fault.when.from_seconds, lambda: self._strike_server(entry))
            else:
                self._strike_server(entry)
        return fault

    def _later(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        timer = self._clock.call_later(seconds, callback)
        self._timers.setdefault(name, []).append(timer)

    def _strike_server(self, entry: SetFault) -> None:
        if self._incidents is None:
            self._pending.append(entry)
            return
        self._book.struck_server(entry)
        self._incidents.strike(entry, list(self._channels.values()))
