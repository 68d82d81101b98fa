"""The three patch types over HTTP, and JSON patch and merge patch by themselves."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.types.errors import BadRequest, Unprocessable
from fakeapi.types.limits import DEFAULT
from fakeapi.writes.patching import json_patch, merge_patch
from tests.thoroughness import examples

from ..api_client import JSON_PATCH, MERGE, STRATEGIC, ApiClient
from ..objects import CONFIG_MAPS, config_map


@pytest.mark.parametrize(
    ("content_type", "change"),
    [
        (MERGE, {"data": {"b": None, "c": "3"}}),
        (STRATEGIC, {"data": {"b": None, "c": "3"}}),
        (
            JSON_PATCH,
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "remove", "path": "/data/b"},
                {"op": "add", "path": "/data/c", "value": "3"},
            ],
        ),
    ],
)
async def test_each_patch_type_changes_an_object(
    api: ApiClient, content_type: str, change: Any
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "1", "b": "2"}))
    reply = await api.patch(f"{CONFIG_MAPS}/c", change, content_type)
    assert (reply.code, reply.body["data"]) == (200, {"a": "1", "c": "3"})


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/apply-patch+cbor", "text/plain", "application/yaml"],
)
async def test_other_media_types_are_refused(api: ApiClient, content_type: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}}, content_type)
    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")
    assert reply.message == "415: Unsupported Media Type"


async def test_parameters_of_the_media_type_do_not_matter(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    content_type = f"{MERGE}; charset=utf-8"
    assert (await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}}, content_type)).code == 200


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "2"}],
        [{"op": "remove", "path": "/data/missing"}],
        [{"op": "replace", "path": "/data/missing", "value": "2"}],
        [{"op": "add", "path": "/no/such/parent", "value": "2"}],
        [{"op": "copy", "from": "/nope", "path": "/data/b"}],
        [{"op": "jump", "path": "/data/a"}],
    ],
)
async def test_a_json_patch_that_does_not_apply_is_unprocessable(
    api: ApiClient, operations: list[Any]
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
    reply = await api.patch(f"{CONFIG_MAPS}/c", operations, JSON_PATCH)
    assert reply.code == 422
    assert reply.body["details"] == {}
    assert reply.message == "the server rejected our request due to an error in our request"


async def test_a_patch_without_a_version_applies_to_the_current_object(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    for key in ("a", "b"):
        assert (await api.patch(f"{CONFIG_MAPS}/c", {"data": {key: "1"}})).code == 200
    assert (await api.get(f"{CONFIG_MAPS}/c")).body["data"] == {"a": "1", "b": "1"}


async def test_the_uid_cannot_be_patched(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"uid": "1"}})
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "metadata.uid")] * 2)


async def test_a_patch_cannot_rename(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"name": "d"}})
    assert (reply.code, reply.reason) == (400, "BadRequest")


@pytest.mark.parametrize("body", [b'{"a":', b"[1", b"nonsense", b""])
@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, JSON_PATCH])
async def test_a_body_that_is_no_json_is_a_bad_request(
    api: ApiClient, content_type: str, body: bytes
) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.patch(f"{CONFIG_MAPS}/c", body, content_type)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message.startswith("error decoding patch: ")


@pytest.mark.parametrize(
    ("content_type", "body"), [(MERGE, [1]), (STRATEGIC, "x"), (JSON_PATCH, {}), (JSON_PATCH, [1])]
)
async def test_a_patch_has_the_shape_of_its_type(
    api: ApiClient, content_type: str, body: Any
) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    assert (await api.patch(f"{CONFIG_MAPS}/c", body, content_type)).code == 400


async def test_too_many_operations_are_too_large(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    operations = [{"op": "remove", "path": "/data"}] * (DEFAULT.json_patch_max_operations + 1)
    reply = await api.patch(f"{CONFIG_MAPS}/c", operations, JSON_PATCH)
    assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": [{"b": 1}]}, [{"op": "replace", "path": "/a/0/b", "value": 2}], {"a": [{"b": 2}]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": 1}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": 1, "b": 1}),
        ({"a/b": 1, "c~d": 2}, [{"op": "remove", "path": "/a~1b"}], {"c~d": 2}),
        ({"c~d": 2}, [{"op": "test", "path": "/c~0d", "value": 2}], {"c~d": 2}),
        ({}, [{"op": "test", "path": "/x", "value": None}], {}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"z": 0}}], {"z": 0}),
    ],
)
def test_json_patch_operations(document: Any, operations: list[Any], result: Any) -> None:
    assert json_patch(document, operations) == result


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        # The examples of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples(original: Any, patch: Any, result: Any) -> None:
    assert merge_patch(original, patch) == result


scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.text("ab/~", max_size=2), values, max_size=3)
pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operation = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
    optional={"value": values, "from": pointers},
)


@settings(max_examples=examples(25))
@given(documents, st.lists(operation, max_size=4))
def test_a_patch_never_changes_the_original(document: Any, operations: list[Any]) -> None:
    before = repr(document)
    with contextlib.suppress(BadRequest, Unprocessable):
        json_patch(document, operations)
    assert repr(document) == before


@settings(max_examples=examples(25))
@given(documents, documents)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    "operations",
    [
        # Each copy doubles the document.
        [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(60)],
        [
            {"op": "add", "path": "/data/big", "value": "x" * 10_000},
            *({"op": "copy", "from": "/data/big", "path": f"/data/x{n}"} for n in range(400)),
        ],
    ],
    ids=["doubling", "many"],
)
async def test_copies_in_a_json_patch_have_a_limit_in_all(
    api: ApiClient, operations: list[Any]
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
    reply = await api.patch(f"{CONFIG_MAPS}/c", operations, JSON_PATCH)
    assert reply.code == 422
    assert reply.message == "the server rejected our request due to an error in our request"


def test_copies_that_nest_too_deep_are_refused() -> None:
    document: Any = {"a": {"a": 1}}
    path = "/a/a"
    operations = []
    for _ in range(12):
        operations.append({"op": "copy", "from": "", "path": path})
        path += path
    with pytest.raises((BadRequest, Unprocessable)):
        json_patch(document, operations)


def test_a_copy_shares_nothing_with_its_source() -> None:
    operations = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x", "value": 1},
    ]
    assert json_patch({"a": {}}, operations) == {"a": {}, "b": {"x": 1}}


@pytest.mark.parametrize("index", ["9" * 5000, "0" * 5000, "01", "+1", "-1", "1_0", "²", ""])
async def test_an_index_that_is_none_is_unprocessable(api: ApiClient, index: str) -> None:
    await api.create(CONFIG_MAPS, config_map("c", finalizers=["example.com/a"]))
    for operation in ("add", "remove", "replace", "test"):
        change = {"op": operation, "path": f"/metadata/finalizers/{index}", "value": "x"}
        reply = await api.patch(f"{CONFIG_MAPS}/c", [change], JSON_PATCH)
        assert reply.code == 422, operation


async def test_lists_within_a_list_that_merges_are_no_defect(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c", finalizers=["example.com/a"]))
    change = {"metadata": {"finalizers": [["x"]]}}
    reply = await api.patch(f"{CONFIG_MAPS}/c", change, STRATEGIC)
    assert reply.code == 422


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(arg: str) -> dict[str, Any]:
    labels = {"a": "b"}
    spec = {"containers": [{"name": "c", "image": "x", "args": [arg]}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


async def test_an_object_that_etcd_would_not_take_is_refused(api: ApiClient) -> None:
    large = deployment("x" * 1_600_000)
    refusal = (413, "etcdserver: request is too large")
    created = await api.post(DEPLOYMENTS, large)
    assert (created.code, created.message) == refusal
    await api.create(DEPLOYMENTS, deployment("x" * 1_400_000))
    for change, how in (
        (large, STRATEGIC),
        (large, MERGE),
        ([{"op": "replace", "path": "/spec", "value": large["spec"]}], JSON_PATCH),
    ):
        patched = await api.patch(f"{DEPLOYMENTS}/d", change, how)
        assert (patched.code, patched.message) == refusal


async def test_an_object_that_is_too_large_with_its_managed_fields_loses_them(
    api: ApiClient,
) -> None:
    created = await api.create(
        CONFIG_MAPS, config_map("c", {f"k{n:012}": "" for n in range(45_000)})
    )
    assert "managedFields" not in created["metadata"]


async def test_a_refusal_does_not_show_all_that_a_patch_has_copied(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    change: list[Any] = [{"op": "add", "path": "/data", "value": {"a": "x" * 20}}]
    change += [{"op": "copy", "from": "/data", "path": f"/data/b{n}"} for n in range(12)]
    reply = await api.patch(f"{CONFIG_MAPS}/c", change, JSON_PATCH)
    assert reply.code == 422
    assert len(reply.message) < 100_000
