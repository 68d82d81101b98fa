"""Reviews: questions about users and permissions, answered in their status and never stored.

    TokenReview, SelfSubjectReview                            the user of a token or request
    SubjectAccessReview, Local-, SelfSubjectAccessReview      the permission for one action
    SelfSubjectRulesReview                                    the permissions of the client

Source: pkg/registry/{authentication,authorization} and pkg/apis/authorization/validation of
Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.access.access import Access
from fakeapi.access.attributes import Attributes
from fakeapi.access.users import User, extra_of
from fakeapi.apply import ownership
from fakeapi.decoding import selectors
from fakeapi.decoding.options import write_options
from fakeapi.http import answers
from fakeapi.requests import verbs
from fakeapi.types.errors import BadRequest, Invalid, invalid, required
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, namespace_of, text, texts
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.types.errors import FieldError
    from fakeapi.types.kind import ResourceKey

_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"
_MET: Final = "spec.resourceAttributes"


def _review(state: Registry, request: Call) -> Json:
    """Return the review in the body, in its stored form."""
    options = write_options(request.query, "CreateOptions")
    review = verbs.decoded_body(state, request, options)
    pipeline.place(request.route.kind, request.route.namespace, review)
    metadata_of(review).pop("managedFields", None)
    return review


def _answered(state: Registry, request: Call, review: Json, status: Json) -> Answer:
    """Return the answer: the review with its status."""
    kind = request.route.kind
    target = request.target(write_options(request.query, "CreateOptions"))
    review.pop("status", None)
    tracks = state.tracks_fields
    ownership.on_create(state.kinds, target, review, state.now(), tracks=tracks)
    return answers.Answer(201, state.view(kind).body_of({**review, "status": status}))


def _token_review(state: Registry, request: Call) -> Answer:
    review = _review(state, request)
    spec = mapping(review.get("spec"))
    token = text(spec.get("token"))
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    answer = state.extension(Access).authenticator.review(token, texts(spec.get("audiences")))
    status: Json = {"user": {}}
    if answer.user is not None:
        user, audiences = answer.user.as_json(), list(answer.audiences)
        status = {"authenticated": True, "user": user, "audiences": audiences}
    if answer.error:
        status["error"] = answer.error
    return _answered(state, request, review, status)


def _self_subject_review(state: Registry, request: Call) -> Answer:
    _review(state, request)
    body: Json = {
        "metadata": {"creationTimestamp": state.now()},
        "status": {"userInfo": request.user.as_json()},
    }
    return answers.Answer(201, state.view(request.route.kind).body_of(body))


def _access_review(state: Registry, request: Call) -> Answer:
    review = _review(state, request)
    spec = mapping(review.get("spec"))
    _refuse_if(request, [*_spec_errors(spec, names_user=True), *_metadata_errors(review)])
    return _decided(state, request, review, _user_in(spec))


def _local_access_review(state: Registry, request: Call) -> Answer:
    review = _review(state, request)
    spec = mapping(review.get("spec"))
    local = namespace_of(review)
    errors = [*_spec_errors(spec, names_user=True), *_metadata_errors(review, is_local=True)]
    if "resourceAttributes" in spec:
        namespace = text(mapping(spec["resourceAttributes"]).get("namespace"))
        if namespace != local:
            why = "must match metadata.namespace"
            errors.append(invalid(f"{_MET}.namespace", namespace, why))
    if "nonResourceAttributes" in spec:
        why = "disallowed on this kind of request"
        field = "spec.nonResourceAttributes"
        errors.append(invalid(field, spec["nonResourceAttributes"], why))
    _refuse_if(request, errors)
    if request.route.namespace != local:
        why = "spec.resourceAttributes.namespace must match namespace"
        raise BadRequest(f"{why}: {request.route.namespace}")
    return _decided(state, request, review, _user_in(spec))


def _self_access_review(state: Registry, request: Call) -> Answer:
    review = _review(state, request)
    spec = mapping(review.get("spec"))
    _refuse_if(request, [*_spec_errors(spec, names_user=False), *_metadata_errors(review)])
    return _decided(state, request, review, request.user)


def _decided(state: Registry, request: Call, review: Json, user: User) -> Answer:
    spec = mapping(review.get("spec"))
    decision = state.extension(Access).authorizer.decide(user, _asked(spec))
    status: Json = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    unread = _unread_selectors(mapping(spec.get("resourceAttributes")))
    if unread:
        status["evaluationError"] = "; ".join(unread)
    return _answered(state, request, review, status)


def _self_rules_review(state: Registry, request: Call) -> Answer:
    review = _review(state, request)
    namespace = text(mapping(review.get("spec")).get("namespace"))
    if not namespace:
        raise BadRequest("no namespace on request")
    rules = state.extension(Access).authorizer.rules_for(request.user, namespace)
    status: Json = {
        "resourceRules": [
            _part(rule, "verbs", "apiGroups", "resources", "resourceNames")
            for rule in rules.rules
            if rule.get("resources")
        ],
        "nonResourceRules": [
            _part(rule, "verbs", "nonResourceURLs")
            for rule in rules.rules
            if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }
    if rules.error:
        status["evaluationError"] = rules.error
    body: Json = {"metadata": {}, "spec": {}, "status": status}
    return answers.Answer(201, state.view(request.route.kind).body_of(body))


def _part(rule: Json, *names: str) -> Json:
    return {name: rule[name] for name in names if rule.get(name)}


def _user_in(spec: Json) -> User:
    extra = {key: texts(values) for key, values in mapping(spec.get("extra")).items()}
    groups = tuple(texts(spec.get("groups")))
    return User(text(spec.get("user")), groups, text(spec.get("uid")), extra_of(extra))


def _asked(spec: Json) -> Attributes:
    """Return the attributes under review: of a resource, or of a path."""
    if "resourceAttributes" not in spec:
        attributes = mapping(spec.get("nonResourceAttributes"))
        return Attributes(text(attributes.get("verb")), text(attributes.get("path")))
    attributes = mapping(spec["resourceAttributes"])
    names = ("group", "resource", "subresource", "namespace", "name")
    values = {name: text(attributes.get(name)) for name in names}
    return Attributes(text(attributes.get("verb")), about_resource=True, **values)


def _spec_errors(spec: Json, *, names_user: bool) -> list[FieldError]:
    errors = []
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        why = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", other, why))
    if resource is None and other is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid(_MET, None, why))
    if names_user and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for kind in ("fieldSelector", "labelSelector"):
        selector = mapping(resource).get(kind)
        if selector is not None:
            errors += _selector_errors(mapping(selector), f"{_MET}.{kind}")
    return errors


def _selector_errors(selector: Json, field: str) -> list[FieldError]:
    raw, requirements = text(selector.get("rawSelector")), mappings(selector.get("requirements"))
    if raw and requirements:
        why = "may not specified at the same time as requirements"
        return [invalid(f"{field}.rawSelector", raw, why)]
    if not raw and not requirements:
        why = f"when {field} is specified, requirements or rawSelector is required"
        return [required(f"{field}.requirements", why)]
    return []


def _unread_selectors(attributes: Json) -> list[str]:
    """Return warnings for malformed selectors, which the decision ignores."""
    unread = []
    raw = text(mapping(attributes.get("fieldSelector")).get("rawSelector"))
    if raw and not selectors.is_field_selector(raw):
        unread.append(f"{_MET}.fieldSelector ignored due to parse error")
    raw = text(mapping(attributes.get("labelSelector")).get("rawSelector"))
    try:
        selectors.parse_label_selector(raw)
    except selectors.SelectorError:
        unread.append(f"{_MET}.labelSelector ignored due to parse error")
    return unread


def _metadata_errors(review: Json, *, is_local: bool = False) -> list[FieldError]:
    metadata = dict(metadata_of(review))
    if is_local:
        metadata.pop("namespace", None)
    if not metadata:
        return []
    why = "must be empty except for namespace" if is_local else "must be empty"
    return [invalid("metadata", metadata_of(review), why)]


def _refuse_if(request: Call, errors: list[FieldError]) -> None:
    if errors:  # upstream has forgotten the kind by then
        raise Invalid("", request.route.kind.group, "", errors)


#: What answers a create of each kind of review.
REVIEWS: Final[dict[ResourceKey, Callable[[Registry, Call], Answer]]] = {
    (_AUTHENTICATION, "selfsubjectreviews"): _self_subject_review,
    (_AUTHENTICATION, "tokenreviews"): _token_review,
    (_AUTHORIZATION, "localsubjectaccessreviews"): _local_access_review,
    (_AUTHORIZATION, "selfsubjectaccessreviews"): _self_access_review,
    (_AUTHORIZATION, "selfsubjectrulesreviews"): _self_rules_review,
    (_AUTHORIZATION, "subjectaccessreviews"): _access_review,
}
