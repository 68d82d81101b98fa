"""`server.faults`: the faults of one server.

server.faults.add(Fault(match=Match(resource="pods/binding"), answer=AnswerWith(code=503)))
server.faults.log            # the injections so far
server.faults.clear()
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeapi.faults.active import ActiveFaults
from fakeapi.faults.files import FaultFile, faults_of, read_faults
from fakeapi.faults.log import script_from
from fakeapi.faults.model import Fault
from fakeapi.faults.requests import RequestFaults
from fakeapi.faults.streams import Channel
from fakeapi.types.option import file_option, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from aiohttp import web

    from fakeapi.clock import Clock, Timer
    from fakeapi.faults.active import ActiveFault
    from fakeapi.faults.log import Injection
    from fakeapi.faults.server_faults import ServerFaults
    from fakeapi.faults.streams import Write
    from fakeapi.store.registry import Registry
    from fakeapi.store.watch import Watcher
    from fakeapi.types.objects import Json

_LOG_SUFFIX: Final = ".jsonl"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """Options of fault injection."""

    faults: Iterable[Fault | Json | str | Path] = option(
        (),
        "Faults to inject: YAML (fakeapi/faults/README.md), or a log of --fault-log whose faults "
        "are injected again, at the same requests. May be repeated.",
        type=Path,
        metavar="FILE",
    )
    log: Path | None = file_option(
        "Write each injected fault to this file, as JSON lines.",
        flag="--fault-log",
        metavar="FILE.jsonl",
        written=True,
    )
    log_size: int = option(
        10_000,
        "Injected faults that are kept to be read and repeated, and faults that were removed.",
        flag="--fault-log-size",
        minimum=1,
    )
    admin_endpoint: bool = option(
        True, "Serve /_fakeapi/faults, where faults can be set and removed."
    )

    @classmethod
    def from_value(cls, value: FaultOptions | Iterable[Fault | Json | str | Path]) -> FaultOptions:
        """Return the options; an iterable is the faults alone."""
        return value if isinstance(value, FaultOptions) else cls(faults=value)


class Faults:
    """The faults of one server. All methods may be called at any time and take effect at once."""

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
        seed = random.randrange(1 << 32) if seed is None else seed  # noqa: S311 - no secret
        self._active = ActiveFaults(clock, seed=str(seed), log_size=options.log_size)
        self._requests = RequestFaults(self._active, registry, clock)
        self._channels: dict[Watcher, Channel] = {}
        self._server_faults: ServerFaults | None = None
        self._timers: dict[str, list[Timer]] = {}
        self._pending: list[ActiveFault] = []
        self.add(*options.faults)
        if options.log is not None:  # after the faults: they may be read from a log of that name
            self._active.log.write_to(options.log)

    @property
    def current(self) -> tuple[Fault, ...]:
        """The faults that are set, in the order in which they were added."""
        return tuple(self._active.faults)

    @property
    def log(self) -> tuple[Injection, ...]:
        """Return the injections, in order."""
        return self._active.log.injections

    @property
    def of_requests(self) -> bool:
        """Return True if a fault matches requests; without one the server skips `serve`."""
        return self._active.of_requests

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
        """Return the watches that are stalled."""
        return {watcher for watcher, channel in self._channels.items() if channel.stalled}

    @property
    def is_at_work(self) -> bool:
        """Return True if a fault may still apply, or something waits for a fault's end."""
        return self._active.is_at_work

    @property
    def followed(self) -> set[str]:
        """Return the plural names of resources with an open watch that is not stalled."""
        routes = [channel.info.route for channel in self._channels.values() if not channel.stalled]
        return {route.kind.plural for route in routes if route is not None}

    def count(self, name: str) -> int:
        """Return the number of injections of the faults of this name."""
        return self._active.log.count(name)

    def script(self) -> list[Fault]:
        """Return faults that repeat the injections so far, without randomness."""
        return self._active.log.script()

    def add(self, *faults: Fault | FaultFile | Json | str | Path) -> tuple[Fault, ...]:
        """Set faults, values or files; return them, each with a name.

        A file ending in .jsonl is a log, and its script is set. After a FaultError no fault is set.
        """
        added: list[Fault] = []
        for fault in faults:
            added += [fault] if isinstance(fault, Fault) else self._read(fault)
        self._active.check_names(added)
        return tuple(self._add(fault) for fault in added)

    def begin_log(self) -> None:
        """Begin the file of the log, once the server has its port. Raises OSError."""
        self._active.log.begin()

    def remove(self, name: str) -> bool:
        """Remove a fault and release what waits for its end; return False without such a fault."""
        for timer in self._timers.pop(name, ()):
            timer.cancel()
        return self._active.remove(name) is not None

    def clear(self) -> None:
        """Remove all faults. Effects are not undone, except that outages end."""
        for fault in self.current:
            self.remove(fault.name)

    async def serve(
        self,
        http: web.BaseRequest,
        serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Answer a request under the faults; `serve` carries it out."""
        return await self._requests.serve(http, serve)

    def channel(self, http: web.BaseRequest, watcher: Watcher, write: Write) -> Channel:
        """Return the channel between a watch and its client, for the time of the watch."""
        return Channel(
            http,
            watcher,
            write,
            active=self._active,
            registry=self._registry,
            clock=self._clock,
            channels=self._channels,
        )

    def server_started(self, server_faults: ServerFaults) -> None:
        """Apply pending faults of the server, once it listens."""
        self._server_faults = server_faults
        pending, self._pending = self._pending, []
        for entry in pending:
            self._apply_to_server(entry)

    def server_stopping(self) -> None:
        """Release everything that waits, before the server stops."""
        self._active.log.close()
        self.clear()
        for channel in self._channels.values():
            channel.release()

    def _read(self, source: FaultFile | Json | str | Path) -> list[Fault]:
        if isinstance(source, FaultFile):
            return self._of_file(source)
        if isinstance(source, dict):
            return self._of_file(faults_of(source))
        path = Path(source)
        return script_from(path) if path.suffix == _LOG_SUFFIX else self._of_file(read_faults(path))

    def _of_file(self, file: FaultFile) -> list[Fault]:
        if file.seed is not None:
            self._active.set_seed(str(file.seed))
        return file.faults

    def _add(self, fault: Fault) -> Fault:
        entry = self._active.add(fault, version=self._registry.store.resource_version)
        fault = entry.fault
        if fault.when.until_seconds is not None:
            self._later(fault.name, fault.when.until_seconds, entry.end)
        if fault.is_of_server:
            if fault.when.from_seconds:
                self._later(
                    fault.name, fault.when.from_seconds, lambda: self._apply_to_server(entry)
                )
            else:
                self._apply_to_server(entry)
        return fault

    def _later(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        timer = self._clock.call_later(seconds, callback)
        self._timers.setdefault(name, []).append(timer)

    def _apply_to_server(self, entry: ActiveFault) -> None:
        if self._server_faults is None:
            self._pending.append(entry)
            return
        self._active.note_server_fault(entry)
        self._server_faults.apply(entry, list(self._channels.values()))
