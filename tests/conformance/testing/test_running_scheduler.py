"""`RunningScheduler`: a scheduler beside a server of the test's own, in real time."""

import pytest

from conformance.errors import TargetError
from conformance.targets.target import TargetOptions
from conformance.testing import RunningScheduler
from fakeapi import BackgroundServer

from .. import schedulers
from ..cases import in_process

OBJECTS = [{"node": {"name": "a"}}]


def test_a_scheduler_is_checked_while_it_runs() -> None:
    with BackgroundServer() as server:
        running = RunningScheduler(server, target=TargetOptions(), objects=OBJECTS)
        with pytest.raises(
            RuntimeError, match="the scheduler is not running: use it inside `with`"
        ):
            running.log()
        with running:
            running.check()
            assert running.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("scheduler", "problem"),
    [
        (schedulers.does_not_start, r"did not start: profiles\[0\]: unknown plugin Foo"),
        (schedulers.fails_when_stopped, "failed: RuntimeError: left in a mess"),
    ],
)
def test_a_failure_is_raised_where_the_scheduler_is_used(scheduler: object, problem: str) -> None:
    target = in_process(scheduler)  # type: ignore[arg-type]
    with (
        BackgroundServer() as server,
        pytest.raises(TargetError, match=problem),
        RunningScheduler(server, target=target, objects=OBJECTS),
    ):
        pass


def test_a_failure_of_the_test_itself_hides_that_of_the_scheduler() -> None:
    target = in_process(schedulers.fails_when_stopped)
    with (
        BackgroundServer() as server,
        pytest.raises(LookupError),
        RunningScheduler(server, target=target, objects=OBJECTS),
    ):
        raise LookupError
