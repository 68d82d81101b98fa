"""Events as client-go's recorder writes them: counted, aggregated, and limited in rate.

The same event again increments its count. Ten events in ten minutes that differ in their message
alone are aggregated into one. For one object 25 events are written at once, then one in five
minutes. Source: client-go tools/record (event.go, events_cache.go) of v0.36.3.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from cachetools import LRUCache

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import Object
from fakeapi.actors.resources import EVENTS
from fakeapi.types import times
from fakeapi.types.objects import Json, text

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.actors.resources import Resource

_SIMILAR_MAX: Final = 10
_SIMILAR_SECONDS: Final = 600.0
_BURST: Final = 25.0
_REFILL_SECONDS: Final = 300.0
_KEPT: Final = 4096
_Value = TypeVar("_Value")
_Recent: TypeAlias = LRUCache[tuple[str, ...], _Value]
_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Written:
    """An event on the server."""

    name: str
    count: int


@dataclasses.dataclass(slots=True)
class _Similar:
    """The messages of events that are equal otherwise, and the time of the last one."""

    messages: set[str]
    last: float


class EventRecorder:
    """Writes events about objects; an event that cannot be written is dropped."""

    def __init__(self, context: Context, component: str) -> None:
        self._context = context
        self._clock = context.clock
        self._client = context.client(component)
        self._component = component
        self._is_on = context.records_events
        self._written: _Recent[_Written] = LRUCache(_KEPT)
        self._similar: _Recent[_Similar] = LRUCache(_KEPT)
        self._tokens: _Recent[tuple[float, float]] = LRUCache(_KEPT)

    async def record(
        self,
        resource: Resource,
        obj: Object,
        reason: str,
        message: str,
        *,
        kind: str = "Normal",
        host: str = "",
        field_path: str = "",
    ) -> None:
        """Write an event about an object, unless the rate is too high or events are off."""
        if not self._is_on:
            return
        now, uid = self._clock.now(), obj.uid
        event: Json = {"reason": reason, "message": message, "type": kind}
        key: tuple[str, ...] = (uid, kind, reason, host, field_path, message)
        if self._is_aggregated((uid, kind, reason, host), message, now):
            event["message"] = f"(combined from similar events): {message}"
            key = (uid, kind, reason, host)
        if not self._is_allowed((uid, kind, host), now):
            return
        involved: Json = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "namespace": obj.namespace,
            "name": obj.name,
            "uid": uid,
            "resourceVersion": obj.metadata.get("resourceVersion"),
            "fieldPath": field_path,
        }
        written = self._written.get(key)
        try:
            if written is None or not await self._increment(written, obj, event, now):
                written = await self._create(involved, event, host, now)
            self._written[key] = written
        except ActorApiError as error:
            _log.debug("event %s of %s is dropped: %s", reason, obj.name, error)

    def _is_aggregated(self, group: tuple[str, ...], message: str, now: float) -> bool:
        """True if the group had ten different messages."""
        similar = self._similar.get(group)
        if similar is None or now - similar.last > _SIMILAR_SECONDS:
            similar = _Similar(set(), now)
        self._similar[group] = similar
        if len(similar.messages) < _SIMILAR_MAX:
            similar.messages.add(message)
        similar.last = now
        return len(similar.messages) >= _SIMILAR_MAX

    def _is_allowed(self, group: tuple[str, ...], now: float) -> bool:
        """Take a token from the group's bucket; False if it is empty."""
        tokens, since = self._tokens.get(group, (_BURST, now))
        tokens = min(_BURST, tokens + (now - since) / _REFILL_SECONDS)
        allowed = tokens >= 1
        self._tokens[group] = (tokens - 1 if allowed else tokens, now)
        return allowed

    async def _increment(self, known: _Written, obj: Object, event: Json, now: float) -> bool:
        """Increment the event's count; return False if it is gone from the server."""
        patch = {
            "count": known.count + 1,
            "message": event["message"],
            "lastTimestamp": times.timestamp(now),
        }
        namespace = obj.namespace or "default"
        written = Object(metadata={"name": known.name, "namespace": namespace})
        try:
            await self._client.patch(EVENTS, written, patch)
        except ActorApiError as error:
            if error.code == 404:
                return False
            raise
        known.count += 1
        return True

    async def _create(self, involved: Json, event: Json, host: str, now: float) -> _Written:
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
