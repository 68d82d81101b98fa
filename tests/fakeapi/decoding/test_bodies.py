"""Refused requests: codes, reasons, details, media types."""

from typing import Any

import pytest

from fakeapi.decoding.parsing import load_yaml

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, PODS, config_map, pod

SERVED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", f"{CONFIG_MAPS}/nope", 404, "NotFound"),
        ("GET", "/api/v1/nonexist", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nonexist/x", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound"),
        ("GET", "/api/v1/pods/p", 404, "NotFound"),
        ("GET", f"{PODS}/p/nonsense", 404, "NotFound"),
        ("GET", f"{CONFIG_MAPS}/c/status", 404, "NotFound"),
        ("GET", f"{PODS}/p/status/deeper", 404, "NotFound"),
        ("PUT", CONFIG_MAPS, 405, "MethodNotAllowed"),
        ("PATCH", CONFIG_MAPS, 405, "MethodNotAllowed"),
        ("POST", f"{CONFIG_MAPS}/c", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/default/bindings", 405, "MethodNotAllowed"),
        ("POST", "/apis/apps/v1", 405, "MethodNotAllowed"),
        ("POST", f"{PODS}/p/status", 405, "MethodNotAllowed"),
    ],
)
async def test_wrong_paths_and_methods(
    api: ApiClient, method: str, path: str, code: int, reason: str
) -> None:
    reply = await api.request(method, path)
    assert (reply.code, reply.reason, reply.body["code"]) == (code, reason, code)
    assert (reply.body["kind"], reply.body["status"]) == ("Status", "Failure")
    assert reply.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/apis/foo.io/v1/bars", "/foo"])
async def test_unknown_groups_and_paths_are_plain_text(api: ApiClient, path: str) -> None:
    reply = await api.get(path)
    assert (reply.code, reply.body) == (404, "404 page not found\n")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", ["/api/v2/pods", "/apis/apps/v9", "/apis/apps/v9/deployments/x"])
async def test_unknown_versions_of_known_groups_are_unknown_resources(
    api: ApiClient, path: str
) -> None:
    reply = await api.get(path)
    assert (reply.code, reply.reason, reply.body["details"]) == (404, "NotFound", {})


async def test_an_unknown_resource_has_empty_details(api: ApiClient) -> None:
    reply = await api.get("/api/v1/nonexist")
    assert reply.message == "the server could not find the requested resource"
    assert reply.body["details"] == {}


async def test_groups_are_named_in_errors(api: ApiClient) -> None:
    reply = await api.get("/apis/apps/v1/namespaces/default/deployments/d")
    assert reply.message == 'deployments.apps "d" not found'
    assert reply.body["details"] == {"name": "d", "group": "apps", "kind": "deployments"}


@pytest.mark.parametrize("path", [f"{PODS}/", "/api/", "/apis/", "/version/", f"{PODS}/p/"])
async def test_a_trailing_slash_changes_nothing(api: ApiClient, path: str) -> None:
    await api.create(PODS, pod("p"))
    assert (await api.get(path)).body == (await api.get(path.rstrip("/"))).body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
            'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to '
            "(core.ConfigMap): unknown conversion",
        ),
        (
            {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}},
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is '
            'registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            config_map("x", namespace="other"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_bodies_of_another_kind(api: ApiClient, body: dict[str, Any], message: str) -> None:
    reply = await api.post(CONFIG_MAPS, body)
    assert (reply.code, reply.reason, reply.message) == (400, "BadRequest", message)


@pytest.mark.parametrize("body", [b"{bad", b"", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000])
async def test_bodies_that_are_no_object(api: ApiClient, body: bytes) -> None:
    reply = await api.post(CONFIG_MAPS, body)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith(
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind"
    )


async def test_a_missing_content_type_means_json(api: ApiClient) -> None:
    body = b'{"metadata": {"name": "c"}}'
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=None)
    assert reply.code == 201


async def test_yaml_is_taken(api: ApiClient) -> None:
    body = b"metadata:\n  name: c\n  annotations: {when: '2026-01-01'}\ndata: {a: '1'}\n"
    reply = await api.request("POST", CONFIG_MAPS, body, content_type="application/yaml")
    assert (reply.code, reply.body["data"]) == (201, {"a": "1"})


async def test_a_yaml_timestamp_stays_text(api: ApiClient) -> None:
    body = b"metadata: {name: l}\nspec: {renewTime: 2026-01-01T00:00:00.000000Z}\n"
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    reply = await api.request("POST", path, body, content_type="application/yaml")
    assert reply.body["spec"] == {"renewTime": "2026-01-01T00:00:00.000000Z"}


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("12:30", "12:30"),
        ("-12:30", "-12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("=", "="),
        ("1e400", "1e400"),
        ("0x1ffffffffffffffff", "0x1ffffffffffffffff"),
        ("1e3", 1000),
        ("1.5e3", 1500),
        ("-.5", -0.5),
        ("5.", 5),
        ("012", 10),
        ("08", 8),
        ("0o12", 10),
        ("-0b11", -3),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1.0", 1),
        ("18446744073709551615", 2**64 - 1),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("on", True),
        ("n", False),
        ("~", None),
    ],
)
def test_yaml_scalars_are_read_as_upstream_reads_them(scalar: str, value: object) -> None:
    read = load_yaml(f"a: {scalar}".encode()).value
    assert read == {"a": value}
    assert isinstance(read, dict)
    assert type(read["a"]) is type(value)


async def test_of_several_yaml_documents_the_first_counts(api: ApiClient) -> None:
    body = b"---\nmetadata: {name: c}\n---\nmetadata: {name: d, nope: 1}\n"
    path = f"{CONFIG_MAPS}?fieldValidation=Strict"
    reply = await api.request("POST", path, body, content_type="application/yaml")
    assert (reply.code, reply.body["metadata"]["name"]) == (201, "c")


async def test_yaml_has_no_null_for_a_key(api: ApiClient) -> None:
    body = b'metadata: {name: c}\ndata: {null: "q"}\n'
    reply = await api.request("POST", CONFIG_MAPS, body, content_type="application/yaml")
    assert reply.code == 400
    assert 'unsupported map key of type: %!s(<nil>), key: <nil>, value: "q"' in reply.message


@pytest.mark.parametrize(
    ("body", "content_type"), [(b"null", "application/json"), (b"", "application/yaml")]
)
async def test_nothing_is_an_object_without_a_name(
    api: ApiClient, body: bytes, content_type: str
) -> None:
    reply = await api.request("POST", CONFIG_MAPS, body, content_type=content_type)
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_bad_yaml_is_a_bad_request(api: ApiClient) -> None:
    reply = await api.request("POST", CONFIG_MAPS, b"a: [", content_type="application/yaml")
    assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize("content_type", ["text/plain", "text/yaml", "application/octet-stream"])
async def test_other_media_types_are_refused(api: ApiClient, content_type: str) -> None:
    reply = await api.request("POST", CONFIG_MAPS, b"a: b", content_type=content_type)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")
    assert reply.message == (
        f"the body of the request was in an unknown format - accepted media types include: {SERVED}"
    )


async def test_percent_signs_in_paths_are_decoded(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("a.b"))
    assert (await api.get(f"{CONFIG_MAPS}/a%2Eb")).code == 200
