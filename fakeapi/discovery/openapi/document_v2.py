"""The OpenAPI v2 document (Swagger), made from all documents of v3.

As upstream's, the document has no defaults, and no anyOf, oneOf, not and null, which v2 lacks.

Source: kube-openapi pkg/openapiconv and apiextensions-apiserver pkg/controller/openapi/v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.discovery.openapi import definitions, documents_v3
from fakeapi.types.objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from fakeapi.types.kind import KindTable

_REFERENCE: Final = "#/definitions/"
_LEFT_OUT: Final = frozenset({"default", "anyOf", "oneOf", "not", "nullable"})
_METHODS: Final = ("get", "put", "post", "patch", "delete")
_KEPT: Final = (
    "description",
    "operationId",
    "tags",
    "x-kubernetes-action",
    "x-kubernetes-group-version-kind",
)


def document(kinds: KindTable) -> Json:
    """Return the document of all versions."""
    schemas: Json = {}
    paths: Json = {}
    for group, version in kinds.versions():
        part = documents_v3.document(kinds, group, version)
        for name, definition in mapping(mapping(part["components"])["schemas"]).items():
            schemas.setdefault(name, definition)
        paths.update(mapping(part["paths"]))
    return {
        "swagger": "2.0",
        "info": documents_v3.INFORMATION,
        "paths": {path: _path(mapping(item)) for path, item in sorted(paths.items())},
        "definitions": {
            name: _schema(mapping(definition)) for name, definition in sorted(schemas.items())
        },
    }


def _schema(value: Json) -> Json:
    """Return a schema in the form of v2."""
    result: Json = {}
    for name, item in value.items():
        if name in _LEFT_OUT:
            continue
        if name == "$ref":
            result[name] = text(item).replace(definitions.REFERENCE, _REFERENCE)
        elif name == "allOf" and len(mappings(item)) == 1:
            result.update(_schema(mappings(item)[0]))
        elif name == "allOf":
            result[name] = [_schema(part) for part in mappings(item)]
        elif name == "properties":
            result[name] = {key: _schema(mapping(part)) for key, part in mapping(item).items()}
        elif name in ("items", "additionalProperties") and isinstance(item, dict):
            result[name] = _schema(item)
        else:
            result[name] = item
    if "oneOf" in value and "type" not in value and "$ref" not in result:
        result["type"] = "string"  # quantities and IntOrString
    if result.get("x-kubernetes-int-or-string") or result.get(
        "x-kubernetes-preserve-unknown-fields"
    ):
        result.pop("type", None)  # older clients would refuse other types
        for name in ("properties", "additionalProperties", "items", "required"):
            if "x-kubernetes-group-version-kind" not in result:
                result.pop(name, None)
    return result


def _path(item: Json) -> Json:
    result: Json = {
        method: _operation(mapping(item[method])) for method in _METHODS if method in item
    }
    parameters = mappings(item.get("parameters"))
    if parameters:
        result["parameters"] = [_parameter(parameter) for parameter in parameters]
    return result


def _operation(operation: Json) -> Json:
    result: Json = {name: operation[name] for name in _KEPT if name in operation}
    parameters = [_parameter(parameter) for parameter in mappings(operation.get("parameters"))]
    body = mapping(operation.get("requestBody"))
    content = mapping(body.get("content"))
    result["consumes"] = list(content) or ["*/*"]
    if content:
        schema = mapping(mapping(next(iter(content.values()))).get("schema"))
        wanted: Json = {"in": "body", "name": "body", "schema": _schema(schema)}
        if body.get("required"):
            wanted["required"] = True
        parameters.insert(0, wanted)
    if parameters:
        result["parameters"] = parameters
    responses: Json = {}
    produces: list[str] = []
    for code, response in mapping(operation.get("responses")).items():
        responses[code], media_types = _response(mapping(response))
        produces = produces or media_types
    return {**result, "produces": produces, "responses": responses}


def _parameter(parameter: Json) -> Json:
    """Return a parameter of a path or query with its schema inlined, as v2 has it."""
    flat = {name: item for name, item in parameter.items() if name != "schema"}
    return {**flat, **mapping(parameter.get("schema"))}


def _response(response: Json) -> tuple[Json, list[str]]:
    content = mapping(response.get("content"))
    result: Json = {"description": response["description"]}
    if content:
        schema = mapping(mapping(next(iter(content.values()))).get("schema"))
        result["schema"] = _schema(schema)
    return result, list(content)
