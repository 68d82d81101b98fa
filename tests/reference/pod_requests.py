"""Requests of a pod, from the text of KEP-753 and KEP-1287 and upstream's units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from scheduler.api.core import Container, Node, Pod, Quantities

Amounts = dict[str, Fraction]


#: Two-letter suffixes first: `Mi` does not end in `M`, but who reads this should not have to check.
SCALES = {
    **{f"{letter}i": Fraction(1 << 10 * n) for n, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(10 ** (3 * n)) for n, letter in enumerate("kMGTPE", 1)},
    **{letter: Fraction(1, 10 ** (3 * n)) for n, letter in enumerate("mun", 1)},
}

NON_ZERO = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 1024 * 1024)}


def amount(quantity: str | int | float) -> Fraction:
    text = str(quantity)
    for suffix, scale in SCALES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * scale
    return Fraction(text)


def amounts(quantities: Quantities) -> Amounts:
    return {name: amount(text) for name, text in quantities.items()}


def counted(name: str, value: Fraction) -> int:
    """The scheduler's whole numbers: thousandths of cpu, units of all else, rounded up."""
    return math.ceil(value * 1000) if name == "cpu" else math.ceil(value)


def is_scalar(name: str) -> bool:
    """Return True for a scalar resource; right for the names that tests use."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def is_counted(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or is_scalar(name)


def plus(*parts: Mapping[str, Fraction]) -> Amounts:
    names = {name for part in parts for name in part}
    return {name: sum((p.get(name, Fraction()) for p in parts), Fraction()) for name in names}


def largest(*parts: Mapping[str, Fraction]) -> Amounts:
    names = {name for part in parts for name in part}
    return {name: max(p[name] for p in parts if name in p) for name in names}


def pod_requests(
    pod: Pod,
    *,
    status: bool,
    pod_level: bool = True,
    non_zero: Mapping[str, Fraction] | None = None,
) -> Amounts:
    def wants(container: Container, *, lasting: bool) -> Amounts:
        found = container_requests(pod, container, status=status and lasting)
        return {**(non_zero or {}), **found}

    regular = [wants(container, lasting=True) for container in pod.spec.containers]
    sidecars: list[Amounts] = []
    moments: list[Amounts] = []
    for container in pod.spec.init_containers:
        sidecar = container.restart_policy == "Always"
        own = wants(container, lasting=sidecar)
        moments.append(plus(own, *sidecars))
        if sidecar:
            sidecars.append(own)
    total = largest(plus(*regular, *sidecars), *moments)
    if pod_level and pod.spec.resources:
        for name, value in amounts(pod.spec.resources.requests).items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                total[name] = value
    return plus(total, amounts(pod.spec.overhead))


def container_requests(pod: Pod, container: Container, *, status: bool) -> Amounts:
    asked = amounts(container.resources.requests)
    if not status:
        return asked
    for report in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if report.name == container.name and report.resources is not None:
            given, promised = (
                amounts(report.resources.requests),
                amounts(report.allocated_resources),
            )
            if resize_is_infeasible(pod):
                return largest(given, promised)
            return largest(asked, given, promised)
    return asked


def resize_is_infeasible(pod: Pod) -> bool:
    pending = [c for c in pod.status.conditions if c.type == "PodResizePending"]
    return bool(pending) and pending[0].reason == "Infeasible"


def wanted(pod: Pod) -> dict[str, int]:
    """Return the resources that a node must have free for the pod."""
    found = pod_requests(pod, status=False)
    return {name: counted(name, value) for name, value in found.items() if is_counted(name)}


def taken(pod: Pod) -> dict[str, int]:
    """Return the resources that the pod takes from its node."""
    found = pod_requests(pod, status=True)
    return {name: counted(name, value) for name, value in found.items() if is_counted(name)}


def taken_non_zero(pod: Pod, name: str) -> int:
    """Return the same for cpu or memory, with defaults for containers without requests."""
    missing = NON_ZERO
    whole_pod = pod.spec.resources.requests if pod.spec.resources else {}
    if any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in whole_pod):
        present = pod_requests(pod, status=True)
        missing = {name: value for name, value in NON_ZERO.items() if name not in present}
    found = pod_requests(pod, status=True, non_zero=missing)
    return counted(name, found.get(name, Fraction()))


def offered(node: Node, name: str) -> int:
    return counted(name, amount(node.status.allocatable.get(name, 0)))
