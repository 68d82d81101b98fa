"""The Job controller: count what has ended, decide, make or delete pods, let counted ones go."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.conditions import condition_of, is_ready, with_condition
from fakeapi.actors.owners.jobs import indexes
from fakeapi.actors.owners.jobs.pods import (
    CONTROLLER,
    FINALIZER,
    all_failures_of,
    delayed_pods,
    ended_at,
    failures_of,
    index_of,
    is_failed,
    is_indexed,
    is_tracked,
    new_pod,
    replaces_failed_only,
    surplus_of,
    wait_after,
)
from fakeapi.actors.owners.jobs.policies import matched_success, matching_failure
from fakeapi.actors.owners.pods import Owner, controller_of, deletion_rank, is_active, phase_of
from fakeapi.actors.resources import JOBS, PODS
from fakeapi.decoding.selectors import label_selector_of
from fakeapi.types import times
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    integer,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    text,
    texts,
)

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context
    from fakeapi.decoding.selectors import LabelSelector

__all__ = ["Jobs"]

_OURS: Final = (None, "", "kubernetes.io/job-controller")
_BURST: Final = 500
_STANDING: Final = {"SuccessCriteriaMet": "SuccessCriteriaMet", "FailureTarget": "Failed"}
_ZEROS: Final = ("ready", "terminating")


class _Verdict(NamedTuple):
    """The condition that the Job is to get next, on the way to its last one."""

    type: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Failures:
    """Failures since the last success, and when the last of them was."""

    count: int = 0
    last: float = 0.0


@dataclasses.dataclass(slots=True)
class _Turn:
    """What is known of a Job while it is dealt with once."""

    job: Json
    status: Json
    pods: list[Json]
    now: float
    active: int
    ready: int
    terminating: int
    succeeded: int = 0
    failed: int = 0
    verdict: _Verdict | None = None
    completed: set[int] = dataclasses.field(default_factory=set)  # as the status has them
    indexes: set[int] = dataclasses.field(default_factory=set)  # with those that are new
    failed_indexes: set[int] = dataclasses.field(default_factory=set)
    delayed: dict[int, Json] = dataclasses.field(default_factory=dict)
    failures: _Failures = _Failures()

    @property
    def spec(self) -> Json:
        return mapping(self.job.get("spec"))

    @property
    def stamp(self) -> str:
        return times.timestamp(self.now)

    def uncounted(self, kind: str) -> list[str]:
        """The uids that the status names as ended but not counted."""
        return texts(mapping(self.status.get("uncountedTerminatedPods")).get(kind))

    def is_valid(self, pod: Json) -> bool:
        """Whether the pod, once it has ended, is to be counted at all."""
        return not is_indexed(self.job) or index_of(self.job, pod) is not None


class Jobs(Owner):
    """Runs Jobs to their end."""

    name = "job-controller"
    resource = JOBS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._failures: dict[str, _Failures] = {}

    def selector_of(self, owner: Json) -> LabelSelector:
        """The Job's selector; one of an older server may have none."""
        made: Json = {"matchLabels": {CONTROLLER: metadata_of(owner).get("uid")}}
        return label_selector_of(mapping(owner.get("spec")).get("selector") or made)

    async def sync(self, key: str) -> None:
        """Count, decide, make or delete pods, then tell. Raises ActorApiError."""
        job = self.owners.objects.get(key)
        await self._free_orphans(key, job)
        if job is None or mapping(job.get("spec")).get("managedBy") not in _OURS:
            return
        pods = await self.claimed(job, self.pods)
        if _is_over(job):
            self._failures.pop(key, None)
            await self._free([pod for pod in pods if is_tracked(pod)])
            return
        turn = self._begin(key, job, pods)
        _judge(turn)
        self._plan_deadline(key, turn)
        failure: ActorApiError | None = None
        if turn.verdict is not None:
            await self._delete_active(turn)
        elif not is_deleting(job):
            failure = await self._manage(key, turn)
            await self._conclude(turn)
        await self._track(key, turn)
        if failure is not None:
            raise failure

    def _begin(self, key: str, job: Json, pods: list[Json]) -> _Turn:
        active = [pod for pod in pods if is_active(pod)]
        ended = ("Succeeded", "Failed")
        turn = _Turn(
            job=job,
            status=dict(mapping(job.get("status"))),
            pods=pods,
            now=self.clock.now(),
            active=len(active),
            ready=sum(map(is_ready, active)),
            terminating=sum(is_deleting(pod) and phase_of(pod) not in ended for pod in pods),
        )
        turn.status.setdefault("uncountedTerminatedPods", {})
        if not turn.spec.get("suspend"):
            turn.status.setdefault("startTime", turn.stamp)
        successes, failures = _newly_ended(turn)
        counted = [pod for pod in failures if matching_failure(job, pod).counts]
        for kind, new in (("succeeded", successes), ("failed", counted)):
            total = integer(turn.status.get(kind)) + len(new) + len(turn.uncounted(kind))
            setattr(turn, kind, total)
        turn.failures = _since_success(self._failures.get(key, _Failures()), successes, failures)
        if is_indexed(job):
            _count_indexes(turn)
        return turn

    def _plan_deadline(self, key: str, turn: _Turn) -> None:
        seconds = turn.spec.get("activeDeadlineSeconds")
        if isinstance(seconds, int) and "startTime" in turn.status and not turn.verdict:
            due = times.epoch_seconds(text(turn.status["startTime"])) + seconds
            self.queue.add_after(key, max(due - turn.now, 0.001))

    async def _delete_active(self, turn: _Turn) -> None:
        """A Job that is over deletes what runs; its finalizers go with the counting."""
        active = [pod for pod in turn.pods if is_active(pod)]
        await self.delete_pods(turn.job, active)
        turn.terminating += len(active)
        turn.active, turn.ready = 0, 0

    async def _manage(self, key: str, turn: _Turn) -> ActorApiError | None:
        """As many active pods as there are to be; why that could not be done."""
        active = [pod for pod in turn.pods if is_active(pod)]
        wanted = 0 if turn.spec.get("suspend") else _wanted(turn)
        surplus = surplus_of(
            turn.job, active, sorted(active, key=deletion_rank), max(len(active) - wanted, 0)
        )[:_BURST]
        if surplus:
            await self._free(surplus)
            await self.delete_pods(turn.job, surplus)
            turn.active -= len(surplus)
            turn.ready -= sum(map(is_ready, surplus))
            turn.terminating += len(surplus)
            return None
        waiting = turn.terminating if replaces_failed_only(turn.job) else 0
        missing = min(wanted - waiting - turn.active, _BURST)
        if missing <= 0:
            return None
        made = self._new_pods(key, turn, missing)
        created, failure = await self.create_pods(turn.job, made)
        turn.active += len(created)
        return failure

    def _new_pods(self, key: str, turn: _Turn, count: int) -> list[Json]:
        """The pods to be made now; for others there will be another turn."""
        per_index = turn.spec.get("backoffLimitPerIndex") is not None
        wait = wait_after(turn.failures.count, turn.failures.last, turn.now)
        if not per_index and wait > 0:
            self.queue.add_after(key, wait)
            return []
        if not is_indexed(turn.job):
            return [new_pod(turn.job, None, None) for _ in range(count)]
        open_indexes = _open_indexes(turn)[:count]
        waits = {index: _index_wait(turn, index) for index in open_indexes}
        ready = [index for index in open_indexes if not per_index or waits[index] <= 0]
        if open_indexes and not ready:
            self.queue.add_after(key, min(waits.values()))
        return [new_pod(turn.job, index, turn.delayed.get(index)) for index in ready]

    async def _conclude(self, turn: _Turn) -> None:
        """What becomes of a Job that has not failed: it is complete, suspended, or goes on."""
        completions = turn.spec.get("completions")
        enough = turn.succeeded > 0
        if isinstance(completions, int):
            enough = turn.succeeded >= completions
        if enough and not turn.active:
            message = "Reached expected number of succeeded pods"
            turn.verdict = _Verdict("SuccessCriteriaMet", "CompletionsReached", message)
        elif turn.spec.get("suspend"):
            if _set_condition(turn, "Suspended", "True", "JobSuspended", "Job suspended"):
                turn.status.pop("startTime", None)
                await self.tell(turn.job, "Suspended", "Job suspended")
        elif condition_of(turn.job, "Suspended").get("status") == "True":
            _set_condition(turn, "Suspended", "False", "JobResumed", "Job resumed")
            turn.status["startTime"] = turn.stamp
            await self.tell(turn.job, "Resumed", "Job resumed")

    async def _track(self, key: str, turn: _Turn) -> None:
        """Say what has ended, let go of it, count it, and end the Job if nothing is left to count.

        First said, then released, then counted: whoever dies in between counts nothing twice.
        """
        status = turn.status
        status |= {"active": turn.active, "ready": turn.ready, "terminating": turn.terminating}
        released = _note_ended(turn)
        turn.verdict = last = _announced(turn)
        job = await self._tell_status(turn)
        self._failures[key] = turn.failures
        await self._free(released)
        gone = {metadata_of(pod).get("uid") for pod in released}
        tracked = {metadata_of(pod).get("uid") for pod in turn.pods if is_tracked(pod)} - gone
        _settle(turn, tracked)
        left = mapping(status["uncountedTerminatedPods"])
        if last is not None and not left and not turn.terminating:
            _set_condition(turn, last.type, "True", last.reason, last.message)
            if last.type == "Complete":
                status["completionTime"] = turn.stamp
            turn.job = job
            await self._tell_status(turn)
            await self._tell_end(turn, last)
            return
        turn.job = job
        await self._tell_status(turn)
        if released:
            self.queue.add(key)

    async def _tell_status(self, turn: _Turn) -> Json:
        status = {
            name: value for name, value in turn.status.items() if value != 0 or name in _ZEROS
        }
        return await self.update_status(JOBS, turn.job, status)

    async def _tell_end(self, turn: _Turn, last: _Verdict) -> None:
        if last.type == "Complete":
            await self.tell(turn.job, "Completed", "Job completed")
        else:
            await self.tell(turn.job, last.reason, last.message, kind="Warning")

    async def _free(self, pods: list[Json]) -> None:
        """Take the finalizer off pods. Raises ActorApiError."""
        for pod in pods:
            left = [one for one in finalizers_of(pod) if one != FINALIZER]
            if len(left) == len(finalizers_of(pod)):
                continue
            try:
                await self.patch(PODS, pod, {"metadata": {"finalizers": left}})
            except ActorApiError as error:
                if error.code not in (404, 409, 422):
                    raise

    async def _free_orphans(self, key: str, job: Json | None) -> None:
        """Pods of a Job that is no more, or was another of that name, are not held."""
        namespace, _, name = key.rpartition("/")
        uid = metadata_of(job or {}).get("uid")
        orphans = []
        for pod in self.pods.of_namespace(namespace):
            reference = controller_of(pod)
            is_of_name = reference.get("kind") == "Job" and reference.get("name") == name
            if is_of_name and reference.get("uid") != uid and is_tracked(pod):
                orphans.append(pod)
        await self._free(orphans)


def _newly_ended(turn: _Turn) -> tuple[list[Json], list[Json]]:
    """The pods that have succeeded and failed and that no status knows of."""
    known = set(turn.uncounted("succeeded")), set(turn.uncounted("failed"))
    found: tuple[list[Json], list[Json]] = ([], [])
    for pod in turn.pods:
        if not is_tracked(pod) or not turn.is_valid(pod):
            continue
        uid = text(metadata_of(pod).get("uid"))
        if phase_of(pod) == "Succeeded" and uid not in known[0]:
            found[0].append(pod)
        elif is_failed(turn.job, pod) and uid not in known[1]:
            found[1].append(pod)
    return found


def _since_success(old: _Failures, successes: list[Json], failures: list[Json]) -> _Failures:
    ends = sorted(map(ended_at, failures))
    if not successes:
        return _Failures(old.count + len(ends), ends[-1]) if ends else old
    newest = max(map(ended_at, successes))
    later = [end for end in ends if end > newest]
    return _Failures(len(later), later[-1]) if later else _Failures()


def _count_indexes(turn: _Turn) -> None:
    job, status = turn.job, turn.status
    completions = integer(turn.spec.get("completions"))
    turn.completed = indexes.parsed(text(status.get("completedIndexes")), completions)
    tracked = [(index_of(job, pod), pod) for pod in turn.pods if is_tracked(pod)]
    valid = [(index, pod) for index, pod in tracked if index is not None]
    new = {index for index, pod in valid if phase_of(pod) == "Succeeded"}
    turn.indexes = turn.completed | new
    turn.succeeded = len(turn.indexes)
    limit = turn.spec.get("backoffLimitPerIndex")
    if not isinstance(limit, int):
        return
    known = indexes.parsed(text(status.get("failedIndexes")), completions)
    turn.failed_indexes = known | {index for index, pod in valid if _fails_index(job, pod, limit)}
    turn.delayed = delayed_pods(job, turn.pods, turn.indexes | turn.failed_indexes)


def _fails_index(job: Json, pod: Json, limit: int) -> bool:
    if not is_failed(job, pod):
        return False
    failure = matching_failure(job, pod)
    return failure.action == "FailIndex" or (failure.counts and failures_of(pod) >= limit)


def _judge(turn: _Turn) -> None:
    """The verdict that stands, or the first reason there is for one."""
    for kind, becomes in (
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ("FailureTarget", "Failed"),
    ):
        standing = condition_of(turn.job, kind)
        if standing.get("status") == "True":
            reason, message = text(standing.get("reason")), text(standing.get("message"))
            turn.verdict = _Verdict(becomes, reason, message)
            return
    for pod in turn.pods:
        if is_failed(turn.job, pod):
            message = matching_failure(turn.job, pod).message
            if message:
                turn.verdict = _Verdict("FailureTarget", "PodFailurePolicy", message)
                return
    failure = _over_limit(turn) or _failed_indexes(turn)
    if failure is not None:
        turn.verdict = _Verdict("FailureTarget", *failure)
        return
    met = matched_success(turn.job, turn.indexes) if is_indexed(turn.job) else ""
    if met:
        turn.verdict = _Verdict("SuccessCriteriaMet", "SuccessPolicy", met)


def _over_limit(turn: _Turn) -> tuple[str, str] | None:
    limit = integer(turn.spec.get("backoffLimit"))
    if turn.failed > limit or _restarts_too_often(turn, limit):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = turn.spec.get("activeDeadlineSeconds")
    if not isinstance(deadline, int) or turn.spec.get("suspend"):
        return None
    started = text(turn.status.get("startTime"))
    if started and times.epoch_seconds(started) + deadline <= turn.now:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _restarts_too_often(turn: _Turn, limit: int) -> bool:
    template = mapping(mapping(turn.spec.get("template")).get("spec"))
    if template.get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in turn.pods:
        if phase_of(pod) in ("Running", "Pending"):
            status = mapping(pod.get("status"))
            for field in ("initContainerStatuses", "containerStatuses"):
                restarts += sum(
                    integer(one.get("restartCount")) for one in mappings(status.get(field))
                )
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_indexes(turn: _Turn) -> tuple[str, str] | None:
    if turn.spec.get("backoffLimitPerIndex") is None or not turn.failed_indexes:
        return None
    most = turn.spec.get("maxFailedIndexes")
    if isinstance(most, int) and len(turn.failed_indexes) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", message
    if len(turn.failed_indexes) + len(turn.indexes) >= integer(turn.spec.get("completions")):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _wanted(turn: _Turn) -> int:
    """How many pods are to be active at once."""
    parallelism, completions = integer(turn.spec.get("parallelism")), turn.spec.get("completions")
    if isinstance(completions, int):
        return max(min(parallelism, completions - turn.succeeded), 0)
    return turn.active if turn.succeeded else parallelism  # after a success no more begin


def _open_indexes(turn: _Turn) -> list[int]:
    """The indexes, from the lowest on, that neither run nor are settled."""
    closed = turn.indexes | turn.failed_indexes
    waits = replaces_failed_only(turn.job)
    for pod in turn.pods:
        terminates = is_deleting(pod) and phase_of(pod) not in ("Succeeded", "Failed")
        index = index_of(turn.job, pod)
        if index is not None and (is_active(pod) or (waits and terminates)):
            closed = closed | {index}
    return [one for one in range(integer(turn.spec.get("completions"))) if one not in closed]


def _index_wait(turn: _Turn, index: int) -> float:
    last = turn.delayed.get(index)
    if last is None:
        return 0.0
    return wait_after(all_failures_of(last) + 1, ended_at(last), turn.now)


def _note_ended(turn: _Turn) -> list[Json]:
    """Name in the status what has ended; the pods that can be let go then."""
    _settle(turn, {metadata_of(pod).get("uid") for pod in turn.pods if is_tracked(pod)})
    uncounted = {kind: turn.uncounted(kind) for kind in ("succeeded", "failed")}
    released: list[Json] = []
    fails_all = turn.verdict is not None and turn.verdict.type != "SuccessCriteriaMet"
    for pod in sorted(turn.pods, key=lambda one: index_of(turn.job, one) or 0):
        failed = is_failed(turn.job, pod)
        if not is_tracked(pod) or not _can_go(turn, pod, failed=failed):
            continue
        released.append(pod)
        uid = text(metadata_of(pod).get("uid"))
        if phase_of(pod) == "Succeeded" and uid not in uncounted["failed"]:
            if not is_indexed(turn.job) and uid not in uncounted["succeeded"]:
                uncounted["succeeded"].append(uid)
        elif (failed or fails_all) and uid not in uncounted["failed"] and _counts(turn, pod):
            uncounted["failed"].append(uid)
        if sum(map(len, uncounted.values())) >= _BURST:
            break
    turn.status["uncountedTerminatedPods"] = {
        name: uids for name, uids in uncounted.items() if uids
    }
    if is_indexed(turn.job):
        turn.status["succeeded"] = len(turn.indexes)
        turn.status["completedIndexes"] = indexes.shown(turn.indexes)
        if not turn.indexes:
            del turn.status["completedIndexes"]
        if turn.spec.get("backoffLimitPerIndex") is not None:
            turn.status["failedIndexes"] = indexes.shown(turn.failed_indexes)
    return released


def _counts(turn: _Turn, pod: Json) -> bool:
    return turn.is_valid(pod) and matching_failure(turn.job, pod).counts


def _can_go(turn: _Turn, pod: Json, *, failed: bool) -> bool:
    if is_deleting(turn.job) or turn.verdict is not None or phase_of(pod) == "Succeeded":
        return True
    held = turn.delayed.get(-1 if (index := index_of(turn.job, pod)) is None else index)
    return failed and held is not pod


def _settle(turn: _Turn, tracked: set[object]) -> None:
    """Count what is named in the status and has no finalizer any more."""
    left: Json = {}
    for kind in ("succeeded", "failed"):
        uids = turn.uncounted(kind)
        kept = [uid for uid in uids if uid in tracked]
        turn.status[kind] = integer(turn.status.get(kind)) + len(uids) - len(kept)
        if kept:
            left[kind] = kept
    turn.status["uncountedTerminatedPods"] = left


def _announced(turn: _Turn) -> _Verdict | None:
    """Set the condition that comes before the last one; which is the last one."""
    verdict = turn.verdict
    if verdict is None:
        return None
    if verdict.type == "Failed":
        return verdict
    _set_condition(turn, verdict.type, "True", verdict.reason, verdict.message)
    last = "Complete" if verdict.type == "SuccessCriteriaMet" else "Failed"
    return verdict._replace(type=last)


def _set_condition(turn: _Turn, kind: str, value: str, reason: str, message: str) -> bool:
    """Whether a condition is new or has another status now."""
    present = mappings(turn.status.get("conditions"))
    if any(one.get("type") == kind and one.get("status") == value for one in present):
        return False
    condition: Json = {"type": kind, "status": value, "reason": reason, "message": message}
    condition["lastProbeTime"] = turn.stamp
    turn.status["conditions"] = with_condition(present, condition, turn.stamp)
    return True


def _is_over(job: Json) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))
