"""The faults that are set: counts their matches, decides which apply, logs injections.

No I/O, no waiting. Each fault has a random generator of its own, made from the server's seed
and the fault's number, so adding one fault does not change what another does.
"""

from __future__ import annotations

import fnmatch
import random
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fakeapi.faults.log import FaultLog, Injection
from fakeapi.faults.model import OPENED, Fault, FaultError, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.clock import Clock
    from fakeapi.faults.model import Match
    from fakeapi.faults.request_info import EventInfo, RequestInfo

_ANYTHING: Final = re.compile("", re.DOTALL)
#: Effects that leave the request as it is for the next fault in line.
_ADDING: Final = frozenset({"delay", "observe"})
_ADDING_TO_EVENTS: Final = frozenset({"stall", "observe"})


class ActiveFault:
    """A fault that is set, with its matches and injections so far."""

    def __init__(self, fault: Fault, *, number: int, now: float, version: int, seed: str) -> None:
        self.fault = fault
        self.number = number
        self.added_seconds = now
        #: The server's version when the fault was added.
        self.version = version
        self.matches = 0
        self.injections = 0
        self._on_end: dict[object, Callable[[], None]] = {}
        self._rng = random.Random(f"{seed}/{number}")  # noqa: S311 - chance that a seed repeats
        match = fault.match
        self._verbs = frozenset(texts(match.verb))
        self._resources = [_pattern(text) for text in texts(match.resource)]
        self._path = _pattern(match.path)
        self._namespace = _pattern(match.namespace)
        self._name = _pattern(match.name)
        self._client = _pattern(match.client)
        self._except_client = re.compile(fnmatch.translate(match.except_client))
        self._events = frozenset(texts(match.event))

    @property
    def asks_for_name(self) -> bool:
        """Return True if the fault matches by the name in the body of a create."""
        return bool(self.fault.match.name)

    def takes_request(self, info: RequestInfo) -> bool:
        """Return True if the fault matches a request."""
        return (
            self.takes_watch(info)
            and bool(self._namespace.match(info.namespace))
            and bool(self._name.match(info.name))
            and self._applies(info)
        )

    def takes_watch(self, info: RequestInfo) -> bool:
        """Return True if the fault matches a watch, apart from the objects in the watch."""
        match: Match = self.fault.match
        return (
            (not self._verbs or info.verb in self._verbs)
            and (not self._resources or self._takes_resource(info))
            and bool(self._path.match(info.path))
            and bool(self._client.match(info.client))
            and not (match.except_client and self._except_client.match(info.client))
            and match.initial_events in (None, info.initial_events)
        )

    def takes_event(self, info: RequestInfo, event: EventInfo) -> bool:
        """Return True if the fault matches an event of a watch."""
        if event.type not in self._events and (self._events or event.type == OPENED):
            return False
        return (
            self.takes_watch(info)
            and bool(self._namespace.match(event.namespace))
            and bool(self._name.match(event.name))
        )

    def count_match(self, now: float) -> int:
        """Count a match; return its number if the fault applies, else 0."""
        when, elapsed = self.fault.when, now - self.added_seconds
        if elapsed < when.from_seconds:
            return 0
        if when.until_seconds is not None and elapsed >= when.until_seconds:
            return 0
        self.matches += 1
        if when.numbers and self.matches not in when.numbers:
            return 0
        if self.matches <= when.skip or (when.times is not None and self.injections >= when.times):
            return 0
        if when.probability < 1.0 and self._rng.random() >= when.probability:
            return 0
        return self.matches

    def drawn_between(self, bounds: list[float]) -> float:
        """Return the only number of seconds, or a random one between two."""
        return bounds[0] if len(bounds) == 1 else self._rng.uniform(bounds[0], bounds[1])

    def on_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the fault is removed or its time is over; the result cancels that."""
        token = object()
        self._on_end[token] = callback
        return lambda: self._on_end.pop(token, None) and None

    def end(self) -> None:
        """Call back everything that waits for the end of the fault."""
        waiting, self._on_end = self._on_end, {}
        for callback in waiting.values():
            callback()

    def is_at_work(self, now: float) -> bool:
        """Return True if the fault may still apply, or something waits for its end."""
        if self._on_end:
            return True
        fault, when = self.fault, self.fault.when
        if fault.observe is not None:
            return False
        if fault.is_of_server:
            return not self.injections
        if when.until_seconds is not None and now - self.added_seconds >= when.until_seconds:
            return False
        if when.times is not None and self.injections >= when.times:
            return False
        return not when.numbers or self.matches < max(when.numbers)

    def _applies(self, info: RequestInfo) -> bool:
        """Return True if the effect is possible for such a request."""
        fault = self.fault
        if fault.refuse_watch_list is not None:
            return info.initial_events and info.verb == "watch"
        if fault.stale is not None or fault.expire is not None:
            return info.verb in ("list", "watch")
        return fault.garble is None or info.verb != "watch"

    def _takes_resource(self, info: RequestInfo) -> bool:
        return any(
            pattern.match(resource) for pattern in self._resources for resource in info.resources
        )


class Applied(NamedTuple):
    """A fault that applies now. `seconds` is how long a delay is; None is until its end."""

    active_fault: ActiveFault
    match: int
    seconds: float | None = None

    @property
    def fault(self) -> Fault:
        return self.active_fault.fault


class ActiveFaults:
    """The faults that are set, in the order in which they were added, and the log."""

    def __init__(self, clock: Clock, *, seed: str, log_size: int) -> None:
        self._clock = clock
        self._seed = seed
        self._set: dict[str, ActiveFault] = {}
        self._of_requests: list[ActiveFault] = []
        self._of_events: list[ActiveFault] = []
        self.log = FaultLog(started_seconds=clock.now(), size=log_size)

    @property
    def faults(self) -> list[Fault]:
        return [entry.fault for entry in self._set.values()]

    @property
    def is_at_work(self) -> bool:
        """Return True if a fault may still apply, or something waits for its end."""
        now = self._clock.now()
        return any(entry.is_at_work(now) for entry in self._set.values())

    @property
    def of_requests(self) -> bool:
        """Return True if a fault matches requests."""
        return bool(self._of_requests)

    @property
    def of_events(self) -> bool:
        """Return True if a fault matches events."""
        return bool(self._of_events)

    @property
    def asks_for_names(self) -> bool:
        """Return True if a fault matches by the names in the bodies of creates."""
        return any(entry.asks_for_name for entry in self._of_requests)

    def set_seed(self, seed: str) -> None:
        """Set the seed of the faults that are added from now on."""
        self._seed = seed

    def check_names(self, faults: Iterable[Fault]) -> None:
        """Raise FaultError if a name is taken."""
        for fault in faults:
            if fault.name in self._set:
                raise FaultError(f"a fault called {fault.name} is set already")

    def add(self, fault: Fault, *, version: int) -> ActiveFault:
        """Set a fault; without a name it gets one."""
        now, number = self._clock.now(), self.log.faults_added + 1
        if not fault.name:
            fault = msgspec.structs.replace(fault, name=self._free_name(number))
        self.log.added(fault, now)
        entry = ActiveFault(fault, number=number, now=now, version=version, seed=self._seed)
        self._set[fault.name] = entry
        self._rearrange()
        return entry

    def remove(self, name: str) -> ActiveFault | None:
        """Remove a fault; return None if no fault has this name."""
        entry = self._set.pop(name, None)
        if entry is not None:
            self.log.removed(entry.number, self._clock.now())
            self._rearrange()
            entry.end()
        return entry

    def apply_to_request(self, info: RequestInfo) -> list[Applied]:
        """Return the faults that apply to a request, logged: delays, observers, one other."""
        chosen: list[Applied] = []
        for entry in self._of_requests:
            if entry.takes_request(info) and self._joins(entry, chosen, _ADDING):
                chosen.append(self._apply(entry, entry.matches, info))
        return chosen

    def apply_to_event(self, info: RequestInfo, event: EventInfo) -> list[Applied]:
        """Return the faults that apply to an event, logged: stalls, observers, one other."""
        chosen: list[Applied] = []
        for entry in self._of_events:
            if entry.takes_event(info, event) and self._joins(entry, chosen, _ADDING_TO_EVENTS):
                chosen.append(self._apply(entry, entry.matches, info, event))
        return chosen

    def note_server_fault(self, entry: ActiveFault) -> None:
        """Log a fault of the whole server."""
        self._note(entry, 0)

    def _joins(self, entry: ActiveFault, chosen: list[Applied], adding: frozenset[str]) -> bool:
        """Count a match; return True if the fault applies together with the chosen ones."""
        match = entry.count_match(self._clock.now())
        others = any(applied.fault.kind not in adding for applied in chosen)
        return bool(match) and (entry.fault.kind in adding or not others)

    def _apply(
        self, entry: ActiveFault, match: int, info: RequestInfo, event: EventInfo | None = None
    ) -> Applied:
        seconds = None
        if entry.fault.delay is not None and (bounds := entry.fault.delay.bounds):
            seconds = entry.drawn_between(bounds)
        self._note(entry, match, info, event, seconds)
        return Applied(entry, match, seconds)

    def _note(
        self,
        entry: ActiveFault,
        match: int,
        info: RequestInfo | None = None,
        event: EventInfo | None = None,
        seconds: float | None = None,
    ) -> None:
        entry.injections += 1
        about = ""
        if event is not None:
            about = f"{event.namespace}/{event.name}" if event.namespace else event.name
        self.log.injected(
            Injection(
                number=self.log.next_number,
                time_seconds=self._clock.now(),
                fault=entry.fault.name,
                fault_number=entry.number,
                effect=entry.fault.kind,
                match=match,
                client=info.client if info else "",
                verb=info.verb if info else "",
                path=info.path if info else "",
                event=event.type if event else "",
                object=about,
                resource_version=event.resource_version if event else "",
                seconds=seconds,
            )
        )

    def _free_name(self, number: int) -> str:
        while (name := f"fault-{number}") in self._set:
            number += 1
        return name

    def _rearrange(self) -> None:
        entries = [entry for entry in self._set.values() if not entry.fault.is_of_server]
        self._of_requests = [entry for entry in entries if not entry.fault.is_of_events]
        self._of_events = [entry for entry in entries if entry.fault.is_of_events]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(text)) if text else _ANYTHING
