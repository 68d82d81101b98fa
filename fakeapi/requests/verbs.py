"""The verbs, the same for every kind: get, create, update, patch, delete, deletecollection.

Only deletecollection waits. Lists and watches are in `dispatch`, verbs of single kinds in
`subresources`. Source: apiserver pkg/endpoints/handlers of v0.36.3.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.apply import manager_for
from fakeapi.apply.reflection import as_unstructured, narrowed
from fakeapi.decoding import bodies, strictness
from fakeapi.decoding.options import (
    delete_options,
    list_options,
    parse_resource_version,
    write_options,
)
from fakeapi.decoding.parsing import check_depth, check_width, load_json
from fakeapi.http import answers
from fakeapi.store.listing import listing
from fakeapi.types import gotext
from fakeapi.types.client_text import shortened
from fakeapi.types.errors import (
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    UnreasonedFailure,
    UnsupportedMediaType,
    invalid,
    unhandled,
)
from fakeapi.types.media_types import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    YAML,
)
from fakeapi.types.objects import Json, child, metadata_of, name_of, text
from fakeapi.types.schema import DecodeError
from fakeapi.writes import deletion, pipeline
from fakeapi.writes.completion import complete
from fakeapi.writes.patching import json_patch, merge_patch
from fakeapi.writes.strategic import strategic_merge

if TYPE_CHECKING:
    from fakeapi.decoding.bodies import Body
    from fakeapi.decoding.options import DeleteOptions, WriteOptions
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry, Written
    from fakeapi.types.kind import Kind

#: The longest result of a patch that a refusal shows whole.
_SHOWN_LENGTH_MAX: Final = 64 * 1024
#: Objects that a deletion of many deletes before it lets other requests in.
_DELETED_AT_ONCE: Final = 100
_DELETE_OPTIONS: Final = "meta/v1.DeleteOptions"


def get(state: Registry, request: Call) -> Answer:
    """Return one object."""
    route = request.route
    parse_resource_version(request.query.text("resourceVersion"), watch=True)
    revision = state.find(route.kind, route.namespace, route.name)
    return answers.Answer(200, state.view(route.kind).body(revision))


def decoded_body(state: Registry, request: Call, options: WriteOptions) -> Json:
    """Return the stored form of the body of a create or update. Raises ApiError."""
    kind = request.route.kind
    value = bodies.parse_object(request.body, kind, state.kinds)
    return _decoded(kind, value, options, request)


def side_object(
    state: Registry,
    request: Call,
    options: WriteOptions,
    type_name: str,
    versions: tuple[str, ...],
) -> Json:
    """Return the body of a write to a subresource, in one of these versions. Raises ApiError."""
    unknown: list[str] = []
    kind = type_name.rpartition(".")[2]
    obj = bodies.decode_side_object(
        request.body, kind, type_name, unknown=unknown, versions=versions, kinds=state.kinds
    )
    strictness.report(kind, unknown, options.field_validation, request.warnings)
    return obj


def create(state: Registry, request: Call) -> Answer:
    """Store a new object."""
    options = write_options(request.query, "CreateOptions")
    kind = request.route.kind
    obj = decoded_body(state, request, options)
    target = request.target(options, name=name_of(obj))
    return _written(state, kind, pipeline.create(state, target, obj))


def update(state: Registry, request: Call) -> Answer:
    """Replace the stored object."""
    options = write_options(request.query, "UpdateOptions")
    kind = request.route.kind
    obj = decoded_body(state, request, options)
    return _written(state, kind, pipeline.replace(state, request.target(options), obj))


def unsupported_patch(kind: Kind) -> UnsupportedMediaType:
    """Return the refusal of a patch's media type; for built-in kinds the router's refusal."""
    if kind.schema:
        return UnsupportedMediaType("415: Unsupported Media Type", details={})
    return bodies.unsupported(f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}")


def patch(state: Registry, request: Call) -> Answer:
    """Patch the stored object; a patch without resourceVersion never conflicts."""
    kind, route = request.route.kind, request.route
    if request.content_type == APPLY_PATCH:
        return _apply(state, request)
    if request.content_type not in (STRATEGIC_PATCH, MERGE_PATCH, JSON_PATCH) or (
        request.content_type == STRATEGIC_PATCH and not kind.schema
    ):
        raise unsupported_patch(kind)
    options = write_options(request.query, "PatchOptions")
    existing = state.find(kind, route.namespace, route.name)
    change = decoded_patch(request.body)
    whole = state.view(kind).whole(existing.object)
    result = patched(state, whole, change, request.content_type, kind.schema)
    if kind.structure is None:
        bodies.check_kind(result, kind.kind, kind.api_version, state.kinds)
    elif result.get("kind"):
        bodies.check_custom_kind(result, kind)
    else:
        why = bodies.missing_kind(msgspec.json.encode(result).decode())
        raise undecodable_result(change, result, why, request)
    obj = _decoded_result(kind, change, result, options, request)
    target = request.target(options)
    pipeline.check_name(target, obj)
    return _written(state, kind, pipeline.update(state, target, existing, obj))


def _apply(state: Registry, request: Call) -> Answer:
    """Server-side apply: the manager owns the fields of its configuration."""
    kind, route = request.route.kind, request.route
    options = write_options(request.query, "PatchOptions", is_apply=True)
    existing = state.newest(kind, route.namespace, route.name)
    if existing is None and route.subresource:
        raise NotFound(kind.plural, kind.group, route.name)
    config = as_unstructured(bodies.apply_configuration(request.body))
    manager = manager_for(state.kinds, kind, route.subresource)
    live = state.view(kind).whole(existing.object) if existing else None
    applied = manager.applied(live, config, options.field_manager, state.now(), force=options.force)
    try:
        held = narrowed(kind.schema, applied.object)
        obj = complete(kind, held)
    except DecodeError as error:
        raise UnreasonedFailure(manager.unconvertible(config, str(error))) from error
    _report_duplicates_in_yaml(config, options, request)
    request.warnings += strictness.without_repeated_owners(obj, is_patch=True)
    metadata = child(obj, "metadata")
    metadata.pop("managedFields", None)
    if applied.entries:
        metadata["managedFields"] = applied.entries
    target = msgspec.structs.replace(request.target(options), manager=None)
    uid = text(metadata_of(obj).get("uid"))
    if existing is not None or not uid:
        pipeline.check_name(target, obj)
    if existing is not None:
        return _written(state, kind, pipeline.update(state, target, existing, obj))
    if uid:
        why = f"the provided object specified uid {uid}, and no existing object was found"
        why = f"uid mismatch: {why}"
        raise Conflict(kind.plural, kind.group, route.name, why)
    metadata.pop("resourceVersion", None)
    return _written(state, kind, pipeline.create(state, target, obj))


def _report_duplicates_in_yaml(config: Json, options: WriteOptions, request: Call) -> None:
    if options.field_validation == "Ignore":
        return
    findings = strictness.duplicates_in_yaml(request.body, config)
    if findings and options.field_validation == "Strict":
        why = "\n  ".join(["yaml: unmarshal errors:", *findings])
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {why}")
    request.warnings += findings


def decoded_patch(body: Body) -> object:
    """Decode a patch. Raises BadRequest."""
    try:
        limits = body.limits
        if body.content_type == JSON_PATCH:  # each operation is an object
            limits = dataclasses.replace(limits, max_values=2 * limits.max_values)
        return load_json(body.raw, limits)
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from error


def patched(
    state: Registry, whole: Json, change: object, content_type: str, type_name: str
) -> Json:
    """Return the object after a patch; `type_name` is its schema. Raises ApiError."""
    if content_type == JSON_PATCH:
        result = json_patch(whole, change, state.limits)
    elif not isinstance(change, dict):
        raise BadRequest("error decoding patch: a patch is an object")
    elif content_type == MERGE_PATCH:
        result = merge_patch(whole, change)
    else:
        result = strategic_merge(whole, change, type_name)
    if not isinstance(result, dict):
        raise BadRequest("error decoding patch: the result is not an object")
    try:
        check_depth(result, state.limits)  # copy by copy it may double
        check_width(_without_same_owners(result, whole), state.limits)
    except ValueError as error:
        raise BadRequest(f"error decoding patch: {error}") from error
    return result


def _without_same_owners(result: Json, whole: Json) -> Json:
    """Return the result of a patch without managedFields, unless the patch has changed them."""
    metadata, owners = result.get("metadata"), metadata_of(whole).get("managedFields")
    if not isinstance(metadata, dict) or metadata.get("managedFields") != owners:
        return result
    return {**result, "metadata": {**metadata, "managedFields": None}}


def _decoded(kind: Kind, value: Json, options: WriteOptions, request: Call) -> Json:
    """Return the stored form of a body. Raises BadRequest.

    Duplicate and unknown fields are errors, warnings or ignored, by `fieldValidation`.
    """
    dropped: list[str] = []
    try:
        obj = complete(kind, value, dropped)
    except DecodeError as error:
        raise unhandled(kind.kind, kind.version, error) from error
    request.warnings += strictness.without_repeated_owners(obj)
    if options.field_validation == "Ignore":
        return obj
    findings, reasons = _findings(request, value, bodies.unknown_in(kind, value) if dropped else [])
    if findings and options.field_validation == "Strict":
        raise unhandled(kind.kind, kind.version, f"strict decoding error: {reasons}")
    request.warnings += findings
    return obj


def _findings(request: Call, value: Json, unknown: list[str]) -> tuple[list[str], str]:
    """Return the duplicate and unknown fields of a body, and the text of a refusal with all."""
    if request.content_type == JSON:
        repeated = strictness.duplicates(request.body)
        if request.route.kind.schema:
            repeated = strictness.known(repeated, unknown)
        findings = strictness.in_order(request.body, repeated, unknown)
        return findings, ", ".join(findings)
    if request.content_type == YAML:
        repeated = strictness.duplicates_in_yaml(request.body, value)
        lines = ["\n  ".join(["yaml: unmarshal errors:", *repeated])] if repeated else []
        return repeated + unknown, ", ".join([*lines, *unknown])
    return unknown, ", ".join(unknown)


def _decoded_result(
    kind: Kind, change: object, result: Json, options: WriteOptions, request: Call
) -> Json:
    """Return the stored form of a patched object. Raises Invalid, whose text has the object."""
    dropped: list[str] = []
    try:
        obj = complete(kind, result, dropped)
    except DecodeError as error:
        raise undecodable_result(change, result, str(error), request) from error
    request.warnings += strictness.without_repeated_owners(obj, is_patch=True)
    if options.field_validation != "Ignore":
        unknown = bodies.unknown_in(kind, result) if dropped else []
        report_on_result(change, result, unknown, options, request)
    return obj


def report_on_result(
    change: object, result: Json, unknown: list[str], options: WriteOptions, request: Call
) -> None:
    """Warn of duplicate and unknown fields in a patch. Raises Invalid if validation is strict."""
    if request.content_type == JSON_PATCH:
        findings = strictness.duplicates_in_patch(request.body, change)
    else:
        findings = strictness.duplicates(request.body)
    findings += unknown
    if findings and options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(findings)}"
        raise undecodable_result(change, result, why, request)
    request.warnings += findings


def undecodable_result(change: object, result: Json, why: str, request: Call) -> Invalid:
    """Return the refusal of a patch whose result is not an object of the kind."""
    if request.content_type == STRATEGIC_PATCH:
        shown = gotext.plain(change)
    else:
        # Upstream shows it whole. Of a small patch that copies these are megabytes.
        shown = shortened(msgspec.json.encode(result).decode(), _SHOWN_LENGTH_MAX)
    return Invalid("", "", "", [invalid("patch", shown, why)])


def _written(state: Registry, kind: Kind, outcome: Written) -> Answer:
    code = 201 if outcome.created else 200
    view = state.view(kind)
    if outcome.revision is not None:
        return answers.Answer(code, view.body(outcome.revision))
    return answers.Answer(code, view.body_of(outcome.object))


def delete(state: Registry, request: Call) -> Answer:
    """Delete one object, or mark it as terminating."""
    route = request.route
    options = _delete_options(request)
    outcome = deletion.delete(state, route.kind, route.namespace, route.name, options)
    if outcome.gone and not route.kind.returns_deleted:
        return answers.deleted_status(route.kind, outcome.object)
    accepted = not outcome.gone and options.orphan_dependents is False
    return answers.Answer(202 if accepted else 200, state.view(route.kind).body_of(outcome.object))


async def delete_collection(state: Registry, request: Call) -> Answer:
    """Delete the selected objects; the answer lists them. Others may write meanwhile."""
    kind = request.route.kind
    watch = request.query.flag("watch")
    selected = list_options(request.query, kind, request.route.namespace, watch=watch)
    options = _delete_options(request)
    page = listing(state.store, state.collection(kind), selected)
    for first in range(0, len(page.revisions), _DELETED_AT_ONCE):
        some = page.revisions[first : first + _DELETED_AT_ONCE]
        deletion.delete_all(state, kind, some, options)
        await asyncio.sleep(0)
    return answers.Answer(200, state.view(kind).listing(page.metadata, page.revisions))


def _delete_options(request: Call) -> DeleteOptions:
    if not request.body.raw:
        return delete_options(None, request.query)
    body = bodies.decode_side_object(request.body, "DeleteOptions", _DELETE_OPTIONS)
    return delete_options(body, request.query)
