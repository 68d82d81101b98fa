"""Cost models: the price of a pod on each of some nodes, as the nodes look in a dry run.

A model is a function of a pod and a dry run (`CostModel`). It is called with the nodes as they are,
with one pod of the class on each, with two, and so on: the i-th pod of a class costs what the node
looks like with i - 1 pods. The lower, the better; negative costs are allowed.

The models after the first follow those of Firmament and Quincy. They see the requests of pods, not
the measured use of machines, which the scheduler does not know.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from scheduler.api import resources
from scheduler.api.quantity import parse_quantity, value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.flow.args import FlowPlacementArgs
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: The cost of a full node, where a cost is a share of the node.
_WHOLE: Final = 1000
_MEBIBYTE: Final = 2**20


class CostModel(Protocol):
    """Prices a pod on nodes."""

    def __call__(self, pod: PodInfo, worlds: Worlds) -> IntArray:
        """Return an integer for each of `worlds.nodes`, which have the pods planned so far."""


def profile_scores(pod: PodInfo, worlds: Worlds) -> IntArray:
    """Return the profile's scores, negated: the sum of the weighted scores of all its plugins."""
    return -worlds.run_scores()


def octopus(pod: PodInfo, worlds: Worlds) -> IntArray:
    """Return the number of pods on the node: pods are spread by their number alone."""
    return worlds.nodes.pod_count.astype(np.int64)


def cpu_memory(pod: PodInfo, worlds: Worlds) -> IntArray:
    """Return the mean share of cpu and memory that is requested, and the shares' variance.

    The shares include the pod. A node whose cpu is full while its memory is free costs more than a
    node with the same mean on which both are half full.
    """
    nodes, requests = worlds.nodes, pod.requests
    cpu = _share(nodes, resources.CPU, requests[resources.CPU])
    memory = _share(nodes, resources.MEMORY, requests[resources.MEMORY])
    mean, half_difference = (cpu + memory) // 2, (cpu - memory) // 2
    # Both shares are in thousandths, so their variance is in millionths.
    return mean + half_difference**2 // _WHOLE


def _share(nodes: Nodes, resource: str, request: int) -> IntArray:
    """Return the share of a resource that is requested with the pod, in thousandths."""
    used = nodes.requested(resource) + request
    return used * _WHOLE // np.maximum(nodes.allocatable(resource), 1)


class Locality:
    """Quincy's price: the data that must be fetched, in MiB; from another rack they count double.

    An annotation of the pod names the nodes with its data: `node-a=10Gi,node-b=512Mi`. A pod
    without data costs the same everywhere; so does one whose annotation cannot be read, which is
    logged.
    """

    def __init__(self, handle: Handle, args: FlowPlacementArgs) -> None:
        self._snapshot: Final = handle.snapshot
        self._annotation: Final = args.data_annotation
        self._rack_label: Final = args.rack_label

    def __call__(self, pod: PodInfo, worlds: Worlds) -> IntArray:
        of_node = self._data_of(pod)
        of_rack: dict[str, int] = {}
        for name, mebibytes in of_node.items():
            if name in self._snapshot:
                rack = self._snapshot.get(name).labels.get(self._rack_label, "")
                of_rack[rack] = of_rack.get(rack, 0) + mebibytes
        local = worlds.nodes.name_codes.map(of_node)
        in_rack = np.maximum(worlds.nodes.labels(self._rack_label).map(of_rack), local)
        return 2 * (sum(of_node.values()) - in_rack) + (in_rack - local)

    def _data_of(self, pod: PodInfo) -> dict[str, int]:
        """Return the MiB of the pod's data by node."""
        text = pod.annotations.get(self._annotation, "")
        try:
            parts = (part.split("=") for part in text.split(",") if part.strip())
            return {n.strip(): value(parse_quantity(q.strip())) // _MEBIBYTE for n, q in parts}
        except ValueError as error:
            _log.warning(
                'pod %s: annotation %s: expected "NODE=QUANTITY,...", got "%s": %s',
                pod.key, self._annotation, text, error,
            )  # fmt: skip
            return {}


class Network:
    """The price of bandwidth: the share of the node's bandwidth that is requested with the pod.

    Bandwidth is an extended resource, so that NodeResourcesFit rejects nodes with too little.
    """

    def __init__(self, handle: Handle, args: FlowPlacementArgs) -> None:
        self._resource: Final = args.bandwidth_resource

    def __call__(self, pod: PodInfo, worlds: Worlds) -> IntArray:
        share = _share(worlds.nodes, self._resource, pod.requests[self._resource])
        return np.where(worlds.nodes.allocatable(self._resource) > 0, share, _WHOLE)


#: The models by the name in the arguments.
COST_MODELS: Final[Mapping[str, Callable[[Handle, FlowPlacementArgs], CostModel]]] = {
    "ProfileScores": lambda handle, args: profile_scores,
    "Octopus": lambda handle, args: octopus,
    "CpuMemory": lambda handle, args: cpu_memory,
    "Locality": Locality,
    "Network": Network,
}
