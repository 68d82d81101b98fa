"""Which faults are set, and which of them strike: matches counted, dice thrown, all noted.

Nothing here does I/O or waits. Each fault has a generator of its own, made from the server's seed
and the fault's number, so adding one fault does not change what another does.
"""

from __future__ import annotations

import fnmatch
import random
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fakeapi.faults.errors import FaultError
from fakeapi.faults.log import FaultLog, Injection
from fakeapi.faults.model import OPENED, Fault, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeapi.clock import Clock
    from fakeapi.decoding.options import Query
    from fakeapi.decoding.routes import Route
    from fakeapi.faults.model import Match

__all__ = ["Book", "EventFacts", "RequestFacts", "SetFault", "Strike"]

_ANYTHING: Final = re.compile("", re.DOTALL)
#: Effects that leave the request as it is for the next fault in line.
_ADDING: Final = frozenset({"delay", "observe"})
_ADDING_TO_EVENTS: Final = frozenset({"stall", "observe"})


class RequestFacts(NamedTuple):
    """What faults may ask about a request. `resources` are the ways to name what it is about.

    `route` is None for what is no resource.
    """

    verb: str
    path: str
    route: Route | None
    query: Query
    client: str
    name: str = ""
    resources: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        """The namespace it is limited to; empty for none."""
        return self.route.namespace if self.route else ""

    @property
    def initial_events(self) -> bool:
        """Whether it asks for the state before the changes."""
        return self.query.flag("sendInitialEvents")


class EventFacts(NamedTuple):
    """What faults may ask about an event, besides what they may ask about its watch."""

    type: str
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class SetFault:
    """A fault that is set, and what has become of it so far."""

    def __init__(self, fault: Fault, *, number: int, now: float, version: int, seed: str) -> None:
        self.fault = fault
        self.number = number
        self.added_seconds = now
        #: The server's version when the fault was added.
        self.version = version
        self.matches = 0
        self.injections = 0
        self._on_end: dict[object, Callable[[], None]] = {}
        self._rng = random.Random(f"{seed}/{number}")
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
        """Whether the name in the body of a create matters."""
        return bool(self.fault.match.name)

    def takes_request(self, facts: RequestFacts) -> bool:
        """Whether a request is what the fault is about."""
        return (
            self.takes_watch(facts)
            and bool(self._namespace.match(facts.namespace))
            and bool(self._name.match(facts.name))
            and self._applies(facts)
        )

    def takes_watch(self, facts: RequestFacts) -> bool:
        """Whether a watch is, whatever the objects in it."""
        match: Match = self.fault.match
        return (
            (not self._verbs or facts.verb in self._verbs)
            and (not self._resources or self._takes_resource(facts))
            and bool(self._path.match(facts.path))
            and bool(self._client.match(facts.client))
            and not (match.except_client and self._except_client.match(facts.client))
            and match.initial_events in (None, facts.initial_events)
        )

    def takes_event(self, facts: RequestFacts, event: EventFacts) -> bool:
        """Whether an event of a watch is."""
        if event.type not in self._events and (self._events or event.type == OPENED):
            return False
        return (
            self.takes_watch(facts)
            and bool(self._namespace.match(event.namespace))
            and bool(self._name.match(event.name))
        )

    def strikes(self, now: float) -> int:
        """Count a match, and say whether the fault strikes: the number of the match, or 0."""
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
        """A number of seconds: the one there is, or one between two by chance."""
        return bounds[0] if len(bounds) == 1 else self._rng.uniform(bounds[0], bounds[1])

    def on_end(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the fault goes or its time is over; answers what makes this undone."""
        token = object()
        self._on_end[token] = callback
        return lambda: self._on_end.pop(token, None) and None

    def end(self) -> None:
        """Tell whoever waits for it that the fault is over."""
        waiting, self._on_end = self._on_end, {}
        for callback in waiting.values():
            callback()

    def is_at_work(self, now: float) -> bool:
        """Whether it may strike yet, or something waits for its end."""
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

    def _applies(self, facts: RequestFacts) -> bool:
        """Whether the effect means anything to such a request; otherwise it is no match."""
        fault = self.fault
        if fault.refuse_watch_list is not None:
            return facts.initial_events and facts.verb == "watch"
        if fault.stale is not None or fault.expire is not None:
            return facts.verb in ("list", "watch")
        return fault.garble is None or facts.verb != "watch"

    def _takes_resource(self, facts: RequestFacts) -> bool:
        return any(
            pattern.match(resource) for pattern in self._resources for resource in facts.resources
        )


class Strike(NamedTuple):
    """A fault that strikes now. `seconds` is how long a delay is; None is until its end."""

    set_fault: SetFault
    match: int
    seconds: float | None = None

    @property
    def fault(self) -> Fault:
        """The fault."""
        return self.set_fault.fault


class Book:
    """The faults that are set, in the order in which they were added, and the log."""

    def __init__(self, clock: Clock, *, seed: str) -> None:
        self._clock = clock
        self._seed = seed
        self._set: dict[str, SetFault] = {}
        self._of_requests: list[SetFault] = []
        self._of_events: list[SetFault] = []
        self.log = FaultLog(started_seconds=clock.now())

    @property
    def faults(self) -> list[Fault]:
        """The faults that are set."""
        return [entry.fault for entry in self._set.values()]

    @property
    def is_at_work(self) -> bool:
        """Whether any fault may strike yet, or is waited for."""
        now = self._clock.now()
        return any(entry.is_at_work(now) for entry in self._set.values())

    @property
    def of_requests(self) -> bool:
        """Whether any fault looks at requests."""
        return bool(self._of_requests)

    @property
    def of_events(self) -> bool:
        """Whether any fault looks at events."""
        return bool(self._of_events)

    @property
    def asks_for_names(self) -> bool:
        """Whether the names in the bodies of creates matter to any fault."""
        return any(entry.asks_for_name for entry in self._of_requests)

    def set_seed(self, seed: str) -> None:
        """Begin chance anew for the faults that are added from now on."""
        self._seed = seed

    def check_names(self, faults: Iterable[Fault]) -> None:
        """Raise FaultError if a name is taken."""
        for fault in faults:
            if fault.name in self._set:
                raise FaultError(f"a fault called {fault.name} is set already")

    def add(self, fault: Fault, *, version: int) -> SetFault:
        """Set a fault; one without a name gets one."""
        now, number = self._clock.now(), self.log.faults_added + 1
        if not fault.name:
            fault = msgspec.structs.replace(fault, name=self._free_name(number))
        self.log.added(fault, now)
        entry = SetFault(fault, number=number, now=now, version=version, seed=self._seed)
        self._set[fault.name] = entry
        self._rearrange()
        return entry

    def remove(self, name: str) -> SetFault | None:
        """Take a fault away; None if none has that name."""
        entry = self._set.pop(name, None)
        if entry is not None:
            self.log.removed(entry.number, self._clock.now())
            self._rearrange()
            entry.end()
        return entry

    def struck_request(self, facts: RequestFacts) -> list[Strike]:
        """The faults that strike a request, noted: delays and observers, and at most one other."""
        chosen: list[Strike] = []
        for entry in self._of_requests:
            if entry.takes_request(facts) and self._joins(entry, chosen, _ADDING):
                chosen.append(self._strike(entry, entry.matches, facts))
        return chosen

    def struck_event(self, facts: RequestFacts, event: EventFacts) -> list[Strike]:
        """The faults that strike an event, noted: stalls and observers, and at most one other."""
        chosen: list[Strike] = []
        for entry in self._of_events:
            if entry.takes_event(facts, event) and self._joins(entry, chosen, _ADDING_TO_EVENTS):
                chosen.append(self._strike(entry, entry.matches, facts, event))
        return chosen

    def struck_server(self, entry: SetFault) -> None:
        """Note what happens to the server as a whole."""
        self._note(entry, 0)

    def _joins(self, entry: SetFault, chosen: list[Strike], adding: frozenset[str]) -> bool:
        """Whether a fault that matches strikes as well; each match counts, whoever comes first."""
        strikes = entry.strikes(self._clock.now())
        others = any(strike.fault.kind not in adding for strike in chosen)
        return bool(strikes) and (entry.fault.kind in adding or not others)

    def _strike(
        self, entry: SetFault, match: int, facts: RequestFacts, event: EventFacts | None = None
    ) -> Strike:
        seconds = None
        if entry.fault.delay is not None and (bounds := entry.fault.delay.bounds):
            seconds = entry.drawn_between(bounds)
        self._note(entry, match, facts, event, seconds)
        return Strike(entry, match, seconds)

    def _note(
        self,
        entry: SetFault,
        match: int,
        facts: RequestFacts | None = None,
        event: EventFacts | None = None,
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
                client=facts.client if facts else "",
                verb=facts.verb if facts else "",
                path=facts.path if facts else "",
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
