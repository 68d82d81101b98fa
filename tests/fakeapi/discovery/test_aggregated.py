"""Aggregated discovery: all resources in one document with an entity tag."""

import pytest

from fakeapi import FakeApiServer, Kind
from fakeapi.decoding.options import Query
from fakeapi.discovery.aggregated import preferred_version, version_rank
from fakeapi.discovery.documents import DocumentRequest

from ..api_client import ApiClient, Reply
from ..custom_resources import DEFINITIONS, SCALE, definition

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
#: As client-go of v0.36 sends it.
CLIENT_GO = f"{V2};profile=nopeer,{V2},{V2_BETA},application/json"


async def ask(api: ApiClient, path: str, accept: str = CLIENT_GO, known: str = "") -> Reply:
    headers = {"Accept": accept} | ({"If-None-Match": known} if known else {})
    return await api.request("GET", path, headers=headers)


async def test_the_groups_in_upstreams_order(api: ApiClient) -> None:
    reply = await ask(api, "/apis")
    assert reply.headers["Content-Type"] == V2
    assert reply.headers["Vary"] == "Accept"
    body = reply.body
    assert (body["kind"], body["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    names = [item["metadata"]["name"] for item in body["items"]]
    assert names[:2] == ["apps", "events.k8s.io"]
    assert names.index("storage.k8s.io") < names.index("scheduling.k8s.io")
    (scheduling,) = (i for i in body["items"] if i["metadata"]["name"] == "scheduling.k8s.io")
    assert [version["version"] for version in scheduling["versions"]] == ["v1"]
    plain = (await api.get("/apis")).body
    assert [group["name"] for group in plain["groups"]] == names


async def test_the_core_group(api: ApiClient) -> None:
    (core,) = (await ask(api, "/api")).body["items"]
    assert core["metadata"] == {}
    (version,) = core["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    by_name = {resource["resource"]: resource for resource in version["resources"]}
    pods = by_name["pods"]
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert (pods["scope"], pods["singularResource"]) == ("Namespaced", "pod")
    assert (pods["shortNames"], pods["categories"]) == (["po"], ["all"])
    subresources = {entry["subresource"]: entry for entry in pods["subresources"]}
    assert subresources["eviction"]["responseKind"] == {
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
    }
    assert subresources["status"]["verbs"] == ["get", "patch", "update"]
    assert by_name["nodes"]["scope"] == "Cluster"


async def test_documents_that_have_not_changed_are_not_sent_again(
    api: ApiClient, server: FakeApiServer
) -> None:
    tag = (await ask(api, "/apis")).headers["ETag"]
    again = await api.request("GET", "/apis", headers={"Accept": CLIENT_GO, "If-None-Match": tag})
    assert again.code == 304
    server.kinds.add(Kind("example.com", "v1", "widgets", "Widget"))
    changed = await ask(api, "/apis", known=tag)
    assert changed.code == 200
    assert changed.body["items"][-1]["metadata"]["name"] == "example.com"


async def test_a_kind_goes_with_its_group(api: ApiClient, server: FakeApiServer) -> None:
    kind = Kind("example.com", "v1", "widgets", "Widget")
    server.kinds.add(kind)
    server.kinds.remove(kind)
    server.kinds.remove(kind)
    assert (await api.get("/apis/example.com/v1")).code == 404
    names = [item["metadata"]["name"] for item in (await ask(api, "/apis")).body["items"]]
    assert "example.com" not in names


async def test_custom_kinds_have_a_group_where_built_in_ones_have_none(
    api: ApiClient,
) -> None:
    await api.create(DEFINITIONS, definition(subresources={"status": {}, "scale": SCALE}))
    items = (await ask(api, "/apis")).body["items"]
    (group,) = (item for item in items if item["metadata"]["name"] == "example.com")
    (kind,) = group["versions"][0]["resources"]
    itself = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert kind["responseKind"] == itself
    subresources = {entry["subresource"]: entry for entry in kind["subresources"]}
    assert subresources["status"]["responseKind"] == itself
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert subresources["scale"]["responseKind"] == scale


async def test_the_beta_is_still_served(api: ApiClient) -> None:
    reply = await ask(api, "/apis", V2_BETA)
    assert reply.headers["Content-Type"] == V2_BETA
    assert reply.body["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        (CLIENT_GO, "v2"),
        (f"{V2_BETA},{V2}", "v2beta1"),
        (f"application/json,{V2}", ""),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", ""),
        (f"{V2.replace('v=v2', 'v=v9')},{V2_BETA}", "v2beta1"),
        ("", ""),
    ],
)
def test_the_first_form_that_is_known_is_taken(accept: str, version: str) -> None:
    assert preferred_version(DocumentRequest(Query({}), accept=accept)) == version


def test_better_versions_come_first() -> None:
    versions = ["v1alpha1", "foo10", "v2", "v11beta2", "v10", "v1", "v12alpha1", "foo1", "v3beta1"]
    # The order of apimachinery's CompareKubeAwareVersionStrings.
    expected = [
        "v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha1", "foo1", "foo10",
    ]  # fmt: skip
    assert sorted(versions, key=version_rank, reverse=True) == expected
