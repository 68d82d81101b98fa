"""The scale subresource: the wanted and present replicas of a workload, the same for every kind.

A `Scale` is made from the object and written back into it. `Kind.scale` has the paths of its
numbers, for custom resources from the definition. A write updates the whole object, with the
generation, validation and conflicts of the object. Field owners are computed on the Scale and
written into the object (apply/scaled.py).

Source: pkg/registry/apps/deployment/storage/storage.go of Kubernetes v1.36.3 and
apiextensions-apiserver pkg/registry/customresource/etcd.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.apply import ScaleEntries, manager_for
from fakeapi.decoding import bodies
from fakeapi.decoding.options import parse_resource_version, write_options
from fakeapi.http import answers
from fakeapi.requests.verbs import (
    decoded_patch,
    patched,
    report_on_result,
    side_object,
    undecodable_result,
    unsupported_patch,
)
from fakeapi.types import schema
from fakeapi.types.errors import Conflict, InternalError, Invalid, UnreasonedFailure, invalid
from fakeapi.types.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from fakeapi.types.objects import (
    Json,
    child,
    integer,
    mapping,
    mappings,
    metadata_of,
    name_of,
    text,
    texts,
    value_in,
)
from fakeapi.types.schema import DecodeError
from fakeapi.writes import pipeline
from fakeapi.writes.completion import complete

if TYPE_CHECKING:
    from fakeapi.decoding.options import WriteOptions
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.store.store import Revision
    from fakeapi.types.kind import Kind, ScalePaths

_VERSION: Final = "autoscaling/v1"
_KIND: Final[Json] = {"kind": "Scale", "apiVersion": _VERSION}
_TYPE: Final = "autoscaling/v1.Scale"
_SHARED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get(state: Registry, request: Call) -> Answer:
    """Return the Scale of the stored object."""
    kind, route = request.route.kind, request.route
    parse_resource_version(request.query.text("resourceVersion"), watch=True)
    existing = state.find(kind, route.namespace, route.name)
    paths = _paths(kind)
    if kind.structure is not None and value_in(existing.object, paths.replicas) is None:
        where = "." + ".".join(paths.replicas)
        raise InternalError(f'the spec replicas field "{where}" does not exist')
    return answers.of(200, scale_of(kind, existing.object))


def update(state: Registry, request: Call) -> Answer:
    """Replace the object's replicas by the replicas of a whole Scale."""
    options, route = write_options(request.query, "UpdateOptions"), request.route
    wanted = side_object(state, request, options, _TYPE, (_VERSION,))
    pipeline.check_name(request.target(options), wanted)
    existing = state.find(route.kind, route.namespace, route.name)
    return _updated(state, request, existing, wanted, options)


def patch(state: Registry, request: Call) -> Answer:
    """Patch the Scale of the stored object."""
    kind, route = request.route.kind, request.route
    if request.content_type == APPLY_PATCH:
        return _apply(state, request)
    accepted = {JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if kind.schema else [])}
    if request.content_type not in accepted:
        raise unsupported_patch(kind)
    options = write_options(request.query, "PatchOptions")
    existing = state.find(kind, route.namespace, route.name)
    change = decoded_patch(request.body)
    scale = scale_of(kind, existing.object)
    result = patched(state, scale, change, request.content_type, _TYPE)
    try:
        wanted = schema.decode(_TYPE, result)
    except DecodeError as error:
        raise undecodable_result(change, result, str(error), request) from error
    if options.field_validation != "Ignore":
        unknown = [f'unknown field "{name}"' for name in schema.unknown_fields(_TYPE, result)]
        report_on_result(change, result, unknown, options, request)
    return _updated(state, request, existing, wanted, options)


def _apply(state: Registry, request: Call) -> Answer:
    """Apply a Scale: its manager owns the number of replicas."""
    kind, route = request.route.kind, request.route
    options = write_options(request.query, "PatchOptions", is_apply=True)
    config = bodies.apply_configuration(request.body)
    existing = state.find(kind, route.namespace, route.name)
    owners = _entries(state, kind, existing.object)
    manager = manager_for(state.kinds, kind, "scale")
    live = _owned(scale_of(kind, existing.object), owners.of_scale())
    who = options.field_manager
    applied = manager.applied(live, config, who, state.now(), force=options.force)
    if kind.structure is not None:  # upstream cannot convert to the version of a Scale
        why = f"request to convert CR to an invalid group/version: {_KIND['apiVersion']}"
        raise UnreasonedFailure(manager.unconvertible_version(config, why))
    try:
        wanted = schema.decode(_TYPE, applied.object)
    except DecodeError as error:
        raise UnreasonedFailure(manager.unconvertible(config, str(error))) from error
    listed = owners.of_object(applied.entries, kind.api_version)
    return _write(state, request, existing, wanted, options, listed)


def _entries(state: Registry, kind: Kind, obj: Json) -> ScaleEntries:
    """Return the field owners of a custom resource; each version has its path of replicas."""
    versions = {
        other.api_version: other.scale.replicas if other.scale else None
        for other in state.kinds
        if other.resource_key == kind.resource_key
    }
    return ScaleEntries(metadata_of(obj).get("managedFields"), versions)


def _owned(scale: Json, listed: list[Json]) -> Json:
    return {**scale, "metadata": {**metadata_of(scale), "managedFields": listed}}


def scale_of(kind: Kind, obj: Json) -> Json:
    """Return the Scale of an object; missing numbers are 0, or omitted where optional."""
    paths, metadata = _paths(kind), metadata_of(obj)
    replicas = integer(value_in(obj, paths.replicas))
    status: Json = {"replicas": integer(value_in(obj, paths.status_replicas))}
    selector = selector_text(value_in(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    return {
        **_KIND,
        "metadata": {name: metadata[name] for name in _SHARED_METADATA if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def selector_text(selector: object) -> str:
    """Return a selector as text, sorted by key: a LabelSelector, a map of labels, or a text."""
    if not isinstance(selector, dict):
        return text(selector)
    is_map = not ({"matchLabels", "matchExpressions"} & selector.keys())
    labels = selector if is_map else mapping(selector.get("matchLabels"))
    terms = [(key, f"{key}={value}") for key, value in labels.items()]
    for expression in mappings(selector.get("matchExpressions")):
        key, operator = text(expression.get("key")), text(expression.get("operator"))
        values = ",".join(sorted(texts(expression.get("values"))))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, shown.get(operator, key)))
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


def _paths(kind: Kind) -> ScalePaths:
    assert kind.scale is not None, "the subresource is served where the kind has it"
    return kind.scale


def _with(obj: Json, path: tuple[str, ...], value: object) -> Json:
    """Return a copy of the object with another value at the path."""
    inner = value if len(path) == 1 else _with(mapping(obj.get(path[0])), path[1:], value)
    return {**obj, path[0]: inner}


def _updated(
    state: Registry, request: Call, existing: Revision, wanted: Json, options: WriteOptions
) -> Answer:
    """Store the replicas of a Scale, owned by its writer. Raises ApiError."""
    kind = request.route.kind
    owners = _entries(state, kind, existing.object)
    live = _owned(scale_of(kind, existing.object), owners.of_scale())
    manager = manager_for(state.kinds, kind, "scale")
    who = request.target(options).manager or ""
    listed = owners.of_object(manager.updated(live, wanted, who, state.now()), kind.api_version)
    return _write(state, request, existing, wanted, options, listed)


def _write(
    state: Registry,
    request: Call,
    existing: Revision,
    wanted: Json,
    options: WriteOptions,
    owners: list[Json],
) -> Answer:
    """Store the object with the replicas of a Scale and these owners. Raises ApiError."""
    kind = request.route.kind
    target = msgspec.structs.replace(request.target(options), manager=None)
    pipeline.check_name(target, wanted)
    replicas = integer(mapping(wanted.get("spec")).get("replicas"))
    if replicas < 0 and kind.structure is None:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise Invalid("Scale", "autoscaling", name_of(existing.object), [error])
    metadata, actual = metadata_of(wanted), text(metadata_of(existing.object).get("uid"))
    uid = text(metadata.get("uid"))
    if uid and uid != actual:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise Conflict(f"{kind.plural}/scale", kind.group, target.name, why)
    whole = _with(state.view(kind).whole(existing.object), _paths(kind).replicas, replicas)
    version = text(metadata.get("resourceVersion")) or str(existing.resource_version)
    whole["metadata"] = {**metadata_of(whole), "resourceVersion": version}
    obj = complete(kind, whole)
    child(obj, "metadata").pop("managedFields", None)
    if owners:
        child(obj, "metadata")["managedFields"] = owners
    written = pipeline.update(state, target, existing, obj)
    return answers.of(200, scale_of(kind, written.object))
