"""Events of the core group (core/v1) about a lease, as client-go's older recorder writes them.

They are sent one after another, as `EventSender` describes. Unlike upstream's recorder this one
does not count repetitions: a process reports that it leads once, and that it stopped once.

Source: client-go `tools/record/event.go`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from scheduler.api.core import ObjectMeta
from scheduler.client.event_recorder import EventSender
from scheduler.client.kinds import Resource
from scheduler.client.objects import CoreEvent, EventSource
from scheduler.clock import rfc3339

if TYPE_CHECKING:
    import random

    from scheduler.api.core import ObjectReference
    from scheduler.client import RestClient
    from scheduler.clock import Clock

CORE_EVENTS: Final = Resource("", "v1", "events", "Event", CoreEvent)

_RETRY_SECONDS: Final = 10.0


class CoreEventRecorder:
    """Records events about objects that `component` reports; `run` it as a task, then `flush`."""

    def __init__(
        self, client: RestClient, component: str, *, clock: Clock, rng: random.Random
    ) -> None:
        self._component: Final = component
        self._clock: Final = clock
        self._sender: Final[EventSender[CoreEvent]] = EventSender(
            functools.partial(client.create, CORE_EVENTS),
            senders=1,
            # The first delay is random, so that the clients of one server spread out.
            retry_seconds=lambda n: _RETRY_SECONDS * (rng.random() if n == 0 else 1.0),
            clock=clock,
        )
        self.run: Final = self._sender.run
        self.flush: Final = self._sender.flush

    @property
    def is_idle(self) -> bool:
        """True if every event was written, refused or given up."""
        return self._sender.is_idle

    def event(self, involved: ObjectReference, *, type: str, reason: str, message: str) -> None:
        """Record that something happened to an object; neither waits nor raises."""
        now = self._clock.now()
        self._sender.enqueue(
            CoreEvent(
                metadata=ObjectMeta(
                    name=f"{involved.name}.{int(now * 1e9):x}",
                    namespace=involved.namespace or "default",
                ),
                involved_object=involved,
                reason=reason,
                message=message,
                source=EventSource(component=self._component),
                first_timestamp=rfc3339(now),
                last_timestamp=rfc3339(now),
                count=1,
                type=type,
                reporting_component=self._component,
            )
        )
