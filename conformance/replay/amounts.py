"""Requests and capacities as exact integers, for the verifier and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..format.resources import NANO, amounts, pod_requests
from .held import HeldNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .held import HeldPod
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


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum."""
    columns = list(zip(*parts, strict=True))
    return Amounts(*map(sum, columns)) if columns else NOTHING


def demand_of(pod: HistoryPod) -> Amounts:
    """Return the requests of a pod of a history."""
    return _in_units(pod_requests(pod.object), pods=1)


def capacity_of(node: HistoryNode) -> Amounts:
    """Return the capacity of a node of a history."""
    return allocatable(msgspec.convert(node.object, HeldNode))


def requested(pod: HeldPod) -> Amounts:
    """Return the requests of a pod on the server."""
    return _in_units(pod_requests({"spec": msgspec.to_builtins(pod.spec)}), pods=1)


def allocatable(node: HeldNode) -> Amounts:
    """Return the allocatable resources of a node on the server."""
    nano = amounts(node.status.allocatable)
    return _in_units(nano, pods=nano["pods"] // NANO)


def _in_units(nano: Mapping[str, int], *, pods: int) -> Amounts:
    return Amounts(
        cpu_milli=nano.get("cpu", 0) * 1000 // NANO,
        memory_bytes=nano.get("memory", 0) // NANO,
        gpu_milli=nano.get(GPU_RESOURCE, 0) // NANO,
        pods=pods,
    )
