"""LimitRanger: the LimitRanges of a namespace give defaults to containers, and set bounds.

Source: plugin/pkg/admission/limitranger/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types import gotext, pod_resources
from fakeapi.types.kind import CLAIMS, PODS
from fakeapi.types.objects import Json, child, is_deleting, mapping, mappings, text
from fakeapi.types.quantity import NANO, Amount, parse_nano

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.types.kind import ResourceKey


_LIMIT_RANGES: Final = ("", "limitranges")


class LimitRanger(Plugin):
    """Fills in requests and limits of containers from the LimitRanges, and checks the bounds."""

    name = "LimitRanger"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Return True for new pods, resizes and claims; other updates change no resources."""
        if operation is Operation.DELETE:
            return False
        if resource == PODS:
            return subresource == ("resize" if operation is Operation.UPDATE else "")
        return resource == CLAIMS and not subresource

    def mutate(self, review: Review) -> None:
        if review.resource == PODS and (ranges := _ranges(review)):
            review.object["spec"] = copy.deepcopy(mapping(review.object.get("spec")))
            for limit_range in ranges:
                _apply_container_defaults(review.object, limit_range)

    def check(self, review: Review) -> None:
        """Raise Forbidden with all errors of the first range that has errors."""
        errors_of = _pod_errors if review.resource == PODS else _claim_errors
        for limit_range in _ranges(review):
            if errors := list(errors_of(review.object, limit_range)):
                raise review.forbid(gotext.aggregated(errors))


def _ranges(review: Review) -> list[Json]:
    if review.old is not None and is_deleting(review.old):
        return []
    store = review.registry.store
    if not store.collection(_LIMIT_RANGES).revisions:
        return []
    return store.in_namespace(_LIMIT_RANGES, review.target.namespace)


#: Resources of the pod level that count. Huge pages are not in the list of upstream's plugin.
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_ANNOTATION: Final = "kubernetes.io/limit-ranger"


def _apply_container_defaults(pod: Json, limit_range: Json) -> None:
    """Fill in requests and limits of containers, and list them in an annotation."""
    requests: Json = {}
    limits: Json = {}
    for item in _items(limit_range, "Container"):
        requests.update(mapping(item.get("defaultRequest")))
        limits.update(mapping(item.get("default")))
    notes: list[str] = []
    spec = mapping(pod.get("spec"))
    for title, field in (("container", "containers"), ("init container", "initContainers")):
        for container in mappings(spec.get(field)):
            notes += _merge(container, requests, limits, title)
    if notes:
        annotations = child(child(pod, "metadata"), "annotations")
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _merge(container: Json, requests: Json, limits: Json, title: str) -> Iterator[str]:
    resources = child(container, "resources")
    for field, word, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
        own = mapping(resources.get(field))
        added = sorted(name for name in defaults if name not in own)
        if added:
            resources[field] = {**own, **{name: defaults[name] for name in added}}
            yield f"{', '.join(added)} {word} for {title} {text(container.get('name'))}"


def _pod_errors(pod: Json, limit_range: Json) -> Iterator[str]:
    """Yield the bounds that a pod breaks."""
    spec = mapping(pod.get("spec"))
    containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
    for item in _items(limit_range, "Container"):
        for container in containers:
            resources = mapping(container.get("resources"))
            requests = pod_resources.amounts(resources.get("requests"))
            limits = pod_resources.amounts(resources.get("limits"))
            yield from _broken(item, "Container", requests, limits)
    for item in _items(limit_range, "Pod"):
        requests, limits = _pod_level(spec, "requests"), _pod_level(spec, "limits")
        yield from _broken(item, "Pod", requests, limits)


def _pod_level(spec: Json, which: str) -> dict[str, Amount]:
    own = pod_resources.amounts(mapping(spec.get("resources")).get(which))
    counted = {name: amount for name, amount in own.items() if name in _POD_LEVEL}
    return {**pod_resources.container_sums(spec, which), **counted}


def _claim_errors(claim: Json, limit_range: Json) -> Iterator[str]:
    """Yield the bounds that a PersistentVolumeClaim breaks."""
    resources = mapping(mapping(claim.get("spec")).get("resources"))
    requests = pod_resources.amounts(resources.get("requests"))
    kind = "PersistentVolumeClaim"
    for item in _items(limit_range, kind):
        yield from _below_minimum(item, kind, requests, {})
        for name, bound in _bounds(item, "max"):
            yield from _request_over(name, kind, bound, requests)


def _items(limit_range: Json, limit_type: str) -> list[Json]:
    items = mappings(mapping(limit_range.get("spec")).get("limits"))
    return [item for item in items if item.get("type") == limit_type]


def _bounds(item: Json, field: str) -> list[tuple[str, str]]:
    return [(name, text(bound)) for name, bound in mapping(item.get(field)).items()]


def _broken(
    item: Json, kind: str, requests: dict[str, Amount], limits: dict[str, Amount]
) -> Iterator[str]:
    yield from _below_minimum(item, kind, requests, limits)
    yield from _above_maximum(item, kind, requests, limits)
    yield from _above_ratio(item, kind, requests, limits)


def _below_minimum(
    item: Json, kind: str, requests: dict[str, Amount], limits: dict[str, Amount]
) -> Iterator[str]:
    for name, bound in _bounds(item, "min"):
        start = f"minimum {name} usage per {kind} is {bound}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name] < parse_nano(bound):
            yield f"{start}, but request is {requests[name].shown()}"
        elif name in limits and limits[name] < parse_nano(bound):
            yield f"{start}, but limit is {limits[name].shown()}"


def _above_maximum(
    item: Json, kind: str, requests: dict[str, Amount], limits: dict[str, Amount]
) -> Iterator[str]:
    for name, bound in _bounds(item, "max"):
        start = f"maximum {name} usage per {kind} is {bound}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif limits[name] > parse_nano(bound):
            yield f"{start}, but limit is {limits[name].shown()}"
        elif name in requests and requests[name] > parse_nano(bound):
            yield f"{start}, but request is {requests[name].shown()}"


def _request_over(name: str, kind: str, bound: str, requests: dict[str, Amount]) -> Iterator[str]:
    start = f"maximum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{start}.  No request is specified"
    elif requests[name] > parse_nano(bound):
        yield f"{start}, but request is {requests[name].shown()}"


def _above_ratio(
    item: Json, kind: str, requests: dict[str, Amount], limits: dict[str, Amount]
) -> Iterator[str]:
    for name, bound in _bounds(item, "maxLimitRequestRatio"):
        start = f"{name} max limit to request ratio per {kind} is {bound}"
        request, limit = requests.get(name, 0), limits.get(name, 0)
        if not request:
            yield f"{start}, but no request is specified or request is 0"
        elif not limit:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limit * NANO > parse_nano(bound) * request:
            yield f"{start}, but provided ratio is {limit / request:f}"
