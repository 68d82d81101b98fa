"""Logs, exec, attach and portforward of pods, which only a kubelet can answer.

No container runs here. Requests are checked as upstream checks them before it calls the kubelet,
and then fail with a message that names the reason.

Source: pkg/registry/core/pod/{strategy,rest/log,rest/subresources}.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.http import answers
from fakeapi.types.errors import BadRequest, FieldError, Invalid, NotFound, forbidden, invalid
from fakeapi.types.kind import NODES
from fakeapi.types.objects import Json, mapping, mappings, name_of, text

if TYPE_CHECKING:
    from fakeapi.decoding.options import Query
    from fakeapi.http.answers import Answer
    from fakeapi.requests.call import Call
    from fakeapi.store.registry import Registry

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PORTS: Final = "portforward"


def log(state: Registry, request: Call) -> Answer:
    """Answer a request for a log, which is empty before the pod has a node. Raises ApiError."""
    route = request.route
    errors = _option_errors(request.query)
    if errors:
        raise Invalid("PodLogOptions", "", route.name, errors)
    pod = state.find(route.kind, route.namespace, route.name).object
    container = _container(pod, request.query.text("container"))
    node = text(mapping(pod.get("spec")).get("nodeName"))
    if not node:
        return answers.Answer(204, b"")
    raise _unanswered(state, node, f"the log of container {container} in pod {name_of(pod)}")


def connect(state: Registry, request: Call) -> Answer:
    """Refuse exec, attach and portforward. Raises ApiError."""
    route = request.route
    pod = state.find(route.kind, route.namespace, route.name).object
    subject = f"ports of pod {name_of(pod)}"
    if route.subresource != _PORTS:
        container = _container(pod, request.query.text("container"))
        subject = f"container {container} in pod {name_of(pod)}"
    node = text(mapping(pod.get("spec")).get("nodeName"))
    if not node:
        raise BadRequest(f"pod {name_of(pod)} does not have a host assigned")
    raise _unanswered(state, node, subject)


def _container(pod: Json, wanted: str) -> str:
    """Return the name of the requested container. Raises BadRequest."""
    spec = mapping(pod.get("spec"))
    containers = mappings(spec.get("containers"))
    names = [text(c.get("name")) for field in _CONTAINERS for c in mappings(spec.get(field))]
    if wanted:
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {name_of(pod)}")
        return wanted
    if len(containers) == 1:
        return text(containers[0].get("name"))
    raise BadRequest(
        f"a container name must be specified for pod {name_of(pod)}, "
        f"choose one of: [{' '.join(names)}]"
    )


def _unanswered(state: Registry, node: str, subject: str) -> NotFound | BadRequest:
    if state.store.get(NODES, "", node) is None:
        return NotFound("pods", "", node)  # upstream calls the node a pod
    # Kubelets, too, answer 400 for containers that do not run.
    return BadRequest(
        f"node {node} has no kubelet to ask for {subject}: this server runs no containers"
    )


def _option_errors(query: Query) -> list[FieldError]:
    """Return errors in the options of a log. Raises BadRequest."""
    errors = []
    for name, least in (("tailLines", 0), ("limitBytes", 1)):
        number = query.integer(name)
        if number is not None and number < least:
            why = "must be greater than 0" if least else "must be greater than or equal to 0"
            errors.append(invalid(name, number, why))
    since = query.integer("sinceSeconds")
    if since is not None and "sinceTime" in query:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(forbidden("[]", why))
    elif since is not None and since < 1:
        errors.append(invalid("sinceSeconds", since, "must be greater than 0"))
    if "stream" in query:
        errors.append(forbidden("stream", "may not be specified"))
    return errors
