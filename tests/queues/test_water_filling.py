"""The deserved amounts of queues, against linear programs."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.queues.water_filling import Demand, deserved, deserved_together, fill

from .max_min import max_min_shares


def test_what_a_queue_does_not_need_goes_to_the_others_by_weight() -> None:
    shares = deserved(
        {"cpu": 12_000},
        {
            "a": Demand(1, {"cpu": 1_000}),
            "b": Demand(1, {"cpu": 9_000}),
            "c": Demand(2, {"cpu": 20_000}),
        },
    )
    assert shares["a"]["cpu"] == 1_000
    assert shares["b"]["cpu"] == pytest.approx(11_000 / 3)
    assert shares["c"]["cpu"] == pytest.approx(22_000 / 3)


def test_each_resource_is_shared_by_itself() -> None:
    demands = {
        "a": Demand(1, {"cpu": 9_000, "memory": 10}),
        "b": Demand(1, {"cpu": 9_000, "memory": 90}),
    }
    total = {"cpu": 10_000, "memory": 60}
    assert deserved(total, demands)["b"] == {"cpu": 5_000, "memory": 50}
    assert deserved_together(total, demands)["b"]["memory"] == 30


def test_a_queue_without_weight_deserves_nothing() -> None:
    assert fill(100, {"a": 0, "b": 1}, {"a": 50, "b": 500}) == {"a": 0, "b": 100}


_amounts = st.integers(0, 10**6)


@settings(max_examples=100)
@given(
    room=st.integers(0, 3 * 10**6),
    queues=st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 10), _amounts), min_size=1
    ),
)
def test_shares_are_max_min_fair_to_a_unit(
    room: int, queues: Mapping[str, tuple[int, int]]
) -> None:
    weights = {queue: weight for queue, (weight, _) in queues.items()}
    requests = {queue: request for queue, (_, request) in queues.items()}
    shares = fill(room, weights, requests)
    assert sum(shares.values()) <= room * (1 + 1e-9)
    wanted = max_min_shares(room, weights, requests)
    assert {q for q in shares if abs(shares[q] - wanted[q]) > 1} == set(), (shares, wanted)
