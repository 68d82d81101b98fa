"""The server under test, in this process: its users, its connections, and what a turn observes."""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from fakeapi.access.users import User
from fakeapi.faults import FaultOptions
from fakeapi.security.options import Security
from fakeapi.store.journal import ObjectChange
from tests.fakeapi import custom_resources

from .asking import Asked
from .texts import SEEDS
from .wire import Answer, Meter, Stretch, Wire

ADMIN: Final = "admin"
READER: Final = "reader"
ANONYMOUS: Final = "anonymous"
#: What only an administrator may read: a value in a Secret.
CANARY: Final = base64.b64encode(b"only for administrators").decode()
_TOKENS: Final = {ADMIN: "admin-token", READER: "reader-token"}
#: What the reader may read.
READABLE: Final = ("configmaps", "pods", "nodes", "deployments", "widgets")
#: Headers by which a body may end elsewhere than the fuzz thinks.
_FRAMING: Final = {"Transfer-Encoding", "content-length"}
_STREAMS_MAX: Final = 8
#: Longer than any timer of a connection.
_IDLE_SECONDS: Final = 150.0
_ROUND_SECONDS: Final = 0.005
#: Of real time: half a minute.
_ROUNDS_MAX: Final = 6000
#: Small, so that it is full, and the memory at rest, long before the end.
_EVENT_LOG_SIZE: Final = 50
_RBAC: Final = "rbac.authorization.k8s.io"


def _granted(kind: str, name: str, namespace: str, rules: list[dict[str, Any]]) -> list[Any]:
    """Return a role of the reader, and its binding."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    head = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
    subject = {"kind": "User", "name": READER, "apiGroup": _RBAC}
    role = {"apiGroup": _RBAC, "kind": kind, "name": name}
    return [
        {**head, "kind": kind, "rules": rules},
        {**head, "kind": f"{kind}Binding", "roleRef": role, "subjects": [subject]},
    ]


#: The reader reads a few resources, and creates ConfigMaps in one namespace.
_ROLES: Final = [
    *_granted(
        "ClusterRole",
        "fuzz-reader",
        "",
        [
            {
                "verbs": ["get", "list", "watch"],
                "apiGroups": ["", "apps", "example.com", "fuzz.example.com"],
                "resources": list(READABLE),
            }
        ],
    ),
    *_granted(
        "Role",
        "fuzz-writer",
        "default",
        [{"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}],
    ),
]
#: Objects that requests can find.
OBJECTS: Final[tuple[tuple[str, Any], ...]] = (
    (
        custom_resources.DEFINITIONS,
        {
            **SEEDS["CustomResourceDefinition"],
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
        },
    ),
    ("/api/v1/namespaces", {"metadata": {"name": "other"}}),
    ("/api/v1/nodes", {"metadata": {"name": "n1"}}),
    ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}, "data": {"a": "b"}}),
    (
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "canary"}, "data": {"token": CANARY}},
    ),
    *(
        (path, {"metadata": {"name": "a"}, **SEEDS[kind]})
        for path, kind in (
            ("/api/v1/namespaces/default/pods", "Pod"),
            ("/api/v1/namespaces/default/services", "Service"),
            ("/api/v1/namespaces/default/persistentvolumeclaims", "PersistentVolumeClaim"),
            ("/api/v1/persistentvolumes", "PersistentVolume"),
            ("/apis/apps/v1/namespaces/default/deployments", "Deployment"),
            ("/apis/apps/v1/namespaces/default/replicasets", "ReplicaSet"),
            ("/apis/apps/v1/namespaces/default/statefulsets", "StatefulSet"),
            ("/apis/batch/v1/namespaces/default/jobs", "Job"),
            ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "Lease"),
            ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "PodDisruptionBudget"),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass"),
            ("/apis/storage.k8s.io/v1/storageclasses", "StorageClass"),
        )
    ),
    (custom_resources.WIDGETS, custom_resources.widget("a")),
)


@dataclasses.dataclass(frozen=True)
class Turn:
    """Requests of one user that were sent at once, and what was observed."""

    user: str
    asked: Sequence[Asked]
    answers: Sequence[Answer]
    changes: Sequence[ObjectChange]
    stretch: Stretch
    #: Logged errors, and errors that were not caught.
    errors: Sequence[str]
    #: What came on watches of the user.
    streamed: bytes


class Served:
    """A running server, and clients of its users."""

    def __init__(self, server: FakeApiServer, clock: ManualClock, meter: Meter) -> None:
        self.server = server
        self.errors: list[str] = []
        self.changes: list[ObjectChange] = []
        self._clock = clock
        self._meter = meter
        self._wires: list[Wire] = []
        self._streams: collections.deque[tuple[str, Wire]] = collections.deque()
        self._first = server.object_keys()

    async def turn(self, user: str, asked: Sequence[Asked]) -> Turn:
        """Send requests at once, each on a connection of its own; wait for all answers."""
        token = _TOKENS.get(user)
        sent = [
            each.replaced(headers={"Authorization": f"Bearer {token}", **each.headers}).raw
            if token
            else each.raw
            for each in asked
        ]
        for _ in range(3):  # connections that the server closes are closed then
            await asyncio.sleep(0)
        wires = [self._wire(index) for index in range(len(sent))]
        self.changes.clear()
        self._meter.reset()
        answering = [
            wire.send(each.method, raw) for wire, each, raw in zip(wires, asked, sent, strict=True)
        ]
        await self._answered(answering)
        await asyncio.sleep(0)  # the stretch of the last answer ends with the next select
        stretch = self._meter.longest
        answers = [each.result() if each.done() else Answer(-1) for each in answering]
        for wire, answer, each in zip(wires, answers, asked, strict=True):
            if answer.is_stream:
                self._wires.remove(wire)
                self._streams.append((user, wire))
            elif answer.code == -1 or not _FRAMING.isdisjoint(each.headers):
                wire.hang_up()  # the rest of a request would be the next one
        if any(each.administers for each in asked):
            self.server.faults.clear()
        errors, self.errors = self.errors, []
        return Turn(user, asked, answers, [*self.changes], stretch, errors, self._streamed(user))

    async def clean(self) -> None:
        """Remove what requests have created, and create what they can find."""
        for _, wire in self._streams:
            wire.hang_up()
        self._streams.clear()
        self._clock.advance(_IDLE_SECONDS)  # timers that were cancelled are forgotten then
        self.server.remove_all_but(self._first)
        self.server.compact()
        headers = {"Host": "x", "Content-Type": "application/json"}
        for path, value in OBJECTS:
            turn = await self.turn(
                ADMIN, [Asked("POST", path, headers, json.dumps(value).encode())]
            )
            assert turn.answers[0].code == 201, (path, turn.answers)

    async def document(self, path: str) -> Any:
        """Return the JSON of a path that an administrator reads."""
        turn = await self.turn(ADMIN, [Asked("GET", path, {"Host": "x"})])
        assert turn.answers[0].code == 200, (path, turn.answers)
        return json.loads(turn.answers[0].body)

    def hang_up(self) -> None:
        """Close all connections."""
        for wire in (*self._wires, *(wire for _, wire in self._streams)):
            wire.hang_up()

    async def _answered(self, answering: Sequence[asyncio.Future[Answer]]) -> None:
        """Wait for answers; whenever the server waits, its clock moves."""
        for _ in range(_ROUNDS_MAX):
            _, waiting = await asyncio.wait(answering, timeout=_ROUND_SECONDS)
            if not waiting:
                return
            self._clock.advance(1.0)

    def _wire(self, index: int) -> Wire:
        if index >= len(self._wires):
            self._wires.append(Wire(self._connect))
        elif not self._wires[index].is_free:
            self._wires[index].hang_up()
            self._wires[index] = Wire(self._connect)
        return self._wires[index]

    def _connect(self) -> asyncio.Protocol:
        connections = self.server._connections
        assert connections is not None
        return connections()

    def _streamed(self, user: str) -> bytes:
        """Return what came on the watches of a user; the oldest watches end."""
        while len(self._streams) > _STREAMS_MAX or (
            self._streams and not self._streams[0][1].is_open
        ):
            self._streams.popleft()[1].hang_up()
        return b"".join([wire.take() for whose, wire in self._streams if whose == user])


class _Errors(logging.Handler):
    """Keeps logged errors."""

    def __init__(self, served: Served) -> None:
        super().__init__(logging.ERROR)
        self._served = served

    def emit(self, record: logging.LogRecord) -> None:
        self._served.errors.append(logging.Formatter().format(record)[-3000:])


@contextlib.asynccontextmanager
async def serving(meter: Meter) -> AsyncIterator[Served]:
    """Run a server with RBAC on a clock that moves when the server waits."""
    clock = ManualClock()
    server = FakeApiServer(
        clock=clock,
        seed=1,
        load=_ROLES,
        faults=FaultOptions(admin_endpoint=True),
        security=Security(
            token=_TOKENS[ADMIN],
            tokens={_TOKENS[READER]: User(READER)},
            authorization_mode="RBAC",
        ),
        options=ServerOptions(event_log_size=_EVENT_LOG_SIZE, initial_resource_version=100),
    )
    async with server:
        served = Served(server, clock, meter)
        handler = _Errors(served)
        logging.getLogger().addHandler(handler)
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: served.errors.append(repr(context))
        )
        try:
            with server.listening(on_change=served.changes.append):
                await served.clean()
                yield served
        finally:
            logging.getLogger().removeHandler(handler)
            served.hang_up()
