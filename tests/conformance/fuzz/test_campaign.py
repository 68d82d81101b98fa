"""A search on an executor that answers as it likes: what counts as found, and what as an error."""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from conformance.errors import InputError
from conformance.fuzz.campaign import Interrupted, Result, executor_of, search
from conformance.fuzz.search import Exploration, Found, Task, explore
from conformance.targets.target import TargetOptions

#: Two tasks of an executor: 50 examples, and one.
_TWO_TASKS = Task(target=TargetOptions(), seed=1, examples=51, invariants=("no_overcommit",))


class _Scripted(concurrent.futures.Executor):
    """Answers each exploration and each shrinking with the next value, or with the next error."""

    def __init__(self, explorations: list[object], shrinkings: list[object]) -> None:
        self._explorations, self._shrinkings = iter(explorations), iter(shrinkings)

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        answer = next(self._explorations if fn is explore else self._shrinkings)
        if isinstance(answer, RuntimeError):
            raise answer
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(msgspec.json.encode(answer))
        return future


def _found(size: int, invariant: str = "no_overcommit") -> Found:
    return Found(invariant=invariant, text="wrong", raw={"steps": [], "name": "x" * size})


def _explored(*found: Found) -> Exploration:
    return Exploration(examples=10, found=found)


def _search(explorations: list[object], shrinkings: list[object]) -> Result:
    return search(_TWO_TASKS, _Scripted(explorations, shrinkings), lambda *_: None)


@pytest.mark.parametrize(
    ("shrinking", "kept", "errors"),
    [
        (_found(1), _found(1), []),
        (_found(9), _found(5), []),
        # Not found again.
        (None, _found(5), []),
        (
            ConnectionError("machine 7 is gone"),
            _found(5),
            ["shrinking no_overcommit: ConnectionError: machine 7 is gone"],
        ),
        # The executor takes nothing any more.
        (
            RuntimeError("shut down"),
            _found(5),
            ["shrinking no_overcommit: RuntimeError: shut down"],
        ),
    ],
)
def test_the_smaller_case_is_kept(shrinking: object, kept: Found, errors: list[str]) -> None:
    result = _search([_explored(_found(5)), _explored()], [shrinking])
    assert (result.found, result.errors) == ({"no_overcommit": kept}, errors)
    assert result.examples == 20


def test_the_case_of_the_first_task_is_made_small() -> None:
    result = _search([_explored(_found(5)), _explored(_found(3))], [None])
    assert result.found == {"no_overcommit": _found(5)}


def test_a_target_that_cannot_be_run_ends_the_search() -> None:
    with pytest.raises(InputError, match="no such target"):
        _search([InputError("no such target"), _explored()], [])


def test_an_interrupted_search_has_what_was_found() -> None:
    with pytest.raises(Interrupted) as interrupted:
        _search([_explored(_found(5)), KeyboardInterrupt()], [])
    assert interrupted.value.result.found == {"no_overcommit": _found(5)}


def test_without_workers_a_failure_belongs_to_its_task() -> None:
    with executor_of("", workers=0) as pool:
        future = pool.submit(int, "nonsense")
        assert pool.submit(int, "7").result() == 7
    assert isinstance(future.exception(), ValueError)
