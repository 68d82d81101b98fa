"""The typical pods of a trace, by which fragmentation is measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.simulate.policies.fragmentation import TypicalPod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.simulate.gpu_requests import GpuRequest


def typical_pods(
    requests: Iterable[tuple[int, GpuRequest]], *, coverage: float = 0.95
) -> tuple[TypicalPod, ...]:
    """Return the most frequent requests (CPU and GPU) that cover this part of the pods.

    Of equally frequent ones the larger goes first.
    """
    counts = Counter(requests)
    models = {request: "|".join(sorted(request[1].models)) for request in counts}
    ordered = sorted(
        counts, key=lambda each: (counts[each], each[0], *each[1][:2], models[each]), reverse=True
    )
    chosen, covered = [], 0
    for each in ordered:
        if covered >= coverage * counts.total():
            break
        chosen.append(each)
        covered += counts[each]
    return tuple(
        TypicalPod(
            cpu_milli=cpu,
            gpu_milli=gpu.milli,
            gpus=gpu.gpus,
            models=tuple(sorted(gpu.models)),
            share=(counts[cpu, gpu] / counts.total()) / (covered / counts.total()),
        )
        for cpu, gpu in chosen
    )
