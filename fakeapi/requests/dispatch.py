"""From path and method of a request to the function that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.decoding.options import list_options
from fakeapi.decoding.routes import DiscoveryRoute, PlainRoute
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
    from collections.abc import Callable

    from fakeapi.decoding import routes
    from fakeapi.decoding.options import ListOptions
    from fakeapi.discovery.documents import DocumentRequest
    from fakeapi.http.answers import Answer
    from fakeapi.http.presentation import Presentation
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry
    from fakeapi.store.views import View
    from fakeapi.types.kind import ResourceKey

    Verb = Callable[[Registry, Call], Answer]

#: Functions by method, each with the verb that discovery lists.
_COLLECTION: Final[dict[str, tuple[str, Verb]]] = {
    "POST": ("create", verbs.create),
    "DELETE": ("deletecollection", verbs.delete_collection),
}
_ITEM: Final[dict[str, tuple[str, Verb]]] = {
    "GET": ("get", verbs.get),
    "PUT": ("update", verbs.update),
    "PATCH": ("patch", verbs.patch),
    "DELETE": ("delete", verbs.delete),
}
_SUBRESOURCE: Final[dict[tuple[str, str], Verb]] = {
    **{(name, "GET"): pod_streams.connect for name in ("attach", "exec", "portforward")},
    **{(name, "POST"): pod_streams.connect for name in ("attach", "exec", "portforward")},
    ("log", "GET"): pod_streams.log,
    ("token", "POST"): create_token,
    ("ephemeralcontainers", "GET"): verbs.get,
    ("ephemeralcontainers", "PUT"): verbs.update,
    ("ephemeralcontainers", "PATCH"): verbs.patch,
    ("status", "GET"): verbs.get,
    ("status", "PUT"): verbs.update,
    ("status", "PATCH"): verbs.patch,
    ("finalize", "PUT"): verbs.update,
    ("resize", "GET"): verbs.get,
    ("resize", "PUT"): verbs.update,
    ("resize", "PATCH"): verbs.patch,
    ("scale", "GET"): scale.get,
    ("scale", "PUT"): scale.update,
    ("scale", "PATCH"): scale.patch,
    ("binding", "POST"): subresources.bind,
    ("eviction", "POST"): subresources.evict,
}
#: Functions that replace create for resources that are not stored.
_CREATED: Final[dict[ResourceKey, Verb]] = {("", "bindings"): subresources.bind, **REVIEWS}


_VERSION: Final = PlainRoute("/version")


def document(
    found: DiscoveryRoute | PlainRoute | None,
    method: str,
    state: Registry,
    request: DocumentRequest,
) -> Answer:
    """Return the answer to a path that names no resource. Raises ApiError.

    As in upstream's router, paths of versions take only GET, others any method.
    """
    if found is None:
        return answers.not_a_page()
    is_version = found == _VERSION if isinstance(found, PlainRoute) else _is_version(found)
    if method != "GET" and is_version:
        raise MethodNotAllowed
    if isinstance(found, DiscoveryRoute):
        answer = group_lists.answer(found, state.kinds, request)
    elif found.path.startswith("/openapi/"):
        from fakeapi.discovery import openapi  # on first use: few clients read it

        answer = openapi.answer(found.path, state.kinds, request)
    else:
        answer = group_lists.plain(found.path, state.kinds, request)
    if answer is None:
        return answers.not_a_page()
    if answer.content_type != JSON:
        return answer
    return answers.written(answer, negotiate(request.accept, is_list=True, targets=()))


def _is_version(found: DiscoveryRoute) -> bool:
    """Return True for one version of a group, and for the versions of the core group."""
    return found.version is not None or found.group == ""


def verb_of(method: str, route: routes.Route) -> Verb:
    """Return the function for a method and route, except for lists and watches.

    Raises MethodNotAllowed.
    """
    kind = route.kind
    if route.subresource:
        verb = _SUBRESOURCE.get((route.subresource, method))
        if verb is None:
            raise MethodNotAllowed
        return verb
    name, verb = (_ITEM if route.name else _COLLECTION).get(method, ("", None))
    if verb is None or name not in kind.verbs or (kind.namespaced and not route.namespace):
        raise MethodNotAllowed
    return _CREATED.get(kind.resource_key, verb)


def options_of(request: Call) -> ListOptions:
    """Return the options of a list or watch. Raises ApiError."""
    kind = request.route.kind
    watch = request.is_watch
    if ("watch" if watch else "list") not in kind.verbs:
        raise MethodNotAllowed
    route = request.route
    return list_options(request.query, kind, route.namespace, watch=watch, name=route.name)


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
