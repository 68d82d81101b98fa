"""Fragmentation of single nodes, as the study's repository states it (`pkg/utils/frag_test.go`)."""

import numpy as np
import pytest

from scheduler.simulate.gpu_requests import GpuRequest
from scheduler.simulate.policies.fragmentation import Fragmentation, TypicalPod
from scheduler.simulate.study.fgd import typical_pods

#: Millis of CPU and of each GPU, GPUs, model and share in percent of frequent requests.
_WITH_GPU = (
    (6000, 465, 1, "", 9.33),
    (8000, 440, 1, "2080", 9.15),
    (8000, 475, 1, "T4", 8.76),
    (8000, 440, 1, "P100", 8.72),
    (2000, 465, 1, "", 8.68),
    (12000, 900, 1, "", 8.65),
    (4000, 900, 1, "", 8.43),
    (16000, 678, 1, "T4", 8.36),
    (8000, 500, 1, "", 8.29),
    (6000, 511, 1, "", 8.11),
    (14000, 1000, 2, "2080", 0.54),
    (4000, 1000, 1, "2080", 0.43),
    (32000, 1000, 2, "T4", 0.43),
    (16000, 1000, 1, "V100M16", 0.4),
    (64000, 1000, 2, "", 0.4),
    (10000, 1000, 2, "", 0.4),
    (11400, 1000, 1, "T4", 0.36),
    (16000, 1000, 1, "T4", 0.36),
    (4000, 1000, 2, "", 0.36),
    (14000, 1000, 2, "V100M16", 0.36),
    (8000, 1000, 4, "", 0.36),
    (16000, 1000, 2, "", 0.32),
    (2000, 1000, 1, "T4", 0.32),
    (6000, 1000, 1, "", 0.32),
    (4000, 1000, 1, "", 0.32),
    (5000, 1000, 1, "", 0.32),
    (32000, 1000, 4, "V100M16", 0.32),
    (32000, 1000, 2, "", 0.32),
    (24000, 1000, 8, "2080", 0.32),
    (40000, 1000, 4, "", 0.29),
    (32000, 1000, 8, "", 0.29),
    (32000, 1000, 1, "T4", 0.29),
    (16000, 1000, 1, "", 0.25),
    (7000, 1000, 1, "V100M16", 0.25),
    (24000, 1000, 1, "T4", 0.25),
)
_MIXED = (
    (15700, 1000, 1, "", 28.69),
    (11900, 1000, 1, "", 18.93),
    (11400, 1000, 1, "", 12.27),
    (1000, 0, 0, "", 7.36),
    (18710, 1000, 1, "", 4.85),
    (8200, 1000, 1, "", 3.79),
    (16400, 1000, 1, "", 3.31),
    (9810, 1000, 1, "", 1.97),
    (15200, 1000, 1, "", 1.87),
    (11200, 1000, 1, "", 1.81),
    (14200, 1000, 1, "", 1.76),
    (12000, 0, 0, "", 1.65),
    (14900, 1000, 1, "", 1.39),
    (60200, 1000, 4, "", 1.23),
    (64200, 1000, 8, "", 1.07),
    (32200, 1000, 4, "", 1.01),
    (17400, 1000, 2, "", 0.91),
    (30200, 1000, 2, "", 0.69),
    (16000, 1000, 1, "", 0.64),
    (15000, 1000, 1, "", 0.59),
    (64000, 1000, 8, "", 0.53),
    (15000, 0, 0, "", 0.53),
    (11910, 1000, 1, "", 0.53),
    (120200, 1000, 8, "", 0.48),
    (11300, 1000, 1, "", 0.37),
    (30000, 1000, 2, "", 0.32),
    (9800, 1000, 1, "", 0.32),
    (8000, 1000, 1, "", 0.32),
    (2000, 1000, 1, "", 0.27),
    (2000, 80, 1, "", 0.27),
    (1000, 1000, 1, "", 0.27),
)


def _typical(rows: tuple[tuple[int, int, int, str, float], ...]) -> list[TypicalPod]:
    return [
        TypicalPod(
            cpu_milli=cpu,
            gpu_milli=milli,
            gpus=gpus,
            models=(model,) if model else (),
            share=percent / 100,
        )
        for cpu, milli, gpus, model, percent in rows
    ]


def _amount(typical: list[TypicalPod], model: str, cpu_left: int, left: list[int]) -> float:
    fragmentation = Fragmentation(typical)
    padded = np.array([left + [0] * (8 - len(left))])
    accepting = fragmentation.accepting(model)[None, :]
    return float(fragmentation.of(np.array([cpu_left]), padded, accepting)[0])


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ([200, 1000, 1000, 500], 2566.62),
        ([1000, 1000, 1000, 1000], 3802.40),
        ([1000] * 8, 7604.80),
    ],
)
def test_a_node_without_cpu_is_all_fragment(left: list[int], expected: float) -> None:
    assert _amount(_typical(_WITH_GPU), "1080", 1000, left) == pytest.approx(expected, abs=0.01)


def test_idle_parts_are_weighted_by_the_share_of_the_pods() -> None:
    one = _typical(_WITH_GPU[:1])
    assert _amount(one, "1080", 1000, [200, 1000, 1000, 500]) == pytest.approx(251.91, abs=0.01)


@pytest.mark.parametrize(
    ("cpu_left", "left", "expected"),
    [
        (64000, [1000] * 8, 887.20),
        (32000, [1000] * 4 + [0] * 4, 554.4),
        (0, [1000] * 4 + [0] * 4, 4000),
    ],
)
def test_pods_without_gpu_make_all_idle_parts_fragments(
    cpu_left: int, left: list[int], expected: float
) -> None:
    assert _amount(_typical(_MIXED), "P100", cpu_left, left) == pytest.approx(expected, abs=0.01)


def test_a_gpu_with_less_than_a_pod_needs_is_a_fragment_for_that_pod() -> None:
    share = [TypicalPod(cpu_milli=1000, gpu_milli=500, gpus=1)]
    assert _amount(share, "T4", 4000, [400, 600]) == 400
    assert _amount(share, "T4", 4000, [400, 499]) == 899
    other = [TypicalPod(cpu_milli=1000, gpu_milli=500, gpus=1, models=("A10",))]
    assert _amount(other, "T4", 4000, [400, 600]) == 1000


def test_typical_pods_cover_nearly_all_pods_and_their_shares_sum_to_one() -> None:
    frequent, rare = (1000, GpuRequest(500, 1)), (2000, GpuRequest())
    pods = [frequent] * 97 + [rare] * 3
    assert typical_pods(pods) == (TypicalPod(cpu_milli=1000, gpu_milli=500, gpus=1, share=1.0),)
    both = typical_pods([frequent] * 90 + [rare] * 10)
    assert [pod.share for pod in both] == [0.9, 0.1]
