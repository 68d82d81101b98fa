"""Faults of the whole server: outage, restart, compaction, dropped watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fakeapi.clock import Clock
    from fakeapi.faults.active import ActiveFault
    from fakeapi.faults.model import Restart
    from fakeapi.faults.streams import Channel
    from fakeapi.store.store import Store


class Port(Protocol):
    """The listening socket of the server."""

    def close(self) -> None:
        """Refuse connections from now on."""

    def reopen(self) -> None:
        """Take connections again, at the same address."""

    def drop_connections(self) -> None:
        """Reset all connections except the connection of the request being answered."""


class ServerFaults:
    """Applies the faults of the server."""

    def __init__(self, port: Port, store: Store, clock: Clock) -> None:
        self._port = port
        self._store = store
        self._clock = clock
        #: Outages that have not ended; they may overlap.
        self._outages = 0

    def apply(self, entry: ActiveFault, watches: list[Channel]) -> None:
        """Apply the fault."""
        fault = entry.fault
        if fault.drop_watches is not None:
            for channel in watches:
                if entry.takes_request(channel.info):
                    channel.drop(fault.drop_watches.how, fault.drop_watches.code)
        elif fault.outage is not None:
            self._outage(entry, fault.outage.seconds)
        elif fault.restart is not None:
            self._restart(entry, fault.restart)
        elif fault.compact is not None:
            self._store.compact()

    def _restart(self, entry: ActiveFault, restart: Restart) -> None:
        self._outage(entry, restart.seconds)
        if restart.lost_versions:
            self._store.rewind(restart.lost_versions)
        if restart.compact:
            self._store.compact()

    def _outage(self, entry: ActiveFault, seconds: float | None) -> None:
        """Reset all connections and close the port for a time, or until the fault's end."""
        self._port.drop_connections()
        if seconds == 0.0:
            return
        self._outages += 1
        self._port.close()
        is_over = False

        def end() -> None:
            nonlocal is_over
            forget()
            if not is_over:
                is_over = True
                self._outages -= 1
                if not self._outages:
                    self._port.reopen()

        forget = entry.on_end(end)
        if seconds is not None:
            self._clock.call_later(seconds, end)
