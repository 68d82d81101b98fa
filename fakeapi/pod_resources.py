"""What a pod asks for: sums over its containers, and its quality-of-service class.

Sources: component-helpers resource/helpers.go (AggregateContainerRequests and -Limits) and
 pkg/apis/core/helper/qos/qos.go (ComputePodQOS) of v1.36.3. Amounts are nano-units.
"""

from __future__ import annotations

from typing import Final

from .objects import Json, mapping, mappings, text
from .quantity import parse_nano

_COMPUTE: Final = ("cpu", "memory")
_POD_LEVEL: Final = frozenset(_COMPUTE)
HUGE_PAGES_PREFIX: Final = "hugepages-"


def amounts(resources: object) -> dict[str, int]:
    """A resource list as nano-units by resource."""
    return {name: parse_nano(text(value)) for name, value in mapping(resources).items()}


def is_pod_level_resource(name: str) -> bool:
    """Whether a resource may be asked for at the level of the pod."""
    return name in _POD_LEVEL or name.startswith(HUGE_PAGES_PREFIX)


def container_sums(spec: Json, which: str) -> dict[str, int]:
    """What all containers need together; `which` is requests or limits.

    Init containers run one after another before the others; those that restart (sidecars) stay.
    """
    total: dict[str, int] = {}
    for container in mappings(spec.get("containers")):
        _add(total, amounts(mapping(container.get("resources")).get(which)))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in mappings(spec.get("initContainers")):
        own = amounts(mapping(container.get("resources")).get(which))
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            peak[name] = max(peak.get(name, amount), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def _add(total: dict[str, int], other: dict[str, int]) -> None:
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount


def qos_class(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_guaranteed = True
    if isinstance(spec.get("resources"), dict):
        sources = [mapping(spec.get("resources"))]
    else:
        containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
        sources = [mapping(container.get("resources")) for container in containers]
    for source in sources:
        _add(requests, _compute(source.get("requests")))
        own_limits = _compute(source.get("limits"))
        _add(limits, own_limits)
        if len(own_limits) < len(_COMPUTE):
            is_guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _compute(resources: object) -> dict[str, int]:
    found = {}
    for name in _COMPUTE:
        value = mapping(resources).get(name)
        if isinstance(value, str) and (amount := parse_nano(value)) > 0:
            found[name] = amount
    return found
