"""Each limit is an option: a lower one refuses what the default accepts."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, NamedTuple

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, Security, ServerOptions
from fakeapi.access.users import User
from fakeapi.types.limits import Limits

from .api_client import JSON_PATCH, ApiClient, Reply
from .custom_resources import DEFINITIONS, WIDGETS, definition, schema, version, widget
from .objects import CONFIG_MAPS, PODS, config_map

YAML = "application/yaml"
ITEM = f"{CONFIG_MAPS}/c"
WIDE = dict.fromkeys("abcdefghijklmnopqrstuvw", "")
COPY = {"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/a"}
FLOW = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b, c: d, e: f, g: h}}"
LONG_KEY = {"metadata": {"name": "d"}, "a" * 60: {"b": {}}}
THREE = {"metadata": {"name": "p"}, "spec": {"containers": [{}, {}, {}]}}


class Case(NamedTuple):
    """A limit, the body of a request that exceeds it, and words of the refusal."""

    limit: str
    value: int
    body: Any
    words: str
    code: int = 400
    method: str = "POST"
    path: str = CONFIG_MAPS
    content_type: str = "application/json"


CASES = [
    Case("max_values", 30, config_map("d", WIDE), "number of 30 values"),
    Case("max_values", 30, b"x: [{}, {}, {}, {}, {}]", "number of 30 values", content_type=YAML),
    Case("max_values", 30, FLOW, "number of 30 values", 400, "PATCH", f"{ITEM}?fieldManager=m",
         "application/apply-patch+yaml"),
    Case("max_values", 30, [{"op": "add", "path": "/data", "value": WIDE}], "number of 30 values",
         400, "PATCH", ITEM, JSON_PATCH),
    Case("max_depth", 3, {"metadata": {"name": "d"}, "x": [[[[]]]]}, "max depth of 3"),
    Case("max_depth", 3, b"x: [[[[]]]]", "max depth of 3", content_type=YAML),
    Case("max_path_length", 20, LONG_KEY, "max length of 20 of the path"),
    Case("max_errors_length", 1, THREE, "more errors]", 422, path=PODS),
    Case("max_object_bytes", 900, config_map("d", {"a": "b" * 999}), "request is too large", 413),
    Case("json_patch_max_copy_bytes", 2, [COPY], "rejected", 422, "PATCH", ITEM, JSON_PATCH),
    Case("json_patch_max_operations", 1, [COPY, COPY], "is 1, got 2", 413, "PATCH", ITEM,
         JSON_PATCH),
]  # fmt: skip


async def answered(session: aiohttp.ClientSession, case: Case, **limits: Any) -> Reply:
    """Return the answer of a server with a ConfigMap."""
    stored = config_map("c")
    stored |= {"apiVersion": "v1", "kind": "ConfigMap"}
    stored["metadata"] |= {"namespace": "default", "labels": {"b": "c"}}
    options = ServerOptions(managed_fields=False, **limits)
    async with FakeApiServer(clock=ManualClock(), load=[stored], options=options) as server:
        return await ApiClient(session, server.url).request(
            case.method, case.path, case.body, content_type=case.content_type
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.limit)
async def test_a_lower_limit_refuses_a_request(session: aiohttp.ClientSession, case: Case) -> None:
    reply = await answered(session, case, **{case.limit: case.value})
    assert (reply.code, case.words in reply.message) == (case.code, True), reply.message
    usual = await answered(session, case)
    assert case.words not in usual.message


@pytest.mark.parametrize(("seconds", "code"), [(0.001, 422), (60.0, 201)])
async def test_the_rules_of_an_object_have_a_limit_of_time(
    session: aiohttp.ClientSession, seconds: float, code: int
) -> None:
    pytest.importorskip("cel")
    few = [*range(40)]
    rule = f"{few}.all(x, {few}.all(y, {few}.all(z, x + y + z + self.spec.size > 0)))"
    node = {**schema(), "x-kubernetes-validations": [{"rule": rule}]}
    async with FakeApiServer(options=ServerOptions(cel_seconds=seconds)) as server:
        api = ApiClient(session, server.url)
        await api.create(DEFINITIONS, definition(version(node=node)))
        assert (await api.post(WIDGETS, widget())).code == code


async def sent(options: dict[str, Any], *pieces: bytes, wait_seconds: float = 0.0) -> bytes:
    """Return all that a server answers on one connection."""
    clock = ManualClock()
    async with FakeApiServer(clock=clock, options=ServerOptions(**options)) as server:
        others = [await asyncio.open_connection("127.0.0.1", server.port)]
        others[0][1].write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        await others[0][0].readuntil(b"ok")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for piece in pieces:
            writer.write(piece)
            for _ in range(200):
                await asyncio.sleep(0)
        clock.advance(wait_seconds)
        try:
            async with asyncio.timeout(5):
                return await reader.read(1024)
        except ConnectionResetError:
            return b""
        finally:
            for _, each in (*others, (reader, writer)):
                each.close()


HEAD = b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
LARGE = HEAD + b"A: " + b"a" * 9000 + b"\r\n\r\n"
MANY = HEAD + b"".join(b"A%d: b\r\n" % n for n in range(9)) + b"\r\n"
PARAMETERS = HEAD.replace(b"healthz", b"healthz?a&b&c&d")
SELECTOR = HEAD.replace(b"healthz", b"api/v1/pods?labelSelector=a,b%2cc%2Cd")
WITHOUT_BODY = (
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 9\r\n\r\n"
)


@pytest.mark.parametrize(
    ("options", "raw", "wait_seconds", "start"),
    [
        ({"max_header_bytes": 100}, LARGE, 0, b"HTTP/1.1 431 "),
        ({"max_header_bytes": 9000}, LARGE, 0, b"HTTP/1.1 200 "),
        ({"max_headers": 9}, MANY, 0, b"HTTP/1.0 400 "),
        ({"max_headers": 20}, MANY, 0, b"HTTP/1.1 200 "),
        ({"max_query_values": 3}, PARAMETERS + b"\r\n", 0, b"HTTP/1.1 400 "),
        ({"max_query_values": 4}, PARAMETERS + b"\r\n", 0, b"HTTP/1.1 200 "),
        ({"max_query_values": 3}, SELECTOR + b"\r\n", 0, b"HTTP/1.1 400 "),
        ({"max_query_values": 4}, SELECTOR + b"\r\n", 0, b"HTTP/1.1 200 "),
        ({"max_connections": 1}, HEAD + b"\r\n", 0, b""),
        ({"max_connections": 2}, HEAD + b"\r\n", 0, b"HTTP/1.1 200 "),
        ({"read_header_timeout_seconds": 5}, HEAD, 6, b""),
        ({"request_timeout_seconds": 5}, WITHOUT_BODY, 6, b"HTTP/1.1 504 "),
    ],
)
async def test_a_connection_has_limits(
    options: dict[str, Any], raw: bytes, wait_seconds: float, start: bytes
) -> None:
    answer = await sent(options, raw, wait_seconds=wait_seconds)
    assert answer[: len(start)] == start
    assert bool(answer) is bool(start)


@pytest.mark.parametrize(("limit", "code"), [(1, 403), (2, 201)])
async def test_a_role_has_a_limit_of_permissions(
    session: aiohttp.ClientSession, limit: int, code: int
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    users = {"root": User("root", ("system:masters",)), "jane": User("jane")}
    security = Security(tokens=users, authorization_mode="RBAC")
    pods = {"apiGroups": [""], "resources": ["pods"]}
    own = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
        {**pods, "verbs": ["get"]},
        {**pods, "verbs": ["list"]},
    ]
    options = ServerOptions(max_permissions=limit)
    async with FakeApiServer(security=security, options=options) as server:
        api = ApiClient(session, server.url)

        async def create(user: str, path: str, body: Any) -> Reply:
            return await api.request(
                "POST", path, body, headers={"Authorization": f"Bearer {user}"}
            )

        await create("root", roles, {"metadata": {"name": "own"}, "rules": own})
        binding = {
            "metadata": {"name": "own"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"},
            "subjects": [{"kind": "User", "name": "jane"}],
        }
        await create("root", f"{roles[:-5]}rolebindings", binding)
        both = {"metadata": {"name": "both"}, "rules": [{**pods, "verbs": ["get", "list"]}]}
        reply = await create("jane", roles, both)
        assert reply.code == code, reply.message


def test_each_limit_has_a_test() -> None:
    tried = {case.limit for case in CASES} | {
        "cel_seconds",
        "max_permissions",
        "max_query_values",
        "max_header_bytes",
        "max_headers",
        "max_connections",
        "read_header_timeout_seconds",
        "request_timeout_seconds",
        "write_timeout_seconds",  # http/test_unread_responses.py
    }
    assert {field.name for field in dataclasses.fields(Limits)} == tried
