"""The search: the same for the same seed, on any executor; a lost task is an error."""

import msgspec
import pytest

from conformance.errors import InputError
from conformance.fuzz.campaign import Result, executor_of, search, tasks_of
from conformance.fuzz.search import Exploration, Found, Task, explore, invariant_names, shrink
from conformance.targets.target import TargetOptions
from tests.conformance import schedulers
from tests.conformance.cases import in_process
from tests.thoroughness import IS_THOROUGH

_EXECUTORS = "tests.conformance.fuzz.executors"
_BINDS_ALL = Task(
    target=in_process(schedulers.binds_all_to_a),
    seed=3,
    examples=4,
    invariants=("no_overcommit", "taints_respected", "hard_spread_held"),
)


def _explored(task: Task) -> Exploration:
    return msgspec.json.decode(explore(msgspec.json.encode(task)), type=Exploration)


def _search(task: Task, executor: str = "") -> Result:
    with executor_of(executor, workers=0) as pool:
        return search(task, pool, lambda *_: None)


def test_the_same_seed_finds_the_same() -> None:
    first = _explored(_BINDS_ALL)
    assert first == _explored(_BINDS_ALL)
    assert first.examples == 4
    assert first.found


def test_tasks_are_ranges_with_a_seed_each() -> None:
    tasks = tasks_of(msgspec.structs.replace(_BINDS_ALL, examples=120))
    assert [task.examples for task in tasks] == [50, 50, 20]
    assert len({task.seed for task in tasks}) == 3
    assert tasks == tasks_of(msgspec.structs.replace(_BINDS_ALL, examples=120))


@pytest.mark.slow
def test_a_found_case_is_made_small() -> None:
    task = msgspec.structs.replace(_BINDS_ALL, examples=60, invariants=("taints_respected",))
    found = msgspec.json.decode(shrink(msgspec.json.encode(task)), type=Found)
    assert found.raw["cluster"] in (
        [{"node": {"name": "a", "taints": ["dedicated=db:NoSchedule"]}}],
        [{"node": {"name": "a", "unschedulable": True}}],
    )
    assert found.raw["steps"] == [
        {"create": [{"pod": {"name": "p1"}}]},
        {"expect": {"pod": "p1", "not_bound": True}},
    ]


def test_a_scheduler_that_dies_is_found() -> None:
    task = msgspec.structs.replace(
        _BINDS_ALL,
        target=in_process(schedulers.in_disorder),
        examples=2,
        invariants=("runs_to_the_end",),
    )
    (found,) = _explored(task).found
    assert "pod p is in two queues" in found.text


def test_a_run_that_takes_too_long_in_real_time_is_no_finding() -> None:
    task = msgspec.structs.replace(
        _BINDS_ALL,
        target=TargetOptions(command="sh -c 'sleep 100' {kubeconfig}"),
        examples=1,
        timeout_seconds=0.5,
        invariants=("runs_to_the_end",),
    )
    done = _explored(task)
    assert (done.found, done.refused) == ((), ("still running after 0.5s",))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_the_executor_does_not_matter() -> None:
    task = msgspec.structs.replace(
        _BINDS_ALL, target=in_process(schedulers.in_disorder), invariants=("runs_to_the_end",)
    )
    here = _search(task)
    assert here.found
    dask = ["tests.conformance.fuzz.dask_cluster:executor"] if IS_THOROUGH else []
    for executor in (f"{_EXECUTORS}:threads", *dask):
        assert _search(task, executor).found == here.found


def test_a_lost_task_is_an_error() -> None:
    task = msgspec.structs.replace(_BINDS_ALL, examples=51, invariants=())
    result = _search(task, f"{_EXECUTORS}:losing")
    assert result.errors == ["examples 0 to 49: BrokenExecutor: machine 7 is gone"]
    assert result.examples == 1


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nonsense", "expected MODULE:FACTORY"),
        ("no_module:x", "No module named"),
        (f"{_EXECUTORS}:no_executor", "expected a concurrent.futures.Executor"),
        (f"{_EXECUTORS}:refused", "ConnectionError: no scheduler"),
    ],
)
def test_a_bad_executor_is_invalid_input(reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message), executor_of(reference, workers=0):
        pass


def test_names_of_invariants() -> None:
    assert invariant_names("no_overcommit, taints_respected") == (
        "no_overcommit",
        "taints_respected",
    )
    assert "runs_to_the_end" in invariant_names("")
    with pytest.raises(InputError, match="got no_such"):
        invariant_names("no_such")
