"""Requests and capacities as exact integers, for the verifier and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..format.resources import NANO, nano_units
from .held import HeldNode, HeldPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .history import HistoryNode, HistoryPod

__all__ = [
    "NOTHING",
    "Amounts",
    "allocatable",
    "capacity_of",
    "demand_of",
    "requested",
    "total",
]

#: Thousandths of GPUs, as `kubesched-simulate import openb` writes them.
GPU_RESOURCE: Final = "alibabacloud.com/gpu-milli"


class Amounts(NamedTuple):
    """Amounts of four resources, each in its own unit."""

    cpu_milli: int
    memory_bytes: int
    gpu_milli: int
    pods: int

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {amount}" for name, amount in zip(self._fields, self, strict=True)
        )

    def plus(self, other: Amounts) -> Amounts:
        a, b, c, d = other
        return Amounts(self.cpu_milli + a, self.memory_bytes + b, self.gpu_milli + c, self.pods + d)

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference per resource; it may be negative."""
        a, b, c, d = other
        return Amounts(self.cpu_milli - a, self.memory_bytes - b, self.gpu_milli - c, self.pods - d)

    def fits_in(self, free: Amounts) -> bool:
        """Return True if these amounts fit, by the rule of NodeResourcesFit.

        Resources that are not requested are not compared: a node that is overcommitted in a
        resource still fits a pod that requests none of it.
        """
        return all(wanted <= left for wanted, left in zip(self, free, strict=True) if wanted)

    def beyond(self, limit: Amounts) -> list[str]:
        """Return the resources whose amounts exceed the limit, such as `cpu_milli 5 > 4`."""
        return [
            f"{name} {amount} > {most}"
            for name, amount, most in zip(self._fields, self, limit, strict=True)
            if amount > most
        ]


NOTHING: Final = Amounts(0, 0, 0, 0)


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum."""
    columns = list(zip(*amounts, strict=True))
    return Amounts(*map(sum, columns)) if columns else NOTHING


def demand_of(pod: HistoryPod) -> Amounts:
    """Return the requests of a pod of a history."""
    return requested(msgspec.convert(pod.object, HeldPod))


def capacity_of(node: HistoryNode) -> Amounts:
    """Return the capacity of a node of a history."""
    return allocatable(msgspec.convert(node.object, HeldNode))


def requested(pod: HeldPod) -> Amounts:
    """Return the requests of a pod on the server, summed over its containers."""
    amounts = [
        container.resources.requests or {}
        for container in pod.spec.containers
        if container.resources is not None
    ]
    return total(_amounts(requests, pods=0) for requests in amounts)._replace(pods=1)


def allocatable(node: HeldNode) -> Amounts:
    """Return the allocatable resources of a node on the server."""
    amounts = node.status.allocatable
    return _amounts(amounts, pods=nano_units(amounts.get("pods", "0")) // NANO)


def _amounts(quantities: Mapping[str, str], *, pods: int) -> Amounts:
    return Amounts(
        cpu_milli=nano_units(quantities.get("cpu", "0")) * 1000 // NANO,
        memory_bytes=nano_units(quantities.get("memory", "0")) // NANO,
        gpu_milli=nano_units(quantities.get(GPU_RESOURCE, "0")) // NANO,
        pods=pods,
    )
