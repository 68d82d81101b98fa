"""The flow network, and its solution of minimum cost by HiGHS.

    source --pods--> class --cost--> slot --1--> sink
                       `---> unscheduled, one node for each priority ---> sink

A unit of flow is a pod. A slot holds one pod; an arc from a class to a slot has the cost of a pod
of the class there. As many pods as possible get a slot: first of the highest priority, then of the
next. Among all such flows the cheapest one is chosen.
The constraints of a flow are totally unimodular: every basic solution of the linear program has
whole numbers, and the simplex method returns a basic solution.
"""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

try:
    import highspy
    from highspy._core import _Highs
except ImportError as error:
    text = f"FlowPlacement needs the package highspy: pip install 'kubesched[flow]' ({error})"
    raise ImportError(text) from error

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from scheduler.snapshot.columns import FloatArray, IntArray

#: The time between two looks at the solver.
_WAIT_SECONDS: Final = 0.01


class Network(NamedTuple):
    """A network. Classes and slots are numbered from 0; the arcs are three arrays."""

    #: The number of pods of each class, and their priority.
    supplies: Sequence[int]
    priorities: Sequence[int]
    num_slots: int
    #: The class, the slot and the cost of each arc.
    classes: IntArray
    slots: IntArray
    costs: IntArray


class NoSolutionError(Exception):
    """The solver has failed; the text is its status."""


def solve_in_steps(network: Network) -> Generator[None, None, IntArray]:
    """Return `min_cost_flow` of a network; pause while the solver works.

    HiGHS cannot be interrupted, and works for seconds on 400,000 arcs. It runs in a thread, over
    values that do not change; other threads run meanwhile.
    """
    pool = concurrent.futures.ThreadPoolExecutor(1, "flow")
    try:
        solution = pool.submit(min_cost_flow, network)
        while concurrent.futures.wait((solution,), _WAIT_SECONDS).not_done:
            yield
        return solution.result()
    finally:
        pool.shutdown(wait=False)


def min_cost_flow(network: Network) -> IntArray:
    """Return the flow on each arc, 0 or 1. Raises `NoSolutionError`."""
    if not len(network.costs):
        return np.zeros(0, dtype=np.int64)
    priorities = sorted({*network.priorities}, reverse=True)
    program = _Program(network, priorities)
    for level in range(len(priorities) - 1):
        # The pods of a priority that no flow places are a bound for the flows after it.
        program.fix_unscheduled(level, program.unscheduled_of(program.solve(level), level))
    flow = program.solve(len(priorities) - 1)
    return np.rint(flow[: len(network.costs)]).astype(np.int64)


class _Program:
    """The linear program: a column per arc, then one per class for pods that stay unscheduled.

    The rows are the classes, the slots, and the priorities with the pods left unscheduled.
    """

    def __init__(self, network: Network, priorities: Sequence[int]) -> None:
        num_classes, num_arcs = len(network.supplies), len(network.costs)
        self._num_arcs = num_arcs
        self._first_level_row = num_classes + network.num_slots
        levels = [priorities.index(priority) for priority in network.priorities]
        self._levels = np.array(levels, dtype=np.int64)
        self._costs = network.costs.astype(np.float64)
        # Another pod with a slot is worth more than any change of the costs of all others.
        spread = float(self._costs.max() - self._costs.min()) + 1.0
        self._unscheduled_cost = float(self._costs.max()) + spread * sum(network.supplies)
        self._solver = _silent_solver()
        self._solver.passModel(_model(network, self._levels, len(priorities)))

    def solve(self, last_level: int) -> FloatArray:
        """Return the values of all columns, with pods of lower priorities of no account."""
        counted = self._levels[: len(self._levels)] <= last_level
        costs = np.concatenate((self._costs, np.where(counted, self._unscheduled_cost, 0.0)))
        columns = np.arange(len(costs), dtype=np.int32)
        self._solver.changeColsCost(len(costs), columns, costs)
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise NoSolutionError(f"HiGHS: {self._solver.modelStatusToString(status)}")
        return np.array(self._solver.getSolution().col_value)

    def unscheduled_of(self, values: FloatArray, level: int) -> float:
        """Return the number of pods of a priority without a slot."""
        return float(np.rint(values[self._num_arcs :][self._levels == level].sum()))

    def fix_unscheduled(self, level: int, count: float) -> None:
        """Let no more pods of a priority stay unscheduled."""
        self._solver.changeRowBounds(self._first_level_row + level, 0.0, count)


def _silent_solver() -> _Highs:
    """Return a solver that prints nothing and gives equal answers to equal programs.

    `highspy.Highs` prints a line when it is created, and solves in a thread.
    """
    solver = _Highs()
    for option, value in (("output_flag", False), ("solver", "simplex")):
        solver.setOptionValue(option, value)
    return solver


def _model(network: Network, levels: IntArray, num_levels: int) -> highspy.HighsLp:
    """Return the program without costs, column by column."""
    num_classes, num_arcs = len(network.supplies), len(network.costs)
    first_level_row = num_classes + network.num_slots
    supplies = np.array(network.supplies, dtype=np.float64)
    model = highspy.HighsLp()
    model.num_col_ = num_arcs + num_classes
    model.num_row_ = first_level_row + num_levels
    model.col_cost_ = np.zeros(model.num_col_)
    model.col_lower_ = np.zeros(model.num_col_)
    model.col_upper_ = np.concatenate((np.ones(num_arcs), supplies))
    of_level = np.bincount(levels, weights=supplies, minlength=num_levels)
    model.row_lower_ = np.concatenate((supplies, np.zeros(network.num_slots + num_levels)))
    model.row_upper_ = np.concatenate((supplies, np.ones(network.num_slots), of_level))
    # Each column has two entries: its class, and its slot or its priority.
    arcs = np.column_stack((network.classes, num_classes + network.slots))
    unscheduled = np.column_stack((np.arange(num_classes), first_level_row + levels))
    rows = np.concatenate((arcs, unscheduled)).ravel()
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(model.num_col_ + 1, dtype=np.int32) * 2
    model.a_matrix_.index_ = rows.astype(np.int32)
    model.a_matrix_.value_ = np.ones(len(rows))
    return model
