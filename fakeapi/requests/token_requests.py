"""serviceaccounts/token: a TokenRequest is answered with a token and not stored.

Source: pkg/registry/core/serviceaccount/storage/token.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.access.access import Access
from fakeapi.access.authentication import AUDIENCE
from fakeapi.access.service_accounts import BOUND
from fakeapi.apply import ownership
from fakeapi.decoding import bodies
from fakeapi.decoding.options import write_options
from fakeapi.http import answers
from fakeapi.types import times
from fakeapi.types.errors import BadRequest, Conflict, Invalid, invalid
from fakeapi.types.kind import Kind
from fakeapi.types.objects import Json, child, integer, mapping, metadata_of, name_of, text, texts
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry

_TYPE: Final = "authentication/v1.TokenRequest"
_KIND: Final = Kind(
    "authentication.k8s.io", "v1", "tokenrequests", "TokenRequest", schema=_TYPE, verbs=("create",)
)
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 1 << 32


def create_token(state: Registry, request: Call) -> Answer:
    """Create a token for the service account of the URL. Raises ApiError."""
    options = write_options(request.query, "CreateOptions")
    wanted = bodies.decode_side_object(
        request.body,
        _KIND.kind,
        _TYPE,
        versions=(_KIND.api_version,),
        kinds=state.kinds,
    )
    route, metadata, spec = request.route, child(wanted, "metadata"), child(wanted, "spec")
    pipeline.place(_KIND, route.namespace, wanted)
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS
    target = request.target(options, of=_KIND)
    ownership.on_create(state.kinds, target, wanted, state.now(), tracks=state.tracks_fields)
    account = _account(state, request, metadata)
    _check_lifetime(integer(spec["expirationSeconds"]))
    bound = _bound(state, route.namespace, route.name, spec.get("boundObjectRef"))
    spec["audiences"] = audiences = texts(spec.get("audiences")) or [AUDIENCE]
    metadata["creationTimestamp"] = state.now()
    seconds = integer(spec["expirationSeconds"])
    status = {
        "token": state.extension(Access)
        .issuer_for(state)
        .issue(account, audiences, seconds, bound),
        "expirationTimestamp": times.timestamp(state.clock.now() + seconds),
    }
    return answers.Answer(201, state.view(_KIND).body_of({**wanted, "status": status}))


def _account(state: Registry, request: Call, metadata: Json) -> Json:
    """Return the service account; copy its name and uid into the metadata. Raises ApiError."""
    route = request.route
    if metadata.get("name", route.name) != route.name:
        why = "must match the service account name if specified"
        error = invalid("metadata.name", metadata["name"], why)
        raise Invalid(_KIND.kind, _KIND.group, route.name, [error])
    account = state.find(route.kind, route.namespace, route.name).object
    uid, wanted = text(metadata_of(account).get("uid")), text(metadata.get("uid"))
    if wanted and wanted != uid:
        why = f"the UID in the token request ({wanted}) does not match"
        why = f"{why} the UID of the service account ({uid})"
        raise Conflict(_KIND.kind, _KIND.group, route.name, why)
    metadata.update(name=route.name, uid=uid)
    return account


def _check_lifetime(seconds: int) -> None:
    if _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        return
    bound = "less than 10 minutes" if seconds < _LEAST_SECONDS else "larger than 2^32 seconds"
    error = invalid("spec.expirationSeconds", seconds, f"may not specify a duration {bound}")
    raise Invalid(_KIND.kind, _KIND.group, "", [error])


def _bound(state: Registry, namespace: str, account: str, reference: object) -> Json:
    """Return the claims about the bound object, and about a pod's node. Raises ApiError."""
    if not isinstance(reference, dict):
        return {}
    kind, version = text(reference.get("kind")), text(reference.get("apiVersion"))
    group, _, short = version.rpartition("/")
    if group or kind not in BOUND:
        why = f"{group}/{short}, Kind={kind}"
        raise BadRequest(f"cannot bind token to object of type {why}")
    plural, name = BOUND[kind][1], text(reference.get("name"))
    served = state.kinds.find("", "v1", plural)
    assert served is not None
    stored = state.find(served, namespace if served.namespaced else "", name).object
    spec = mapping(stored.get("spec"))
    if kind == "Pod" and spec.get("serviceAccountName") != account:
        why = "to pod running with different serviceaccount name."
        raise BadRequest(f'cannot bind token for serviceaccount "{account}" {why}')
    uid, wanted = metadata_of(stored).get("uid"), reference.get("uid")
    if wanted and wanted != uid:
        why = f"the UID in the bound object reference ({wanted}) does not match the UID in record."
        why = f"{why} The object might have been deleted and then recreated"
        raise Conflict(kind, group, name, why)
    bound: Json = {kind.lower(): {"name": name_of(stored), "uid": uid}}
    node = state.store.get(BOUND["Node"], "", text(spec.get("nodeName")))
    if kind == "Pod" and node is not None:
        metadata = metadata_of(node.object)
        bound["node"] = {"name": metadata.get("name"), "uid": metadata.get("uid")}
    return bound
