"""Objects of kinds that users define: stored, pruned, completed, validated, scaled, watched."""

from typing import Any

import pytest

from ..api_client import JSON_PATCH, MERGE, STRATEGIC, ApiClient
from ..custom_resources import DEFINITIONS, WIDGETS, definition, schema, version, widget


@pytest.fixture
async def widgets(api: ApiClient) -> str:
    """Define Widgets; return their path."""
    await api.create(DEFINITIONS, definition())
    return WIDGETS


async def test_an_object_is_created_read_and_listed(api: ApiClient, widgets: str) -> None:
    created = await api.create(widgets, widget(size=2))
    assert (created["kind"], created["apiVersion"]) == ("Widget", "example.com/v1")
    assert created["metadata"]["generation"] == 1
    assert (await api.get(f"{widgets}/w")).body == created
    listed = (await api.get(widgets)).body
    assert listed["kind"] == "WidgetList"
    assert [item["spec"] for item in listed["items"]] == [{"size": 2, "color": "red"}]


async def test_unknown_fields_are_pruned(api: ApiClient, widgets: str) -> None:
    made = await api.create(
        widgets, {**widget(bogus=1, free={"any": {"thing": 1}}, labels={"a": "b"}), "more": 1}
    )
    assert "more" not in made
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "free": {"any": {"thing": 1}},
        "labels": {"a": "b"},
    }


async def test_unknown_fields_are_errors_or_warnings(api: ApiClient, widgets: str) -> None:
    given = widget(bogus=1, parts=[{"name": "a", "x": 1}])
    strict = await api.post(widgets, given, fieldValidation="Strict")
    assert strict.code == 400
    for path in ("spec.bogus", "spec.parts[0].x"):
        assert f'unknown field "{path}"' in strict.message
    warned = await api.post(widgets, given, fieldValidation="Warn")
    assert warned.code == 201
    assert "spec.bogus" in warned.headers["Warning"]


async def test_defaults_come_on_write_also_within_lists(api: ApiClient, widgets: str) -> None:
    made = await api.create(widgets, widget(parts=[{"name": "a"}, {"name": "b", "weight": 5}]))
    assert made["spec"]["parts"] == [{"name": "a", "weight": 1}, {"name": "b", "weight": 5}]


async def test_null_means_absent_unless_it_is_allowed(api: ApiClient, widgets: str) -> None:
    made = await api.create(widgets, widget(color=None, note=None, free=None))
    assert made["spec"] == {"size": 1, "color": "red", "note": None}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"size": 0},
            "spec.size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        ({"tags": ["a", "b", "a"]}, "spec.tags[2]", 'Duplicate value: "a"'),
        (
            {"replicas": -1},
            ".spec.replicas",
            "Invalid value: -1: should be a non-negative integer",
        ),
    ],
)
async def test_an_object_that_breaks_the_schema_is_refused(
    api: ApiClient, widgets: str, spec: dict[str, Any], field: str, message: str
) -> None:
    refused = await api.post(widgets, widget(**spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert (refused.body["details"]["kind"], refused.body["details"]["group"]) == (
        "Widget",
        "example.com",
    )
    causes = refused.body["details"]["causes"]
    assert [(cause["field"], cause["message"]) for cause in causes] == [(field, message)]


async def test_custom_objects_take_json_and_merge_patches(api: ApiClient, widgets: str) -> None:
    await api.create(widgets, widget())
    merged = await api.patch(f"{widgets}/w", {"spec": {"size": 3, "bogus": 1}}, MERGE)
    assert merged.body["spec"] == {"size": 3, "color": "red"}
    operation = {"op": "replace", "path": "/spec/color", "value": "blue"}
    assert (await api.patch(f"{widgets}/w", [operation], JSON_PATCH)).body["spec"]["size"] == 3
    strategic = await api.patch(f"{widgets}/w", {"spec": {"size": 4}}, STRATEGIC)
    assert (strategic.code, strategic.reason) == (415, "UnsupportedMediaType")
    assert strategic.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_an_update_needs_the_version(api: ApiClient, widgets: str) -> None:
    made = await api.create(widgets, widget())
    blind = await api.put(f"{widgets}/w", widget(size=2))
    assert (blind.code, blind.causes) == (
        422,
        [("FieldValueInvalid", "metadata.resourceVersion")],
    )
    made["spec"]["size"] = 2
    assert (await api.put(f"{widgets}/w", made)).body["metadata"]["generation"] == 2


async def test_unchanged_values_are_not_validated_again(api: ApiClient) -> None:
    """CRDValidationRatcheting: a stricter schema does not hold up updates of other fields."""
    await api.create(DEFINITIONS, definition())
    await api.create(WIDGETS, widget(labels={"a": "long"}, parts=[{"name": "old"}]))
    stricter = definition().copy()
    node = stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = node["properties"]["spec"]
    properties = {
        **spec["properties"],
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 2},
        },
    }
    changed = schema(spec={**spec, "properties": properties})
    current = (await api.get(f"{DEFINITIONS}/widgets.example.com")).body
    current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = changed
    assert (await api.put(f"{DEFINITIONS}/widgets.example.com", current)).code == 200
    assert (await api.patch(f"{WIDGETS}/w", {"spec": {"size": 7}})).code == 200
    worse = await api.patch(f"{WIDGETS}/w", {"spec": {"labels": {"b": "long"}}})
    assert worse.causes == [("FieldValueTooLong", "spec.labels.b")]


async def test_status_and_spec_are_apart(api: ApiClient, widgets: str) -> None:
    made = await api.create(widgets, {**widget(), "status": {"replicas": 5}})
    assert "status" not in made
    both = {"spec": {"size": 9}, "status": {"replicas": 2, "bogus": 1}}
    status = (await api.patch(f"{widgets}/w/status", both)).body
    assert (status["spec"]["size"], status["status"]) == (1, {"replicas": 2})
    assert status["metadata"]["generation"] == 1
    spec = (await api.patch(f"{widgets}/w", both)).body
    assert (spec["spec"]["size"], spec["status"]) == (9, {"replicas": 2})
    assert spec["metadata"]["generation"] == 2
    labelled = {"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 3}}
    kept = (await api.patch(f"{widgets}/w/status", labelled)).body
    assert "labels" not in kept["metadata"]


async def test_the_status_is_validated_by_itself(api: ApiClient, widgets: str) -> None:
    await api.create(widgets, widget())
    refused = await api.patch(f"{widgets}/w/status", {"status": {"replicas": 10}})
    assert refused.causes == [("FieldValueInvalid", "status.replicas")]
    assert "replicas in body should be less than or equal to 9" in refused.message


async def test_the_scale_subresource_reads_and_writes_replicas(
    api: ApiClient, widgets: str
) -> None:
    await api.create(widgets, widget())
    missing = await api.get(f"{widgets}/w/scale")
    assert missing.code == 500
    assert 'the spec replicas field ".spec.replicas" does not exist' in missing.message
    status = {"replicas": 1, "selector": "a=b"}
    await api.patch(f"{widgets}/w/status", {"status": status})
    scaled = await api.patch(f"{widgets}/w/scale", {"spec": {"replicas": 3}})
    assert scaled.code == 200
    assert (scaled.body["spec"], scaled.body["status"]) == ({"replicas": 3}, status)
    found = (await api.get(f"{widgets}/w")).body
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (3, 2)
    wrong = await api.patch(f"{widgets}/w", {"spec": {"replicas": "3"}})
    shown = ".spec.replicas accessor error: 3 is of the type string, expected int64"
    assert shown in wrong.message
    refused = await api.patch(f"{widgets}/w/scale", {"spec": {"replicas": -3}})
    assert refused.causes == [("FieldValueInvalid", ".spec.replicas")]


async def test_a_watch_sees_custom_resources(api: ApiClient, widgets: str) -> None:
    async with api.watch(widgets) as stream:
        await api.create(widgets, widget())
        await api.patch(f"{widgets}/w", {"spec": {"size": 2}})
        await api.delete(f"{widgets}/w")
        assert await stream.take(3) == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


async def test_finalizers_hold_an_object(api: ApiClient, widgets: str) -> None:
    await api.create(
        widgets, {**widget(), "metadata": {"name": "w", "finalizers": ["example.com/f"]}}
    )
    marked = await api.delete(f"{widgets}/w")
    assert "deletionTimestamp" in marked.body["metadata"]
    await api.patch(f"{widgets}/w", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{widgets}/w")).code == 404


async def test_selectable_fields(api: ApiClient) -> None:
    fields = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]
    await api.create(DEFINITIONS, definition(version(selectableFields=fields)))
    await api.create(WIDGETS, widget("a", color="blue", size=2))
    await api.create(WIDGETS, widget("b"))
    assert (await api.get(WIDGETS, fieldSelector="spec.color=blue")).names == ["a"]
    assert (await api.get(WIDGETS, fieldSelector="spec.size!=2")).names == ["b"]
    unknown = await api.get(WIDGETS, fieldSelector="spec.port=1")
    assert unknown.code == 400


async def test_cluster_wide_kinds(api: ApiClient) -> None:
    await api.create(DEFINITIONS, definition(scope="Cluster"))
    path = "/apis/example.com/v1/widgets"
    made = await api.create(path, widget())
    assert "namespace" not in made["metadata"]
    assert (await api.post(WIDGETS, widget())).code == 404


async def test_embedded_resources(api: ApiClient) -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    node = schema(template=embedded)
    await api.create(DEFINITIONS, definition(version(node=node, subresources={})))
    metadata = {"name": "x", "labels": {"a": "b"}, "bogus": 1}
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"any": 1}}
    made = await api.create(WIDGETS, {**widget(), "template": inner})
    assert made["template"]["metadata"] == {"name": "x", "labels": {"a": "b"}}
    assert made["template"]["spec"] == {"any": 1}
    refused = await api.post(WIDGETS, {**widget("y"), "template": {"kind": "Not A Kind"}})
    assert refused.causes == [
        ("FieldValueRequired", "template.apiVersion"),
        ("FieldValueInvalid", "template.kind"),
    ]
    labels = {"metadata": {"labels": {"a": "b c"}}}
    template = {"apiVersion": "v1", "kind": "Pod", **labels}
    wrong = await api.post(WIDGETS, {**widget("z"), "template": template})
    assert wrong.causes == [("FieldValueInvalid", "template.metadata.labels")]


async def test_dry_run_checks_and_stores_nothing(api: ApiClient, widgets: str) -> None:
    assert (await api.post(widgets, widget(), dryRun="All")).code == 201
    assert (await api.get(f"{widgets}/w")).code == 404


async def test_finalizers_without_a_domain_are_accepted_with_a_warning(
    api: ApiClient, widgets: str
) -> None:
    metadata = {"name": "w", "finalizers": ["mine", "also.mine", "example.com/f"]}
    made = await api.post(widgets, {**widget(), "metadata": metadata})
    assert made.code == 201
    said = made.headers.getall("Warning")  # type: ignore[attr-defined]
    assert [text.partition("prefer")[0] for text in said] == [
        '299 - "metadata.finalizers: \\"also.mine\\": ',
        '299 - "metadata.finalizers: \\"mine\\": ',
    ]
