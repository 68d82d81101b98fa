"""Events in their older form (core/v1), as client-go's older recorder writes them: of leases.

Taking note of one never waits. Each is written as soon as it can be, in order:

    event() --> waiting --> POST --- written, or refused by the server --> done
                  ^           |
                  +- 10 s ----+ no answer; after twelve tries it is given up

Repetitions are not counted together here, as upstream's recorder does: a process has two such
events in its life, that it leads and that it does so no more.

Source: client-go `tools/record/event.go`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.api.core import ObjectMeta
from scheduler.client import AlreadyExists, ApiError, ClientError, repeat
from scheduler.client.resources import Resource
from scheduler.client.rest import Subject
from scheduler.client.wire import CoreEvent, EventSource
from scheduler.clock import rfc3339

if TYPE_CHECKING:
    import random

    from scheduler.api.core import ObjectReference
    from scheduler.client.rest import RestClient
    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

CORE_EVENTS: Final = Resource("", "v1", "events", "Event", CoreEvent)

#: Upstream's numbers.
_TRIES_MAX: Final = 12
_RETRY_SECONDS: Final = 10.0


class CoreEventRecorder:
    """Says what happens to objects, in the name of `component`; `run` it as a task."""

    def __init__(
        self, client: RestClient, component: str, *, clock: Clock, rng: random.Random
    ) -> None:
        self._client: Final = client
        self._component: Final = component
        self._clock: Final = clock
        self._rng: Final = rng
        self._waiting: Final[deque[CoreEvent]] = deque()
        self._ready: Final = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether everything is written, or given up."""
        return not self._waiting

    def event(self, involved: ObjectReference, *, type: str, reason: str, message: str) -> None:
        """Tell people that something happened to an object; never waits, never fails."""
        now = self._clock.now()
        self._waiting.append(
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
        self._ready.set()

    async def run(self) -> NoReturn:
        """Write until cancelled; what is waiting then is for `flush`."""
        while True:
            await self._ready.wait()
            while self._waiting:
                await self._write(self._waiting[0], retries_max=_TRIES_MAX - 1)
                self._waiting.popleft()
            self._ready.clear()

    async def flush(self) -> None:
        """Give everything that waits one more try, when there is no time for twelve."""
        while self._waiting:
            await self._write(self._waiting.popleft(), retries_max=0)

    async def _write(self, event: CoreEvent, *, retries_max: int) -> None:

        def delay_seconds(error: ClientError, n: int) -> float | None:
            if isinstance(error, ApiError):
                return None
            # The first delay is a random part of the others, so that clients spread out.
            return _RETRY_SECONDS * (self._rng.random() if n == 0 else 1.0)

        try:
            await repeat(
                lambda: self._client.request(
                    "POST",
                    CORE_EVENTS.collection_path(event.metadata.namespace),
                    body=CORE_EVENTS.encode(event),
                    subject=Subject(CORE_EVENTS.group_resource, event.metadata.name),
                ),
                retries_max=retries_max,
                delay_seconds=delay_seconds,
                sleep=self._clock.sleep,
            )
        except AlreadyExists as error:
            logger.debug("event %s: %s", _shown(event), error)
        except ApiError as error:
            logger.error("event %s was refused: %s", _shown(event), error)
        except ClientError as error:
            logger.error(
                "giving up on event %s: no server in %d tries: %s",
                _shown(event),
                retries_max + 1,
                error,
            )


def _shown(event: CoreEvent) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name} ({event.reason})"
