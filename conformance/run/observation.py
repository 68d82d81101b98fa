"""Run a case without judging it, and return its history as a value.

    case --observe_case--> Observation: changes, writes, stories --> pods, placements, objects

Expectations become pauses in which the scheduler settles. A step that the API server refuses, or a
scheduler that dies, ends the run; the observation then has the changes until then, and its
`outcome` the reason.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import USER_AGENT, Json
from ..clock import RealClock
from ..format.expectation import Expectation
from ..format.reading import node_of, text_in
from ..format.resources import objects, part
from ..format.steps import Settle, Step
from ..judge.observe import ATTEMPT_REASONS, count_of
from ..judge.stories import read_stories
from ..targets.quiet import run_quietly
from .execution import run_case_with
from .reaper import run_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fakeapi import HandledRequest, Kind, ObjectChange

    from ..clock import Clock
    from ..format.case import Case
    from ..outcome import Outcome
    from ..targets.target import Served, Source, Surroundings, Target, TargetKind

_READING: Final = frozenset({"GET", "HEAD"})
#: The reason of the condition DisruptionTarget on a pod that a scheduler preempts.
_PREEMPTED: Final = "PreemptionByScheduler"
#: The note of kube-scheduler's event about a victim, with the uid of the preemptor.
_PREEMPTOR: Final = re.compile(r"^Preempted by \w+ (\S+) on node ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A scheduler's report that a pod has no node: `PodScheduled=False`, or a nomination.

    `version` is the resource version of the change, `seconds` its time since the scheduler started.
    """

    seconds: float
    version: int
    reason: str
    message: str
    nominated_node: str = ""


@dataclass(slots=True, kw_only=True)
class PodRecord:
    """The life of one pod; a pod that is created again has a second record.

    Times are in seconds since the scheduler started, negative before; None means never.
    `bound_version` is the resource version of the change that set the node; `by_scheduler` is true
    if the scheduler set it. At `preempted_seconds` the scheduler chose the pod as a victim.
    """

    key: str
    uid: str
    created_seconds: float
    node: str = ""
    bound_seconds: float | None = None
    bound_version: int = 0
    by_scheduler: bool = False
    attempts: int = 0
    rejections: list[Rejection] = field(default_factory=list)
    preempted_seconds: float | None = None
    preempted_version: int = 0
    deleted_seconds: float | None = None
    deleted_version: int = 0
    #: The last state of the pod.
    object: Json = field(default_factory=dict, repr=False)

    @property
    def is_pending(self) -> bool:
        """True if the pod exists at the end and has no node."""
        return not self.node and self.deleted_seconds is None

    @property
    def message(self) -> str:
        """The last message of a pod without a node; empty if there is none."""
        return self.rejections[-1].message if self.rejections and not self.node else ""

    @property
    def nominations(self) -> list[Rejection]:
        """The reports with which a node was nominated."""
        return [rejection for rejection in self.rejections if rejection.nominated_node]

    def waiting_seconds(self, end_seconds: float) -> float:
        """Return the time from the creation to the binding, or to the end of pod or run."""
        ends = [end_seconds, self.bound_seconds, self.deleted_seconds]
        until = min(end for end in ends if end is not None)
        return until - max(self.created_seconds, 0.0)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """All that happened in a run. `outcome` is `passed` if the run came to its end.

    `changes` are all changes of objects in order, `writes` the scheduler's answered writes; None on
    a running cluster, where no request is seen. `bound_by_suite` are pods (`namespace/name`).
    `steps` are the steps that began: their places, and the number of changes before each.
    `stories` are the scheduler's own explanations by pod (`namespace/name`), if it serves any.
    `kinds` are the server's kinds by group and plural name. `started_seconds` is the start of the
    scheduler since 1970, `end_seconds` the end of the run since that start. With `shares_nodes`
    messages also count nodes that are not among the objects. With `in_real_time` the scheduler
    has a clock of its own.
    """

    outcome: Outcome
    changes: tuple[ObjectChange, ...]
    writes: tuple[HandledRequest, ...] | None
    bound_by_suite: frozenset[str]
    steps: tuple[tuple[str, int], ...]
    stories: Mapping[str, Json]
    kinds: Mapping[tuple[str, str], Kind]
    started_seconds: float
    end_seconds: float
    shares_nodes: bool = False
    in_real_time: bool = False

    @functools.cached_property
    def pods(self) -> tuple[PodRecord, ...]:
        """The pods in the order of their creation."""
        return tuple(_records(self))

    @property
    def placements(self) -> list[PodRecord]:
        """The pods that the scheduler has bound, in the order of the bindings."""
        bound = [pod for pod in self.pods if pod.by_scheduler and pod.node]
        return sorted(bound, key=lambda pod: pod.bound_version)

    @property
    def preempted(self) -> list[PodRecord]:
        """The victims of preemption, in the order in which they were chosen."""
        victims = [pod for pod in self.pods if pod.preempted_seconds is not None]
        return sorted(victims, key=lambda pod: pod.preempted_version)

    @functools.cached_property
    def preemptors(self) -> dict[str, str]:
        """The uids of preemptors by the uids of their victims, as far as events have them.

        kube-scheduler 1.36 and 1.37 name a pod that preempts only in the note: the wrapper of the
        pod has no reference (`podExecutorPreemptor.Obj`).
        """
        uids = {}
        for event in self.events:
            if event.get("reason") == "Preempted":
                noted = _PREEMPTOR.search(text_in(event, "note"))
                related = text_in(part(event, "related"), "uid")
                if uid := related or (noted[1] if noted else ""):
                    uids[text_in(part(event, "regarding"), "uid")] = uid
        return uids

    @property
    def events(self) -> list[Json]:
        """The events at the end, in the form of events.k8s.io."""
        return self.objects("Event")

    def objects(self, *kinds: str) -> list[Json]:
        """Return the objects of some kinds, or of all kinds, as they were at the end."""
        return [obj for obj in self.objects_before(None) if not kinds or obj["kind"] in kinds]

    def objects_before(self, version: int | None) -> list[Json]:
        """Return all objects as they were before a change; None means at the end."""
        objects: dict[tuple[str, str, str, str], Json] = {}
        for change in self.changes:
            if version is not None and change.resource_version >= version:
                break
            key = change.group, change.resource, change.namespace, change.name
            if change.type == "DELETED":
                objects.pop(key, None)
            else:
                objects[key] = self.object_after(change)
        return list(objects.values())

    def object_after(self, change: ObjectChange) -> Json:
        """Return the object of a change as the API shows it."""
        kind = self.kinds.get((change.group, change.resource))
        if kind is None:
            return change.object
        shown = kind.from_stored(change.object) if kind.from_stored else change.object
        return {**shown, "apiVersion": kind.api_version, "kind": kind.kind}


def observe(
    case: Case,
    kind: TargetKind,
    *,
    seed: int = 0,
    timeout_seconds: float = 60.0,
    explains: bool = False,
    judges: bool = False,
) -> Observation:
    """Observe a case on an event loop of its own, see `observe_case`."""
    with contextlib.ExitStack() as stack:
        starts_processes = isinstance(kind.new_clock(), RealClock)
        folder = stack.enter_context(run_folder()) if starts_processes else None
        return run_quietly(
            observe_case(
                case,
                kind,
                seed=seed,
                timeout_seconds=timeout_seconds,
                explains=explains,
                judges=judges,
                folder=folder,
            )
        )


async def observe_case(
    case: Case,
    kind: TargetKind,
    *,
    seed: int = 0,
    timeout_seconds: float = 60.0,
    explains: bool = False,
    judges: bool = False,
    folder: Path | None = None,
) -> Observation:
    """Run a case without judging it, unless `judges` is set.

    With `explains` the target's stories are read at the end. `timeout_seconds` is real time. A
    target in this process needs a `QuietLoop`. The temporary files are below `folder`, by default
    the system's.
    """
    observer = Recorder()
    unjudged = case
    if not judges:
        unjudged = msgspec.structs.replace(case, steps=_without_expectations(case.steps))
    observed_kind = _ObservedKind(kind, observer, explains=explains)
    outcome = await run_case_with(
        observer,
        unjudged,
        observed_kind,
        seed=seed,
        timeout_seconds=timeout_seconds,
        folder=folder,
    )
    return observer.observation(outcome)


def _without_expectations(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(
        Step(step.where, Settle())
        if isinstance(step.action, Expectation)
        else Step(step.where, step.action, _without_expectations(step.steps))
        for step in steps
    )


class Recorder:
    """Keeps what happens on the API server of one case.

    With `sees_scheduler` the server records the scheduler's requests, and the scheduler starts once
    the case's objects are there; otherwise it runs already.
    """

    def __init__(self) -> None:
        self._changes: list[ObjectChange] = []
        self._writes: list[HandledRequest] = []
        self._bound_by_suite: list[str] = []
        self._steps: list[tuple[str, int]] = []
        self._source: Source | None = None
        self._clock: Clock | None = None
        self._started_seconds: float | None = None
        self._end_seconds: float | None = None
        self.stories: dict[str, Json] = {}
        self.sees_scheduler = True
        self.shares_nodes = False

    @contextlib.contextmanager
    def following(self, source: Source, clock: Clock) -> Iterator[None]:
        self._clock, self._source = clock, source
        self._end_seconds = None
        if not self.sees_scheduler:
            self.scheduler_starts()
        try:
            with source.listening(on_change=self._changes.append, on_request=self._requested):
                yield
        finally:
            self._end_seconds = clock.now()

    def forget(self) -> None:
        """Forget what has happened so far, for a server on which another case follows."""
        for kept in (self._changes, self._writes, self._bound_by_suite, self._steps):
            kept.clear()

    def step(self, where: str) -> None:
        self._steps.append((where, len(self._changes)))

    def scheduler_starts(self) -> None:
        """Note the time at which the scheduler is started for the first time."""
        if self._started_seconds is None and self._clock is not None:
            self._started_seconds = self._clock.now()

    @property
    def pod_keys(self) -> list[str]:
        """The pods that were ever there, as `namespace/name`."""
        pods = (change for change in self._changes if change.resource == "pods")
        return list(dict.fromkeys(f"{change.namespace}/{change.name}" for change in pods))

    def observation(self, outcome: Outcome) -> Observation:
        now = self._clock.now() if self._clock is not None else 0.0
        end = now if self._end_seconds is None else self._end_seconds
        started = end if self._started_seconds is None else self._started_seconds
        kinds = self._source.kinds if self._source is not None else ()
        return Observation(
            outcome=outcome,
            # The watches of a running cluster deliver them in the order of each kind.
            changes=tuple(sorted(self._changes, key=lambda each: each.resource_version)),
            writes=tuple(self._writes) if self.sees_scheduler else None,
            bound_by_suite=frozenset(self._bound_by_suite),
            steps=tuple(self._steps),
            stories=self.stories,
            kinds={kind.storage_key: kind for kind in kinds},
            started_seconds=started,
            end_seconds=end - started,
            shares_nodes=self.shares_nodes,
            in_real_time=isinstance(self._clock, RealClock),
        )

    def _requested(self, request: HandledRequest) -> None:
        if request.user_agent == USER_AGENT:
            self._bound_by_suite += _bindings([request])
        elif request.method not in _READING:
            self._writes.append(request)


class _ObservedKind:
    """A kind of target that also lets an observer see when the scheduler starts and ends."""

    def __init__(self, kind: TargetKind, observer: Recorder, *, explains: bool) -> None:
        self._kind = kind
        self._observer = observer
        self._explains = explains

    def why_not(self, case: Case) -> str | None:
        return self._kind.why_not(case)

    def new_clock(self) -> Clock:
        return self._kind.new_clock()

    @contextlib.asynccontextmanager
    async def serve(self, case: Case, *, clock: Clock, seed: int) -> AsyncIterator[Served]:
        async with self._kind.serve(case, clock=clock, seed=seed) as served:
            self._observer.sees_scheduler = served.server is not None
            self._observer.shares_nodes = served.shares_nodes
            yield served

    @contextlib.asynccontextmanager
    async def run(self, surroundings: Surroundings) -> AsyncIterator[Target]:
        self._observer.scheduler_starts()
        async with self._kind.run(surroundings) as target:
            yield target
            if self._explains and target.metrics_url is not None:
                stories = await read_stories(target.metrics_url, self._observer.pod_keys)
                self._observer.stories.update(stories)


def _records(observation: Observation) -> list[PodRecord]:
    """Return the pods' records, computed from the changes."""
    records: dict[str, PodRecord] = {}
    attempts: dict[str, dict[str, int]] = {}
    for change in observation.changes:
        seconds = change.seconds - observation.started_seconds
        if change.resource == "events":
            if change.object.get("reason") in ATTEMPT_REASONS:
                event = observation.object_after(change)
                uid = text_in(part(event, "regarding"), "uid")
                attempts.setdefault(uid, {})[change.name] = count_of(event)
            continue
        if (change.group, change.resource) != ("", "pods"):
            continue
        uid = text_in(part(change.object, "metadata"), "uid")
        if uid not in records:
            key = f"{change.namespace}/{change.name}"
            records[uid] = PodRecord(key=key, uid=uid, created_seconds=seconds)
        _update(records[uid], change, seconds)
    for record in records.values():
        record.attempts = sum(attempts.get(record.uid, {}).values())
        is_own = record.key in observation.bound_by_suite
        record.by_scheduler = record.bound_seconds is not None and not is_own
    return list(records.values())


def _update(record: PodRecord, change: ObjectChange, seconds: float) -> None:
    pod = change.object
    status = part(pod, "status")
    record.object = pod
    node = node_of(pod)
    if node and not record.node:
        record.node = node
        if change.type != "ADDED":
            record.bound_seconds, record.bound_version = seconds, change.resource_version
    for condition in objects(status.get("conditions")):
        is_false = text_in(condition, "status") == "False"
        if text_in(condition, "type") == "PodScheduled" and is_false and not node:
            _reject(record, change, seconds, condition, text_in(status, "nominatedNodeName"))
        elif text_in(condition, "reason") == _PREEMPTED and record.preempted_seconds is None:
            record.preempted_seconds = seconds
            record.preempted_version = change.resource_version
    is_ending = "deletionTimestamp" in part(pod, "metadata")
    if (is_ending or change.type == "DELETED") and record.deleted_seconds is None:
        record.deleted_seconds, record.deleted_version = seconds, change.resource_version


def _reject(
    record: PodRecord, change: ObjectChange, seconds: float, condition: Json, nominated: str
) -> None:
    """Add a report, unless it repeats the last one."""
    reason, message = text_in(condition, "reason"), text_in(condition, "message")
    if record.rejections:
        last = record.rejections[-1]
        if (last.reason, last.message, last.nominated_node) == (reason, message, nominated):
            return
    record.rejections.append(
        Rejection(
            seconds=seconds,
            version=change.resource_version,
            reason=reason,
            message=message,
            nominated_node=nominated,
        )
    )


def _bindings(writes: Sequence[HandledRequest]) -> Iterator[str]:
    """Yield the pods that requests have bound, as `namespace/name`."""
    for write in writes:
        words = write.path.partition("?")[0].split("/")
        if write.status < 300 and words[-1] == "binding" and len(words) > 5:
            yield f"{words[-4]}/{words[-2]}"
