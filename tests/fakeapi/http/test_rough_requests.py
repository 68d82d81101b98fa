"""Requests that are too large, too deep, too slow, or no HTTP: each gets its error, none a 500.

Expected are the answers of kube-apiserver v1.36.3 to the same bytes. Exceptions: its limit of depth
is 10,000, and aiohttp refuses some malformed requests, which no client sends, where net/http is
lenient; those tests name it. Time limits are from the sources of net/http.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
import yarl

from fakeapi import FakeApiServer, ManualClock
from fakeapi.types.limits import DEFAULT

from ..api_client import JSON_PATCH, MERGE, STRATEGIC, ApiClient, eventually
from ..objects import CONFIG_MAPS, PODS, config_map, pod, with_resources

YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + level, 98 + level, b",".join([b"*%c" % (97 + level)] * 9))
    for level in range(9)
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()
DEPTH_MAX = DEFAULT.max_depth
TOO_DEEP = f"exceeded max depth of {DEPTH_MAX}"


@contextlib.asynccontextmanager
async def connected(
    server: FakeApiServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer_to(server: FakeApiServer, raw: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    async with connected(server) as (reader, writer), asyncio.timeout(5):
        writer.write(raw)
        return await reader.read()


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("POST", "application/json"),
        ("POST", YAML),
        ("PUT", "application/json"),
        ("PATCH", MERGE),
        ("PATCH", STRATEGIC),
        ("PATCH", APPLY),
        ("DELETE", "application/json"),
    ],
)
async def test_ten_mebibytes_are_too_much(api: ApiClient, method: str, kind: str) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/c"
    body = b'{"data":{"a":"' + b"x" * (10 << 20) + b'"}}'
    reply = await api.request(method, path, body, content_type=kind, fieldManager="m")
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")
    assert reply.message == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 900, 5000, 100_000])
@pytest.mark.parametrize(
    ("kind", "opening", "closing"),
    [
        ("application/json", b'{"a":', b"}"),
        ("application/json", b"[", b"]"),
        (YAML, b"[", b"]"),
        (YAML, b"{a: ", b"}"),
        (YAML, b"- ", b""),
        (YAML, b"? ", b""),
    ],
)
async def test_what_nests_too_deep_is_refused(
    api: ApiClient, kind: str, opening: bytes, closing: bytes, levels: int
) -> None:
    body = opening * levels + b"1" + closing * levels
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=kind)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert "exceeded max depth" in reply.message


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH, APPLY])
async def test_a_patch_that_nests_too_deep_is_refused(api: ApiClient, kind: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    body = b'{"a":' * 900 + b"1" + b"}" * 900
    reply = await api.request(
        "PATCH", f"{CONFIG_MAPS}/c", body, content_type=kind, fieldManager="m"
    )
    assert (reply.code, "exceeded max depth" in reply.message) == (400, True)


async def test_indented_yaml_that_nests_too_deep_is_refused(api: ApiClient) -> None:
    body = b"\n".join(b" " * level + b"a:" for level in range(1500))
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=YAML)
    assert (reply.code, TOO_DEEP in reply.message) == (400, True)


@pytest.mark.parametrize(("method", "kind"), [("POST", YAML), ("PATCH", APPLY)])
async def test_a_billion_laughs_are_refused(api: ApiClient, method: str, kind: str) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/l"
    reply = await api.request(method, path, LAUGHS, content_type=kind, fieldManager="m")
    assert reply.code == 400
    assert "yaml: document contains excessive aliasing" in reply.message


async def test_an_anchor_in_itself_is_refused(api: ApiClient) -> None:
    body = b"metadata: &a\n  name: s\n  x: *a\n"
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=YAML)
    assert (reply.code, "anchor 'a' value contains itself" in reply.message) == (400, True)


async def test_an_alias_is_written_out(api: ApiClient) -> None:
    body = b"metadata: {name: c, labels: &l {a: b}, annotations: *l}\n"
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=YAML)
    assert (reply.code, reply.body["metadata"]["annotations"]) == (201, {"a": "b"})


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\\ud800\xff", b"\\udc00\\ud800"])
async def test_bytes_that_are_not_utf8_are_replaced_in_json(api: ApiClient, text: bytes) -> None:
    body = b'{"metadata":{"name":"c"},"data":{"a":"' + text + b'"}}'
    reply = await api.request("POST", CONFIG_MAPS, body)
    assert (reply.code, reply.body["data"]["a"]) == (201, "\ufffd\ufffd")


async def test_bytes_that_are_not_utf8_make_a_name_invalid(api: ApiClient) -> None:
    reply = await api.request("POST", CONFIG_MAPS, b'{"metadata":{"name":"u\xff"}}')
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "metadata.name")])


@pytest.mark.parametrize("body", [b'data: {a: "\xff"}', b'data: {a: "\x00"}'])
@pytest.mark.parametrize(("method", "kind"), [("POST", YAML), ("PATCH", APPLY)])
async def test_yaml_must_be_text(api: ApiClient, method: str, kind: str, body: bytes) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/c"
    reply = await api.request(method, path, body, content_type=kind, fieldManager="m")
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_a_nul_in_json_is_no_json(api: ApiClient) -> None:
    reply = await api.request("POST", CONFIG_MAPS, b'{"data":{"a":"\x00"}}')
    assert (reply.code, "json parse error: JSON is malformed" in reply.message) == (400, True)


@pytest.mark.parametrize("number", ["1e400", "9223372036854775808", "1" + "0" * 5000])
async def test_numbers_that_no_field_holds_are_refused(api: ApiClient, number: str) -> None:
    body = f'{{"metadata":{{"name":"c","generation":{number}}}}}'.encode()
    for kind in ("application/json", YAML):
        reply = await api.request("POST", CONFIG_MAPS, body, content_type=kind)
        assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    "amount", ["1e999999999", "1e-999999999", "1" + "0" * 5000, "1e" + "9" * 5000]
)
async def test_quantities_that_take_forever_are_refused(api: ApiClient, amount: str) -> None:
    reply = await api.post(PODS, pod("p", spec=with_resources(requests={"cpu": amount})))
    assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01garbage\r\n\r\n",
        HEALTH + b"X Y: 1\r\n\r\n",
        HEALTH + b"X : 1\r\n\r\n",
        HEALTH + b": 1\r\n\r\n",
        HEALTH + b"nonsense\r\n\r\n",
        HEALTH + b"X: a\x00b\r\n\r\n",
        HEALTH + b"X: a\rb\r\n\r\n",
        HEALTH + b"Host: y\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz http/1.1\r\nHost: x\r\n\r\n",
        b"GE(T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        POST + b"Content-Length: -5\r\n\r\n",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Content-Length: 0x2\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        POST + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    ],
)
async def test_malformed_http_is_refused_with_gos_text(
    server: FakeApiServer, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answer_to(server, raw)
    assert answer.partition(b" ")[2].startswith(b"400 Bad Request\r\n")
    assert answer.count(b"\r\nConnection: close\r\n") == 1
    assert answer.endswith(b"\r\n400 Bad Request")
    assert not caplog.records  # it is no defect of the server


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /healthz HTTP/1.1\nHost: x\n\n",
        HEALTH + b"X: y\r\n z\r\n\r\n",
        b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n",
        b"FOO /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
    ],
)
async def test_odd_http_is_refused_where_go_is_lenient(
    server: FakeApiServer, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Go's server answers broken chunks with 500, and serves the other requests."""
    answer = await answer_to(server, raw)
    assert answer.partition(b" ")[2].startswith(b"400 Bad Request\r\n")
    assert not caplog.records


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (HEALTH + b"Expect: something\r\n\r\n", 417),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ],
)
async def test_unsupported_http_is_refused_with_gos_text(
    server: FakeApiServer, raw: bytes, code: int
) -> None:
    answer = await answer_to(server, raw)
    assert answer.partition(b" ")[2].startswith(b"%d " % code)
    assert answer.count(b"\r\nConnection: close\r\n") == 1
    assert answer.count(b"HTTP/") == 1


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "OPTIONS", "HEAD", "PROPFIND"])
async def test_methods_that_objects_do_not_have_are_refused(
    server: FakeApiServer, method: str
) -> None:
    head = f"{method} {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await answer_to(server, head.encode())
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert (b'"reason":"MethodNotAllowed"' in answer) is (method != "HEAD")


@pytest.mark.parametrize("sent", ["target", "header", "headers"])
async def test_a_long_head_is_read(server: FakeApiServer, sent: str) -> None:
    """Selectors and tokens may be long: Go takes a mebibyte of head, whatever is in it."""
    long = b"x" * 900_000
    target = b"?labelSelector=a%3D1&x=" + long if sent == "target" else b""
    header = b"X: " + long + b"\r\n" if sent == "header" else b""
    many = b"".join(b"X%d: y\r\n" % number for number in range(900 if sent == "headers" else 0))
    start = b"GET " + CONFIG_MAPS.encode() + target + b" HTTP/1.1\r\nHost: x\r\n"
    answer = await answer_to(server, start + header + many + b"Connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("start", [b"GET /", HEALTH + b"X: "])
async def test_a_head_that_is_too_long_has_a_code_of_its_own(
    server: FakeApiServer, start: bytes
) -> None:
    answer = await answer_to(server, start + b"y" * 1_100_000)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert answer.count(b"\r\nConnection: close\r\n") == 1


async def test_a_head_of_many_headers_has_its_bound_too(server: FakeApiServer) -> None:
    headers = b"".join(b"X%d: " % number + b"y" * 100_000 + b"\r\n" for number in range(20))
    answer = await answer_to(server, HEALTH + headers)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_a_body_may_be_larger_than_any_head(server: FakeApiServer) -> None:
    body = b'{"data":{"a":"' + b"x" * 2_000_000 + b'"}}'
    answer = await answer_to(server, POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 422 ")


async def test_a_body_ends_after_its_content_length(server: FakeApiServer) -> None:
    answer = await answer_to(server, POST + b'Content-Length: 9\r\n\r\n{"metadat')
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"json parse error: Input data was truncated" in answer


async def test_what_follows_a_body_is_the_next_request(
    server: FakeApiServer, api: ApiClient
) -> None:
    body = b'{"metadata":{"name":"c"}}'
    start = POST.replace(b"Connection: close\r\n", b"")
    next_one = f"GET {CONFIG_MAPS}/c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    raw = start + b"Content-Length: %d\r\n\r\n" % len(body) + body + next_one
    answer = await answer_to(server, raw)
    assert answer.startswith(b"HTTP/1.1 201 Created\r\n")
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert (await api.get(f"{CONFIG_MAPS}/c")).code == 200


async def test_nonsense_right_after_a_body_spoils_the_request(
    server: FakeApiServer, api: ApiClient
) -> None:
    """Go's server answers the first request before it parses the next."""
    body = b'{"metadata":{"name":"c"}}'
    start = POST.replace(b"Connection: close\r\n", b"")
    raw = start + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"garbage\r\n\r\n"
    answer = await answer_to(server, raw)
    assert answer.partition(b" ")[2].startswith(b"400 Bad Request\r\n")
    assert (await api.get(f"{CONFIG_MAPS}/c")).code == 404


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        (b"a%2Fb", 404, b"could not find the requested resource"),
        (b"a%2fstatus", 404, b"could not find the requested resource"),
        (b"a%25b", 400, b"may not contain '%'"),
        (b"..", 400, b"may not be '..'"),
        (b"%2e%2e", 400, b"may not be '..'"),
        (b"%00", 404, b"not found"),
        (b"%ff", 404, b"not found"),
        (b"%zz", 400, b"400 Bad Request"),
        (b"a%", 400, b"400 Bad Request"),
    ],
)
async def test_odd_names_in_a_path(
    server: FakeApiServer, name: bytes, code: int, why: bytes
) -> None:
    head = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await answer_to(server, b"GET " + CONFIG_MAPS.encode() + b"/" + name + head)
    assert answer.startswith(b"HTTP/1.1 %d " % code)
    assert why in answer


async def test_dots_in_a_path_do_not_lead_out_of_it(server: FakeApiServer) -> None:
    head = b"/../secrets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await answer_to(server, b"GET " + CONFIG_MAPS.encode() + head)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"the server could not find the requested resource" in answer


@pytest.mark.parametrize(
    ("how", "code", "warns"), [("Strict", 400, False), ("Warn", 201, True), ("Ignore", 201, False)]
)
async def test_a_key_that_is_there_twice(
    api: ApiClient, how: str, code: int, *, warns: bool
) -> None:
    body = b'{"metadata":{"name":"c","name":"c"},"data":{"a":"1","a":"2"}}'
    reply = await api.request("POST", CONFIG_MAPS, body, fieldValidation=how)
    assert reply.code == code
    assert ('duplicate field \\"metadata.name' in reply.headers.get("Warning", "")) is warns
    if code == 201:
        assert reply.body["data"] == {"a": "2"}
    else:
        assert 'strict decoding error: duplicate field "metadata.name"' in reply.message


BOGUS = b'{"metadata":{"name":"c","no":{"a":1,"a":2},"no":3},"bogus":1,"bogus":2}'


async def test_an_unknown_field_that_is_there_twice_is_just_unknown(api: ApiClient) -> None:
    refused = await api.request("POST", CONFIG_MAPS, BOGUS, fieldValidation="Strict")
    assert refused.message.endswith(
        'strict decoding error: unknown field "metadata.no", unknown field "bogus"'
    )
    told = await api.request("POST", CONFIG_MAPS, BOGUS)
    assert told.headers.getall("Warning") == [
        '299 - "unknown field \\"metadata.no\\""',
        '299 - "unknown field \\"bogus\\""',
    ]


async def test_a_patch_warns_of_an_unknown_field_that_is_duplicate(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    change = b'{"bogus":1,"bogus":2}'
    told = await api.request("PATCH", f"{CONFIG_MAPS}/c", change, content_type=MERGE)
    assert told.headers.getall("Warning") == [
        '299 - "duplicate field \\"bogus\\""',
        '299 - "unknown field \\"bogus\\""',
    ]


async def test_http_1_0_is_served_once_without_keep_alive(server: FakeApiServer) -> None:
    answer = await answer_to(server, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.partition(b" ")[2].startswith(b"200 OK\r\n")
    assert answer.endswith(b"ok")
    stays = b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /livez HTTP/1.0\r\n\r\n"
    assert (await answer_to(server, stays)).count(b"200 OK") == 2


async def test_pipelined_requests_are_answered_in_order(server: FakeApiServer) -> None:
    first = f"GET {CONFIG_MAPS}/first HTTP/1.1\r\nHost: x\r\n\r\n"
    middle = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n\r\n"  # a list is not answered on the spot
    last = f"GET {CONFIG_MAPS}/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await answer_to(server, (first + middle + last).encode())
    assert answer.count(b"HTTP/1.1 ") == 3
    assert (
        answer.index(b'\\"first\\"') < answer.index(b"ConfigMapList") < answer.index(b'\\"last\\"')
    )


async def test_a_body_may_be_chunked_and_may_wait_for_100_continue(server: FakeApiServer) -> None:
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    body = b'{"metadata":{"name":"c"}}'
    chunked = b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    answer = await answer_to(server, head.encode() + chunked % (len(body), body))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
async def test_a_head_that_does_not_end_is_hung_up_on(
    server: FakeApiServer, clock: ManualClock, sent: bytes
) -> None:
    async with connected(server) as (reader, writer), asyncio.timeout(5):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" if sent else b"")
        if sent:
            await reader.readuntil(b"ok")
        else:
            await eventually(lambda: bool(server._connections and server._connections.connections))
        writer.write(sent)
        reading = asyncio.create_task(reader.read())
        for _ in range(100):
            await asyncio.sleep(0)
        clock.advance(31.0)
        await asyncio.sleep(0)
        assert not reading.done()
        clock.advance(1.0)
        assert await reading == b""


async def test_a_body_that_does_not_end_is_a_timeout(
    server: FakeApiServer, clock: ManualClock
) -> None:
    async with connected(server) as (reader, writer), asyncio.timeout(5):
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n"
        writer.write(head.encode() + b'{"metadata":')
        await eventually(lambda: server.statistics().requests_in_flight == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        clock.advance(60.0)
        answer = await reader.readuntil(b'"code":504}')
    assert answer.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
    assert b"Timeout: request did not complete within the allotted timeout" in answer


async def test_slow_clients_do_not_hold_up_the_end(clock: ManualClock) -> None:

    async with (
        asyncio.timeout(5),
        contextlib.AsyncExitStack() as stack,
        FakeApiServer(clock=clock) as server,
    ):
        for sent in (b"", b"GET / HT", b"POST /api HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"):
            _, writer = await stack.enter_async_context(connected(server))
            writer.write(sent)
        await eventually(lambda: len(getattr(server._connections, "connections", ())) == 3)


async def test_base64_that_is_no_ascii_is_refused_like_any_other(api: ApiClient) -> None:
    refused = await api.post(CONFIG_MAPS, {**config_map("c"), "binaryData": {"a": "\ud7ff"}})
    assert refused.code == 400
    assert "illegal base64 data at input byte 0" in refused.message
    listed = await api.get(CONFIG_MAPS, **{"limit": "1", "continue": "\ud7ff"})
    assert (listed.code, "continue token" in listed.message) == (400, True)


async def test_a_warning_with_control_characters_is_sent_without_them(api: ApiClient) -> None:
    body = b'{"metadata":{"name":"c"},"a\\u0001\\r\\nb\\u007f":1}'
    reply = await api.request("POST", CONFIG_MAPS, body)
    assert reply.code == 201
    assert reply.headers.getall("Warning") == ['299 - "unknown field \\"a   b \\""']


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=" + "0" * 5000, 200),
        ("limit=-" + "0" * 5000 + "1", 200),
        ("limit=" + "9" * 5000, 400),
        ("resourceVersion=" + "0" * 5000, 200),
        ("resourceVersion=" + "9" * 100_000, 400),
        ("labelSelector=a" + "=" * 50_000, 400),
        ("labelSelector=" + "!" * 50_000, 400),
        ("labelSelector=a" + "," * 50_000, 400),
        ("labelSelector=a in (" + "b," * 9_000 + ")", 200),
        ("labelSelector=a>" + "1" * 50_000, 400),
        ("fieldSelector=" + "metadata.name=a," * 20_000 + "%0A", 400),
        ("fieldSelector=" + "metadata.name!=a," * 9_000, 200),
        ("fieldSelector=" + "%5C" * 20_000, 400),
        ("timeout=" + "1" * 50_000, 400),
        ("timeout=" + "1h" * 50_000, 200),
        ("continue=" + "e" * 50_000, 400),
    ],
)
async def test_long_repetitive_parameters_are_read_or_refused(
    server: FakeApiServer, session: aiohttp.ClientSession, query: str, code: int
) -> None:
    target = yarl.URL(f"{server.url}{CONFIG_MAPS}?{query.replace(' ', '+')}", encoded=True)
    async with session.get(target) as response:
        assert response.status == code


async def test_the_log_of_a_defect_has_the_beginning_of_a_long_target(
    server: FakeApiServer,
    api: ApiClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("fakeapi.requests.dispatch.verb_of", broken)
    assert (await api.get(CONFIG_MAPS, x="x" * 100_000)).code == 500
    [record] = caplog.records
    assert len(record.getMessage()) < 2000
