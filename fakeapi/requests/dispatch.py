"""From path and method of a request to the function that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.decoding.options import list_options
from fakeapi.decoding.routes import DiscoveryRoute, PlainRoute, Route, Unserved
from fakeapi.discovery import group_lists
from fakeapi.http import answers
from fakeapi.http.negotiation import negotiate, streamable
from fakeapi.http.presentation import PresentedView
from fakeapi.requests import pod_streams, scale, subresources, verbs
from fakeapi.requests.reviews import REVIEWS
from fakeapi.requests.token_requests import create_token
from fakeapi.store.listing import listing, wanted_version
from fakeapi.store.watch import Watcher, wait_for_version
from fakeapi.types.errors import MethodNotAllowed, ResourceVersionTooLarge
from fakeapi.types.media_types import JSON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeapi.decoding.options import ListOptions
    from fakeapi.discovery.documents import DocumentRequest
    from fakeapi.http.answers import Answer
    from fakeapi.http.presentation import Presentation
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.store.views import View
    from fakeapi.types.kind import ResourceKey

    #: Waits only if it concerns many objects.
    Verb = Callable[[Registry, Call], Answer | Awaitable[Answer]]

#: The method of each verb.
_METHODS: Final = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "list": "GET",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "GET",
}
_VERBS: Final[dict[str, Verb]] = {
    "create": verbs.create,
    "delete": verbs.delete,
    "deletecollection": verbs.delete_collection,
    "get": verbs.get,
    "patch": verbs.patch,
    "update": verbs.update,
}
_SUBRESOURCE: Final[dict[tuple[str, str], Verb]] = {
    **{(name, "get"): pod_streams.connect for name in ("attach", "exec", "portforward")},
    **{(name, "create"): pod_streams.connect for name in ("attach", "exec", "portforward")},
    **{
        (name, verb): _VERBS[verb]
        for name in ("ephemeralcontainers", "status", "resize")
        for verb in ("get", "update", "patch")
    },
    ("log", "get"): pod_streams.log,
    ("token", "create"): create_token,
    ("finalize", "update"): verbs.update,
    ("scale", "get"): scale.get,
    ("scale", "update"): scale.update,
    ("scale", "patch"): scale.patch,
    ("binding", "create"): subresources.bind,
    ("eviction", "create"): subresources.evict,
}
#: Functions that replace create for resources that are not stored.
_CREATED: Final[dict[ResourceKey, Verb]] = {("", "bindings"): subresources.bind, **REVIEWS}


_VERSION: Final = PlainRoute("/version")


def document(call: Call, state: Registry, request: DocumentRequest) -> Answer:
    """Return the answer to a path that names no resource. Raises ApiError.

    As in upstream's router, paths of versions take only GET, others any method.
    """
    found = call.found
    if isinstance(found, Unserved):
        if found.error is not None:
            raise found.error()
        return answers.not_a_page()
    assert not isinstance(found, Route)
    is_version = found == _VERSION if isinstance(found, PlainRoute) else _is_version(found)
    if call.method != "GET" and is_version:
        raise MethodNotAllowed
    if isinstance(found, DiscoveryRoute):
        answer = group_lists.answer(found, state.kinds, request)
    elif found.path.startswith("/openapi/"):
        from fakeapi.discovery import openapi  # on first use: few clients read it

        answer = openapi.answer(found.path, state.kinds, request)
    else:
        answer = group_lists.plain(found.path, state.kinds, request, state.version)
    if answer is None:
        return answers.not_a_page()
    if answer.content_type != JSON:
        return answer
    return answers.written(answer, negotiate(request.accept, is_list=True, targets=()))


def _is_version(route: DiscoveryRoute) -> bool:
    """Return True for one version of a group, and for the versions of the core group."""
    return route.version is not None or route.group == ""


def verb_of(call: Call) -> Verb | None:
    """Return the function for a call, None for lists and watches. Raises MethodNotAllowed."""
    route, verb = call.route, call.verb
    function: Verb | None = None
    if call.method != _METHODS.get(verb):  # HEAD, and any method but GET below watch/
        raise MethodNotAllowed
    if route.subresource:
        function = _SUBRESOURCE.get((route.subresource, verb))
    elif verb in route.kind.verbs:
        if verb in ("list", "watch"):
            return None
        is_named = verb not in ("create", "deletecollection")
        if is_named is bool(route.name) and (route.namespace or not route.kind.namespaced):
            function = _VERBS[verb]
            if verb == "create":
                function = _CREATED.get(route.kind.resource_key, function)
    if function is None:
        raise MethodNotAllowed
    return function


def options_of(request: Call) -> ListOptions:
    """Return the options of a list or watch. Raises ApiError."""
    route, watch = request.route, request.verb == "watch"
    return list_options(request.query, route.kind, route.namespace, watch=watch, name=route.name)


async def list_objects(state: Registry, request: Call) -> Answer:
    """Return a page of a list; wait up to 3 s for a newer resourceVersion. Raises ApiError."""
    kind = request.route.kind
    options = options_of(request)
    version = wanted_version(options)
    if not await wait_for_version(state.store, version, state.clock):
        raise ResourceVersionTooLarge(version, state.store.resource_version)
    page = listing(state.store, state.collection(kind), options)
    return answers.Answer(200, state.view(kind).listing(page.metadata, page.revisions))


def watcher(state: Registry, request: Call, shown: Presentation) -> tuple[Watcher, float]:
    """Return a watch that is ready to be served, and its limit in seconds. Raises ApiError."""
    kind = request.route.kind
    options = options_of(request)
    view: View | PresentedView = state.view(kind)
    if not shown.is_whole:
        view = PresentedView(state.view(kind), shown)
    made = Watcher(state.store, state.collection(kind), view, options, state.clock)
    streamable(shown.accepted)
    # Upstream's default is a random 30 to 60 minutes, so that not all watches end at once.
    timeout_seconds = float(options.timeout_seconds)
    if not timeout_seconds:
        timeout_seconds = state.ids.between(1800.0, 3600.0)
    return made, timeout_seconds
