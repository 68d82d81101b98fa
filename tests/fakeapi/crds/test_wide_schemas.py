"""A schema and an object of few kilobytes each, and millions of checks of one against the other."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fakeapi.crds.schema_validation import Correlated, validate

from ..api_client import ApiClient
from ..custom_resources import DEFINITIONS, WIDGETS, definition, version, widget

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
TOO_MUCH = "patterns, alternatives and defaults take more than 0.1 s of processor time"


def many(properties: Json) -> Json:
    return {f"p{number}": properties for number in range(400)}


def list_of(**node: Any) -> Json:
    return {"type": "object", "properties": {"list": {"type": "array", "items": node}}}


@pytest.mark.parametrize(
    ("items", "item", "code"),
    [
        ({**TEXT, "anyOf": [{"minLength": 9}] * 400}, "a", 422),
        ({**TEXT, "oneOf": [{"minLength": 9}] * 400}, "a", 422),
        ({**TEXT, "allOf": [{"minLength": 1}] * 400}, "a", 422),
        ({**TEXT, "enum": [f"a{number}" for number in range(400)]}, "a", 422),
        ({"type": "integer", "enum": [*range(400)]}, 399, 422),
        ({"type": "object", "required": [*many({})], "properties": many(TEXT)}, {}, 400),
        ({"type": "object", "properties": many({**TEXT, "default": "a"})}, {}, 400),
        ({"type": "object", "properties": {"a": {**TEXT, "default": "a" * 20_000}}}, {}, 400),
    ],
)
async def test_an_object_that_takes_millions_of_checks_is_refused(
    api: ApiClient, items: Json, item: object, code: int
) -> None:
    await api.create(DEFINITIONS, definition(version(node=list_of(**items))))
    reply = await api.post(WIDGETS, {**widget("many"), "list": [item] * 1200})
    assert (reply.code, TOO_MUCH in reply.message) == (code, True), reply.message
    few = await api.post(WIDGETS, {**widget("few"), "list": [item] * 2})
    assert TOO_MUCH not in few.message


async def test_a_definition_whose_default_takes_millions_of_checks_is_refused(
    api: ApiClient,
) -> None:
    items = {**TEXT, "anyOf": [{"minLength": 9}] * 400}
    node = list_of(**items)
    node["properties"]["list"]["default"] = ["a"] * 1200
    reply = await api.post(DEFINITIONS, definition(version(node=node)))
    assert (reply.code, TOO_MUCH in reply.message) == (422, True)


async def test_a_table_has_the_first_columns_of_a_definition(api: ApiClient) -> None:
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": f".spec.c{n}"} for n in range(40)]
    await api.create(DEFINITIONS, definition(version(additionalPrinterColumns=columns)))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = (await api.get(WIDGETS, headers=accept)).body
    assert [column["name"] for column in table["columnDefinitions"]][-1] == "c31"


def test_thousands_of_errors_are_collected_in_linear_time() -> None:
    start = time.process_time()
    errors = validate(list_of(type="integer"), {"list": ["a"] * 10_000})
    assert time.process_time() - start < 2.0
    assert len({error.field for error in errors}) == 10_000


def test_elements_of_a_long_list_are_looked_up_by_their_keys() -> None:
    node = {
        "type": "array",
        "items": {"type": "object"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    elements = [{"name": f"n{number}"} for number in range(5_000)]
    old = Correlated(elements, node)
    start = time.process_time()
    assert not validate(node, elements[::-1], old)
    assert time.process_time() - start < 2.0
    assert old.element({"name": "n7"}) == Correlated(elements[7], {"type": "object"})
