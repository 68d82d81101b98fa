"""Fragmentation: the idle GPU parts that the typical pods cannot use.

For one node and one typical pod these are all idle parts, if the pod needs no GPU or does not fit;
otherwise the idle parts of the GPUs that have less than the pod needs of each GPU. The node's
fragmentation is the mean over the typical pods, weighted by their shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from scheduler.api.resources import CPU
from scheduler.simulate.gpu_requests import gpu_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scheduler.simulate.policies.gpu_shares import GpuShares
    from scheduler.snapshot.columns import BoolArray, IntArray
    from scheduler.snapshot.nodes import Nodes


class TypicalPod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that is frequent: its `share` of all pods, from 0 to 1."""

    cpu_milli: int
    gpu_milli: int = 0
    gpus: int = 0
    models: tuple[str, ...] = ()
    share: float = 1.0


class Fragmentation:
    """Computes the fragmentation of nodes for typical pods.

    Terms are added as in the study's program, in six sums, one for each cause: equal fragmentation
    is then exactly equal, and scores tie where the study's tie.
    """

    def __init__(self, typical: Sequence[TypicalPod]) -> None:
        self._models: Final = [frozenset(pod.models) for pod in typical]
        self._shares: Final = np.array([pod.share for pod in typical])
        self._cpus: Final = np.array([pod.cpu_milli for pod in typical], dtype=np.int64)
        self._gpus: Final = np.array([pod.gpus for pod in typical], dtype=np.int64)
        self._millis, self._milli_of = np.unique(
            np.array([pod.gpu_milli for pod in typical], dtype=np.int64), return_inverse=True
        )
        self._accepting: Final[dict[str | None, BoolArray]] = {}

    def accepting(self, model: str | None) -> BoolArray:
        """Return True for the typical pods that accept a GPU model."""
        accepting = self._accepting.get(model)
        if accepting is None:
            accepting = np.array([not m or model in m for m in self._models], dtype=np.bool_)
            self._accepting[model] = accepting
        return accepting

    def of(self, cpu_left: IntArray, left: IntArray, accepting: BoolArray) -> NDArray[np.float64]:
        """Return the fragmentation of nodes, in thousandths of a GPU.

        `left` has the idle parts of each node's GPUs, `accepting` the result of `self.accepting`
        for the model of each node.
        """
        has_room = left[:, :, None] >= self._millis
        fitting = has_room.sum(axis=1)[:, self._milli_of]
        total = left.sum(axis=1)
        unusable = (total[:, None] - np.einsum("rg,rgm->rm", left, has_room))[:, self._milli_of]
        lacks_cpu = cpu_left[:, None] < self._cpus
        lacks_gpu = fitting < self._gpus
        without_gpu = self._gpus == 0
        fits = ~(without_gpu | lacks_cpu | lacks_gpu) & accepting
        amounts = self._shares * np.where(fits, unusable, total[:, None])
        with_gpu = ~without_gpu & accepting
        causes = (
            with_gpu & lacks_gpu & lacks_cpu,
            fits | (with_gpu & lacks_gpu & ~lacks_cpu),
            with_gpu & ~lacks_gpu & lacks_cpu,
            without_gpu & ~lacks_cpu,
            without_gpu & lacks_cpu,
            ~without_gpu & ~accepting,
        )
        sums = np.zeros(len(total))
        for cause in causes:
            # Unlike `sum`, `cumsum` adds one term after another.
            sums += np.where(cause, amounts, 0.0).cumsum(axis=1)[:, -1]
        return sums


class FragmentationColumn:
    """The fragmentation of all nodes, kept up to date as pods come and go."""

    def __init__(self, fragmentation: Fragmentation, shares: GpuShares) -> None:
        self._fragmentation: Final = fragmentation
        self._shares: Final = shares
        self._version: IntArray = np.zeros(0, dtype=np.int64)
        self.values: NDArray[np.float64] = np.zeros(0)
        self.accepting: BoolArray = np.zeros((0, 0), dtype=np.bool_)

    def update(self, nodes: Nodes) -> None:
        """Compute the changed rows again. `nodes` are all nodes of the snapshot."""
        version = self._shares.version
        if len(self._version) != len(version) or (version > self._version).all():
            self.values, self._version = np.zeros(len(version)), np.zeros_like(version)
            models = (gpu_model(info.node) for info in nodes)
            self.accepting = np.array([self._fragmentation.accepting(m) for m in models])
        rows = np.flatnonzero(version != self._version)
        if len(rows):
            self.values[rows] = self._fragmentation.of(
                nodes.take(rows).unrequested(CPU), self._shares.left[rows], self.accepting[rows]
            )
            self._version[rows] = version[rows]
