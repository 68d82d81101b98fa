"""A source of lists and watches that follows a script, for reflectors without a network."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from scheduler.api.core import ObjectMeta, Pod
from scheduler.client.decoding import EventType, Page, WatchEvent
from scheduler.client.errors import ApiError, ClientError, error_of_status
from scheduler.client.kinds import ListOptions
from scheduler.client.objects import ApiStatus, ListMeta, StatusCause, StatusDetails
from scheduler.clock import Clock
from tests.client.objects import pod


def refusal(code: int, reason: str, message: str = "no") -> ApiError:
    """An error as the client raises it."""
    return error_of_status(ApiStatus(status="Failure", reason=reason, message=message, code=code))


EXPIRED = refusal(410, "Expired", "too old resource version")
BUSY = refusal(429, "TooManyRequests", "too many requests")
BROKEN = refusal(500, "InternalError", "etcdserver: no leader")
INVALID = refusal(422, "Invalid", "sendInitialEvents is forbidden")
TOO_LARGE = error_of_status(
    ApiStatus(
        status="Failure",
        reason="Timeout",
        code=504,
        details=StatusDetails(causes=(StatusCause(reason="ResourceVersionTooLarge"),)),
    )
)


def added(name: str, version: str) -> WatchEvent[Pod]:
    return WatchEvent(EventType.ADDED, pod(name, version))


def modified(name: str, version: str) -> WatchEvent[Pod]:
    return WatchEvent(EventType.MODIFIED, pod(name, version))


def deleted(name: str, version: str) -> WatchEvent[Pod]:
    return WatchEvent(EventType.DELETED, pod(name, version))


def bookmark(version: str, *, ends_initial_events: str = "") -> WatchEvent[Pod]:
    """`ends_initial_events` is the value of that annotation."""
    annotations = {"k8s.io/initial-events-end": ends_initial_events} if ends_initial_events else {}
    metadata = ObjectMeta(resource_version=version, annotations=annotations)
    return WatchEvent(EventType.BOOKMARK, Pod(metadata=metadata))


def end_of_initial_events(version: str) -> WatchEvent[Pod]:
    return bookmark(version, ends_initial_events="true")


@dataclass(frozen=True)
class Listed:
    """One page of a list, of (name, version) pairs; or the error there is instead."""

    version: str = ""
    pods: Sequence[tuple[str, str]] = ()
    continue_token: str = ""
    error: ClientError | None = None


@dataclass(frozen=True)
class Watched:
    """One watch: its events, and how it ends.

    `then` is an error it fails with; "end", after `lasting_seconds` on the source's clock; or
    "hold", which leaves it open.
    """

    events: Sequence[WatchEvent[Pod]] = ()
    then: ClientError | str = "end"
    lasting_seconds: float = 2.0


class ScriptedSource:
    """Answers lists and watches step by step; once the script is over, it hangs.

    Without `watch_list` it refuses each request for one, outside of the script.
    """

    def __init__(self, *script: Listed | Watched, clock: Clock, watch_list: bool = True) -> None:
        self.watch_list = watch_list
        self.script = deque(script)
        self.clock = clock
        self.asked: list[tuple[str, ListOptions]] = []
        self.open_watches = 0

    @property
    def requests(self) -> list[str]:
        """The requests: `LIST 0`, `WATCH 5`, `WATCH-LIST` and so on."""
        names = []
        for verb, options in self.asked:
            kind = "WATCH-LIST" if options.send_initial_events else verb
            words = [kind, options.resource_version]
            if options.limit:
                words.append(f"limit={options.limit}")
            if options.continue_token:
                words.append(f"continue={options.continue_token}")
            names.append(" ".join(word for word in words if word))
        return names

    async def list(self, options: ListOptions) -> Page[Pod]:
        step = await self._next("LIST", options)
        assert isinstance(step, Listed), f"expected {step} to be asked for, got a list"
        if step.error is not None:
            raise step.error
        metadata = ListMeta(resource_version=step.version, continue_token=step.continue_token)
        return Page("PodList", metadata, [pod(name, version) for name, version in step.pods])

    async def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[Pod], None]:
        if options.send_initial_events and not self.watch_list:
            raise INVALID
        step = await self._next("WATCH", options)
        assert isinstance(step, Watched), f"expected {step} to be asked for, got a watch"
        self.open_watches += 1
        try:
            for event in step.events:
                yield event
            if isinstance(step.then, ClientError):
                raise step.then
            if step.then == "hold":
                await asyncio.Event().wait()
            await self.clock.sleep(step.lasting_seconds)
        finally:
            self.open_watches -= 1

    async def _next(self, verb: str, options: ListOptions) -> Listed | Watched:
        self.asked.append((verb, options))
        if not self.script:
            await asyncio.Event().wait()
        return self.script.popleft()
