"""The search: the same for the same seed, on any executor; a lost task is an error."""

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import pytest

from conformance.api import Json
from conformance.errors import InputError
from conformance.format.case import Case, case_of
from conformance.format.resources import objects
from conformance.fuzz import search as fuzz_search
from conformance.fuzz.campaign import Result, executor_of, search, tasks_of
from conformance.fuzz.search import Exploration, Found, Task, explore, invariant_names, shrink
from conformance.invariants import Violation
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


_IN_REAL_TIME = msgspec.structs.replace(
    _BINDS_ALL, target=TargetOptions(command="scheduler --kubeconfig {kubeconfig}"), examples=12
)


def _raws(monkeypatch: pytest.MonkeyPatch, tasks: Sequence[Task]) -> list[Json]:
    """The cases that tasks look at; none is run."""
    seen: list[Json] = []

    def looked(case: Case, _: Task) -> tuple[list[Found], str]:
        seen.append(case.raw)
        return [], ""

    monkeypatch.setattr(fuzz_search, "judged", looked)
    for task in tasks:
        assert _explored(task).examples == 1 if task.target.in_real_time else task.examples
    return seen


def test_in_real_time_a_task_is_one_case_another_each_time_and_without_a_pause_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = tasks_of(_IN_REAL_TIME)
    assert [(task.examples, task.skipped) for task in tasks[8:]] == [(1, 8), (1, 9), (1, 0), (1, 1)]
    raws = _raws(monkeypatch, tasks)
    assert len({msgspec.json.encode(raw) for raw in raws}) > 9
    for raw in raws:
        steps = objects(raw["steps"])
        assert "wait_until_settled" in steps[-1]
        assert {str(step["advance"]) for step in steps if "advance" in step} <= {"1s"}


def test_a_mistake_at_the_end_in_real_time_counts_if_it_is_there_after_a_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (case,) = [_case(raw) for raw in _raws(monkeypatch, tasks_of(_IN_REAL_TIME)[:1])]
    monkeypatch.undo()
    at_a_step = _violation("no_overcommit", "steps[0]")
    looks: list[tuple[object, tuple[str, ...]]] = []

    def looked(seen: Case, _: Task, invariants: Iterable[str], *, starves: bool) -> list[Violation]:
        looks.append((objects(seen.raw["steps"])[-2].get("advance"), tuple(invariants)))
        late = [_violation("no_pod_starved", "")] if starves or len(looks) == 1 else []
        return [*late, *([at_a_step] if len(looks) == 1 else [])]

    order = msgspec.structs.replace(_IN_REAL_TIME, invariants=("no_overcommit", "no_pod_starved"))
    for starves, found in (
        (True, ["no_overcommit", "no_pod_starved"]),
        (False, ["no_overcommit"]),
    ):
        looks.clear()
        monkeypatch.setattr(fuzz_search, "_violations", partial(looked, starves=starves))
        assert [each.invariant for each in fuzz_search.judged(case, order)[0]] == found
        assert looks[1] == ("12s", ("no_pod_starved",))


def _case(raw: Json) -> Case:
    return case_of(raw, area="fuzz", origin="here")


def _violation(invariant: str, step: str) -> Violation:
    expect: Json = {"nodes": "no_overcommit"}
    return Violation(text="wrong", step=step, expect=expect, invariant=invariant)


def test_progress_is_reported_after_each_task_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explored(task: bytes) -> bytes:
        return msgspec.json.encode(
            Exploration(examples=msgspec.json.decode(task, type=Task).examples)
        )

    monkeypatch.setattr("conformance.fuzz.campaign.explore", explored)
    task = msgspec.structs.replace(_BINDS_ALL, examples=51, invariants=())
    told: list[int] = []
    with executor_of("", workers=0) as pool:
        submit, started = pool.submit, []

        def counting(*args: object) -> object:
            started.append(len(told))
            return submit(*args)  # type: ignore[arg-type]

        pool.submit = counting  # type: ignore[method-assign,assignment]
        search(task, pool, lambda examples, _: told.append(examples))
    assert (started, told) == ([0, 1], [50, 51])


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
