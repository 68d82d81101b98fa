"""What has happened on a server: each change to an object, each request, for whoever asks.

    with server.listening(on_change=print, on_request=print):
        ...                     # told at once, in the order in which things happen
    server.requests             # the newest requests, if the server was told to keep any

A change is told when it is made, a request when it has its answer (a watch: when it begins). So
what a request changes comes before the request itself. Nothing is copied, and with nobody listening
and no requests kept nothing is done.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeapi.clock import Clock
    from fakeapi.store.store import Change, Collection, Store
    from fakeapi.types.objects import Json

__all__ = ["HandledRequest", "Journal", "ObjectChange"]


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change to one object, as watchers of its resource are told of it.

    `seconds` are since 1970 on the server's clock; `type` is ADDED, MODIFIED or DELETED. `object`
    is as it is stored, without kind and apiVersion: as it is now, or as it was when it was deleted.
    It belongs to the server and must not be changed. `namespace` is empty for what is in none.
    """

    seconds: float
    resource_version: int
    type: str
    group: str
    resource: str
    namespace: str
    name: str
    object: Json


@dataclasses.dataclass(frozen=True, slots=True)
class HandledRequest:
    """One request and the status code it was answered with.

    `seconds` are those of its answer, since 1970 on the server's clock; `path` is as it was sent,
    query and all. `content_type` and `body` are as they were sent, too: a patch says by its type
    how it is meant, and a body may be JSON, YAML or protobuf. A body that was not read is empty.
    """

    seconds: float
    method: str
    path: str
    user_agent: str
    status: int
    content_type: str = ""
    body: bytes = dataclasses.field(default=b"", repr=False)


class Journal:
    """Tells listeners, and remembers the newest `requests_kept` requests."""

    def __init__(self, store: Store, clock: Clock, *, requests_kept: int) -> None:
        self._clock = clock
        self._changes: dict[object, Callable[[ObjectChange], None]] = {}
        self._requests: dict[object, Callable[[HandledRequest], None]] = {}
        self._kept: collections.deque[HandledRequest] = collections.deque(maxlen=requests_kept)
        store.observers.append(self._changed)

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """The requests that are remembered, the oldest first."""
        return tuple(self._kept)

    @contextlib.contextmanager
    def listening(
        self,
        on_change: Callable[[ObjectChange], None] | None = None,
        on_request: Callable[[HandledRequest], None] | None = None,
    ) -> Iterator[None]:
        """Tell of everything that happens inside the block."""
        token = object()
        if on_change is not None:
            self._changes[token] = on_change
        if on_request is not None:
            self._requests[token] = on_request
        try:
            yield
        finally:
            self._changes.pop(token, None)
            self._requests.pop(token, None)

    def handled(
        self, method: str, path: str, headers: Mapping[str, str], status: int, body: bytes
    ) -> None:
        """Take note of a request that has its answer."""
        if not self._requests and not self._kept.maxlen:
            return
        request = HandledRequest(
            seconds=self._clock.now(),
            method=method,
            path=path,
            user_agent=headers.get("User-Agent", ""),
            status=status,
            content_type=headers.get("Content-Type", ""),
            body=body,
        )
        self._kept.append(request)
        for listener in list(self._requests.values()):
            listener(request)

    def _changed(self, collection: Collection, change: Change) -> None:
        if not self._changes:
            return
        revision = change.current or change.final
        assert revision is not None, "a change has an object, or one that is gone"
        group, resource = collection.resource
        namespace, _, name = change.key.rpartition("/")
        told = ObjectChange(
            seconds=self._clock.now(),
            resource_version=change.resource_version,
            type=change.type,
            group=group,
            resource=resource,
            namespace=namespace,
            name=name,
            object=revision.object,
        )
        for listener in list(self._changes.values()):
            listener(told)
