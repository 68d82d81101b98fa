"""Invariants of queues over random histories."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples

from .histories import History, JobSpec, Step, complaints, histories, random_history
from .test_plugin import bound, group, pods


@settings(max_examples=examples(50))
@given(history=histories)
def test_queues_keep_their_promises(history: History) -> None:
    assert complaints(history) == []


def test_two_gangs_that_do_not_fit_do_not_wake_one_another_for_ever() -> None:
    gang = JobSpec(queue=0, pods=5, least=5, cpu=2, memory=1, priority="")
    other = gang._replace(pods=4, least=4, cpu=1)
    steps = tuple(Step(job, ()) for job in (gang, other))
    assert complaints(History(weights=(4, 4), nodes=(3,), steps=steps)) == []
    assert complaints(random_history(1179)) == []


@pytest.mark.parametrize("seed", [5765, 6852])
def test_a_gang_that_starves_does_not_wake_itself_for_ever(seed: int) -> None:
    assert complaints(random_history(seed)) == []


def test_a_queue_gives_back_a_resource_although_it_has_too_little_of_another() -> None:
    assert complaints(random_history(5726)) == []


@pytest.mark.parametrize("seed", [592, 5806, 7047, 9887])
def test_a_job_that_starves_keeps_no_queue_from_its_share(seed: int) -> None:
    assert complaints(random_history(seed)) == []


def test_a_job_of_high_priority_does_not_wait_for_one_that_starves() -> None:
    assert complaints(random_history(9443)) == []


def test_a_queue_with_its_share_of_one_resource_takes_no_idle_room_by_evictions() -> None:
    """Else queues that each have too much of another resource evict each other in turns."""
    assert complaints(random_history(138)) == []


@settings(max_examples=examples(25))
@given(
    count=st.integers(1, 6),
    cpu=st.integers(1, 3),
    least=st.integers(1, 3),
    order=st.permutations(range(3)),
)
async def test_between_equals_the_creation_decides(
    count: int, cpu: int, least: int, order: list[int]
) -> None:
    groups: list[Any] = []
    created: list[Any] = []
    for number in order:
        groups.append({**group(f"j{number}", least=least), "created": number})
        created += pods(f"j{number}", count, str(cpu))
    running = await bound(podGroups=groups, pods=created)
    assert sorted(running.values(), reverse=True) == [running[f"j{n}"] for n in range(3)]
