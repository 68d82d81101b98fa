"""CustomResourceDefinitions: validated, served, changed, deleted with their objects."""

import asyncio
import collections
from typing import Any

import pytest

from fakeapi import FakeApiServer
from fakeapi.store.journal import ObjectChange

from ..api_client import ApiClient, eventually
from ..custom_resources import DEFINITIONS, WIDGETS, definition, schema, version, widget

NAME = "widgets.example.com"
KEY = (("apiextensions.k8s.io", "customresourcedefinitions"), NAME)
ROOT = "spec.validation.openAPIV3Schema"
Json = dict[str, Any]


def with_schema(node: Json) -> Json:
    return {"spec": {"versions": [version(node=node, subresources={})]}}


def conditions(body: Json) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in body["status"]["conditions"]}


async def test_a_definition_is_established(api: ApiClient) -> None:
    created = await api.create(DEFINITIONS, definition())
    assert created["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    assert created["spec"]["names"] == names
    assert created["spec"]["conversion"] == {"strategy": "None"}
    found = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert found["status"]["acceptedNames"] == names


async def test_a_watch_has_the_event_of_established(api: ApiClient) -> None:
    async with api.watch(DEFINITIONS) as stream:
        await api.create(DEFINITIONS, definition())
        assert await stream.take(2) == [("ADDED", NAME), ("MODIFIED", NAME)]


async def test_it_is_discovered(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    found = (await api.get("/apis/example.com/v1")).body["resources"]
    by_name = {resource["name"]: resource for resource in found}
    assert by_name["widgets"]["shortNames"] == ["wd"]
    assert by_name["widgets"]["categories"] == ["all"]
    assert by_name["widgets/scale"]["kind"] == "Scale"
    assert by_name["widgets/status"]["verbs"] == ["get", "patch", "update"]


async def test_it_is_described_by_openapi(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    index = (await api.get("/openapi/v3")).body["paths"]
    url = index["apis/example.com/v1"]["serverRelativeURL"]
    found = (await api.get(url.partition("?")[0])).body["components"]["schemas"]
    node = found["com.example.v1.Widget"]
    assert node["properties"]["spec"]["required"] == ["size"]
    assert node["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]
    current = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    properties = current["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["required"] = ["size", "color"]
    await api.put(f"{DEFINITIONS}/{NAME}", current)
    changed = (await api.get("/openapi/v3")).body["paths"]["apis/example.com/v1"]
    assert changed["serverRelativeURL"] != url


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (
            {"metadata": {"name": "x.example.com"}},
            "metadata.name",
            'Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (
            {"spec": {"names": {"plural": "widgets", "kind": "A", "listKind": "A"}}},
            "spec.names.listKind",
            'Invalid value: "A": kind and listKind may not be the same',
        ),
        (
            {"spec": {"preserveUnknownFields": True}},
            "spec.preserveUnknownFields",
            "cannot set to true",
        ),
        ({"spec": {"versions": []}}, "spec.versions", "must have exactly one version marked"),
        (
            with_schema({"type": "string"}),
            f"{ROOT}.type",
            'Invalid value: "string": must be object at the root',
        ),
        (
            with_schema({**schema(a={"type": "object"}), "allOf": [schema(b={"minimum": 1})]}),
            f"{ROOT}.properties[b]",
            f"Required value: because it is defined in {ROOT}.allOf[0].properties[b]",
        ),
        (
            {"spec": {"versions": [version(subresources={"scale": {"specReplicasPath": ".a"}})]}},
            "spec.subresources.scale.specReplicasPath",
            'Invalid value: ".a": should be a json path under .spec',
        ),
        (
            with_schema(schema(metadata={"type": "object", "title": "t"})),
            f"{ROOT}.properties[metadata]",
            "Forbidden: must not specify anything other than name and generateName, but metadata "
            "is implicitly specified",
        ),
    ],
)  # fmt: skip
async def test_a_wrong_definition_is_refused(
    api: ApiClient, change: Json, field: str, message: str
) -> None:
    """Errors that are not among the recorded ones (`test_recorded.py`)."""
    given = definition()
    for part, values in change.items():
        given[part] = {**given[part], **values}
    refused = await api.post(DEFINITIONS, given)
    assert (refused.code, refused.reason) == (422, "Invalid")
    causes = {cause["field"]: cause["message"] for cause in refused.body["details"]["causes"]}
    assert message in causes[field]


async def test_errors_name_the_version_where_versions_differ(api: ApiClient) -> None:
    second = version("v2", node=schema(a={}), storage=False)
    refused = await api.post(DEFINITIONS, definition(version(), second))
    fields = [field for _, field in refused.causes]
    assert fields == ["spec.versions[1].schema.openAPIV3Schema.properties[a].type"]


async def test_community_groups_want_approval(api: ApiClient) -> None:
    given = definition(group="sigs.k8s.io")
    given["metadata"] = {"name": "widgets.sigs.k8s.io"}
    refused = await api.post(DEFINITIONS, given)
    assert refused.causes == [
        ("FieldValueRequired", "metadata.annotations[api-approved.kubernetes.io]")
    ]
    given["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert (await api.post(DEFINITIONS, given)).code == 201


async def test_immutable_fields(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    change = {"spec": {"scope": "Cluster", "names": {"kind": "Gadget"}, "group": "x.y"}}
    refused = await api.patch(f"{DEFINITIONS}/{NAME}", change)
    fields = {field for _, field in refused.causes}
    assert {"spec.scope", "spec.names.kind", "spec.group"} <= fields


async def test_versions_share_their_objects(api: ApiClient) -> None:
    newer = version("v2", storage=False)
    await api.create(DEFINITIONS, definition(version(), newer))
    await api.create(WIDGETS, widget())
    path = WIDGETS.replace("/v1/", "/v2/")
    found = (await api.get(f"{path}/w")).body
    assert (found["apiVersion"], found["spec"]["size"]) == ("example.com/v2", 1)
    await api.patch(f"{path}/w", {"spec": {"size": 2}})
    assert (await api.get(f"{WIDGETS}/w")).body["spec"]["size"] == 2
    async with api.watch(path, resourceVersion=0) as stream:
        event = await stream.next()
        assert event is not None
        assert event["object"]["apiVersion"] == "example.com/v2"


async def test_a_version_that_is_not_served_is_not_found(api: ApiClient) -> None:
    hidden = version("v2", storage=False, served=False)
    await api.create(DEFINITIONS, definition(version(), hidden))
    assert (await api.get(WIDGETS.replace("/v1/", "/v2/"))).code == 404
    current = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    current["spec"]["versions"][0]["served"] = False
    current["spec"]["versions"][1]["served"] = True
    await api.put(f"{DEFINITIONS}/{NAME}", current)
    assert (await api.get(WIDGETS)).code == 404
    assert (await api.get(WIDGETS.replace("/v1/", "/v2/"))).code == 200


async def test_fields_that_another_version_does_not_have_are_lost(api: ApiClient) -> None:
    """The strategy None converts by name only; the storage version is pruned to its schema."""
    node = schema(spec={"type": "object", "properties": {"other": {"type": "string"}}})
    await api.create(DEFINITIONS, definition(version(), version("v2", node=node, storage=False)))
    path = WIDGETS.replace("/v1/", "/v2/")
    given = {**widget(), "apiVersion": "example.com/v2", "spec": {"other": "x"}}
    await api.create(path, given)
    assert (await api.get(f"{WIDGETS}/w")).body["spec"] == {"color": "red"}
    assert (await api.get(f"{path}/w")).body["spec"] == {}  # neither version knows both


async def test_a_new_storage_version_is_a_stored_version(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition(version(), version("v2", storage=False)))
    current = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    for entry in current["spec"]["versions"]:
        entry["storage"] = entry["name"] == "v2"
    changed = await api.put(f"{DEFINITIONS}/{NAME}", current)
    assert changed.body["status"]["storedVersions"] == ["v1", "v2"]
    without = changed.body
    without["spec"]["versions"] = without["spec"]["versions"][1:]
    refused = await api.put(f"{DEFINITIONS}/{NAME}", without)
    assert refused.causes == [("FieldValueInvalid", "status.storedVersions[0]")]


async def test_defaults_of_a_newer_schema_show_on_older_objects(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget())
    current = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    root = current["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"]["properties"]["level"] = {"type": "integer", "default": 4}
    await api.put(f"{DEFINITIONS}/{NAME}", current)
    assert (await api.get(f"{WIDGETS}/w")).body["spec"]["level"] == 4
    assert (await api.get(WIDGETS)).body["items"][0]["spec"]["level"] == 4


async def test_names_that_are_taken(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    rival = definition(names={"plural": "gadgets", "kind": "Widget"})
    rival["metadata"] = {"name": "gadgets.example.com"}
    await api.create(DEFINITIONS, rival)
    found = (await api.get(f"{DEFINITIONS}/gadgets.example.com")).body
    assert conditions(found) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    assert (await api.get(path)).code == 404
    await api.delete(f"{DEFINITIONS}/{NAME}")
    found = (await api.get(f"{DEFINITIONS}/gadgets.example.com")).body
    assert conditions(found)["Established"] == ("True", "InitialNamesAccepted")
    assert (await api.get(path)).code == 200


async def test_a_definition_is_deleted_with_its_objects(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget())
    async with api.watch(WIDGETS, resourceVersion=0) as stream:
        assert await stream.take(1) == [("ADDED", "w")]
        gone = await api.delete(f"{DEFINITIONS}/{NAME}")
        assert gone.code == 200
        assert conditions(gone.body)["Terminating"] == ("True", "InstanceDeletionPending")
        assert await stream.take(1) == [("DELETED", "w")]
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).code == 404
    assert (await api.get(WIDGETS)).code == 404
    assert (await api.get("/apis/example.com")).code == 404
    await api.create(DEFINITIONS, definition())
    assert (await api.get(WIDGETS)).names == []


async def test_many_objects_of_a_definition_are_deleted_in_several_turns_of_the_loop(
    api: ApiClient, server: FakeApiServer
) -> None:
    await api.create(DEFINITIONS, definition())
    server.load([{**widget(f"w{n}"), "metadata": {"name": f"w{n}", "namespace": "default"}}
                 for n in range(250)])  # fmt: skip
    deleted_by_turn = collections.Counter[int]()
    turn = 0

    def pass_turn() -> None:
        nonlocal turn
        turn += 1
        if KEY in server.object_keys():
            asyncio.get_running_loop().call_soon(pass_turn)

    def note(change: ObjectChange) -> None:
        if change.type == "DELETED":
            deleted_by_turn[turn] += 1

    pass_turn()
    with server.listening(on_change=note):
        gone = await api.delete(f"{DEFINITIONS}/{NAME}")
        assert gone.code == 200
        await eventually(lambda: KEY not in server.object_keys())
    assert deleted_by_turn.total() == 251  # the definition, too
    assert max(deleted_by_turn.values()) <= 101


async def test_a_definition_that_comes_back_has_a_log_of_its_own(
    api: ApiClient, server: FakeApiServer
) -> None:
    """The changes of its first life are dropped: a watch from there has expired."""
    await api.create(DEFINITIONS, definition())
    made = await api.create(WIDGETS, widget())
    await api.delete(f"{DEFINITIONS}/{NAME}")
    assert server._registry.store.collection(("example.com", "widgets")).log.end == 0
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget("x"))
    first = made["metadata"]["resourceVersion"]
    async with api.watch(WIDGETS, resourceVersion=first) as stream:
        event = await stream.next()
    assert event is not None
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_definition_waits_for_finalizers_of_its_objects(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition())
    held = {**widget(), "metadata": {"name": "w", "finalizers": ["example.com/f"]}}
    await api.create(WIDGETS, held)
    await api.delete(f"{DEFINITIONS}/{NAME}")
    found = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    assert conditions(found)["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert (await api.get(WIDGETS)).names == ["w"]
    late = await api.post(WIDGETS, widget("late"))
    assert (late.code, late.message) == (
        403,
        'widgets.example.com "late" is forbidden: '
        "create not allowed while custom resource definition is terminating",
    )
    applied = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "late"}}
    path = f"{WIDGETS}/late"
    late = await api.patch(path, applied, "application/apply-patch+yaml", fieldManager="m")
    assert late.code == 403
    resources = (await api.get("/apis/example.com/v1")).body["resources"]
    # Existing objects may be changed, though discovery does not list the verbs.
    verbs = ["delete", "deletecollection", "get", "list", "watch"]
    assert next(one for one in resources if one["name"] == "widgets")["verbs"] == verbs
    assert (await api.patch(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})).code == 200
    assert (await api.delete(WIDGETS)).code == 200
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).code == 404


async def test_a_definition_that_waited_can_be_made_and_deleted_again(
    api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    await api.create(DEFINITIONS, definition())
    held = {**widget(), "metadata": {"name": "w", "finalizers": ["example.com/f"]}}
    await api.create(WIDGETS, held)
    await api.delete(f"{DEFINITIONS}/{NAME}")
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget())
    await api.delete(f"{DEFINITIONS}/{NAME}")
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).code == 404
    assert not caplog.records


async def test_a_definition_with_a_finalizer_of_its_own_stays(api: ApiClient) -> None:
    given = definition()
    given["metadata"]["finalizers"] = ["example.com/f"]
    await api.create(DEFINITIONS, given)
    await api.delete(f"{DEFINITIONS}/{NAME}")
    found = (await api.get(f"{DEFINITIONS}/{NAME}")).body
    assert found["metadata"]["finalizers"] == ["example.com/f"]
    assert conditions(found)["Terminating"] == ("False", "InstanceDeletionCompleted")
    await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).code == 404


async def test_a_deprecated_version_warns(api: ApiClient) -> None:
    old = version("v1alpha1", storage=False, deprecated=True)
    older = version("v0", storage=False, deprecated=True, deprecationWarning="use v1")
    await api.create(DEFINITIONS, definition(version(), old, older))
    assert "Warning" not in (await api.get(WIDGETS)).headers
    listed = await api.get(WIDGETS.replace("/v1/", "/v1alpha1/"))
    assert listed.headers["Warning"] == '299 - "example.com/v1alpha1 Widget is deprecated"'
    given = {**widget(), "apiVersion": "example.com/v0"}
    created = await api.post(WIDGETS.replace("/v1/", "/v0/"), given)
    assert created.code == 201
    assert created.headers["Warning"] == '299 - "use v1"'


async def test_an_unknown_format_is_a_warning(api: ApiClient) -> None:
    node = schema(
        spec={
            "type": "object",
            "properties": {"a": {"type": "string", "format": "colour"}},
        }
    )
    created = await api.post(DEFINITIONS, definition(version(node=node)))
    assert created.code == 201
    assert created.headers["Warning"] == '299 - "unrecognized format \\"colour\\""'


async def test_definitions_and_their_objects_load_in_one_go() -> None:
    given = [
        {"kind": "Widget", "apiVersion": "example.com/v1", **widget()},
        {
            "kind": "CustomResourceDefinition",
            "apiVersion": "apiextensions.k8s.io/v1",
            **definition(),
        },
    ]
    async with FakeApiServer(load=given) as server:
        assert server.kinds.find("example.com", "v1", "widgets") is not None
        assert server.statistics().objects > 2


async def test_watches_end_when_the_schema_changes_and_go_on_when_it_does_not(
    api: ApiClient,
) -> None:
    await api.create(DEFINITIONS, definition())
    async with api.watch(WIDGETS) as stream:
        await api.create(WIDGETS, widget())
        path = f"{DEFINITIONS}/{NAME}"
        await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
        await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}})
        assert await stream.take(2) == [("ADDED", "w"), ("MODIFIED", "w")]
        current = (await api.get(path)).body
        current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema()
        current["spec"]["names"]["shortNames"] = ["wdg"]
        assert (await api.put(path, current)).code == 200
        assert await stream.next() is None
    async with api.watch(WIDGETS) as stream:
        assert await stream.take(1) == [("ADDED", "w")]
        await api.delete(path)
        assert await stream.take(1) == [("DELETED", "w")]
        assert await stream.next() is None
