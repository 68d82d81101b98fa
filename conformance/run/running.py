"""A running case: its API server, its schedulers, and its steps, carried out one after another."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ..api import Ref, ref_of
from ..clock import RealClock
from ..errors import ExpectationFailed
from ..extender import RunningExtender
from ..format.expectation import Expectation, pod_ref
from ..format.objects import objects_of
from ..format.resources import part
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
from ..judge.observe import terminating_lines
from ..judge.stories import read_stories, story_lines
from ..outcome import Aspect
from ..targets.target import Surroundings
from .schedulers import Schedulers
from .windows import Windows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from ..api import ApiClient, Json
    from ..clock import Clock
    from ..format.case import Case
    from ..format.objects import Item
    from ..format.steps import Step
    from ..judge.expect import Unmet
    from ..judge.tally import Tally
    from ..targets.target import Source, TargetKind

    _Change = Stop | Inject | ClearFaults | Delete | Patch | UpdateStatus | Touch | Bind | Evict

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
#: After a wrong placement, what follows in a case means nothing.
_PLACEMENT: Final = frozenset({Aspect.PLACEMENT})


class Observer(Protocol):
    """Follows a case while it runs, as `EventLog` does."""

    def following(self, source: Source, clock: Clock) -> AbstractContextManager[None]:
        """Follow all changes on a server while the block runs."""
        ...

    def step(self, where: str) -> None:
        """Note the start of a step."""
        ...


@dataclass(slots=True)
class Progress:
    """The progress of a case; it is there before the case runs, and stays after it.

    `where` is the current step, `log` the schedulers' last lines at the end. `story` is the
    scheduler's own account of the pods of the first failed expectation. `patience_seconds` are left
    of the time to wait for expectations after the scheduler has come to rest.
    """

    where: str = ""
    log: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    patience_seconds: float = 0.0


@contextlib.asynccontextmanager
async def started(
    case: Case,
    kind: TargetKind,
    *,
    seed: int,
    observer: Observer,
    tally: Tally,
    progress: Progress,
    stops_at: frozenset[Aspect] = _PLACEMENT,
    folder: Path | None = None,
) -> AsyncIterator[Running]:
    """Start a server with the case's objects and a scheduler, until the block ends.

    At the end of the block the scheduler is checked. A failed expectation about one of the aspects
    `stops_at` is raised. Raises ConformanceError.
    """
    # Each case has its own random generator, independent of other cases.
    rng = random.Random(f"{seed}/{case.id}")
    async with (
        _served(case, kind, rng=rng, observer=observer, progress=progress, folder=folder) as served,
        contextlib.AsyncExitStack() as stack,
    ):
        started_at = served.surroundings.clock.now()
        target = Schedulers(kind, served.surroundings)
        stack.push_async_callback(target.close)
        windows = Windows(target, reads=case.reads_metrics)
        stack.push_async_callback(windows.end)
        await target.start()
        progress.patience_seconds = target.patience_seconds
        if not case.labels & _RETRYING:
            progress.patience_seconds = min(target.patience_seconds, _IDLE_SECONDS)
        try:
            await windows.begin()
            yield Running(
                api=served.api,
                surroundings=served.surroundings,
                target=target,
                windows=windows,
                extenders=served.extenders,
                observer=observer,
                tally=tally,
                progress=progress,
                stops_at=stops_at,
                started_at=started_at,
            )
            target.check()
        finally:
            progress.log = target.log()


class _Served(NamedTuple):
    """An API server with a case's objects, and the case's extenders."""

    api: ApiClient
    surroundings: Surroundings
    extenders: Mapping[str, RunningExtender]


@contextlib.asynccontextmanager
async def _served(
    case: Case,
    kind: TargetKind,
    *,
    rng: random.Random,
    observer: Observer,
    progress: Progress,
    folder: Path | None,
) -> AsyncIterator[_Served]:
    clock = kind.new_clock()
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="conformance-", dir=folder)
        )
        serving = kind.serve(case, clock=clock, seed=rng.getrandbits(32))
        served = await stack.enter_async_context(serving)
        stack.enter_context(observer.following(served.source, clock))
        progress.where = "cluster"
        observer.step(progress.where)
        await _create(served.api, case.cluster)
        if case.faults:
            await served.api.inject(case.faults)
        progress.where = ""
        extenders: dict[str, RunningExtender] = {}
        for each in case.extenders:
            extender = RunningExtender(each, api=served.api, clock=clock)
            extenders[each.name] = await stack.enter_async_context(extender)
        surroundings = Surroundings(
            server=served.server,
            clock=clock,
            directory=Path(directory),
            config=_with_extenders(case.config, extenders),
            gates=case.gates,
            plugins=case.plugins,
            seed=rng.getrandbits(32),
        )
        yield _Served(served.api, surroundings, extenders)


def _with_extenders(config: Json | None, extenders: Mapping[str, RunningExtender]) -> Json | None:
    """Return the scheduler's configuration with the case's extenders."""
    if not extenders:
        return config
    return {**(config or {}), "extenders": [extender.config for extender in extenders.values()]}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A case whose server and schedulers run. Failed expectations are counted in the tally."""

    api: ApiClient
    surroundings: Surroundings
    target: Schedulers
    windows: Windows
    extenders: Mapping[str, RunningExtender]
    observer: Observer
    tally: Tally
    progress: Progress
    stops_at: frozenset[Aspect]
    started_at: float
    touches: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out steps one after another. Raises ConformanceError."""
        for step in steps:
            self.progress.where = step.where
            self.observer.step(step.where)
            if step.does_something:
                await self.windows.open()
            await self._carry_out(step)
        self.progress.where = ""

    async def _carry_out(self, step: Step) -> None:
        match step.action:
            case Expectation() as expected:
                await self._expect(expected)
            case Repeat(times=times):
                for _ in range(times):
                    await self.carry_out(step.steps)
            case Advance(seconds=seconds):
                await self.target.advance(seconds)
            case Settle():
                await self.target.settle()
            case Restart():
                await self._restart()
            case Start(name=name):
                await self.target.start(name)
            case Answer(extender=extender, answers=answers):
                self.extenders[extender].answers.update(answers)
            case Create(objects=items):
                await _create(self.api, items, after_write=self._after_write)
            case change:
                await self._change(change)
                await self._after_write()

    async def _restart(self) -> None:
        await self.windows.end()
        await self.target.stop()
        await self.target.start()
        await self.windows.begin()
        self.windows.start_at_zero()

    async def _change(self, change: _Change) -> None:
        api = self.api
        match change:
            case Stop(name=name):
                await self.target.stop(name)
            case Inject(faults=faults):
                await api.inject(faults)
            case ClearFaults(names=names):
                await api.clear_faults(names)
            case Bind(pod=pod, node=node):
                await api.bind(pod_ref(pod), node)
            case Evict(pod=pod):
                await api.evict(pod_ref(pod))
            case Delete(ref=ref, grace_period_seconds=seconds):
                await api.delete(ref, grace_period_seconds=seconds)
            case Patch(ref=ref, patch=patch, type=kind, subresource=subresource):
                await api.patch(ref, patch, patch_type=kind, subresource=subresource)
            case UpdateStatus(ref=ref, status=status):
                body = {"status": status}
                await api.patch(ref, body, patch_type="merge", subresource="status")
            case Touch(ref=ref):
                annotations = {_TOUCH_ANNOTATION: str(next(self.touches))}
                body = {"metadata": {"annotations": annotations}}
                await api.patch(ref, body, patch_type="merge")

    async def _after_write(self) -> None:
        """Wait until a write has had all its effects, if the target can detect that."""
        if self.target.settles_exactly:
            await self.target.settle()

    async def _expect(self, expected: Expectation) -> None:
        """Check an expectation. Raises ExpectationFailed if one of the aspects to stop at fails."""
        failed = await self._unmet_at_last(expected)
        self.windows.close()
        if failed and not self.progress.story:
            hints = await terminating_lines(self.api) if _wants_room(expected) else []
            self.progress.story = (*hints, *await self._story(expected))
        self.tally.record(self.progress.where, failed)
        for mismatch in failed:
            if mismatch.aspect in self.stops_at:
                lines = (*mismatch.lines, *self.progress.story)
                raise ExpectationFailed(f"{mismatch.subject}: {mismatch.problem}", lines)

    async def _unmet_at_last(self, expected: Expectation) -> list[Unmet]:
        """Return what does not hold once all holds, or waiting cannot change it.

        The time to wait after the scheduler has come to rest is for the whole case: a scheduler
        that writes no conditions would otherwise be waited for again and again.
        """
        target, real = self.target, RealClock()
        asked_at = real.monotonic()
        rested_at = asked_at if target.settles_exactly else math.inf
        waits_for_rest = is_about_rest(expected) or not self.tally.judges_all(expected)
        while True:
            if waits_for_rest or real.monotonic() - asked_at > _REST_SECONDS:
                await target.settle()
                rested_at = min(rested_at, real.monotonic())
            mismatches = self.tally.judged(await self._unmet(expected))
            if not mismatches or is_final(mismatches):
                return mismatches
            target.check()
            if real.monotonic() - rested_at >= self.progress.patience_seconds:
                self.progress.patience_seconds = 0.0
                return mismatches
            await real.sleep(_LOOK_SECONDS)

    async def _unmet(self, expected: Expectation) -> list[Unmet]:
        if expected.metric is not None:
            total = await self.windows.total(expected.metric, expected.labels or {})
            return unmet_by_metric(expected, total)
        if expected.extender is not None:
            return unmet_by_extender(self.extenders[expected.extender], expected)
        mismatches = await unmet(self.api, expected, self.started_at)
        if not expected.reads_moves:
            return mismatches
        return [*mismatches, *unmet_by_moves(expected, await self.windows.moves())]

    async def _story(self, expected: Expectation) -> tuple[str, ...]:
        """Return the stories of an expectation's pods, if the scheduler serves any."""
        url = self.target.metrics_url
        if url is None:
            return ()
        pods = [f"{ref.namespace}/{ref.name}" for ref in expected.refs if ref.kind == "Pod"]
        stories = await read_stories(url, pods[:_STORIES_MAX])
        return tuple(
            line
            for pod, story in stories.items()
            for line in (f"story of pod {pod}:", *(f"  {text}" for text in story_lines(story)))
        )


async def _nothing() -> None:
    """Wait for nothing: there is no scheduler yet."""


async def _create(
    api: ApiClient, items: Iterable[Item], *, after_write: Callable[[], Awaitable[None]] = _nothing
) -> None:
    for item in items:
        for obj in objects_of(item):
            if ref_of(obj).kind == _PRIORITY_CLASS:
                await api.create_unless_there(obj)
            elif item.controlled_by is None:
                await api.create(obj)
            else:
                await api.create(await _owned(api, obj, pod_ref(item.controlled_by)))
            await after_write()


async def _owned(api: ApiClient, obj: Json, ref: Ref) -> Json:
    """Return an object with an ownerReference to a pod that exists."""
    uid = part(await api.find(ref), "metadata").get("uid")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": ref.name, "uid": uid}
    owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {**obj, "metadata": {**part(obj, "metadata"), "ownerReferences": owners}}


def _wants_room(expected: Expectation) -> bool:
    """True if a pod that stays could be the reason why an expectation does not hold."""
    wanted = (expected.bound_to, expected.bound_to_one_of, expected.bound_count, expected.deleted)
    return any(value is not None for value in wanted)


def is_final(failed: list[Unmet]) -> bool:
    """True if waiting changes nothing: the placement is final, or all mismatches are final."""
    return all(mismatch.is_final for mismatch in failed) or any(
        mismatch.is_final and mismatch.aspect is Aspect.PLACEMENT for mismatch in failed
    )
