"""The flow of minimum cost, judged by networkx."""

from __future__ import annotations

import concurrent.futures
import random
import threading
from collections.abc import Generator

import highspy
import networkx
import numpy as np
import pytest

from scheduler.flow.network import Network, min_cost_flow, solve_in_steps
from scheduler.snapshot.columns import IntArray
from tests.thoroughness import IS_THOROUGH


def _network(seed: int, *, priorities: int = 1) -> Network:
    rng = random.Random(seed)
    num_classes, num_slots = rng.randint(1, 8), rng.randint(1, 30)
    arcs = [
        (number, slot, rng.randint(-300, 300))
        for number in range(num_classes)
        for slot in range(num_slots)
        if rng.random() < 0.5
    ]
    columns = np.array(arcs, dtype=np.int64).reshape(-1, 3).T
    return Network(
        supplies=[rng.randint(1, 5) for _ in range(num_classes)],
        priorities=[rng.randrange(priorities) for _ in range(num_classes)],
        num_slots=num_slots,
        classes=columns[0],
        slots=columns[1],
        costs=columns[2],
    )


def _optimum(network: Network) -> tuple[int, int]:
    """Return the largest number of pods with a slot, and the least cost, by networkx."""
    dear = 10**6
    graph = networkx.DiGraph()
    graph.add_node("sink", demand=sum(network.supplies))
    for number, pods in enumerate(network.supplies):
        graph.add_node(("class", number), demand=-pods)
        graph.add_edge(("class", number), "sink", weight=dear, capacity=pods)
    for slot in range(network.num_slots):
        graph.add_edge(("slot", slot), "sink", weight=0, capacity=1)
    for number, slot, cost in zip(network.classes, network.slots, network.costs, strict=True):
        ends = ("class", int(number)), ("slot", int(slot))
        graph.add_edge(*ends, weight=int(cost), capacity=1)
    total, _ = networkx.network_simplex(graph)
    left_out = round(total / dear)
    return sum(network.supplies) - left_out, total - left_out * dear


@pytest.mark.parametrize("seed", range(1000 if IS_THOROUGH else 30))
def test_the_optimum_is_that_of_another_solver(seed: int) -> None:
    network = _network(seed)
    flow = min_cost_flow(network)
    assert np.bincount(network.slots, weights=flow).max(initial=0) <= 1
    of_class = np.bincount(network.classes, weights=flow, minlength=len(network.supplies))
    assert (of_class <= network.supplies).all()
    assert (int(flow.sum()), int(flow @ network.costs)) == _optimum(network)


def test_a_pod_of_high_priority_gets_the_slot_that_a_cheaper_one_wants() -> None:
    columns = np.array([(0, 0, 1), (1, 0, 100)]).T
    network = Network([1, 1], [0, 7], 1, *columns)
    assert min_cost_flow(network).tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(200 if IS_THOROUGH else 20))
def test_no_pod_of_low_priority_costs_one_of_high_priority_its_slot(seed: int) -> None:
    network = _network(seed, priorities=3)
    flow = min_cost_flow(network)
    priority = np.array(network.priorities)[network.classes]
    for least in (2, 1, 0):
        high = [c for c, p in enumerate(network.priorities) if p >= least]
        alone = network._replace(
            supplies=[pods if number in high else 0 for number, pods in enumerate(network.supplies)]
        )
        assert int(flow[priority >= least].sum()) == _optimum(alone)[0]


def test_a_network_without_arcs_has_no_flow() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert min_cost_flow(Network([3], [0], 0, nothing, nothing, nothing)).tolist() == []


def test_a_process_that_has_begun_highs_with_other_threads_gets_its_flow() -> None:
    def solve() -> IntArray:
        other = highspy.Highs()  # type: ignore[no-untyped-call]
        other.silent()
        other.setOptionValue("threads", 2)
        other.addVariable(lb=0, obj=1)
        other.run()
        return min_cost_flow(_network(1))

    # HiGHS keeps its workers for each thread.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(solve).result().tolist() == min_cost_flow(_network(1)).tolist()


def test_the_caller_goes_on_while_the_solver_works(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def solve(network: Network) -> IntArray:
        assert may_end.wait(60)
        return min_cost_flow(network)

    monkeypatch.setattr("scheduler.flow.network.min_cost_flow", solve)
    steps = solve_in_steps(_network(1))
    solutions: list[IntArray] = []

    def follow() -> Generator[None, None, None]:
        solutions.append((yield from steps))

    for _ in follow():
        may_end.set()
    assert [solution.tolist() for solution in solutions] == [min_cost_flow(_network(1)).tolist()]
