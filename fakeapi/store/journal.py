"""Notifies listeners of each change to an object and of each request, in order.

    with server.listening(on_change=print, on_request=print):
        ...                     # called at once
    server.requests             # the newest requests, with `requests_kept`

A change is reported when it is made, a request when it is answered (a watch: when it begins). So
the changes that a request makes come before the request. Without listeners and kept requests the
journal costs nothing.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING

from fakeapi.store.store import call_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeapi.clock import Clock
    from fakeapi.store.store import Change, Collection, Store
    from fakeapi.types.objects import Json


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change to one object, as watchers of its resource get it.

    `seconds` are since 1970 on the server's clock; `type` is ADDED, MODIFIED or DELETED. `object`
    is in its stored form, without kind and apiVersion; after a deletion it is the last state. It is
    not a copy and must not be changed. `namespace` is empty for cluster-scoped objects.
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
    """One request and the status code of its answer.

    `seconds` is the time of the answer, since 1970 on the server's clock. `path` includes the
    query. `content_type` and `body` are as the client sent them: JSON, YAML, protobuf or a patch.
    `body` is empty if the server did not read it.
    """

    seconds: float
    method: str
    path: str
    user_agent: str
    status: int
    content_type: str = ""
    body: bytes = dataclasses.field(default=b"", repr=False)


class Journal:
    """Notifies listeners and keeps the newest `requests_kept` requests."""

    def __init__(self, store: Store, clock: Clock, *, requests_kept: int) -> None:
        self._clock = clock
        self._changes: dict[object, Callable[[ObjectChange], None]] = {}
        self._requests: dict[object, Callable[[HandledRequest], None]] = {}
        self._kept: collections.deque[HandledRequest] = collections.deque(maxlen=requests_kept)
        store.observers.append(self._changed)

    @property
    def requests(self) -> tuple[HandledRequest, ...]:
        """Return the kept requests, the oldest first."""
        return tuple(self._kept)

    @contextlib.contextmanager
    def listening(
        self,
        on_change: Callable[[ObjectChange], None] | None = None,
        on_request: Callable[[HandledRequest], None] | None = None,
    ) -> Iterator[None]:
        """Call the listeners inside the block."""
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
        """Record a request and its status code."""
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
        call_all([functools.partial(listener, request) for listener in self._requests.values()])

    def _changed(self, collection: Collection, change: Change) -> None:
        if not self._changes:
            return
        group, resource = collection.resource
        namespace, _, name = change.key.rpartition("/")
        report = ObjectChange(
            seconds=self._clock.now(),
            resource_version=change.resource_version,
            type=change.type,
            group=group,
            resource=resource,
            namespace=namespace,
            name=name,
            object=change.revision.object,
        )
        call_all([functools.partial(listener, report) for listener in self._changes.values()])
