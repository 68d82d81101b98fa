"""The scale subresource: how many replicas a workload wants and has, the same for every kind.

A `Scale` is made from the object and written back into it; where its numbers are is in the kind's
row (`Kind.scale`), for custom resources as their definition says. A write is an update of the whole
object: generation, validation and conflicts are those of the object.

Source: pkg/registry/apps/deployment/storage/storage.go of Kubernetes v1.36.3 and
apiextensions-apiserver pkg/registry/customresource/etcd.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from . import answers, bodies, registry, schema
from .errors import BadRequest, Conflict, InternalError, Invalid, UnsupportedMediaType, invalid
from .objects import Json, integer, mapping, mappings, metadata_of, name_of, text, texts
from .options import write_options
from .schema import DecodeError
from .verbs import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, decoded_patch, patched

if TYPE_CHECKING:
    from .answers import Answer
    from .kinds import Kind, ScalePaths
    from .registry import Registry
    from .store import Revision
    from .verbs import Request

_KIND: Final[Json] = {"kind": "Scale", "apiVersion": "autoscaling/v1"}
_TYPE: Final = "autoscaling/v1.Scale"
_SHARED_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def get(state: Registry, request: Request) -> Answer:
    """The scale of the object as it is now."""
    kind, route = request.route.kind, request.route
    existing = state.find(kind, route.namespace, route.name)
    paths = _paths(kind)
    if kind.structure is not None and _at(existing.object, paths.replicas) is None:
        where = "." + ".".join(paths.replicas)
        raise InternalError(f'the spec replicas field "{where}" does not exist')
    return answers.of(200, scale_of(kind, existing.object))


def update(state: Registry, request: Request) -> Answer:
    """A whole Scale in place of what the object says now."""
    wanted = bodies.decode_side_object(request.body, request.content_type, "Scale", _TYPE)
    route = request.route
    existing = state.find(route.kind, route.namespace, route.name)
    return _write(state, request, existing, wanted, "UpdateOptions")


def patch(state: Registry, request: Request) -> Answer:
    """A change to the Scale as it is now."""
    kind, route = request.route.kind, request.route
    accepted = {JSON_PATCH, MERGE_PATCH, *([STRATEGIC_PATCH] if kind.schema else [])}
    if request.content_type not in accepted:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    change = decoded_patch(request.body)
    existing = state.find(kind, route.namespace, route.name)
    result = patched(scale_of(kind, existing.object), change, request.content_type, _TYPE)
    try:
        wanted = schema.decode(_TYPE, result)
    except DecodeError as error:
        raise BadRequest(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    return _write(state, request, existing, wanted, "PatchOptions")


def scale_of(kind: Kind, obj: Json) -> Json:
    """The Scale of an object; numbers that are not there are 0, or left out where they may be."""
    paths, metadata = _paths(kind), metadata_of(obj)
    replicas = integer(_at(obj, paths.replicas))
    status: Json = {"replicas": integer(_at(obj, paths.status_replicas))}
    selector = selector_text(_at(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    return {
        **_KIND,
        "metadata": {name: metadata[name] for name in _SHARED_METADATA if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def selector_text(selector: object) -> str:
    """A selector in one line, by key: a LabelSelector, a bare map of labels, or a text already."""
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


def _at(obj: Json, path: tuple[str, ...]) -> object:
    value: object = obj
    for part in path:
        value = mapping(value).get(part)
    return value


def _with(obj: Json, path: tuple[str, ...], value: object) -> Json:
    """A copy of the object with another value at the path."""
    inner = value if len(path) == 1 else _with(mapping(obj.get(path[0])), path[1:], value)
    return {**obj, path[0]: inner}


def _write(
    state: Registry, request: Request, existing: Revision, wanted: Json, options_kind: str
) -> Answer:
    """Write the wish into the object and store that. Raises ApiError."""
    options = write_options(request.query, options_kind)
    kind, target = request.route.kind, request.target(options)
    registry.check_name(target, wanted)
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
    written = registry.update(state, target, existing, registry.complete(kind, whole))
    return answers.of(200, scale_of(kind, written.object))
