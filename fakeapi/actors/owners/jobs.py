"""Jobs: pods until enough of them have succeeded, or too many have failed.

Pods carry a finalizer until they are counted, so that none is lost. Source: pkg/controller/job of
Kubernetes v1.36.3. Not here: podFailurePolicy, successPolicy, backoffLimitPerIndex, and
podReplacementPolicy, which a Job may have but which are not followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ... import times
from ...objects import (
    Json,
    finalizers_of,
    integer,
    is_deleting,
    mapping,
    mappings,
    metadata_of,
    name_of,
    text,
    texts,
)
from ...selectors import label_selector_of
from ..client import ActorApiError
from ..conditions import condition_of, is_ready, with_condition
from ..controller import annotation
from ..resources import JOBS, PODS
from .pods import Owner, deletion_rank, is_active, phase_of, pod_from

if TYPE_CHECKING:
    from ...selectors import LabelSelector

__all__ = ["Jobs"]

_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
_CONTROLLER: Final = "batch.kubernetes.io/controller-uid"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_SECONDS_MAX: Final = 600.0
_COUNTED: Final = {"Succeeded": "succeeded", "Failed": "failed"}


class Jobs(Owner):
    """Runs Jobs to their end."""

    name = "job-controller"
    resource = JOBS

    def selector_of(self, owner: Json) -> LabelSelector:
        """The Job's selector, or the one that upstream's server makes up for it."""
        made: Json = {"matchLabels": {_CONTROLLER: metadata_of(owner).get("uid")}}
        return label_selector_of(mapping(owner.get("spec")).get("selector") or made)

    async def sync(self, key: str) -> None:
        """Count, then make or delete pods, then tell. Raises ActorApiError."""
        job = self.owners.objects.get(key)
        if job is None:
            return
        pods = await self.claimed(job, self.pods)
        if _is_over(job) or is_deleting(job):
            await self._let_go([pod for pod in pods if not is_active(pod) or is_deleting(job)])
            return
        now, status = self.clock.now(), dict(mapping(job.get("status")))
        spec = mapping(job.get("spec"))
        if not spec.get("suspend"):
            status.setdefault("startTime", times.timestamp(now))
        status, counted = _count(status, pods)
        active = [pod for pod in pods if is_active(pod)]
        verdict = _verdict(job, status, active, now)
        if verdict is not None or spec.get("suspend"):
            await self.delete_pods(active)
            active = []
        else:
            active = await self._manage(key, job, status, pods, active)
        ready = sum(is_ready(pod) for pod in active)
        status |= {"active": len(active), "ready": ready, "terminating": _terminating(pods)}
        _set_conditions(job, status, verdict, times.timestamp(now))
        status = {name: value for name, value in status.items() if value != 0 or name in _ZEROS}
        if counted:  # first said, then released: whoever dies in between counts nothing twice
            job = await self.update_status(self.resource, job, status)
            await self._let_go(counted)
            self.queue.add(key)
        else:
            await self.update_status(self.resource, job, status)
        deadline = spec.get("activeDeadlineSeconds")
        if isinstance(deadline, int) and "startTime" in status:
            start = times.epoch_seconds(text(status["startTime"]))
            if start + deadline > now:
                self.queue.add_after(key, start + deadline - now)

    async def _manage(
        self, key: str, job: Json, status: Json, pods: list[Json], active: list[Json]
    ) -> list[Json]:
        """As many pods as are to run at once; which do."""
        spec = mapping(job.get("spec"))
        parallelism = integer(spec.get("parallelism"))
        completions, succeeded = spec.get("completions"), integer(status.get("succeeded"))
        wanted = parallelism
        if isinstance(completions, int):
            wanted = min(parallelism, completions - succeeded)
        elif succeeded:
            wanted = len(active)  # one has succeeded: the others may end, no more begin
        missing = wanted - len(active)
        if missing < 0:
            surplus = sorted(active, key=deletion_rank)[:-missing]
            await self.delete_pods(surplus)
            return [pod for pod in active if pod not in surplus]
        delay = self._backoff(status, pods)
        if missing > 0 and delay > 0:
            self.queue.add_after(key, delay)
        elif missing > 0:
            made = [_pod(job, index) for index in _indexes(job, status, active, missing)]
            failure = await self.create_pods(job, made)
            if failure is not None:
                raise failure
            return [*active, *made]
        return active

    def _backoff(self, status: Json, pods: list[Json]) -> float:
        """How long a new pod waits after the last failure."""
        ends = [_ended(pod) for pod in pods if phase_of(pod) == "Failed"]
        newest_success = max((_ended(p) for p in pods if phase_of(p) == "Succeeded"), default=0.0)
        recent = [end for end in ends if end > newest_success]
        if not recent or not integer(status.get("failed")):
            return 0.0
        wait = min(_BACKOFF_SECONDS * 2.0 ** min(len(recent) - 1, 10), _BACKOFF_SECONDS_MAX)
        return max(recent) + wait - self.clock.now()

    async def _let_go(self, pods: list[Json]) -> None:
        for pod in pods:
            left = [one for one in finalizers_of(pod) if one != _FINALIZER]
            if len(left) == len(finalizers_of(pod)):
                continue
            try:
                await self.patch(PODS, pod, {"metadata": {"finalizers": left}})
            except ActorApiError as error:
                if error.code not in (404, 409, 422):
                    raise


_ZEROS: Final = ("ready", "terminating")


def _count(status: Json, pods: list[Json]) -> tuple[Json, list[Json]]:
    """Add what has ended; the pods that may go because of it.

    Whose uid is among the uncounted of the stored status is in the numbers already.
    """
    uncounted = {
        name: set(texts(mapping(status.get("uncountedTerminatedPods")).get(name)))
        for name in _COUNTED.values()
    }
    tracked = [
        pod for pod in pods if _FINALIZER in finalizers_of(pod) and phase_of(pod) in _COUNTED
    ]
    status = dict(status)
    remaining: Json = {}
    for pod in tracked:
        name, uid = _COUNTED[phase_of(pod)], text(metadata_of(pod).get("uid"))
        if uid not in uncounted[name]:
            status[name] = integer(status.get(name)) + 1
            index = annotation(pod, _INDEX)
            if name == "succeeded" and index:
                status["completedIndexes"] = _with_index(status, int(index))
        remaining.setdefault(name, [])
        remaining[name] = [*texts(remaining[name]), uid]
    status["uncountedTerminatedPods"] = remaining
    return status, tracked


def _with_index(status: Json, index: int) -> str:
    """The completed indexes in their short form: 0-2,5."""
    known = sorted(_completed(status) | {index})
    runs: list[list[int]] = []
    for one in known:
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in runs)


def _completed(status: Json) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text(status.get("completedIndexes")).split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _indexes(job: Json, status: Json, active: list[Json], count: int) -> list[int | None]:
    """The lowest indexes that neither run nor are done; none for a Job without indexes."""
    spec = mapping(job.get("spec"))
    if spec.get("completionMode") != "Indexed":
        return [None] * count
    taken = _completed(status) | {int(annotation(pod, _INDEX) or -1) for pod in active}
    free = [one for one in range(integer(spec.get("completions"))) if one not in taken]
    return list(free[:count])


def _pod(job: Json, index: int | None) -> Json:
    template = mapping(mapping(job.get("spec")).get("template"))
    labels = {"batch.kubernetes.io/job-name": name_of(job), "job-name": name_of(job)}
    uid = text(metadata_of(job).get("uid"))
    labels |= {_CONTROLLER: uid, "controller-uid": uid}
    finalizers = [*texts(metadata_of(template).get("finalizers")), _FINALIZER]
    if index is None:
        return pod_from(JOBS, job, template, finalizers=finalizers, labels=labels)
    number = {_INDEX: str(index)}
    pod = pod_from(
        JOBS,
        job,
        template,
        finalizers=finalizers,
        labels={**labels, **number},
        annotations=number,
        generateName=f"{name_of(job)}-{index}-",
    )
    spec = mapping(pod.get("spec"))
    containers = [
        {
            **one,
            "env": [
                *mappings(one.get("env")),
                {"name": "JOB_COMPLETION_INDEX", "value": str(index)},
            ],
        }
        for one in mappings(spec.get("containers"))
    ]
    return {
        **pod,
        "spec": {**spec, "hostname": f"{name_of(job)}-{index}", "containers": containers},
    }


def _verdict(
    job: Json, status: Json, active: list[Json], now: float
) -> tuple[str, str, str] | None:
    """Complete or Failed with reason and message, None while it is open."""
    spec = mapping(job.get("spec"))
    succeeded, failed = integer(status.get("succeeded")), integer(status.get("failed"))
    deadline = spec.get("activeDeadlineSeconds")
    restarts = 0
    if mapping(mapping(spec.get("template")).get("spec")).get("restartPolicy") == "OnFailure":
        for pod in active:
            containers = mappings(mapping(pod.get("status")).get("containerStatuses"))
            restarts += sum(integer(one.get("restartCount")) for one in containers)
    limit = integer(spec.get("backoffLimit"))
    if failed > limit or (restarts and restarts >= max(limit, 1)):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    started = "startTime" in status and not spec.get("suspend")
    since = times.epoch_seconds(text(status["startTime"])) if started else now
    if isinstance(deadline, int) and started and since + deadline <= now:
        message = "Job was active longer than specified deadline"
        return "Failed", "DeadlineExceeded", message
    completions = spec.get("completions")
    if isinstance(completions, int):
        if succeeded >= completions:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    elif succeeded and not active:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _set_conditions(
    job: Json, status: Json, verdict: tuple[str, str, str] | None, stamp: str
) -> None:
    conditions: object = mapping(job.get("status")).get("conditions")
    spec = mapping(job.get("spec"))
    suspended = condition_of(job, "Suspended").get("status") == "True"
    new: list[tuple[str, str, str, str]] = []
    if verdict is not None:
        kind, reason, message = verdict
        before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        new.append((before, "True", reason, message))
        if not status.get("terminating"):
            new.append((kind, "True", reason, message))
            status["uncountedTerminatedPods"] = {}
            if kind == "Complete":
                status["completionTime"] = stamp
    elif spec.get("suspend"):
        new.append(("Suspended", "True", "JobSuspended", "Job suspended"))
        status.pop("startTime", None)
    elif suspended:
        new.append(("Suspended", "False", "JobResumed", "Job resumed"))
    for kind, value, reason, message in new:
        condition: Json = {"type": kind, "status": value, "reason": reason, "message": message}
        conditions = with_condition(conditions, {**condition, "lastProbeTime": stamp}, stamp)
    if mappings(conditions):
        status["conditions"] = conditions


def _is_over(job: Json) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def _terminating(pods: list[Json]) -> int:
    return sum(is_deleting(pod) and phase_of(pod) not in _COUNTED for pod in pods)


def _ended(pod: Json) -> float:
    """When the last container of a pod ended."""
    ends = [
        text(mapping(mapping(one.get("state")).get("terminated")).get("finishedAt"))
        for one in mappings(mapping(pod.get("status")).get("containerStatuses"))
    ]
    stamp = max(ends, default="") or text(metadata_of(pod).get("creationTimestamp"))
    return times.epoch_seconds(stamp)
