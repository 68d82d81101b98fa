"""OpenAPI documents, by which kubectl explains, validates and patches."""

import urllib.parse
from typing import Any

import pytest

from fakeapi import FakeApiServer, Kind
from fakeapi.discovery.openapi import definitions, document_v2, documents_v3, gnostic
from fakeapi.kinds.built_in import BUILT_IN
from fakeapi.types.kind import KindTable

from ..api_client import ApiClient

PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


async def document(api: ApiClient, section: str) -> dict[str, Any]:
    reply = await api.get(f"/openapi/v3/{section}")
    assert reply.code == 200
    body: dict[str, Any] = reply.body
    return body


def schemas(found: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = found["components"]["schemas"]
    return result


async def test_the_index_leads_to_documents_that_may_be_kept(api: ApiClient) -> None:
    index = (await api.get("/openapi/v3")).body["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/scheduling.k8s.io/v1"} <= index.keys()
    url = urllib.parse.urlsplit(index["apis/apps/v1"]["serverRelativeURL"])
    tag = urllib.parse.parse_qs(url.query)["hash"][0]
    found = await api.get(url.path, hash=tag)
    assert found.headers["ETag"] == f'"{tag}"'
    assert found.headers["Cache-Control"] == "public, immutable"
    assert found.headers["Expires"].endswith("GMT")
    known = await api.request("GET", url.path, headers={"If-None-Match": f'"{tag}"'})
    assert known.code == 304


async def test_an_outdated_hash_leads_to_the_present_one(api: ApiClient) -> None:
    found = await api.get("/openapi/v3/api/v1", hash="OLD")
    assert found.code == 200, "the client has followed the redirect"
    assert "Cache-Control" in found.headers


async def test_unknown_documents_and_forms(api: ApiClient) -> None:
    assert (await api.get("/openapi/v3/apis/nope.k8s.io/v1")).code == 404
    assert (await api.get("/openapi/v4")).code == 404
    refused = await api.request("GET", "/openapi/v3/api/v1", headers={"Accept": "text/html"})
    assert refused.code == 406


async def test_a_kind_is_found_by_its_group_version_and_kind(api: ApiClient) -> None:
    pod = schemas(await document(api, "api/v1"))["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert pod["description"]
    assert pod["properties"]["spec"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}],
        "default": {},
        "description": "The desired state.",
    }


async def test_lists_have_their_merge_strategy(api: ApiClient) -> None:
    spec = schemas(await document(api, "api/v1"))["io.k8s.api.core.v1.PodSpec"]
    containers = {k: v for k, v in spec["properties"]["containers"].items() if k != "description"}
    assert containers == {
        "type": "array",
        "items": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}],
            "default": {},
        },
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert spec["required"] == ["containers"]
    volumes = spec["properties"]["volumes"]
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            {"oneOf": [{"type": "string"}, {"type": "number"}]},
        ),
        (
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            {"format": "date-time", "type": "string"},
        ),
    ],
)
def test_types_with_a_form_of_their_own(name: str, form: dict[str, Any]) -> None:
    found = definitions.built_in(name)
    assert {key: item for key, item in found.items() if key != "description"} == form


@pytest.mark.slow
async def test_every_reference_leads_somewhere(api: ApiClient) -> None:
    for section in (await api.get("/openapi/v3")).body["paths"]:
        found = await document(api, section)
        assert set(definitions.references(found)) <= schemas(found).keys()
        identifiers = [
            operation["operationId"]
            for item in found["paths"].values()
            for method, operation in item.items()
            if method != "parameters"
        ]
        assert len(identifiers) == len(set(identifiers))


async def test_the_patch_of_a_kind_lists_its_parameters(api: ApiClient) -> None:
    """kubectl refuses --dry-run=server and --validate=strict where these are missing."""
    paths = (await document(api, "apis/apps/v1"))["paths"]
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    names = {parameter["name"] for parameter in patch["parameters"]}
    assert names == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert patch["x-kubernetes-action"] == "patch"
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "kind": "Deployment",
        "version": "v1",
    }
    assert patch["operationId"] == "patchAppsV1NamespacedDeployment"
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


async def test_every_kind_and_verb_has_its_operation(api: ApiClient) -> None:
    paths = (await document(api, "api/v1"))["paths"]
    item = paths["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert item.keys() == {"get", "put", "patch", "delete", "parameters"}
    collection = paths["/api/v1/namespaces/{namespace}/pods"]
    assert collection.keys() == {"get", "post", "delete", "parameters"}
    assert paths["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"
    assert paths["/api/v1/nodes/{name}/status"].keys() == {"get", "put", "patch", "parameters"}
    assert "post" in paths["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]
    assert "/api/v1/namespaces/{namespace}/bindings/{name}" not in paths


async def test_kinds_of_ones_own_are_described(api: ApiClient, server: FakeApiServer) -> None:
    server.kinds.add(Kind("stable.example.com", "v1", "widgets", "Widget"))
    found = schemas(await document(api, "apis/stable.example.com/v1"))
    widget = found["com.example.stable.v1.Widget"]
    assert widget["x-kubernetes-preserve-unknown-fields"] is True
    assert widget["x-kubernetes-group-version-kind"][0]["kind"] == "Widget"
    assert "com.example.stable.v1.WidgetList" in found


@pytest.mark.slow
async def test_version_2_as_json(api: ApiClient) -> None:
    reply = await api.get("/openapi/v2")
    body = reply.body
    assert body["swagger"] == "2.0"
    taint = body["definitions"]["io.k8s.api.core.v1.Taint"]
    assert taint["properties"]["effect"]["type"] == "string"
    assert "default" not in taint["properties"]["effect"]
    time = taint["properties"]["timeAdded"]
    assert time["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time"
    patch = body["paths"]["/api/v1/nodes/{name}"]["patch"]
    assert patch["parameters"][0] == {
        "in": "body",
        "name": "body",
        "required": True,
        "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
    }
    quantity = body["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert quantity["type"] == "string"
    headers = {"If-None-Match": reply.headers["ETag"]}
    assert (await api.request("GET", "/openapi/v2", headers=headers)).code == 304


@pytest.mark.slow
async def test_version_2_as_protobuf(server: FakeApiServer, api: ApiClient, session: Any) -> None:
    accept = {"Accept": PROTOBUF_V2}
    async with session.get(f"{server.url}/openapi/v2", headers=accept) as response:
        assert response.headers["Content-Type"] == PROTOBUF_V2.replace("@", ".")
        body = await response.read()
    assert body.startswith(b"\x0a\x032.0"), "field 1, the version of Swagger"
    assert b"io.k8s.api.core.v1.Taint" in body


def test_the_protobuf_form_of_each_part_of_a_schema() -> None:
    """Written out by hand from OpenAPIv2.proto: name, schema and the fields in it."""
    schema = {"type": "integer", "maximum": 1.5, "minLength": 200, "x-a": [1]}
    info = {"title": "t", "version": "v"}
    found = gnostic.document(
        {"swagger": "2.0", "info": info, "paths": {}, "definitions": {"N": schema}}
    )
    type_item = b"\xb2\x01\x09\x0a\x07integer"
    maximum = b"\x39\x00\x00\x00\x00\x00\x00\xf8\x3f"
    min_length = b"\x60\xc8\x01"
    extension = b"\xfa\x01\x0c\x0a\x03x-a\x12\x05\x12\x03[1]"
    content = maximum + min_length + type_item + extension
    named = b"\x0a\x01N\x12" + bytes([len(content)]) + content
    entry = b"\x0a" + bytes([len(named)]) + named
    assert found == (
        b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x42\x00\x4a" + bytes([len(entry)]) + entry
    )


@pytest.mark.slow
def test_version_2_has_every_definition_of_version_3() -> None:
    kinds = KindTable(BUILT_IN)
    found = document_v2.document(kinds)["definitions"]
    assert isinstance(found, dict)
    for group, version in kinds.versions():
        part: Any = documents_v3.document(kinds, group, version)
        assert part["components"]["schemas"].keys() <= found.keys()
