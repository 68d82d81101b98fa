"""Events as client-go's recorder writes them: counted, put together, and no more than so many.

The same event again only counts up; more than ten in ten minutes that differ in their message alone
become one; of one object no more than 25 at once and then one in five minutes are written.
Source: client-go tools/record (event.go, events_cache.go) of v0.36.3.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from fakeapi.actors.client import MERGE, ActorApiError
from fakeapi.actors.objects import uid_of
from fakeapi.actors.resources import EVENTS
from fakeapi.types import times
from fakeapi.types.objects import Json, metadata_of, name_of, namespace_of, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.resources import Resource

_SIMILAR_MAX: Final = 10
_SIMILAR_SECONDS: Final = 600.0
_BURST: Final = 25.0
_REFILL_SECONDS: Final = 300.0
_KEPT: Final = 4096
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_log = logging.getLogger("fakeapi.actors")


@dataclasses.dataclass(slots=True)
class _Written:
    """An event that has been written; written again it counts up."""

    name: str
    count: int


@dataclasses.dataclass(slots=True)
class _Similar:
    """Messages of events that are else the same, and when the last of them came."""

    messages: set[str]
    last: float


class EventRecorder:
    """Writes events about objects; a failure to write is no failure of the actor."""

    def __init__(self, context: Context, component: str) -> None:
        self._context = context
        self._clock = context.clock
        self._client = context.client(component)
        self._component = component
        self._is_on = context.records_events
        self._written: collections.OrderedDict[tuple[str, ...], _Written]
        self._written = collections.OrderedDict()
        self._similar: collections.OrderedDict[tuple[str, ...], _Similar]
        self._similar = collections.OrderedDict()
        self._tokens: collections.OrderedDict[tuple[str, ...], tuple[float, float]]
        self._tokens = collections.OrderedDict()

    async def record(
        self,
        resource: Resource,
        obj: Json,
        reason: str,
        message: str,
        *,
        kind: str = "Normal",
        host: str = "",
        field_path: str = "",
    ) -> None:
        """Write an event about an object, unless there are too many or events are off."""
        if not self._is_on:
            return
        involved: Json = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "namespace": namespace_of(obj),
            "name": name_of(obj),
            "uid": uid_of(obj),
            "resourceVersion": metadata_of(obj).get("resourceVersion"),
            "fieldPath": field_path,
        }
        uid = text(involved["uid"])
        now = self._clock.now()
        event: Json = {"reason": reason, "message": message, "type": kind}
        key: tuple[str, ...] = (uid, kind, reason, host, field_path, message)
        if self._is_one_too_many((uid, kind, reason, host), message, now):
            event["message"] = f"(combined from similar events): {message}"
            key = (uid, kind, reason, host)
        if not self._allowed((uid, kind, host), now):
            return
        known = self._written.get(key)
        try:
            if known is None or not await self._count_up(known, obj, event, now):
                self._written[key] = await self._write(involved, event, host, now)
                _forget_oldest(self._written, key)
        except ActorApiError as error:
            _log.debug("event %s of %s is lost: %s", reason, name_of(obj), error)

    def _is_one_too_many(self, group: tuple[str, ...], message: str, now: float) -> bool:
        """Whether ten events of that group in a row differ in their message alone."""
        similar = self._similar.get(group)
        if similar is None or now - similar.last > _SIMILAR_SECONDS:
            similar = self._similar[group] = _Similar(set(), now)
        _forget_oldest(self._similar, group)
        if len(similar.messages) < _SIMILAR_MAX:
            similar.messages.add(message)
        similar.last = now
        return len(similar.messages) >= _SIMILAR_MAX

    def _allowed(self, about: tuple[str, ...], now: float) -> bool:
        tokens, since = self._tokens.get(about, (_BURST, now))
        tokens = min(_BURST, tokens + (now - since) / _REFILL_SECONDS)
        allowed = tokens >= 1
        self._tokens[about] = (tokens - 1 if allowed else tokens, now)
        _forget_oldest(self._tokens, about)
        return allowed

    async def _count_up(self, known: _Written, obj: Json, event: Json, now: float) -> bool:
        """Whether the event was there still."""
        path = EVENTS.path(namespace_of(obj) or "default", known.name)
        patch = {
            "count": known.count + 1,
            "message": event["message"],
            "lastTimestamp": times.timestamp(now),
        }
        try:
            await self._client.request("PATCH", path, patch, content_type=MERGE)
        except ActorApiError as error:
            if error.code == 404:
                return False
            raise
        known.count += 1
        return True

    async def _write(self, involved: Json, event: Json, host: str, now: float) -> _Written:
        namespace = text(involved["namespace"]) or "default"
        stamp = times.timestamp(now)
        name = f"{involved['name']}.{int(now * 1e9) + self._context.serial():x}"
        body: Json = {
            **event,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {field: value for field, value in involved.items() if value},
            "source": {"component": self._component, **({"host": host} if host else {})},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "reportingComponent": self._component,
            "reportingInstance": host,
        }
        await self._client.create(EVENTS, body)
        return _Written(name, 1)


def _forget_oldest(kept: collections.OrderedDict[_Key, _Value], newest: _Key) -> None:
    kept.move_to_end(newest)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
