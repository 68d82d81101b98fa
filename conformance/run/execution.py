"""Run one case: a new API server, the case's objects, a new scheduler, the steps.

Every failure is part of the outcome. Only errors that stop the whole suite are raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ..api import Ref, ref_of
from ..clock import RealClock
from ..errors import ConformanceError, ExpectationFailed, InputError, NotObservable, TargetError
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
    Start,
    Stop,
    Touch,
    UpdateStatus,
)
from ..judge.expect import is_about_rest, unmet, unmet_by_extender, unmet_by_metric, unmet_by_moves
from ..judge.metrics import MetricsReader
from ..judge.observe import part
from ..judge.requeue import moves_between
from ..judge.stories import read_stories, story_lines
from ..judge.tally import Tally
from ..outcome import ALL_ASPECTS, Aspect, Verdict
from ..targets.target import Surroundings
from .event_log import event_log
from .schedulers import Schedulers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractContextManager

    from ..api import ApiClient, Json
    from ..clock import Clock
    from ..format.case import Case
    from ..format.objects import Item
    from ..format.steps import Step
    from ..judge.expect import Unmet
    from ..judge.metrics import QueueCounters
    from ..outcome import Outcome
    from ..targets.target import Source, Target, TargetKind

#: The interval between two checks of an expectation.
_LOOK_SECONDS: Final = 0.05
#: The time after which an expectation is checked only when the scheduler has come to rest.
_REST_SECONDS: Final = 1.0
#: The longest pause of a scheduler that still has work; while requests fail, pauses are longer.
_IDLE_SECONDS: Final = 3.0
_RETRYING: Final = frozenset({"extenders", "faults"})
_STORIES_MAX: Final = 3
_TOUCH_ANNOTATION: Final = "conformance.kubesched/touched"
#: Created before the objects that refer to them.
_PRIORITY_CLASS: Final = "PriorityClass"


async def run_case(
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    timeout_seconds: float = 60.0,
    aspects: frozenset[Aspect] = ALL_ASPECTS,
    log_path: Path | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run a case and return its outcome. `timeout_seconds` is real time.

    `aspects` are those that count. The events on the API server are written to `log_path`, see
    event_log.py. The case's temporary files are below `folder`, by default the system's.
    """
    with event_log(log_path, case.id) as log:
        tally = Tally(case, aspects)
        if tally.is_empty:
            reason = "judges other aspects: " + ", ".join(sorted(a.value for a in tally.unjudged))
            return case.outcome(Verdict.SKIPPED, reason=reason)
        outcome = await run_case_with(
            log, case, kind, seed=seed, timeout_seconds=timeout_seconds, tally=tally, folder=folder
        )
        log.end(outcome)
    return outcome


class Observer(Protocol):
    """Follows a case while it runs, as `EventLog` does."""

    def following(self, source: Source, clock: Clock) -> AbstractContextManager[None]:
        """Follow all changes on a server while the block runs."""
        ...

    def step(self, where: str) -> None:
        """Note the start of a step."""
        ...


async def run_case_with(
    observer: Observer,
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    timeout_seconds: float,
    tally: Tally | None = None,
    folder: Path | None = None,
) -> Outcome:
    """Run a case as `run_case` does, with an observer; without a tally nothing may fail.

    Raises InputError for a target on which no case can be run.
    """
    skipped = kind.why_not(case)
    if skipped is not None:
        return case.outcome(Verdict.SKIPPED, reason=skipped)
    real = RealClock()
    started = real.monotonic()
    tally = Tally(case, ALL_ASPECTS) if tally is None else tally
    execution = Execution(case, kind, seed, observer, tally=tally, folder=folder)
    error: ConformanceError | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            async with execution.started():
                await execution.carry_out(case.steps)
    except ExpectationFailed:
        pass  # the tally has it
    except TimeoutError:
        error = TargetError(f"still running after {timeout_seconds:g}s")
    except InputError:
        raise
    except ConformanceError as failure:
        error = failure
    except Exception as bug:
        lines = "".join(traceback.format_exception(bug)).splitlines()
        error = TargetError(f"broke off: {type(bug).__name__}: {bug}", tuple(lines))
    return _judged(case, execution, tally, error, real.monotonic() - started)


def _judged(
    case: Case,
    execution: Execution,
    tally: Tally,
    error: ConformanceError | None,
    seconds: float,
) -> Outcome:
    """Return the outcome of a case that was run to its end, or to an error."""
    aspects = tally.verdicts()
    if error is None and not tally.failures:
        return case.outcome(Verdict.PASSED, seconds=seconds, aspects=aspects)
    if isinstance(error, NotObservable) and not tally.failures:
        return case.outcome(Verdict.SKIPPED, seconds=seconds, reason=str(error))
    if error is None or isinstance(error, NotObservable):
        verdict, reason = Verdict.FAILED, tally.reason
    else:
        where = f"{execution.where}: " if execution.where else ""
        verdict, reason = Verdict.ERROR, f"{where}{error}"
    return case.outcome(
        verdict,
        seconds=seconds,
        reason=reason,
        details=(*tally.lines(), *execution.story),
        log=(error.log if isinstance(error, TargetError) else ()) or execution.log,
        aspects=aspects,
    )


class Execution:
    """A running case: its API server, its scheduler and its steps. `where` is the current step.

    Failed expectations are counted in the tally, see `_expect`. `story` is the scheduler's own
    account of the pods of the first of them.
    """

    def __init__(
        self,
        case: Case,
        kind: TargetKind,
        seed: int,
        observer: Observer,
        *,
        tally: Tally | None = None,
        folder: Path | None = None,
    ) -> None:
        # Each case has its own random generator, independent of other cases.
        self._rng = random.Random(f"{seed}/{case.id}")
        self._case = case
        self._kind = kind
        self._observer = observer
        self._tally = tally
        self._folder = folder
        self._touches = 0
        self._extenders: dict[str, RunningExtender] = {}
        self._metrics: MetricsReader | None = None
        self._before: QueueCounters | None = None
        self._counters: QueueCounters | None = None
        self._window_is_open = False
        self._patience_seconds = 0.0
        self.where = ""
        self.log: tuple[str, ...] = ()
        self.story: tuple[str, ...] = ()

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Start a server with the case's objects and a scheduler, until the block ends.

        At the end of the block the scheduler is checked. Raises ConformanceError.
        """
        clock = self._kind.new_clock()
        async with contextlib.AsyncExitStack() as stack:
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="conformance-", dir=self._folder)
            )
            serving = self._kind.serve(self._case, clock=clock, seed=self._rng.getrandbits(32))
            served = await stack.enter_async_context(serving)
            self._api = served.api
            stack.enter_context(self._observer.following(served.source, clock))
            self.where = "cluster"
            self._observer.step(self.where)
            await self._create(self._case.cluster)
            if self._case.faults:
                await self._api.inject(self._case.faults)
            self.where = ""
            self._surroundings = Surroundings(
                server=served.server,
                clock=clock,
                directory=Path(directory),
                config=await self._config(stack, clock),
                gates=self._case.gates,
                seed=self._rng.getrandbits(32),
            )
            self._started_at = clock.now()
            self._target = Schedulers(self._kind, self._surroundings)
            stack.push_async_callback(self._target.close)
            self._reading = await stack.enter_async_context(contextlib.AsyncExitStack())
            await self._target.start()
            self._patience_seconds = self._target.patience_seconds
            if not self._case.labels & _RETRYING:
                self._patience_seconds = min(self._patience_seconds, _IDLE_SECONDS)
            try:
                await self._begin()
                yield
                self._target.check()
            finally:
                self.log = self._target.log()

    async def _begin(self) -> None:
        """Read the counters of the first scheduler, which has just started and is idle."""
        if self._case.reads_metrics:
            self._metrics = await self._reading.enter_async_context(self._reader())
            self._counters = await self._metrics.wait_until_served()

    async def _restart(self) -> None:
        await self._reading.aclose()
        await self._target.stop()
        await self._target.start()
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
        elif isinstance(action, Start):
            await self._target.start(action.name)
        elif isinstance(action, Stop):
            await self._target.stop(action.name)
            await self._after_write(self._target)
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
        """Check an expectation.

        Raises ExpectationFailed if it does not hold, and there is no tally or the pods' placement
        is wrong: then what follows in the case means nothing.
        """
        unmet = await self._unmet_at_last(expected)
        self._window_is_open = False
        if unmet and not self.story:
            self.story = await self._story(expected)
        if self._tally is not None:
            self._tally.record(self.where, unmet)
            unmet = [each for each in unmet if each.aspect is Aspect.PLACEMENT]
        if unmet:
            first = unmet[0]
            lines = (*first.lines, *self.story)
            raise ExpectationFailed(f"{first.subject}: {first.problem}", lines)

    async def _unmet_at_last(self, expected: Expectation) -> list[Unmet]:
        """Return what does not hold once all holds, or waiting cannot change it.

        The time to wait after the scheduler has come to rest is for the whole case: a scheduler
        that writes no conditions would otherwise be waited for again and again.
        """
        target, real = self._target, RealClock()
        asked_at = real.monotonic()
        rested_at = asked_at if target.settles_exactly else math.inf
        judges_all = self._tally is None or self._tally.judges_all(expected)
        while True:
            now = real.monotonic()
            if is_about_rest(expected) or not judges_all or now - asked_at > _REST_SECONDS:
                await target.settle()
                rested_at = min(rested_at, real.monotonic())
            unmet = await self._unmet(expected)
            if self._tally is not None:
                unmet = self._tally.judged(unmet)
            if not unmet or _is_final(unmet):
                return unmet
            target.check()
            waited = real.monotonic() - rested_at
            if waited >= self._patience_seconds:
                self._patience_seconds = 0.0
                return unmet
            await real.sleep(_LOOK_SECONDS)

    async def _unmet(self, expected: Expectation) -> list[Unmet]:
        if expected.metric is not None:
            assert self._metrics is not None, "the case says that it reads them"
            total = await self._metrics.total(expected.metric, expected.labels or {})
            return unmet_by_metric(expected, total)
        if expected.extender is not None:
            return unmet_by_extender(self._extenders[expected.extender], expected)
        found = await unmet(self._api, expected, self._started_at)
        if not expected.reads_moves:
            return found
        assert self._metrics is not None, "the case says that it reads them"
        assert self._before is not None, "a case begins with a step that does something"
        self._counters = await self._metrics.read()
        return [*found, *unmet_by_moves(expected, moves_between(self._before, self._counters))]

    async def _story(self, expected: Expectation) -> tuple[str, ...]:
        """Return the stories of an expectation's pods, if the scheduler serves any."""
        url = self._target.metrics_url
        if url is None:
            return ()
        pods = [f"{ref.namespace}/{ref.name}" for ref in expected.refs if ref.kind == "Pod"]
        stories = await read_stories(url, pods[:_STORIES_MAX])
        return tuple(
            line
            for pod, story in stories.items()
            for line in (f"story of pod {pod}:", *(f"  {text}" for text in story_lines(story)))
        )

    @property
    def api(self) -> ApiClient:
        """The client for the case's API server."""
        return self._api

    @property
    def surroundings(self) -> Surroundings:
        """The server, the clock and the settings that the scheduler got."""
        return self._surroundings

    @property
    def target(self) -> Target:
        """The running scheduler."""
        return self._target


def _is_final(unmet: list[Unmet]) -> bool:
    """True if waiting changes nothing: the placement is final, or everything is."""
    return all(each.is_final for each in unmet) or any(
        each.is_final and each.aspect is Aspect.PLACEMENT for each in unmet
    )
