"""The pods of a Job: what they are counted as, when they ended, and making them.

Source: job_controller.go, indexed_job_utils.go, backoff_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.conditions import condition_of
from fakeapi.actors.controller import annotation
from fakeapi.actors.owners.jobs.policies import matching_failure
from fakeapi.actors.owners.pods import is_active, phase_of, pod_from
from fakeapi.actors.resources import JOBS
from fakeapi.types import times
from fakeapi.types.objects import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ended_at",
    "failures_of",
    "index_of",
    "is_failed",
    "is_indexed",
    "is_tracked",
    "new_pod",
]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
CONTROLLER: Final = "batch.kubernetes.io/controller-uid"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_SECONDS_MAX: Final = 600.0
_NAME_MAX: Final = 58


def is_indexed(job: Json) -> bool:
    """Whether each completion of the Job has an index."""
    return mapping(job.get("spec")).get("completionMode") == "Indexed"


def replaces_failed_only(job: Json) -> bool:
    """Whether a pod that is being deleted is waited for before another takes its place."""
    spec = mapping(job.get("spec"))
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def is_tracked(pod: Json) -> bool:
    """Whether the pod is not counted for good yet."""
    return FINALIZER in finalizers_of(pod)


def is_failed(job: Json, pod: Json) -> bool:
    """Whether the pod counts as failed: it has, or is being deleted and nobody waits for it."""
    if phase_of(pod) == "Failed":
        return True
    waits = replaces_failed_only(job)
    return not waits and is_deleting(pod) and phase_of(pod) != "Succeeded"


def index_of(job: Json, pod: Json) -> int | None:
    """The pod's completion index, None if it has none that the Job has."""
    value = annotation(pod, _INDEX)
    if not value.isdecimal():
        return None
    index = int(value)
    return index if index < integer(mapping(job.get("spec")).get("completions")) else None


def failures_of(pod: Json) -> int:
    """How often the pod's index had failed when the pod was made."""
    return _count(pod, _FAILURES)


def all_failures_of(pod: Json) -> int:
    """The same with those that were ignored."""
    return _count(pod, _FAILURES) + _count(pod, _IGNORED)


def _count(pod: Json, name: str) -> int:
    value = annotation(pod, name)
    return int(value) if value.isdecimal() else 0


def ended_at(pod: Json) -> float:
    """When the pod's last container ended, or the best there is to be known about that."""
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    sidecars = {
        one.get("name")
        for one in mappings(spec.get("initContainers"))
        if one.get("restartPolicy") == "Always"
    }
    inits = mappings(status.get("initContainerStatuses"))
    containers = mappings(status.get("containerStatuses"))
    containers += [one for one in inits if one.get("name") in sidecars]
    ends = [mapping(mapping(one.get("state")).get("terminated")) for one in containers]
    stamps = [text(one.get("finishedAt")) for one in ends]
    if stamps and all(stamps):
        return max(map(times.epoch_seconds, stamps))
    ready = condition_of(pod, "Ready")
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.epoch_seconds(text(ready["lastTransitionTime"]))
    metadata = metadata_of(pod)
    if is_deleting(pod):
        grace = integer(metadata.get("deletionGracePeriodSeconds"))
        return times.epoch_seconds(text(metadata["deletionTimestamp"])) - grace
    return times.epoch_seconds(text(metadata.get("creationTimestamp")))


def wait_after(failures: int, last: float, now: float) -> float:
    """How long no pod is made after that many failures, the last of which was then."""
    if not failures:
        return 0.0
    pause = min(_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), _BACKOFF_SECONDS_MAX)
    return max(last + pause - now, 0.0)


def delayed_pods(job: Json, pods: list[Json], settled: set[int]) -> dict[int, Json]:
    """For each index that is open the last failed pod: it stays until its successor is made,

    to which it hands on how often the index has failed.
    """
    running = {index_of(job, pod) for pod in pods if is_active(pod)}
    found: dict[int, Json] = {}
    for pod in pods:
        index = index_of(job, pod)
        if index is None or not is_tracked(pod) or not is_failed(job, pod):
            continue
        if index in settled or index in running:
            continue
        last = found.get(index)
        newer = last is None or (
            all_failures_of(last) <= all_failures_of(pod) and ended_at(last) <= ended_at(pod)
        )
        if newer:
            found[index] = pod
    return found


def surplus_of(job: Json, active: list[Json], ranked: Iterable[Json], count: int) -> list[Json]:
    """The active pods that have to go: those that share an index or have none, then by rank."""
    gone: list[Json] = []
    ranked = list(ranked)
    if is_indexed(job):
        by_index: dict[int | None, list[Json]] = {}
        for pod in ranked:
            by_index.setdefault(index_of(job, pod), []).append(pod)
        for index, pods in by_index.items():
            gone += pods if index is None else pods[:-1]
    left = [pod for pod in ranked if pod not in gone]
    return gone + left[: max(min(count, len(active)) - len(gone), 0)]


def new_pod(job: Json, index: int | None, replaced: Json | None) -> Json:
    """A pod of the Job, for an index if there is one; the Job's template brings the labels."""
    template = mapping(mapping(job.get("spec")).get("template"))
    finalizers = texts(metadata_of(template).get("finalizers"))
    if FINALIZER not in finalizers:
        finalizers = [*finalizers, FINALIZER]
    labels = _own_labels(job)
    if index is None:
        return pod_from(JOBS, job, template, finalizers=finalizers, labels=labels)
    annotations = {_INDEX: str(index), **_failure_counts(job, replaced)}
    ending = f"-{index}-"
    pod = pod_from(
        JOBS,
        job,
        template,
        finalizers=finalizers,
        labels={**labels, _INDEX: str(index)},
        annotations=annotations,
        generateName=name_of(job)[: _NAME_MAX - len(ending)] + ending,
    )
    spec = mapping(pod.get("spec"))
    containers = {
        name: [_with_index_variable(one) for one in mappings(spec.get(name))]
        for name in ("initContainers", "containers")
        if spec.get(name)
    }
    return {**pod, "spec": {**spec, "hostname": f"{name_of(job)}-{index}", **containers}}


def _own_labels(job: Json) -> dict[str, str]:
    """The label a Job without selector finds its pods by: one that no server has completed."""
    spec = mapping(job.get("spec"))
    return {} if spec.get("selector") else {CONTROLLER: text(metadata_of(job).get("uid"))}


def _failure_counts(job: Json, replaced: Json | None) -> dict[str, str]:
    if mapping(job.get("spec")).get("backoffLimitPerIndex") is None:
        return {}
    failures, ignored = 0, 0
    if replaced is not None:
        counts = matching_failure(job, replaced).counts
        failures = failures_of(replaced) + counts
        ignored = all_failures_of(replaced) - failures_of(replaced) + (not counts)
    return {_FAILURES: str(failures)} | ({_IGNORED: str(ignored)} if ignored else {})


def _with_index_variable(container: Json) -> Json:
    present = mappings(container.get("env"))
    if any(one.get("name") == "JOB_COMPLETION_INDEX" for one in present):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    return {**container, "env": [*present, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}
