"""The Accept header decides the form of the answer: media types, metadata only, tables."""

import gzip
import json
from typing import Any

import aiohttp
import pytest
import yaml

from fakeapi import FakeApiServer
from fakeapi.http.negotiation import Accepted, negotiate, streamable
from fakeapi.types.errors import NotAcceptable

from ..api_client import ApiClient, Reply
from ..objects import ALL_PODS, CONFIG_MAPS, EVENTS, LEASES, PODS, binding, config_map, pod

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,{JSON}"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def ask(api: ApiClient, path: str, accept: str, **query: Any) -> Reply:
    return await api.get(path, headers={"Accept": accept}, **query)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", Accepted()),
        ("*/*", Accepted()),
        (f"{PROTOBUF}, */*", Accepted()),
        (f"{YAML};q=0.5,{JSON};q=0.4", Accepted(YAML)),
        (f"{YAML};q=0.3,{JSON};q=0.4", Accepted(JSON)),
        (f"*/*,{YAML}", Accepted(YAML)),
        (f"application/*,{YAML};q=0.9,{JSON};q=0.1", Accepted(JSON)),
        (f"{JSON};pretty=1", Accepted(pretty=True)),
        (f"{JSON};charset=utf-8", Accepted()),
        (f"{JSON};stream=watch", Accepted()),
        (f"text/html,{JSON}", Accepted()),
        (f"nonsense, {JSON}", Accepted()),
        (TABLE, Accepted(target="Table")),
        (KUBECTL, Accepted(target="Table")),
        (f"{TABLE.replace('v=v1', 'v=v1beta1')},{JSON}", Accepted(JSON, "Table", "v1beta1")),
        (f"{YAML};as=Table;v=v1;g=meta.k8s.io", Accepted(YAML, "Table")),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{JSON}", Accepted()),
        (f"{PROTOBUF}{PARTIAL[16:]}", Accepted(target="PartialObjectMetadata")),
        (f"{JSON};as=Table;v=v2;g=meta.k8s.io,{JSON}", Accepted()),
        (f"{JSON};as=Table;v=v1,{JSON}", Accepted()),
        (f"{JSON};as=Picture;v=v1;g=meta.k8s.io,{JSON}", Accepted()),
    ],
)  # fmt: skip
def test_the_best_clause_that_can_be_served_is_chosen(accept: str, chosen: Accepted) -> None:
    assert negotiate(accept) == chosen


@pytest.mark.parametrize("accept", ["application/xml", "text/plain", "application/*", "nonsense"])
def test_what_no_route_produces_is_refused_by_the_router(accept: str) -> None:
    with pytest.raises(NotAcceptable) as refused:
        negotiate(accept, is_list=True)
    assert refused.value.message == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


@pytest.mark.parametrize(
    "accept", [f"{JSON};as=Picture;v=v1;g=meta.k8s.io", f"{JSON};stream=x", f"{JSON};sv=v9"]
)
def test_what_no_handler_can_make_is_refused_by_it(accept: str) -> None:
    with pytest.raises(NotAcceptable) as refused:
        negotiate(accept)
    assert refused.value.message == (
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf"
    )


def test_custom_resources_have_no_protobuf() -> None:
    with pytest.raises(NotAcceptable):
        negotiate(PROTOBUF, custom=True)
    assert negotiate(f"{PROTOBUF},{JSON}", custom=True) == Accepted()


def test_a_watch_is_never_yaml() -> None:
    with pytest.raises(NotAcceptable, match="application/json;stream=watch"):
        streamable(Accepted(YAML))


async def test_a_refusal_is_a_status(api: ApiClient) -> None:
    refused = await ask(api, PODS, f"{JSON};as=Picture;v=v1;g=meta.k8s.io")
    assert (refused.code, refused.reason) == (406, "NotAcceptable")
    watch = await ask(api, PODS, YAML, watch="true")
    assert (watch.code, yaml.safe_load(watch.body)["reason"]) == (406, "NotAcceptable")


async def test_a_refusal_has_the_negotiated_form(
    api: ApiClient, server: FakeApiServer, session: aiohttp.ClientSession
) -> None:
    missing = await ask(api, f"{CONFIG_MAPS}/none", YAML)
    assert missing.headers["Content-Type"] == YAML
    assert yaml.safe_load(missing.body)["reason"] == "NotFound"
    table = await ask(api, f"{CONFIG_MAPS}/none", f"{JSON};as=Table;v=v1;g=meta.k8s.io")
    assert (table.body["kind"], table.reason) == ("Status", "NotFound")
    assert (await ask(api, "/api/v1/nothing", "text/plain")).reason == "NotFound"
    for query in ({"pretty": "true"}, {"pretty": "true", "watch": "true", "limit": "x"}):
        async with session.get(f"{server.url}{PODS}/none", params=query) as response:
            assert b'\n  "kind": "Status"' in await response.read()


async def test_yaml_has_its_keys_in_order(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"b": "ü", "a": "1"}))
    reply = await ask(api, f"{CONFIG_MAPS}/c", YAML)
    assert reply.headers["Content-Type"] == YAML
    read = yaml.safe_load(reply.body)
    assert list(read) == ["apiVersion", "data", "kind", "metadata"]
    assert read["data"] == {"a": "1", "b": "ü"}


@pytest.mark.parametrize(
    ("headers", "query", "indented"),
    [
        ({"User-Agent": "curl/8.1"}, {}, True),
        ({"User-Agent": "curl/8.1"}, {"pretty": "false"}, False),
        ({"User-Agent": "golden/1"}, {"pretty": "true"}, True),
        ({"User-Agent": "golden/1"}, {}, False),
        ({"User-Agent": "golden/1", "Accept": f"{JSON};pretty=1"}, {}, True),
    ],
)
async def test_people_get_indented_json(
    server: FakeApiServer,
    session: aiohttp.ClientSession,
    headers: dict[str, str],
    query: dict[str, str],
    indented: bool,
) -> None:
    async with session.get(server.url + PODS, headers=headers, params=query) as response:
        assert (b'\n  "kind": "PodList"' in await response.read()) is indented


async def test_metadata_alone_of_one_object(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p", labels={"a": "b"}))
    reply = await ask(
        api, f"{PODS}/p", f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{PARTIAL}"
    )
    assert reply.body == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }  # fmt: skip


async def test_metadata_alone_of_a_list(api: ApiClient) -> None:
    for name in ("a", "b"):
        await api.create(PODS, pod(name))
    reply = await ask(api, PODS, PARTIALS, limit=1)
    assert (reply.body["kind"], reply.body["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    assert reply.body["metadata"]["remainingItemCount"] == 1
    (item,) = reply.body["items"]
    assert set(item) == {"kind", "apiVersion", "metadata"}
    assert item["kind"] == "PartialObjectMetadata"


async def test_a_list_and_an_object_are_not_taken_for_each_other(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    one = await ask(api, f"{PODS}/p", PARTIALS)
    assert (one.code, one.message) == (
        406,
        "you requested PartialObjectMetadataList, but the requested object is not a list "
        "(*core.Pod)",
    )
    several = await ask(api, DEPLOYMENTS, PARTIAL)
    assert (several.code, several.message) == (
        406,
        "you requested PartialObjectMetadata, but the requested object is a list "
        "(*apps.DeploymentList)",
    )


async def test_writes_are_answered_in_the_negotiated_form(api: ApiClient) -> None:
    made = await api.request("POST", PODS, pod("p"), headers={"Accept": PARTIAL})
    assert (made.code, made.body["kind"]) == (201, "PartialObjectMetadata")
    bound = await api.request(
        "POST", f"{PODS}/p/binding", binding("p"), headers={"Accept": PARTIAL}
    )
    assert (bound.code, bound.body["kind"]) == (201, "Status")
    missing = await ask(api, f"{PODS}/nobody", TABLE)
    assert (missing.code, missing.body["kind"]) == (404, "Status")


async def test_a_watch_of_metadata_alone(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(
        PODS, headers={"Accept": PARTIAL}, allowWatchBookmarks="true", **query
    ) as stream:
        added, bookmark = await stream.next(), await stream.next()
        assert added is not None
        assert bookmark is not None
        await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        changed = await stream.next()
        assert changed is not None
    for event in (added, bookmark, changed):
        assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
        assert event["object"]["kind"] == "PartialObjectMetadata"
    assert (added["type"], bookmark["type"], changed["type"]) == ("ADDED", "BOOKMARK", "MODIFIED")
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_error_that_ends_a_watch_stays_a_status(
    api: ApiClient, server: FakeApiServer
) -> None:
    await api.create(PODS, pod("p"))
    server.compact()
    async with api.watch(PODS, headers={"Accept": TABLE}, resourceVersion=1) as stream:
        (error,) = await stream.rest()
    assert (error["type"], error["object"]["kind"], error["object"]["code"]) == (
        "ERROR",
        "Status",
        410,
    )


async def test_a_table_of_pods(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    reply = await ask(api, PODS, KUBECTL)
    assert (reply.body["kind"], reply.body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = reply.body["columnDefinitions"]
    assert [[c["name"], c["type"], c["format"], c["priority"]] for c in columns] == [
        ["Name", "string", "name", 0], ["Ready", "string", "", 0], ["Status", "string", "", 0],
        ["Restarts", "string", "", 0], ["Age", "string", "", 0], ["IP", "string", "", 1],
        ["Node", "string", "", 1], ["Nominated Node", "string", "", 1],
        ["Readiness Gates", "string", "", 1],
    ]  # fmt: skip
    (row,) = reply.body["rows"]
    assert row["cells"] == ["p", "0/1", "Pending", "0", "0s", *["<none>"] * 4]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


@pytest.mark.parametrize(
    ("includes", "kind"), [("Object", "Pod"), ("Metadata", "PartialObjectMetadata"), ("None", "")]
)
async def test_what_goes_along_with_a_row(api: ApiClient, includes: str, kind: str) -> None:
    await api.create(PODS, pod("p"))
    for path in (PODS, f"{PODS}/p"):
        reply = await ask(api, path, TABLE, includeObject=includes)
        (row,) = reply.body["rows"]
        assert (row["object"] or {}).get("kind", "") == kind


async def test_an_unknown_part_is_refused(api: ApiClient) -> None:
    refused = await ask(api, PODS, TABLE, includeObject="Half")
    assert (refused.code, refused.message) == (
        400,
        "Unable to convert to Table as requested: includeObject: Invalid value: "
        "\"Half\": must be 'Metadata', 'Object', 'None', or empty",
    )


async def test_the_page_of_a_table_continues(api: ApiClient) -> None:
    for name in ("a", "b"):
        await api.create(PODS, pod(name))
    page = await ask(api, PODS, TABLE, limit=1)
    assert page.body["metadata"]["remainingItemCount"] == 1
    rest = await ask(api, PODS, TABLE, **{"continue": page.body["metadata"]["continue"]})
    assert [row["cells"][0] for row in rest.body["rows"]] == ["b"]


async def test_a_watch_of_rows_sends_the_columns_once(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    async with api.watch(ALL_PODS, headers={"Accept": KUBECTL}) as stream:
        first = await stream.next()
        await api.post(f"{PODS}/p/binding", binding("p", "n1"))
        second = await stream.next()
    assert first is not None
    assert second is not None
    assert (first["type"], second["type"]) == ("ADDED", "MODIFIED")
    assert len(first["object"]["columnDefinitions"]) == 9
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][6] == "n1"
    assert first["object"]["kind"] == second["object"]["kind"] == "Table"


async def test_events_of_the_new_api_have_the_columns_of_the_old(api: ApiClient) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c",
        "reportingInstance": "i",
        "action": "a",
        "reason": "Scheduled",
        "note": " done ",
        "type": "Normal",
    }
    await api.create(EVENTS, event)
    reply = await ask(api, EVENTS, TABLE)
    assert reply.body["rows"][0]["cells"][1:7] == [
        "Normal", "Scheduled", "pod/p", "", "c, i", "done",
    ]  # fmt: skip


async def test_scale_has_columns_of_its_own(api: ApiClient) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    reply = await ask(api, f"{DEPLOYMENTS}/d/scale", TABLE)
    assert [column["name"] for column in reply.body["columnDefinitions"]] == [
        "Name", "Desired", "Available", "Age",
    ]  # fmt: skip
    assert reply.body["rows"][0]["cells"] == ["d", 3, 0, "0s"]


async def test_kinds_without_columns_show_when_they_were_made(api: ApiClient) -> None:
    path = "/api/v1/namespaces/default/limitranges"
    made = await api.create(path, {"metadata": {"name": "l"}, "spec": {"limits": []}})
    reply = await ask(api, path, TABLE)
    assert [column["name"] for column in reply.body["columnDefinitions"]] == ["Name", "Created At"]
    assert reply.body["rows"][0]["cells"] == ["l", made["metadata"]["creationTimestamp"]]


async def test_large_answers_are_compressed_for_those_who_ask(
    api: ApiClient, server: FakeApiServer
) -> None:
    await api.create(CONFIG_MAPS, config_map("big", {"a": "x" * 130 * 1024}))
    await api.create(LEASES, {"metadata": {"name": "small"}, "spec": {}})
    async with aiohttp.ClientSession(auto_decompress=False) as raw:

        async def fetched(path: str, encodings: str) -> tuple[str | None, str | None, bytes]:
            headers = {"Accept-Encoding": encodings}
            async with raw.get(server.url + path, headers=headers) as response:
                found = response.headers
                return found.get("Content-Encoding"), found.get("Vary"), await response.read()

        encoding, vary, body = await fetched(CONFIG_MAPS, "deflate, gzip")
        assert (encoding, vary) == ("gzip", "Accept-Encoding")
        assert json.loads(gzip.decompress(body))["items"][0]["metadata"]["name"] == "big"
        assert (await fetched(CONFIG_MAPS, "identity"))[0] is None
        assert (await fetched(LEASES, "gzip"))[0] is None


def test_media_ranges_beyond_the_thousandth_are_ignored() -> None:
    assert negotiate("a/b," * 999 + YAML) == Accepted(YAML)
    with pytest.raises(NotAcceptable):
        negotiate("a/b," * 1000 + YAML)


async def test_compressed_bodies_are_not_read(api: ApiClient) -> None:
    body = gzip.compress(json.dumps(config_map("c")).encode())
    refused = await api.request("POST", CONFIG_MAPS, body, headers={"Content-Encoding": "gzip"})
    assert (refused.code, refused.reason) == (400, "BadRequest")
