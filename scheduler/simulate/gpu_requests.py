"""The request of a pod for GPUs, and the GPUs of a node, by their annotations and labels."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Node

#: Annotations of a pod: thousandths of each GPU, the number of GPUs, and models separated by `|`.
#: The last annotation has the indexes of the GPUs, separated by `-`, once they are chosen.
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_COUNT: Final = "alibabacloud.com/gpu-count"
GPU_MODEL: Final = "alibabacloud.com/gpu-card-model"
GPU_INDEX: Final = "alibabacloud.com/gpu-index"

#: The whole of a GPU.
WHOLE: Final = 1000
#: The largest node of the study: thousandths of a core, and of a GPU.
CPU_MAX: Final = 128_000
GPU_MAX: Final = 8_000
#: The most GPUs of a node.
GPUS_MAX: Final = GPU_MAX // WHOLE


class GpuRequest(NamedTuple):
    """A request for GPUs: a share of one GPU, or whole GPUs.

    `milli` are thousandths of each of the GPUs. Without `models` every model will do.
    """

    milli: int = 0
    gpus: int = 0
    models: frozenset[str] = frozenset()

    @property
    def is_share(self) -> bool:
        return self.gpus == 1 and self.milli < WHOLE

    @property
    def total(self) -> int:
        """The thousandths of all GPUs together."""
        return self.milli * self.gpus

    @property
    def kind(self) -> int:
        """The number of whole GPUs; 0 for a share of whatever size."""
        return 0 if self.is_share else self.gpus


NO_GPU: Final = GpuRequest()


def gpu_request(annotations: Mapping[str, str]) -> GpuRequest:
    """Return the request of a pod with these annotations. Raises ValueError for a bad one."""
    if GPU_MILLI not in annotations:
        return NO_GPU
    count, models = annotations.get(GPU_COUNT, "1"), annotations.get(GPU_MODEL, "")
    return _parsed(annotations[GPU_MILLI], count, models)


@functools.lru_cache(maxsize=4096)
def _parsed(milli: str, count: str, models: str) -> GpuRequest:
    request = GpuRequest(
        _number(GPU_MILLI, milli, WHOLE),
        _number(GPU_COUNT, count, GPUS_MAX),
        frozenset(model for model in models.split("|") if model),
    )
    if request.gpus > 1 and request.milli < WHOLE:
        raise ValueError(f"{GPU_MILLI}: expected {WHOLE} for {count} GPUs, got {milli}")
    return request if request.total else NO_GPU


def _number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise ValueError(f"{name}: expected an integer from 0 to {most}, got {text!r}")
    return int(text)


def gpu_model(node: Node) -> str | None:
    """Return the model of a node's GPUs; None for a node without the label."""
    return node.metadata.labels.get(GPU_MODEL)


def gpu_count(node: Node) -> int:
    """Return the number of GPUs of a node. Raises ValueError for a bad one."""
    return _number(GPU_COUNT, str(node.status.allocatable.get(GPU_COUNT, "0")), GPUS_MAX)
