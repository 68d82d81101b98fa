"""Connections, over real sockets; requests are written in pieces where that matters."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from fakeapi.faults import AnswerWith, Fault, Match

from ..api_client import eventually
from ..objects import CONFIG_MAPS, PODS, config_map, pod


class Client:
    """A connection on which bytes are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Send pieces, each of which arrives alone."""
        for piece in pieces:
            self._writer.write(piece)
            for _ in range(20):
                await asyncio.sleep(0)

    async def head(self) -> str:
        """The head of the next answer; its body is read, too."""
        raw = await self._reader.readuntil(b"\r\n\r\n")
        await self._reader.readexactly(_length(raw))
        return raw.decode()

    async def answer(self) -> tuple[int, dict[str, object]]:
        """The next answer: its code and its body."""
        code, length = await self._head()
        body: dict[str, object] = json.loads(await self._reader.readexactly(length))
        return code, body

    async def length(self) -> int:
        """Return the Content-Length of the next answer, which has no body."""
        return (await self._head())[1]

    async def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        return await self._reader.read()

    async def _head(self) -> tuple[int, int]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), _length(head)

    def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


@contextlib.asynccontextmanager
async def client_of(server: FakeApiServer) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(10):
            yield Client(reader, writer)
    finally:
        writer.close()


def request(method: str, path: str, body: object = None, *more: str) -> bytes:
    raw = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(raw)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + raw


CREATE = request("POST", CONFIG_MAPS, config_map("a"))
GET = request("GET", f"{CONFIG_MAPS}/a")
LIST = request("GET", CONFIG_MAPS)


async def test_requests_on_one_connection_are_answered_in_turn(server: FakeApiServer) -> None:
    async with client_of(server) as client:
        for raw, code in [
            (CREATE, 201),
            (GET, 200),
            (request("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"b": "c"})), 200),
            (request("DELETE", f"{CONFIG_MAPS}/a"), 200),
            (GET, 404),
            (request("POST", CONFIG_MAPS, 7), 400),
        ]:
            await client.send(raw)
            assert (await client.answer())[0] == code
    assert server.statistics().requests_total == 6


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("http://other/api/v1/namespaces/default", 200),
        ("HTTPS://other:1/api/v1/namespaces/default?pretty=true", 200),
        ("http://other", 404),
        ("http://other?x", 404),
        ("other", 400),
        ("//other/api/v1/namespaces/default", 404),
    ],
)
async def test_of_an_absolute_target_only_path_and_query_count(
    server: FakeApiServer, target: str, code: int
) -> None:
    async with client_of(server) as client:
        await client.send(request("GET", target))
        assert int((await client.head())[9:12]) == code


async def test_a_target_may_be_utf8_as_it_is(server: FakeApiServer) -> None:
    async with client_of(server) as client:
        await client.send(CREATE)
        await client.answer()
        await client.send(request("GET", f"{CONFIG_MAPS}/é"))
        code, body = await client.answer()
        assert (code, body["message"]) == (404, 'configmaps "é" not found')
        await client.send(request("GET", f"{CONFIG_MAPS}?labelSelector=é%21%3D1"))
        assert (await client.answer())[0] == 400
        await client.send(request("GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dü"))
        code, body = await client.answer()
        assert (code, body["items"]) == (200, [])


@pytest.mark.parametrize("cut", [1, len("GET ") + len(CONFIG_MAPS), -30, -4])
async def test_a_target_in_utf8_may_come_in_pieces(server: FakeApiServer, cut: int) -> None:
    raw = request("GET", f"{CONFIG_MAPS}/éé")
    cut = raw.index("é".encode()) + 1 if cut == -30 else cut
    async with client_of(server) as client:
        for _ in range(2):
            await client.send(raw[:cut], raw[cut:])
            code, body = await client.answer()
            assert (code, body["message"]) == (404, 'configmaps "éé" not found')


async def test_the_rest_of_a_refused_body_is_no_head(server: FakeApiServer) -> None:
    """The rest is neither escaped as a head nor counted."""
    body = "é".encode() * 50_000
    head = request("PUT", CONFIG_MAPS).replace(b"Length: 0", b"Length: %d" % len(body))
    async with client_of(server) as client:
        await client.send(head + body[:1])
        assert (await client.answer())[0] == 405
        await client.send(body[1:])
        await client.send(request("GET", CONFIG_MAPS))
        assert (await client.answer())[0] == 200


@pytest.mark.parametrize("cut", [len(CREATE) - 1, CREATE.index(b"{"), CREATE.index(b"{") + 5])
async def test_a_body_may_come_after_its_head(server: FakeApiServer, cut: int) -> None:
    async with client_of(server) as client:
        await client.send(CREATE[:cut])
        assert server.statistics().requests_in_flight == 1
        await client.send(CREATE[cut:])
        assert (await client.answer())[0] == 201
        assert server.statistics().requests_in_flight == 0


async def test_a_body_that_comes_byte_by_byte_is_read(server: FakeApiServer) -> None:
    start = CREATE.index(b"{")
    async with client_of(server) as client:
        pieces = [CREATE[at : at + 1] for at in range(start, len(CREATE))]
        await client.send(CREATE[:start], *pieces)
        assert (await client.answer())[0] == 201


@pytest.mark.parametrize("cut", [1, 20, CREATE.index(b"\r\n\r\n") + 2])
async def test_a_head_may_come_in_two_pieces(server: FakeApiServer, cut: int) -> None:
    async with client_of(server) as client:
        await client.send(CREATE[:cut], CREATE[cut:])
        assert (await client.answer())[0] == 201
        await client.send(GET)
        assert (await client.answer())[0] == 200


async def test_what_looks_like_a_request_inside_another_is_none(server: FakeApiServer) -> None:
    async with client_of(server) as client:
        await client.send(b"GET /version HTTP/1.1\r\nX: ", GET)
        answer = await client.answer()
        assert answer[1]["major"] == "1"
        await client.send(CREATE)
        assert (await client.answer())[0] == 201


async def test_requests_that_come_together_are_answered_in_order(server: FakeApiServer) -> None:
    async with client_of(server) as client:
        await client.send(CREATE + GET + LIST + request("DELETE", f"{CONFIG_MAPS}/a"))
        answers = [await client.answer() for _ in range(4)]
    assert [code for code, _ in answers] == [201, 200, 200, 200]
    assert answers[2][1]["kind"] == "ConfigMapList"


async def test_a_request_behind_a_list_that_waits_comes_after_it(
    server: FakeApiServer, clock: ManualClock
) -> None:
    version = server.resource_version + 1
    waiting = request("GET", f"{CONFIG_MAPS}?resourceVersion={version}")
    async with client_of(server) as client, client_of(server) as other:
        await client.send(waiting, GET)
        await other.send(CREATE)
        await other.answer()
        assert (await client.answer())[1]["kind"] == "ConfigMapList"
        assert (await client.answer())[1]["kind"] == "ConfigMap"


async def test_a_fault_that_is_set_catches_the_next_request_of_a_connection(
    server: FakeApiServer,
) -> None:
    async with client_of(server) as client:
        await client.send(CREATE)
        await client.answer()
        server.faults.add(Fault(match=Match(verb="get"), answer=AnswerWith(code=503)))
        await client.send(GET)
        assert (await client.answer())[0] == 503


async def test_a_client_that_goes_in_the_middle_of_a_body_changes_nothing(
    server: FakeApiServer,
) -> None:
    async with client_of(server) as client:
        await client.send(CREATE[:-1])
        assert server.statistics().requests_in_flight == 1
        client.hang_up()
        await eventually(lambda: server.statistics().requests_in_flight == 0)
    async with client_of(server) as client:
        await client.send(GET)
        assert (await client.answer())[0] == 404


async def test_a_body_that_does_not_come_is_a_timeout(
    server: FakeApiServer, clock: ManualClock
) -> None:
    async with client_of(server) as client:
        await client.send(CREATE[:-1])
        clock.advance(59.0)
        await client.send(b"")
        assert server.statistics().requests_in_flight == 1
        clock.advance(1.0)
        assert (await client.answer())[0] == 504
    assert server.statistics().requests_in_flight == 0


async def test_a_connection_that_is_used_outlives_the_time_for_a_head(
    server: FakeApiServer, clock: ManualClock
) -> None:
    async with client_of(server) as client:
        for _ in range(3):
            await client.send(GET)
            assert (await client.answer())[0] == 404
            clock.advance(31.0)
        await client.send(CREATE[:-1])
        clock.advance(31.0)
        await client.send(CREATE[-1:])
        assert (await client.answer())[0] == 201


async def test_a_head_request_has_the_length_of_the_body_alone(server: FakeApiServer) -> None:
    async with client_of(server) as client:
        await client.send(CREATE)
        await client.answer()
        await client.send(request("HEAD", f"{CONFIG_MAPS}/a"), GET)
        assert await client.length() > 100
        assert (await client.answer())[0] == 200


async def test_what_breaks_inside_is_an_internal_error(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("fakeapi.requests.dispatch.verb_of", lambda *_: broken)
    async with client_of(server) as client:
        await client.send(GET)
        code, body = await client.answer()
    assert (code, body["reason"]) == (500, "InternalError")
    assert "GET /api/v1/namespaces/default/configmaps/a failed" in caplog.text


async def test_the_journal_has_answered_requests(clock: ManualClock) -> None:
    async with (
        FakeApiServer(clock=clock, options=ServerOptions(requests_kept=5)) as server,
        client_of(server) as client,
    ):
        await client.send(request("GET", f"{CONFIG_MAPS}/a", None, "user-agent: me/1"))
        await client.answer()
        (seen,) = server.requests
    assert (seen.method, seen.path, seen.user_agent, seen.status) == (
        "GET",
        f"{CONFIG_MAPS}/a",
        "me/1",
        404,
    )


async def test_a_refused_request_has_its_warnings_all_the_same(server: FakeApiServer) -> None:
    old = "beta.kubernetes.io/arch"
    made = {**pod("p", spec={"nodeSelector": {old: "x"}}), "bogus": 1}
    async with client_of(server) as client:
        for code in (201, 409):
            await client.send(request("POST", PODS, made))
            head = await client.head()
            assert head.startswith(f"HTTP/1.1 {code} ")
            assert '299 - "unknown field \\"bogus\\""' in head
            assert f'299 - "spec.nodeSelector[{old}]: deprecated since v1.14' in head
        await client.send(request("POST", PODS, {**made, "metadata": {"name": "P"}}))
        head = await client.head()
        assert head.startswith("HTTP/1.1 422 ")
        assert "unknown field" in head
        assert "deprecated" not in head, "of what is not valid nothing else is said"


async def test_a_client_that_leaves_before_its_watch_begins_is_no_error(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    writer.transport.abort()
    await eventually(lambda: server.statistics().requests_total > 0)
    await eventually(lambda: not server.statistics().watchers)
    assert not caplog.records
