"""From Reserve to PostBind, beyond upstream's tables (`tests/upstream`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from scheduler.config.types import Plugins
from scheduler.config.versions import SchedulerVersion
from scheduler.framework import (
    CycleState,
    Plugin,
    PodInfo,
    PreBindPreFlightResult,
    Status,
    pending,
    skip,
    unschedulable,
    wait,
)
from scheduler.framework.status import Code
from scheduler.runtime import BindingPlugins
from scheduler.testing import FakeHandle, make_pod
from tests.runtime.profiles import SORT, answering, framework_of, plugin, plugin_set

POD = PodInfo(make_pod())
SUCCESS = Status(Code.SUCCESS)
NO = unschedulable("no")


def _binding(*classes: type[Plugin]) -> BindingPlugins:
    return framework_of(*classes).binding


def _failed(text: str) -> Status:
    return Status(Code.ERROR, text)


class Log(list[str]):
    """The methods called, in order. Makes methods that add their name and return an answer."""

    def noting(
        self, name: str, answer: object = None
    ) -> Callable[[Plugin, CycleState, PodInfo, str], object]:
        def method(plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str) -> object:
            self.append(f"{plugin.name}.{name}")
            if isinstance(answer, Exception):
                raise answer
            return answer

        return method

    def noting_later(
        self, name: str, answer: object = None
    ) -> Callable[[Plugin, CycleState, PodInfo, str], Awaitable[object]]:
        note = self.noting(name, answer)

        async def method(plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str) -> object:
            await asyncio.sleep(0)
            return note(plugin, state, pod, node_name)

        return method


@pytest.fixture
def log() -> Log:
    return Log()


# Reserve and Unreserve.


@pytest.mark.parametrize(
    ("answer", "text"), [(wait(1, "odd"), "odd"), (True, "expected a Status or None, got True")]
)
def test_an_answer_that_reserve_does_not_know_is_an_error(answer: object, text: str) -> None:
    status = _binding(answering("P", reserve=answer)).reserve(CycleState(), POD, "n")
    assert status == _failed(f'running Reserve plugin "P": {text}')


def test_unreserve_runs_all_plugins_in_reverse_order_even_if_one_fails(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    binding = _binding(
        plugin("A", reserve=log.noting("reserve"), unreserve=log.noting("unreserve")),
        plugin("B", unreserve=log.noting("unreserve", ValueError("broken"))),
        plugin("C", reserve=log.noting("reserve", NO), unreserve=log.noting("unreserve")),
        plugin("D", reserve=log.noting("reserve")),
    )
    binding.reserve(CycleState(), POD, "n")
    with caplog.at_level(logging.ERROR):
        binding.unreserve(CycleState(), POD, "n")
    assert log == ["A.reserve", "C.reserve", "C.unreserve", "B.unreserve", "A.unreserve"]
    assert caplog.messages == ["Unreserve of plugin B failed for pod default/pod on node n"]


# Permit.


def test_no_pod_waits_longer_than_fifteen_minutes() -> None:
    outcome = _binding(answering("P", permit=wait(3600))).permit(CycleState(), POD, "n")
    assert (outcome.status, outcome.wait_seconds) == (None, {"P": 900})


def test_a_permit_plugin_cannot_be_skipped() -> None:
    outcome = _binding(answering("P", permit=skip())).permit(CycleState(), POD, "n")
    assert outcome.status == Status(Code.ERROR, 'running Permit plugin "P": ', plugin="P")


# PreBind.


def _pre_bind(name: str, kind: str) -> type[Plugin]:
    """Return a PreBind plugin: `=` runs alone, `|` beside its neighbours, with `-` it skips."""
    answer = PreBindPreFlightResult(allow_parallel="|" in kind, skip="-" in kind)
    return answering(name, pre_bind_pre_flight=answer, pre_bind=None)


def test_up_to_1_35_prebind_plugins_run_one_after_another() -> None:
    handle = FakeHandle(version=SchedulerVersion.V1_35)
    binding = framework_of(_pre_bind("A", "|"), _pre_bind("B", "|"), handle=handle).binding
    groups = binding.pre_bind_pre_flight(CycleState(), POD, "n").groups
    assert [[each.name for each in group] for group in groups] == [["A"], ["B"]]


@pytest.mark.parametrize("answer", [None, SUCCESS, PreBindPreFlightResult()])
def test_a_prebind_plugin_without_a_preflight_result_runs(answer: object) -> None:
    silent = answering("A", pre_bind=None)
    speaking = answering("B", pre_bind=None, pre_bind_pre_flight=answer)
    pre_flight = _binding(silent, speaking).pre_bind_pre_flight(CycleState(), POD, "n")
    assert [[each.name for each in group] for group in pre_flight.groups] == [["A"], ["B"]]


def test_a_plain_skip_leaves_the_plugin_out_and_its_neighbours_apart() -> None:
    classes = [
        _pre_bind("A", "|"),
        answering("B", pre_bind=None, pre_bind_pre_flight=skip()),
        _pre_bind("C", "|"),
    ]
    pre_flight = _binding(*classes).pre_bind_pre_flight(CycleState(), POD, "n")
    assert [[each.name for each in group] for group in pre_flight.groups] == [["A"], ["C"]]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValueError("broken"), 'running PreBindPreFlight "P": broken'),
        (_failed("broken"), 'running PreBindPreFlight "P": broken'),
        (
            NO,
            'PreBindPreFlight P returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
        ),
        (5, 'running PreBindPreFlight "P": expected a Status or None, got 5'),
    ],
)
def test_a_plugin_that_fails_beforehand_stops_the_binding(answer: object, text: str) -> None:
    failing = answering("P", pre_bind=None, pre_bind_pre_flight=answer)
    pre_flight = _binding(_pre_bind("A", "="), failing).pre_bind_pre_flight(CycleState(), POD, "n")
    assert pre_flight == (_failed(text), ())


async def _run_pre_bind(binding: BindingPlugins) -> Status | None:
    state = CycleState()
    pre_flight = binding.pre_bind_pre_flight(state, POD, "n")
    return await binding.pre_bind(pre_flight, state, POD, "n")


async def test_no_prebind_plugin_runs_after_one_that_fails(log: Log) -> None:
    answers = enumerate([None, NO, None])
    classes = [plugin(f"P{n}", pre_bind=log.noting_later("pre_bind", each)) for n, each in answers]
    assert await _run_pre_bind(_binding(*classes)) == NO.with_plugin("P1")
    assert log == ["P0.pre_bind", "P1.pre_bind"]


def _side_by_side(
    name: str, pre_bind: Callable[[Plugin, CycleState, PodInfo, str], Awaitable[object]]
) -> type[Plugin]:
    parallel = PreBindPreFlightResult(allow_parallel=True)
    return plugin(name, pre_bind=pre_bind, pre_bind_pre_flight=lambda self, *arguments: parallel)


async def test_the_plugins_of_a_group_run_at_the_same_time() -> None:
    met = asyncio.Barrier(2)

    async def meet(self: Plugin, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await met.wait()

    binding = _binding(_side_by_side("A", meet), _side_by_side("B", meet))
    assert await asyncio.wait_for(_run_pre_bind(binding), 5) is None


async def test_the_first_failure_cancels_the_rest_of_its_group(log: Log) -> None:
    async def forever(self: Plugin, state: CycleState, pod: PodInfo, node_name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    binding = _binding(
        _side_by_side("A", forever),
        _side_by_side("B", log.noting_later("pre_bind", NO)),
        plugin("C", pre_bind=log.noting_later("pre_bind")),
    )
    assert await asyncio.wait_for(_run_pre_bind(binding), 5) == NO.with_plugin("B")
    assert log == ["B.pre_bind", "cancelled"]


async def test_a_cancelled_binding_cancels_the_group(log: Log) -> None:
    started = asyncio.Barrier(3)

    async def forever(self: Plugin, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await started.wait()
        try:
            await asyncio.Event().wait()
        finally:
            log.append(f"{self.name} cancelled")

    binding = _binding(_side_by_side("A", forever), _side_by_side("B", forever))
    run = asyncio.ensure_future(_run_pre_bind(binding))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert sorted(log) == ["A cancelled", "B cancelled"]


# Bind.


@pytest.mark.parametrize(
    ("answers", "status", "ran"),
    [
        ([None], None, 1),
        ([SUCCESS], None, 1),
        ([skip(), None, NO], None, 2),
        ([skip(), skip()], skip(), 2),
        ([NO, None], NO.with_plugin("P0"), 1),
        ([skip(), pending("soon")], pending("soon").with_plugin("P1"), 2),
        ([ValueError("broken"), None], _failed('running Bind plugin "P0": broken'), 1),
        ([skip(), _failed("broken")], _failed('running Bind plugin "P1": broken'), 2),
        ([wait(1, "odd")], _failed('running Bind plugin "P0": odd'), 1),
    ],
)
async def test_bind_plugins_run_until_one_does_not_skip(
    log: Log, answers: list[object], status: Status | None, ran: int
) -> None:
    binders = [
        plugin(f"P{n}", bind=log.noting_later("bind", answer)) for n, answer in enumerate(answers)
    ]
    names = " ".join(each.name for each in (SORT, *binders))
    plugins = Plugins(multi_point=plugin_set(names))
    binding = framework_of(SORT, *binders, plugins=plugins).binding
    assert await binding.bind(CycleState(), POD, "n") == status
    assert log == [f"P{n}.bind" for n in range(ran)]


# PostBind.


async def test_all_postbind_plugins_run_even_if_one_fails(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    binding = _binding(
        plugin("A", post_bind=log.noting_later("post_bind", ValueError("broken"))),
        plugin("B", post_bind=log.noting_later("post_bind")),
    )
    with caplog.at_level(logging.ERROR):
        await binding.post_bind(CycleState(), POD, "n")
    assert log == ["A.post_bind", "B.post_bind"]
    assert caplog.messages == ["PostBind of plugin A failed for pod default/pod on node n"]
