"""The verbs, the same for every kind: get, create, update, patch, delete, deletecollection.

Lists and watches wait and stream, so they are in requests.py; what is special to one kind is in
subresources.py. Source: apiserver pkg/endpoints/handlers of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec

from . import answers, bodies, deletion, registry
from .apply import manager_for, manager_of
from .errors import BadRequest, Conflict, Invalid, NotFound, UnsupportedMediaType, invalid
from .go_json import syntax_error
from .listing import listing
from .objects import Json, child, metadata_of, name_of, text
from .options import ListOptions, Query, delete_options, list_options, write_options
from .patching import json_patch, merge_patch
from .registry import Registry, Target, Written
from .schema import DecodeError
from .strategic import strategic_merge

if TYPE_CHECKING:
    from .answers import Answer
    from .kinds import Kind
    from .options import DeleteOptions, WriteOptions
    from .routes import Route

STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_DELETE_OPTIONS: Final = "meta/v1.DeleteOptions"


@dataclasses.dataclass(slots=True)
class Request:
    """A request for something of a kind, once its path is understood."""

    method: str
    route: Route
    query: Query
    body: bytes
    content_type: str
    warnings: list[str] = dataclasses.field(default_factory=list)
    user_agent: str = ""

    def target(self, options: WriteOptions) -> Target:
        """What a write of this request is aimed at, and who will own what it changes."""
        route = self.route
        manager = options.field_manager or manager_of(self.user_agent)
        return Target(route.kind, route.namespace, route.name, options, route.subresource, manager)


def get(state: Registry, request: Request) -> Answer:
    """One object as it is now."""
    route = request.route
    revision = state.find(route.kind, route.namespace, route.name)
    return answers.Answer(200, state.view(route.kind).body(revision))


def create(state: Registry, request: Request) -> Answer:
    """A new object."""
    options = write_options(request.query, "CreateOptions")
    kind = request.route.kind
    value = bodies.parse_object(request.body, request.content_type, kind, state.kinds)
    obj = _completed(kind, value, options, request)
    target = dataclasses.replace(request.target(options), name=name_of(obj))
    return _written(state, kind, registry.create(state, target, obj))


def update(state: Registry, request: Request) -> Answer:
    """A whole object in place of the stored one."""
    options = write_options(request.query, "UpdateOptions")
    kind = request.route.kind
    value = bodies.parse_object(request.body, request.content_type, kind, state.kinds)
    obj = _completed(kind, value, options, request)
    return _written(state, kind, registry.replace(state, request.target(options), obj))


def patch(state: Registry, request: Request) -> Answer:
    """A change to the stored object; without a resourceVersion it applies to whatever is there."""
    kind, route = request.route.kind, request.route
    if request.content_type == APPLY_PATCH:
        return _apply(state, request)
    if request.content_type not in (STRATEGIC_PATCH, MERGE_PATCH, JSON_PATCH) or (
        request.content_type == STRATEGIC_PATCH and not kind.schema
    ):
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    options = write_options(request.query, "PatchOptions")
    change = decoded_patch(request.body)
    existing = state.find(kind, route.namespace, route.name)
    whole = state.view(kind).whole(existing.object)
    result = patched(whole, change, request.content_type, kind.schema)
    bodies.check_kind(result, kind.kind, kind.api_version, state.kinds)
    obj = _completed(kind, result, options, request, patch_text=request.body)
    target = request.target(options)
    registry.check_name(target, obj)
    return _written(state, kind, registry.update(state, target, existing, obj))


def _apply(state: Registry, request: Request) -> Answer:
    """Server-side apply: the fields of the configuration become this manager's."""
    kind, route = request.route.kind, request.route
    options = write_options(request.query, "PatchOptions", is_apply=True)
    config = bodies.apply_configuration(request.body)
    existing = state.store.get(kind.storage_key, route.namespace, route.name)
    if existing is None and route.subresource:
        raise NotFound(kind.plural, kind.group, route.name)
    manager = manager_for(state.kinds, kind, route.subresource)
    live = state.view(kind).whole(existing.object) if existing else None
    applied = manager.applied(live, config, options.field_manager, state.now(), force=options.force)
    obj = _completed(kind, applied.object, options, request)
    child(obj, "metadata")["managedFields"] = applied.entries
    target = dataclasses.replace(request.target(options), manager=None)
    registry.check_name(target, obj)
    if existing is not None:
        return _written(state, kind, registry.update(state, target, existing, obj))
    uid = text(metadata_of(obj).get("uid"))
    if uid:
        why = f"the provided object specified uid {uid}, and no existing object was found"
        why = f"uid mismatch: {why}"
        raise Conflict(kind.plural, kind.group, route.name, why)
    return _written(state, kind, registry.create(state, target, obj))


def decoded_patch(raw: bytes) -> object:
    """The JSON of a patch. Raises BadRequest."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"error decoding patch: {syntax_error(raw) or error}") from error


def patched(whole: Json, change: object, content_type: str, type_name: str) -> Json:
    """The object of that type after a patch of that media type. Raises ApiError."""
    if content_type == JSON_PATCH:
        result = json_patch(whole, change)
    elif not isinstance(change, dict):
        raise BadRequest("error decoding patch: a patch is an object")
    elif content_type == MERGE_PATCH:
        result = merge_patch(whole, change)
    else:
        result = strategic_merge(whole, change, type_name)
    if not isinstance(result, dict):
        raise BadRequest("error decoding patch: the result is not an object")
    return result


def _completed(
    kind: Kind,
    value: Json,
    options: WriteOptions,
    request: Request,
    patch_text: bytes | None = None,
) -> Json:
    """The stored form of the value; unknown fields are an error, a warning or nothing."""
    dropped: list[str] = []
    try:
        obj = registry.complete(kind, value, dropped)
    except DecodeError as error:
        raise bodies.undecodable(kind, error) from error
    if dropped and options.field_validation != "Ignore":
        complaints = bodies.unknown_in(kind, value)
        if options.field_validation == "Warn":
            request.warnings += complaints
        elif patch_text is None:
            raise BadRequest(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {', '.join(complaints)}"
            )
        else:
            why = f"strict decoding error: {', '.join(complaints)}"
            error_at_patch = invalid("patch", patch_text.decode(errors="replace"), why)
            raise Invalid("", "", "", [error_at_patch])
    return obj


def _written(state: Registry, kind: Kind, outcome: Written) -> Answer:
    code = 201 if outcome.created else 200
    view = state.view(kind)
    if outcome.revision is not None:
        return answers.Answer(code, view.body(outcome.revision))
    return answers.Answer(code, view.body_of(outcome.object))


def delete(state: Registry, request: Request) -> Answer:
    """Delete one object, or mark it."""
    route = request.route
    options = _delete_options(request)
    outcome = deletion.delete(state, route.kind, route.namespace, route.name, options)
    if outcome.gone and not route.kind.returns_deleted:
        return answers.deleted_status(route.kind, outcome.object)
    accepted = not outcome.gone and options.orphan_dependents is False
    return answers.Answer(202 if accepted else 200, state.view(route.kind).body_of(outcome.object))


def delete_collection(state: Registry, request: Request) -> Answer:
    """Delete everything that is selected; the answer lists it as it was."""
    kind = request.route.kind
    selected = list_options(request.query, kind, request.route.namespace, watch=False)
    options = _delete_options(request)
    found = listing(state.store, state.collection(kind), ListOptions(selection=selected.selection))
    deletion.delete_all(state, kind, found.revisions, options)
    return answers.Answer(200, state.view(kind).listing(found.metadata, found.revisions))


def _delete_options(request: Request) -> DeleteOptions:
    if not request.body:
        return delete_options(None, request.query)
    body = bodies.decode_side_object(
        request.body, request.content_type, "DeleteOptions", _DELETE_OPTIONS
    )
    return delete_options(body, request.query)
