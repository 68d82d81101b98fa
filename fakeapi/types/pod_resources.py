"""Sums of requests and limits over the containers of a pod, and its quality-of-service class.

Sources: component-helpers resource/helpers.go (PodRequests, PodLimits and their parts) and
pkg/apis/core/helper/qos/qos.go (ComputePodQOS) of v1.36.3. Amounts are nano-units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.names import qualified_name
from fakeapi.types.objects import Json, mapping, mappings, text
from fakeapi.types.quantity import Amount, parse_amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_COMPUTE: Final = ("cpu", "memory")
_POD_LEVEL: Final = frozenset(_COMPUTE)
HUGE_PAGES_PREFIX: Final = "hugepages-"
#: The prefix of requests' names in quotas.
REQUESTS_PREFIX: Final = "requests."
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def amounts(resources: object) -> dict[str, Amount]:
    """Return a resource list as nano-units by resource."""
    return {name: parse_amount(text(value)) for name, value in mapping(resources).items()}


def is_pod_level_resource(name: str) -> bool:
    """Return True if a pod may request the resource as a whole."""
    return name in _POD_LEVEL or name.startswith(HUGE_PAGES_PREFIX)


def is_native_resource(name: str) -> bool:
    """Return True for the names without a domain or with one of Kubernetes."""
    return "/" not in name or _NATIVE_DOMAIN in name


def is_extended_resource(name: str) -> bool:
    """Return True for the names of devices that a device plugin advertises."""
    if is_native_resource(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return not qualified_name(f"{REQUESTS_PREFIX}{name}")


def _of_spec(container: Json, which: str) -> dict[str, Amount]:
    return amounts(mapping(container.get("resources")).get(which))


def container_sums(
    spec: Json, which: str, of: Callable[[Json, str], dict[str, Amount]] = _of_spec
) -> dict[str, Amount]:
    """Return the sums over all containers; `which` is requests or limits.

    Init containers run one after another before the others; sidecars, which restart, keep running.
    `of` returns the resources of one container, by default those of its spec.
    """
    total: dict[str, Amount] = {}
    for container in mappings(spec.get("containers")):
        _add(total, of(container, which))
    sidecars: dict[str, Amount] = {}
    peak: dict[str, Amount] = {}
    for container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            own = of(container, which)
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            own = _of_spec(container, which)
            _add(own, sidecars)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, amount), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def pod_sums(pod: Json, which: str) -> dict[str, Amount]:
    """Return the resources that a pod takes on its node; `which` is requests or limits.

    During a resize the larger of spec and status counts. Resources of the pod as a whole replace
    the sum. Overhead is added, to limits only where the pod has one.
    """
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    total = container_sums(spec, which, _EffectiveResources(status))
    own = mapping(spec.get("resources")).get(which)
    total.update({k: v for k, v in amounts(own).items() if is_pod_level_resource(k)})
    overhead = amounts(spec.get("overhead"))
    if which == "limits":
        overhead = {name: amount for name, amount in overhead.items() if total.get(name)}
    _add(total, overhead)
    return total


class _EffectiveResources:
    """The resources of containers during a resize, from their spec and status."""

    def __init__(self, status: Json) -> None:
        states = mappings(status.get("containerStatuses"))
        states = states + mappings(status.get("initContainerStatuses"))
        self._statuses = {text(s.get("name")): s for s in states if s.get("resources") is not None}
        pending = [
            condition.get("reason")
            for condition in mappings(status.get("conditions"))
            if condition.get("type") == "PodResizePending"
        ]
        self._is_infeasible = pending[:1] == ["Infeasible"]

    def __call__(self, container: Json, which: str) -> dict[str, Amount]:
        """Return the larger of spec and status. The spec of an infeasible resize does not count."""
        wanted = _of_spec(container, which)
        status = self._statuses.get(text(container.get("name")))
        if status is None:
            return wanted
        result = {} if self._is_infeasible else wanted
        actual = [mapping(status.get("resources")).get(which)]
        if which == "requests":
            actual.append(status.get("allocatedResources"))
        for resources in actual:
            for name, amount in amounts(resources).items():
                result[name] = max(result.get(name, amount), amount)
        return result


def _add(total: dict[str, Amount], other: Mapping[str, Amount]) -> None:
    for name, amount in other.items():
        total[name] = total[name].plus(amount) if name in total else amount


def qos_class(spec: Json) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    if isinstance(spec.get("resources"), dict):
        sources = [mapping(spec.get("resources"))]
    else:
        containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
        sources = [mapping(container.get("resources")) for container in containers]
    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}
    is_guaranteed = True
    for source in sources:
        _add(requests, _compute(source.get("requests")))
        own_limits = _compute(source.get("limits"))
        _add(limits, own_limits)
        if len(own_limits) < len(_COMPUTE):
            is_guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _compute(resources: object) -> dict[str, Amount]:
    sums = {}
    for name in _COMPUTE:
        value = mapping(resources).get(name)
        if isinstance(value, str) and (amount := parse_amount(value)) > 0:
            sums[name] = amount
    return sums
