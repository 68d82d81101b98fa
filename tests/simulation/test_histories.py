"""Any history: the invariants of the scheduler hold, and all pods are done at the end."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scheduler.config import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
)
from tests.thoroughness import SEED, examples

from .generator import (
    DEVICE_WEIGHTS,
    WEIGHTS,
    device_step,
    histories,
    random_device_history,
    random_history,
)
from .simulation import History, simulate, verbs

#: Long enough for things to meet, short enough to be understood when they do.
STEPS_MAX = 40
#: A history so long that the queue and the cache have seen much.
STEPS = examples(3000)
GANGS = (GENERIC_WORKLOAD, GANG_SCHEDULING)
#: The gates of pod groups that are on: all sets of them that upstream allows and that differ most.
GATES = (
    (*GANGS, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, WORKLOAD_AWARE_PREEMPTION),
    GANGS,
    (GENERIC_WORKLOAD,),
    (*GANGS, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING),
    (*GANGS, WORKLOAD_AWARE_PREEMPTION),
    (),
)
SETTINGS = settings(
    max_examples=examples(300),
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_everything_that_can_happen_does() -> None:
    assert DEVICE_WEIGHTS.keys() == verbs()
    assert WEIGHTS.keys() < verbs()


@pytest.mark.parametrize("gates", GATES, ids=len)
def test_all_is_well_after_a_few_short_histories(gates: tuple[str, ...]) -> None:
    for seed in range(2):
        simulate(random_history(seed, STEPS_MAX), seed=seed, feature_gates=gates)


@pytest.mark.parametrize("gates", [(), GATES[0]], ids=len)
def test_all_is_well_after_a_few_short_histories_with_devices(gates: tuple[str, ...]) -> None:
    allocated = 0
    for seed in range(10):
        history = random_device_history(seed, STEPS_MAX)
        simulation = simulate(history, seed=seed, feature_gates=gates)
        allocated += simulation.writes.made["claim_status"]
    assert allocated > 10


@pytest.mark.slow
@SETTINGS
@given(history=histories(STEPS_MAX, device_step), gates=st.sampled_from(GATES))
def test_all_is_well_after_any_history_with_devices(
    history: History, gates: tuple[str, ...]
) -> None:
    simulate(history, feature_gates=gates)


@pytest.mark.slow
def test_all_is_well_after_many_steps_with_devices() -> None:
    simulate(random_device_history(SEED, STEPS), seed=SEED)


@pytest.mark.slow
@SETTINGS
@given(history=histories(STEPS_MAX), gates=st.sampled_from(GATES))
def test_all_is_well_after_any_history(history: History, gates: tuple[str, ...]) -> None:
    simulate(history, feature_gates=gates)


@pytest.mark.slow
@pytest.mark.parametrize("gates", GATES[:3], ids=len)
def test_all_is_well_after_many_steps(gates: tuple[str, ...]) -> None:
    simulate(random_history(SEED, STEPS), seed=SEED, feature_gates=gates)


@pytest.mark.slow
def test_a_history_runs_the_same_way_again() -> None:
    history = random_history(5, 150)
    first, second = simulate(history, seed=5), simulate(history, seed=5)
    assert first.store.pods.changes == second.store.pods.changes
    assert first.clock.now() == second.clock.now()
