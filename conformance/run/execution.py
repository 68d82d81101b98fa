"""Run one case: a new API server, the case's objects, a new scheduler, the steps.

Every failure is part of the outcome. Only errors that stop the whole suite are raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ..api import Ref, ref_of
from ..clock import RealClock
from ..errors import ConformanceError, ExpectationFailed, NotObservable, TargetError
from ..extender import RunningExtender
from ..format.expectation import Expectation, pod_ref
from ..format.objects import objects_of
from ..format.steps import (
    Advance,
    Answer,
    Bind,
    ClearFaults,
    Create,
    Delete,
    Evict,
    Inject,
    Patch,
    Repeat,
    Restart,
    Settle,
    Touch,
    UpdateStatus,
)
from ..judge.expect import is_about_rest, unmet, unmet_by_extender, unmet_by_metric, unmet_by_moves
from ..judge.metrics import MetricsReader
from ..judge.observe import part
from ..judge.requeue import moves_between
from ..outcome import Verdict
from ..targets.target import Surroundings
from .event_log import event_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractContextManager

    from fakeapi import FakeApiServer

    from ..api import Json
    from ..clock import Clock
    from ..format.case import Case
    from ..format.objects import Item
    from ..format.steps import Step
    from ..judge.expect import Unmet
    from ..judge.metrics import QueueCounters
    from ..outcome import Outcome
    from ..targets.target import Target, TargetKind

__all__ = ["Execution", "Observer", "run_case", "run_case_with"]

#: The interval between two checks of an expectation.
_LOOK_SECONDS: Final = 0.05
_TOUCH_ANNOTATION: Final = "conformance.kubesched/touched"
#: Created before the objects that refer to them.
_PRIORITY_CLASS: Final = "PriorityClass"


async def run_case(
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    timeout_seconds: float = 60.0,
    log_path: Path | None = None,
) -> Outcome:
    """Run a case and return its outcome. `timeout_seconds` is real time.

    The events on its API server are written to `log_path`, see event_log.py.
    """
    with event_log(log_path, case.id) as log:
        outcome = await run_case_with(log, case, kind, seed=seed, timeout_seconds=timeout_seconds)
        log.end(outcome)
    return outcome


class Observer(Protocol):
    """Follows a case while it runs, as `EventLog` does."""

    def following(self, server: FakeApiServer, clock: Clock) -> AbstractContextManager[None]:
        """Follow all changes on a server while the block runs."""
        ...

    def step(self, where: str) -> None:
        """Note the start of a step."""
        ...


async def run_case_with(
    observer: Observer, case: Case, kind: TargetKind, *, seed: int, timeout_seconds: float
) -> Outcome:
    """Run a case as `run_case` does, with an observer."""
    skipped = kind.why_not(case)
    if skipped is not None:
        return case.outcome(Verdict.SKIPPED, reason=skipped)
    real = RealClock()
    started = real.monotonic()
    execution = Execution(case, kind, seed, observer)
    try:
        async with asyncio.timeout(timeout_seconds):
            async with execution.started():
                await execution.carry_out(case.steps)
    except NotObservable as why:
        return case.outcome(Verdict.SKIPPED, seconds=real.monotonic() - started, reason=str(why))
    except TimeoutError:
        error: ConformanceError = TargetError(f"still running after {timeout_seconds:g}s")
    except ConformanceError as failure:
        error = failure
    except Exception as bug:
        lines = "".join(traceback.format_exception(bug)).splitlines()
        error = TargetError(f"broke off: {type(bug).__name__}: {bug}", tuple(lines))
    else:
        return case.outcome(Verdict.PASSED, seconds=real.monotonic() - started)
    where = f"{execution.where}: " if execution.where else ""
    is_failure = isinstance(error, ExpectationFailed)
    return case.outcome(
        Verdict.FAILED if is_failure else Verdict.ERROR,
        seconds=real.monotonic() - started,
        reason=f"{where}{error}",
        details=error.details if isinstance(error, ExpectationFailed) else (),
        log=(error.log if isinstance(error, TargetError) else ()) or execution.log,
    )


class Execution:
    """A running case: its API server, its scheduler and its steps. `where` is the current step."""

    def __init__(self, case: Case, kind: TargetKind, seed: int, observer: Observer) -> None:
        # Each case has its own random generator, independent of other cases.
        self._rng = random.Random(f"{seed}/{case.id}")
        self._case = case
        self._kind = kind
        self._observer = observer
        self._touches = 0
        self._extenders: dict[str, RunningExtender] = {}
        self._metrics: MetricsReader | None = None
        self._before: QueueCounters | None = None
        self._counters: QueueCounters | None = None
        self._window_is_open = False
        self.where = ""
        self.log: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start a server with the case's objects and a scheduler, until the block ends.

        At the end of the block the scheduler is checked. Raises ConformanceError.
        """
        clock = self._kind.new_clock()
        async with contextlib.AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-"))
            serving = self._kind.serve(self._case, clock=clock, seed=self._rng.getrandbits(32))
            self._api, server = await stack.enter_async_context(serving)
            if server is not None:
                stack.enter_context(self._observer.following(server, clock))
            self.where = "cluster"
            self._observer.step(self.where)
            await self._create(self._case.cluster)
            if self._case.faults:
                await self._api.inject(self._case.faults)
            self.where = ""
            self._surroundings = Surroundings(
                server=server,
                clock=clock,
                directory=Path(directory),
                config=await self._config(stack, clock),
                gates=self._case.gates,
                seed=self._rng.getrandbits(32),
                reads_metrics=self._case.reads_metrics,
            )
            self._started_at = clock.now()
            self._running = await stack.enter_async_context(contextlib.AsyncExitStack())
            self._target = await self._running.enter_async_context(
                self._kind.run(self._surroundings)
            )
            try:
                await self._begin()
                yield
                self._target.check()
            except BaseException:
                self.log = self._target.log()
                raise

    async def _begin(self) -> None:
        """Wait until a scheduler that has just started is idle, and read its counters."""
        await self._target.settle()
        if self._case.reads_metrics:
            self._metrics = await self._running.enter_async_context(self._reader())
            self._counters = await self._metrics.wait_until_served()

    async def _restart(self) -> None:
        await self._running.aclose()
        self._target = await self._running.enter_async_context(self._kind.run(self._surroundings))
        await self._begin()
        # The counters of the new scheduler begin at zero.
        self._before, self._counters = self._counters, None

    async def _config(self, stack: contextlib.AsyncExitStack, clock: Clock) -> Json | None:
        """Start the case's extenders; return the scheduler's configuration with them."""
        config = self._case.config
        for extender in self._case.extenders:
            running = RunningExtender(extender, api=self._api, clock=clock)
            self._extenders[extender.name] = await stack.enter_async_context(running)
        if not self._extenders:
            return config
        entries = [running.config for running in self._extenders.values()]
        return {**(config or {}), "extenders": entries}

    def _reader(self) -> MetricsReader:
        url = self._target.metrics_url
        if url is None:
            raise NotObservable("reads metrics, and the scheduler has no URL that serves any")
        return MetricsReader(url)

    async def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out steps one after another. Raises ConformanceError."""
        for step in steps:
            self.where = step.where
            self._observer.step(step.where)
            if step.does_something:
                await self._open_window()
            await self._step(step)
        self.where = ""

    async def _step(self, step: Step) -> None:
        action = step.action
        if isinstance(action, Expectation):
            await self._expect(action)
        elif isinstance(action, Repeat):
            for _ in range(action.times):
                await self.carry_out(step.steps)
        elif isinstance(action, Advance):
            await self._target.advance(action.seconds)
        elif isinstance(action, Settle):
            await self._target.settle()
        elif isinstance(action, Restart):
            await self._restart()
        elif isinstance(action, Answer):
            self._extenders[action.extender].answers.update(action.answers)
        elif isinstance(action, Create):
            await self._create(action.objects, target=self._target)
        elif isinstance(action, Inject):
            await self._api.inject(action.faults)
            await self._after_write(self._target)
        elif isinstance(action, ClearFaults):
            await self._api.clear_faults(action.names)
            await self._after_write(self._target)
        else:
            await self._change(action)
            await self._after_write(self._target)

    async def _open_window(self) -> None:
        """Read the counters at the start of a window, unless a window is open."""
        if self._metrics is None or self._window_is_open:
            return
        if self._counters is None or not self._target.settles_exactly:
            await self._target.settle()
            self._counters = await self._metrics.read()
        # Otherwise the counters were read at rest, and nothing has changed since.
        self._before, self._counters = self._counters, None
        self._window_is_open = True

    async def _change(self, action: Delete | Patch | UpdateStatus | Touch | Bind | Evict) -> None:
        api = self._api
        if isinstance(action, Bind):
            await api.bind(pod_ref(action.pod), action.node)
        elif isinstance(action, Evict):
            await api.evict(pod_ref(action.pod))
        elif isinstance(action, Delete):
            await api.delete(action.ref, grace_period_seconds=action.grace_period_seconds)
        elif isinstance(action, Patch):
            await api.patch(
                action.ref, action.patch, patch_type=action.type, subresource=action.subresource
            )
        elif isinstance(action, UpdateStatus):
            body = {"status": action.status}
            await api.patch(action.ref, body, patch_type="merge", subresource="status")
        else:
            await self._touch(action.ref)

    async def _touch(self, ref: Ref) -> None:
        self._touches += 1
        metadata = {"annotations": {_TOUCH_ANNOTATION: str(self._touches)}}
        await self._api.patch(ref, {"metadata": metadata}, patch_type="merge")

    async def _create(self, items: Iterable[Item], *, target: Target | None = None) -> None:
        for item in items:
            for obj in objects_of(item):
                if ref_of(obj).kind == _PRIORITY_CLASS:
                    await self._api.create_unless_there(obj)
                elif item.controlled_by is None:
                    await self._api.create(obj)
                else:
                    await self._api.create(await self._owned(obj, pod_ref(item.controlled_by)))
                if target is not None:
                    await self._after_write(target)

    async def _owned(self, obj: Json, ref: Ref) -> Json:
        """Return an object with an ownerReference to a pod that exists."""
        uid = part(await self._api.find(ref), "metadata").get("uid")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": ref.name, "uid": uid}
        owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        return {**obj, "metadata": {**part(obj, "metadata"), "ownerReferences": owners}}

    async def _after_write(self, target: Target) -> None:
        """Wait until a write has had all its effects, if the target can detect that."""
        if target.settles_exactly:
            await target.settle()

    async def _expect(self, expected: Expectation) -> None:
        """Wait until an expectation holds. Raises ExpectationFailed after the time limit."""
        target, real = self._target, RealClock()
        deadline = real.monotonic() + target.patience_seconds
        while True:
            if is_about_rest(expected):
                await target.settle()
            wrong = await self._unmet(expected)
            if wrong is None:
                self._window_is_open = False
                return
            target.check()
            if real.monotonic() >= deadline:
                raise ExpectationFailed(f"{wrong.subject}: {wrong.problem}", wrong.lines)
            await real.sleep(_LOOK_SECONDS)

    async def _unmet(self, expected: Expectation) -> Unmet | None:
        if expected.metric is not None:
            assert self._metrics is not None, "the case says that it reads them"
            total = await self._metrics.total(expected.metric, expected.labels or {})
            return unmet_by_metric(expected, total)
        if expected.extender is not None:
            return unmet_by_extender(self._extenders[expected.extender], expected)
        wrong = await unmet(self._api, expected, self._started_at)
        if wrong is not None or not expected.reads_moves:
            return wrong
        assert self._metrics is not None, "the case says that it reads them"
        assert self._before is not None, "a case begins with a step that does something"
        self._counters = await self._metrics.read()
        return unmet_by_moves(expected, moves_between(self._before, self._counters))
