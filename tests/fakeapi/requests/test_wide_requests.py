"""Requests whose cost or answer would grow faster than the request."""

import asyncio
from typing import Any

import pytest

from fakeapi import FakeApiServer
from fakeapi.decoding.options import Query, write_options
from fakeapi.types.errors import FieldError, Invalid, invalid
from fakeapi.types.limits import DEFAULT
from fakeapi.writes.strategic import strategic_merge

from ..api_client import JSON_PATCH, MERGE, STRATEGIC, ApiClient, eventually
from ..custom_resources import DEFINITIONS, WIDGETS, definition, version
from ..objects import CONFIG_MAPS, PODS, config_map

APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MIB = 1024 * 1024
VALUES_MAX = DEFAULT.max_values
WIDE = VALUES_MAX + 1


async def test_errors_that_each_show_all_owners_make_no_answer_of_many_times_the_body(
    api: ApiClient,
) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "uid": "u", "controller": True}
    body = config_map("c")
    body["metadata"]["ownerReferences"] = [{**owner, "name": f"n{n}"} for n in range(2000)]
    reply = await api.post(CONFIG_MAPS, body)
    assert reply.code == 422
    assert len(reply.message) < MIB
    assert reply.message.endswith(", and 1997 more errors]")


def test_an_answer_shows_errors_up_to_a_length_and_counts_the_others() -> None:
    errors: list[FieldError] = [invalid(f"spec[{n}]", "x" * 1000, "no") for n in range(1000)]
    error = Invalid("Pod", "", "p", errors)
    assert error.details is not None
    shown = len(error.details["causes"])
    assert 200 < shown < 300
    assert error.message.endswith(f", and {1000 - shown} more errors]")


def test_a_long_field_manager_has_errors_for_its_first_characters_only() -> None:
    with pytest.raises(Invalid) as caught:
        write_options(Query({"fieldManager": ["\x01" * 20_000]}), "CreateOptions")
    assert caught.value.details is not None
    assert len(caught.value.details["causes"]) < 130


@pytest.mark.parametrize("name", ["x" * 30, "x" * 300])
async def test_warnings_are_cut_as_upstream_cuts_them(api: ApiClient, name: str) -> None:
    body = {**config_map("c"), **{f"{name}{n}": 0 for n in range(1000)}}
    reply = await api.post(CONFIG_MAPS, body)
    warnings = reply.headers.getall("Warning")
    assert reply.code == 201
    assert all(len(warning) < 300 for warning in warnings)
    assert 4096 <= sum(len(warning) for warning in warnings) < 8192


async def test_a_warning_is_sent_once(api: ApiClient) -> None:
    raw = b'{"metadata":{"name":"c"},"data":{"a":"1","a":"2","a":"3"}}'
    reply = await api.request("POST", CONFIG_MAPS, raw)
    assert reply.headers.getall("Warning") == ['299 - "duplicate field \\"data.a\\""']


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type"),
    [
        ("POST", "", b'{"x":[' + b"0," * WIDE + b"0]}", "application/json"),
        ("POST", "", b"x: [" + b"0," * WIDE + b"0]", "application/yaml"),
        ("POST", "", b"x:\n" + b"- a: \n" * WIDE, "application/yaml"),
        (
            "POST",
            "",
            b"a: &a [" + b"0," * 999 + b"]\nb: [" + b"*a," * 60 + b"]\nc: [" + b"0," * 999 + b"]",
            "application/yaml",
        ),
        ("PATCH", "/c", b'{"x":[' + b"0," * WIDE + b"0]}", MERGE),
        ("PATCH", "/c", b'{"x":[' + b"0," * WIDE + b"0]}", STRATEGIC),
        ("PATCH", "/c", b'[{"op":"add","path":"/x","value":[' + b"0," * WIDE + b"0]}]", JSON_PATCH),
        ("PATCH", "/c?fieldManager=m", b"x: [" + b"0," * WIDE + b"0]", APPLY),
    ],
)
async def test_a_body_with_too_many_values_is_refused(
    api: ApiClient, method: str, path: str, body: bytes, content_type: str
) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.request(method, CONFIG_MAPS + path, body, content_type=content_type)
    assert reply.code == 400
    assert f"exceeded max number of {VALUES_MAX} values" in reply.message


async def test_a_protobuf_body_with_too_many_values_is_refused_before_they_are_made(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fakeapi.types.protobuf.messages._reader", None)
    containers = field(2, b"") * WIDE
    meta = field(1, field(1, b"v1") + field(2, b"Pod"))
    body = b"k8s\x00" + meta + field(2, field(2, containers))
    reply = await api.request("POST", PODS, body, content_type=PROTOBUF)
    assert reply.code == 400
    assert f"exceeded max number of {VALUES_MAX} values" in reply.message


def field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


async def test_a_patch_whose_result_has_too_many_values_is_refused(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    copies = [{"op": "copy", "from": "/x", "path": f"/y{n}"} for n in range(60)]
    change = [{"op": "add", "path": "/x", "value": [0] * 1000}, *copies]
    reply = await api.patch(f"{CONFIG_MAPS}/c", change, JSON_PATCH)
    assert reply.code == 400
    assert "values" in reply.message


async def test_a_text_of_many_lines_is_one_value(api: ApiClient) -> None:
    lines = b"    - a: [b, c]\n" * 60_000
    body = b"metadata: {name: c}\ndata:\n  a: |\n" + lines
    reply = await api.request("POST", CONFIG_MAPS, body, content_type="application/yaml")
    assert reply.code == 201, reply.message


async def test_fields_below_a_long_key_are_refused(api: ApiClient) -> None:
    """The path of each of them would hold the key, in a warning or an error."""
    body = {**config_map("c"), "x" * 20_000: {f"{n}": 0 for n in range(1000)}}
    reply = await api.post(CONFIG_MAPS, body)
    assert reply.code == 400
    assert "exceeded max length of 4096 of the path of a field" in reply.message


async def test_duplicate_fields_below_a_long_key_are_not_named(api: ApiClient) -> None:
    """A decoder keeps the last of two equal keys, so the value does not have the long path."""
    await api.create(DEFINITIONS, definition(version()))
    head = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1'
    key, twice = "x" * 20_000, ",".join(f'"{n}":0,"{n}":0' for n in range(1000))
    raw = f'{head},"free":{{"{key}":{{{twice}}},"{key}":0}}}}}}'.encode()
    reply = await api.request("POST", WIDGETS, raw, fieldValidation="Strict")
    assert reply.code in (201, 400)
    assert len(reply.message) < MIB


class Counted(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_retained_keys_are_looked_up_not_searched() -> None:
    names = [Counted(f"k{n}") for n in range(300)]
    Counted.compared = 0
    original: dict[str, Any] = dict.fromkeys(names, "a")
    patch: dict[str, Any] = {"$retainKeys": [str(name) for name in names], **original}
    assert strategic_merge(original, patch, "{}string") == original
    assert Counted.compared < 10 * len(names)


@pytest.mark.parametrize(("stored", "tested"), [(1, True), ({"a": [0]}, {"a": [False]})])
async def test_a_number_is_no_boolean_to_a_json_patch(
    api: ApiClient, server: FakeApiServer, stored: Any, tested: Any
) -> None:
    await api.create(DEFINITIONS, definition(version()))
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1, "free": {"x": stored}},
    }
    await api.create(WIDGETS, widget)
    for value, code in ((stored, 200), (tested, 422)):
        change = [{"op": "test", "path": "/spec/free/x", "value": value}]
        assert (await api.patch(f"{WIDGETS}/w", change, JSON_PATCH)).code == code


async def test_a_write_whose_kind_goes_while_its_body_arrives_is_refused(
    api: ApiClient, server: FakeApiServer
) -> None:
    """A new kind of that name would begin with an object that no request for it has created."""
    await api.create(DEFINITIONS, definition(version()))
    body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},'
    rest = b'"spec":{"size":1}}'
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    length = len(body) + len(rest)
    writer.write(
        f"POST {WIDGETS} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    await eventually(lambda: server.statistics().requests_in_flight == 1)
    assert (await api.delete(f"{DEFINITIONS}/widgets.example.com")).code == 200
    writer.write(rest)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert (("example.com", "widgets"), "default/w") not in server.object_keys()
