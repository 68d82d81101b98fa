"""Jobs: pods until enough of them have succeeded, or too many have failed.

    pod ends ──> uid in uncountedTerminatedPods ──> finalizer removed ──> counted

    active ──enough succeeded──> SuccessCriteriaMet ──> pods deleted and counted ──> Complete
       └─────too many failed───> FailureTarget ───────> pods deleted and counted ──> Failed

The pods of a gang have a Workload and a PodGroup: see `pod_groups_of_jobs.py`.
The finalizer and the list of uids make the counts exact, even if this process ends in between.
Not implemented, and ignored in the spec: podFailurePolicy, successPolicy, limits per index,
podReplacementPolicy Failed, ttlSecondsAfterFinished.

Source: pkg/controller/job of Kubernetes v1.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.objects import NOTHING, Object, condition, with_condition
from fakeapi.actors.owners.pod_groups_of_jobs import PodGroupsOfJobs, in_group
from fakeapi.actors.owners.pods import Owner, deletion_rank, pod_from
from fakeapi.actors.resources import JOBS, PODS
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mapping, mappings, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.actors.controller import Context

_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_BUILT_IN_MANAGERS: Final = (None, "", "kubernetes.io/job-controller")
_BURST: Final = 500
_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_SECONDS_MAX: Final = 600.0
_NAME_MAX: Final = 58
_SHOWN_AS_ZERO: Final = ("ready", "terminating")


class _Verdict(NamedTuple):
    """The final condition that a Job gets once its pods are gone and counted."""

    type: str
    reason: str
    message: str

    @property
    def preliminary(self) -> str:
        return "SuccessCriteriaMet" if self.type == "Complete" else "FailureTarget"


@dataclasses.dataclass(frozen=True, slots=True)
class _Backoff:
    """The failures since the last success, and the time of the last failure."""

    failures: int = 0
    last: float = 0.0

    def after(self, successes: list[float], failures: list[float]) -> _Backoff:
        """Add pods that ended, given by the times of their ends."""
        later = [end for end in failures if not successes or end > max(successes)]
        before = 0 if successes else self.failures
        if not later:
            return _Backoff() if successes else self
        return _Backoff(before + len(later), max(later))

    def wait_seconds(self, now: float) -> float:
        """Return how long no pod may be created."""
        if not self.failures:
            return 0.0
        pause = min(_BACKOFF_SECONDS * 2.0 ** min(self.failures - 1, 10), _BACKOFF_SECONDS_MAX)
        return max(self.last + pause - now, 0.0)


@dataclasses.dataclass(slots=True)
class _Turn:
    """One reconciliation of a Job: the pods as they are, and the status to be written."""

    job: Object
    pods: list[Object]
    now: float
    status: Json
    uncounted: dict[str, list[str]]
    completed: set[int]
    active: list[Object]
    terminating: int
    backoff: _Backoff
    pod_group: Object | None = None
    verdict: _Verdict | None = None

    @property
    def spec(self) -> Json:
        return self.job.spec

    def total(self, kind: str) -> int:
        """Return the number of pods that have succeeded or failed, with pods not counted yet."""
        if kind == "succeeded" and _is_indexed(self.job):
            return len(self.completed)
        return integer(self.status.get(kind)) + len(self.uncounted[kind])

    def note(self, kind: str, pods: Iterable[Object]) -> None:
        """Add pods to the pods that have ended and are not counted yet."""
        listed = {uid for uids in self.uncounted.values() for uid in uids}
        self.uncounted[kind] += [pod.uid for pod in pods if pod.uid not in listed]

    def count(self, tracked: set[str]) -> None:
        """Count the noted pods that have no finalizer any more."""
        for kind, uids in self.uncounted.items():
            left = [uid for uid in uids if uid in tracked]
            self.status[kind] = integer(self.status.get(kind)) + len(uids) - len(left)
            self.uncounted[kind] = left

    def set_condition(self, kind: str, status: str, reason: str, message: str) -> bool:
        """Set a condition of the Job; return False if it had this status already."""
        present = mappings(self.status.get("conditions"))
        if any(one.get("type") == kind and one.get("status") == status for one in present):
            return False
        stamp = times.timestamp(self.now)
        new = condition(kind, status, reason, message, lastProbeTime=stamp)
        self.status["conditions"] = with_condition(present, new, stamp)
        return True


class Jobs(Owner):
    """Runs Jobs until they are complete or have failed."""

    name = "job-controller"
    resource = JOBS

    def __init__(self, context: Context, *, pod_groups: bool) -> None:
        super().__init__(context)
        self._pod_groups: Final = PodGroupsOfJobs(self) if pod_groups else None
        self._backoffs: dict[str, _Backoff] = {}

    async def sync(self, key: str) -> None:
        """Count ended pods, decide on the Job, create or delete pods, write the status."""
        job = self.owners.objects.get(key)
        await self._free_orphans(key, job)
        if job is None or job.spec.get("managedBy") not in _BUILT_IN_MANAGERS:
            return
        pods = await self.claimed(job, self.pods)
        if any(job.is_true(kind) for kind in ("Complete", "Failed")):
            self._backoffs.pop(key, None)
            await self._free(pods)
            return
        turn = _begin(job, pods, self._backoffs.get(key, _Backoff()), self.clock.now())
        if self._pod_groups is not None:
            turn.pod_group = await self._pod_groups.pod_group(job, pods)
        turn.verdict = _earlier_verdict(job) or _failure(turn)
        error: ActorApiError | None = None
        if turn.verdict is not None:
            await self._delete(turn, turn.active)
        elif not job.is_deleting:
            if (left := _seconds_to_deadline(turn)) is not None:
                self.queue.add_after(key, max(left, 0.001))
            error = await self._manage(key, turn)
            await self._conclude(turn)
        await self._track(key, turn)
        if error is not None:
            raise error

    async def _manage(self, key: str, turn: _Turn) -> ActorApiError | None:
        """Create or delete pods; return the error that stopped creation."""
        wanted = 0 if turn.spec.get("suspend") else _wanted(turn)
        missing = min(wanted - len(turn.active), _BURST)
        if missing < 0:
            # Surplus pods are not counted. Those whose index is not valid any more go first.
            turn.active.sort(key=lambda pod: (_is_valid(turn.job, pod), *deletion_rank(pod)))
            surplus = turn.active[: min(-missing, _BURST)]
            await self._free(surplus)
            await self._delete(turn, surplus)
            return None
        wait = turn.backoff.wait_seconds(turn.now)
        if wait > 0:
            self.queue.add_after(key, wait)
            return None
        created, error = await self.create_pods(turn.job, _new_pods(turn, missing))
        turn.active += created
        return error

    async def _delete(self, turn: _Turn, pods: list[Object]) -> None:
        await self.delete_pods(turn.job, pods)
        uids = {pod.uid for pod in pods}
        turn.active = [pod for pod in turn.active if pod.uid not in uids]
        turn.terminating += len(pods)

    async def _conclude(self, turn: _Turn) -> None:
        """Decide if a Job that has not failed is complete, suspended or resumed."""
        completions = turn.spec.get("completions")
        needed = completions if isinstance(completions, int) else 1
        if turn.total("succeeded") >= needed and not turn.active:
            message = "Reached expected number of succeeded pods"
            turn.verdict = _Verdict("Complete", "CompletionsReached", message)
        elif turn.spec.get("suspend"):
            if turn.set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                turn.status.pop("startTime", None)
                await self.record(turn.job, "Suspended", "Job suspended")
        elif turn.job.is_true("Suspended"):
            turn.set_condition("Suspended", "False", "JobResumed", "Job resumed")
            turn.status["startTime"] = times.timestamp(turn.now)
            await self.record(turn.job, "Resumed", "Job resumed")

    async def _track(self, key: str, turn: _Turn) -> None:
        """Write the uids of ended pods, remove their finalizers, then count them.

        In this order a pod is counted exactly once. The final condition comes with the last count.
        """
        verdict = turn.verdict
        all_end = verdict is not None or turn.job.is_deleting
        tracked = [pod for pod in turn.pods if _is_tracked(pod)]
        released = [pod for pod in tracked if all_end or not pod.is_active]
        if verdict is not None:
            if verdict.type == "Failed":
                turn.note("failed", [pod for pod in released if pod.phase != "Succeeded"])
            turn.set_condition(verdict.preliminary, "True", verdict.reason, verdict.message)
        await self._write_status(turn)
        self._backoffs[key] = turn.backoff
        await self._free(released)
        turn.count({pod.uid for pod in tracked} - {pod.uid for pod in released})
        is_over = not any(turn.uncounted.values()) and not turn.terminating
        if verdict is None or not is_over:
            await self._write_status(turn)
            return
        turn.set_condition(verdict.type, "True", verdict.reason, verdict.message)
        if verdict.type == "Complete":
            turn.status["completionTime"] = times.timestamp(turn.now)
        await self._write_status(turn)
        if verdict.type == "Complete":
            await self.record(turn.job, "Completed", "Job completed")
        else:
            await self.record(turn.job, verdict.reason, verdict.message, kind="Warning")

    async def _write_status(self, turn: _Turn) -> None:
        uncounted = {kind: uids for kind, uids in turn.uncounted.items() if uids}
        ready = sum(pod.is_ready for pod in turn.active)
        counts = {"active": len(turn.active), "ready": ready, "terminating": turn.terminating}
        turn.status |= counts
        turn.status["uncountedTerminatedPods"] = uncounted
        if _is_indexed(turn.job):
            turn.status["succeeded"] = len(turn.completed)
            turn.status["completedIndexes"] = _index_ranges(turn.completed)
        shown = {k: v for k, v in turn.status.items() if v not in (0, "") or k in _SHOWN_AS_ZERO}
        turn.job = await self.update_status(JOBS, turn.job, shown)

    async def _free(self, pods: list[Object]) -> None:
        """Remove the finalizer from pods. Raises ActorApiError."""
        for pod in pods:
            if not _is_tracked(pod):
                continue
            left = [one for one in pod.finalizers if one != _FINALIZER]
            try:
                await self.patch(PODS, pod, {"metadata": {"finalizers": left}})
            except ActorApiError as error:
                if error.code not in (404, 409, 422):
                    raise

    async def _free_orphans(self, key: str, job: Object | None) -> None:
        """Remove the finalizer from pods of an earlier Job of this name."""
        namespace, _, name = key.rpartition("/")
        for pod in self.pods.of_namespace(namespace):
            owner = pod.owner
            is_of_name = owner.get("kind") == "Job" and owner.get("name") == name
            if is_of_name and owner.get("uid") != (job or NOTHING).uid:
                await self._free([pod])


def _begin(job: Object, pods: list[Object], backoff: _Backoff, now: float) -> _Turn:
    """Read the status, and note the pods that have ended since it was written."""
    status = dict(job.status)
    if not job.spec.get("suspend"):
        status.setdefault("startTime", times.timestamp(now))
    noted = mapping(status.get("uncountedTerminatedPods"))
    tracked = [pod for pod in pods if _is_tracked(pod)]
    turn = _Turn(
        job=job,
        pods=pods,
        now=now,
        status=status,
        uncounted={kind: texts(noted.get(kind)) for kind in ("succeeded", "failed")},
        completed=_indexes_in(text(status.get("completedIndexes")), _completions(job)),
        active=[pod for pod in pods if pod.is_active],
        terminating=sum(pod.is_terminating for pod in pods),
        backoff=backoff,
    )
    turn.count({pod.uid for pod in tracked})
    listed = {uid for uids in turn.uncounted.values() for uid in uids}
    ended = [
        pod
        for pod in tracked
        if not pod.is_active and _is_valid(job, pod) and pod.uid not in listed
    ]
    succeeded = [pod for pod in ended if pod.phase == "Succeeded"]
    failed = [pod for pod in ended if pod.phase != "Succeeded"]
    if _is_indexed(job):
        turn.completed |= {index for pod in succeeded if (index := _index_of(job, pod)) is not None}
    else:
        turn.note("succeeded", succeeded)
    turn.note("failed", failed)
    turn.backoff = backoff.after(
        [_ended_at(pod, now) for pod in succeeded], [_ended_at(pod, now) for pod in failed]
    )
    return turn


def _ended_at(pod: Object, now: float) -> float:
    """Return the time at which the pod's last container ended, `now` if it is not known."""
    statuses = mappings(pod.status.get("containerStatuses"))
    ends = [mapping(mapping(one.get("state")).get("terminated")) for one in statuses]
    stamps = [text(end.get("finishedAt")) for end in ends]
    return max(map(times.epoch_seconds, stamps)) if stamps and all(stamps) else now


def _earlier_verdict(job: Object) -> _Verdict | None:
    """Return the verdict that the Job's conditions hold already."""
    for preliminary, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
        if job.is_true(preliminary):
            earlier = job.condition(preliminary)
            return _Verdict(final, text(earlier.get("reason")), text(earlier.get("message")))
    return None


def _failure(turn: _Turn) -> _Verdict | None:
    limit = integer(turn.spec.get("backoffLimit"))
    if turn.total("failed") > limit or _restarts_too_often(turn, limit):
        message = "Job has reached the specified backoff limit"
        return _Verdict("Failed", "BackoffLimitExceeded", message)
    left = _seconds_to_deadline(turn)
    if left is not None and left <= 0:
        message = "Job was active longer than specified deadline"
        return _Verdict("Failed", "DeadlineExceeded", message)
    return None


def _seconds_to_deadline(turn: _Turn) -> float | None:
    seconds, started = turn.spec.get("activeDeadlineSeconds"), text(turn.status.get("startTime"))
    if not isinstance(seconds, int) or not started or turn.spec.get("suspend"):
        return None
    return times.epoch_seconds(started) + seconds - turn.now


def _restarts_too_often(turn: _Turn, limit: int) -> bool:
    """True if the containers of running pods used up the limit (restartPolicy OnFailure)."""
    template = turn.job.template.spec
    if template.get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        integer(container.get("restartCount"))
        for pod in turn.pods
        if not pod.has_ended
        for field in ("initContainerStatuses", "containerStatuses")
        for container in mappings(pod.status.get(field))
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _wanted(turn: _Turn) -> int:
    """Return the number of pods that shall be active."""
    parallelism, completions = integer(turn.spec.get("parallelism")), turn.spec.get("completions")
    if isinstance(completions, int):
        return max(min(parallelism, completions - turn.total("succeeded")), 0)
    return len(turn.active) if turn.total("succeeded") else parallelism


def _new_pods(turn: _Turn, count: int) -> list[Object]:
    """Return pods to create: for the lowest free indexes, or without an index."""
    if not _is_indexed(turn.job):
        return [_new_pod(turn.job)] * count
    used = turn.completed | {_index_of(turn.job, pod) for pod in turn.pods if pod.is_active}
    free = [index for index in range(_completions(turn.job)) if index not in used]
    pods = [_new_indexed_pod(turn.job, index) for index in free[:count]]
    return pods if turn.pod_group is None else [in_group(pod, turn.pod_group) for pod in pods]


def _new_pod(job: Object, **metadata: Json | str) -> Object:
    template = job.template
    others = [one for one in template.finalizers if one != _FINALIZER]
    finalizers = [*others, _FINALIZER]
    return pod_from(JOBS, job, template, finalizers=finalizers, **metadata)


def _new_indexed_pod(job: Object, index: int) -> Object:
    """Return a pod with its index in annotation, label, name, hostname and environment."""
    ending = f"-{index}-"
    pod = _new_pod(
        job,
        labels={_INDEX: str(index)},
        annotations={_INDEX: str(index)},
        generateName=job.name[: _NAME_MAX - len(ending)] + ending,
    )
    spec = {**pod.spec, "hostname": f"{job.name}-{index}"}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_index_variable(one) for one in mappings(spec[field])]
    return pod.changed(spec=spec)


def _with_index_variable(container: Json) -> Json:
    present = mappings(container.get("env"))
    if any(one.get("name") == "JOB_COMPLETION_INDEX" for one in present):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    return {**container, "env": [*present, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def _is_tracked(pod: Object) -> bool:
    return _FINALIZER in pod.finalizers


def _is_indexed(job: Object) -> bool:
    return job.spec.get("completionMode") == "Indexed"


def _completions(job: Object) -> int:
    return integer(job.spec.get("completions"))


def _index_of(job: Object, pod: Object) -> int | None:
    """Return the pod's completion index, None if it is missing or not below completions."""
    value = pod.annotation(_INDEX)
    return int(value) if value.isdecimal() and int(value) < _completions(job) else None


def _is_valid(job: Object, pod: Object) -> bool:
    return not _is_indexed(job) or _index_of(job, pod) is not None


def _indexes_in(ranges: str, completions: int) -> set[int]:
    """Return the indexes below `completions` in a string such as `0-2,5`."""
    indexes: set[int] = set()
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (not dash or last.isdecimal()):
            indexes |= set(range(int(first), min(int(last or first) + 1, completions)))
    return indexes


def _index_ranges(indexes: Iterable[int]) -> str:
    """Return indexes as upstream writes them: `0-2,5`, and `0,1` for two neighbours."""
    runs: list[list[int]] = []
    for one in sorted(indexes):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in runs)
