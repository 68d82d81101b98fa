"""Read a scheduler's counters: kube-scheduler's metrics, over HTTP.

A case can expect the value of any counter. Three families show which event brought a pod back; they
have kube-scheduler's names and labels:

    scheduler_queue_incoming_pods_total{queue, event}      pods that entered a queue, by event
    scheduler_pod_scheduled_after_flush_total              pods bound after a flush moved them
    scheduler_event_handling_duration_seconds_count{event} events that were handled, useful or not
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from ..clock import RealClock
from ..errors import NotObservable, TargetError
from ..format.cluster_events import event_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

INCOMING: Final = "scheduler_queue_incoming_pods_total"
#: Events of pods without a node have two other names since v1.37; cases have the older one.
_NEWER_NAMES: Final = re.compile("^(UnscheduledPod|TargetPod)")
AFTER_FLUSH: Final = "scheduler_pod_scheduled_after_flush_total"
HANDLED: Final = "scheduler_event_handling_duration_seconds"

_T = TypeVar("_T")

#: Queues that a pod leaves only for an attempt; in the others it waits for an event.
_TRIED_FROM: Final = frozenset({"active", "backoff"})
#: The real time that a started scheduler may take until it serves metrics.
_START_SECONDS: Final = 5.0
#: The samples that show which event brought a pod back.
_QUEUE_SAMPLES: Final = frozenset({INCOMING, AFTER_FLUSH, f"{HANDLED}_count"})
_LOOK_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 10.0


class QueueCounters(NamedTuple):
    """The values of the counters, or their increase in a window; None for a missing family.

    A family with labels is also missing until its first count.
    """

    requeued: Mapping[str, int] | None
    """By event: pods that entered the active or the backoff queue."""
    handled: Mapping[str, int] | None
    """By event: how often it was handled."""
    after_flush: int | None
    """Pods that were bound after nothing but a flush had brought them back."""

    def since(self, before: QueueCounters) -> QueueCounters:
        """Return the increase since an earlier look; a family that is new was zero before."""
        return QueueCounters(
            None if self.requeued is None else risen(self.requeued, before.requeued),
            None if self.handled is None else risen(self.handled, before.handled),
            None if self.after_flush is None else self.after_flush - (before.after_flush or 0),
        )

    def lines(self) -> list[str]:
        """Return the counts of a window as lines."""
        lines = [f"requeued since the last look: {in_words(self.requeued or {})}"]
        if self.handled is not None:
            lines.append(f"events handled since then: {in_words(self.handled)}")
        return lines


def parse_counters(text: str) -> QueueCounters:
    """Parse the counters in a page of metrics. Raises ValueError for an invalid line."""
    requeued: dict[str, int] = {}
    handled: dict[str, int] = {}
    after_flush = None
    families = set()
    for name, labels, value in _samples(text, _QUEUE_SAMPLES):
        families.add(name)
        if name == AFTER_FLUSH:
            after_flush = value
            continue
        event = labels.get("event")
        if event is None:
            raise ValueError(f"{name} without a label event")
        event = event_name(_NEWER_NAMES.sub("UnschedulablePod", event))
        if name == INCOMING:
            requeued.setdefault(event, 0)
            if labels.get("queue") in _TRIED_FROM:
                requeued[event] += value
        else:
            handled[event] = handled.get(event, 0) + value
    return QueueCounters(
        requeued if INCOMING in families else None,
        handled if f"{HANDLED}_count" in families else None,
        after_flush,
    )


def total_in(text: str, name: str, labels: Mapping[str, str]) -> int:
    """Return the sum of a metric's samples that have these labels; 0 without samples.

    Raises ValueError for an invalid line.
    """
    samples = _samples(text, {name})
    return sum(value for _, found, value in samples if labels.items() <= found.items())


def _samples(text: str, wanted: AbstractSet[str]) -> Iterator[tuple[str, Mapping[str, str], int]]:
    # The lines of other families are most of the page, and parsing them would take most of the
    # time. Without its TYPE a histogram's count is a plain sample, which is enough here.
    lines = [line for line in text.splitlines() if line.partition("{")[0].split(" ")[0] in wanted]
    try:
        families = list(text_string_to_metric_families("\n".join([*lines, ""])))
    except (IndexError, KeyError) as error:
        # The library raises these for some truncated lines.
        raise ValueError(f"a line without an end: {error}") from error
    for sample in (sample for family in families for sample in family.samples):
        if not 0 <= sample.value < math.inf or sample.value != int(sample.value):
            raise ValueError(f"{sample.name}: expected a count, got {sample.value}")
        yield sample.name, sample.labels, int(sample.value)


class MetricsReader:
    """Reads one scheduler's metrics; an async context manager."""

    def __init__(self, url: str) -> None:
        """Take the full URL, including the path."""
        self._url = url
        # A scheduler that supports this parameter sends only these families; others ignore it.
        self._names = [("name[]", name) for name in (INCOMING, AFTER_FLUSH, HANDLED)]

    async def __aenter__(self) -> MetricsReader:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def wait_until_served(self) -> QueueCounters:
        """Return the counters once they are served. Raises NotObservable after a while."""
        clock = RealClock()
        deadline = clock.monotonic() + _START_SECONDS
        while True:
            try:
                return await self.read()
            except TargetError as error:
                if not isinstance(error.__cause__, aiohttp.ClientConnectionError):
                    raise NotObservable(str(error)) from error
                if clock.monotonic() >= deadline:
                    raise NotObservable(f"{error}, after {_START_SECONDS:g}s") from error
                await clock.sleep(_LOOK_SECONDS)

    async def read(self) -> QueueCounters:
        """Return the counters now. Raises TargetError if they cannot be read."""
        return await self._parsed(self._names, parse_counters)

    async def total(self, name: str, labels: Mapping[str, str]) -> int:
        """Return the sum of a metric's samples with these labels. Raises as `read` does."""
        return await self._parsed([], lambda text: total_in(text, name, labels))

    async def _parsed(self, names: list[tuple[str, str]], parse: Callable[[str], _T]) -> _T:
        try:
            async with self._session.get(
                self._url, params=names, ssl=not is_loopback(self._url)
            ) as response:
                text = await response.text()
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            raise TargetError(f"GET {self._url}: {type(error).__name__}: {error}") from error
        if response.status != 200:
            raise TargetError(f"GET {self._url}: expected status 200, got {response.status}")
        try:
            return parse(text)
        except ValueError as error:
            raise TargetError(f"GET {self._url}: not Prometheus' format: {error}") from error


def is_loopback(url: str) -> bool:
    """True if the URL leads to this machine, where a self-signed certificate is accepted."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def risen(after: Mapping[str, int], before: Mapping[str, int] | None) -> dict[str, int]:
    """Return the increase of the counters that have increased."""
    old = before or {}
    rises = {event: count - old.get(event, 0) for event, count in after.items()}
    return {event: count for event, count in sorted(rises.items()) if count}


def in_words(counts: Mapping[str, int], events: Iterable[str] | None = None) -> str:
    """Format counts as one line. `events` selects some of them."""
    chosen = counts if events is None else {event: counts[event] for event in events}
    return ", ".join(f"{event} {count}" for event, count in chosen.items()) or "none"
