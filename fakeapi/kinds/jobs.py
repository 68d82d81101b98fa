"""Jobs and CronJobs."""

from __future__ import annotations

from typing import Final

from fakeapi.types.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    containers_columns,
    find,
    find_mappings,
    find_number,
    find_text,
    or_else,
    selector_or_none,
    size,
    wide,
)
from fakeapi.types.durations import age, human_duration
from fakeapi.types.kind import NAMESPACED_FIELDS, GarbagePolicy, Generation, Kind, number_at
from fakeapi.types.objects import Json, is_deleting, text
from fakeapi.types.times import epoch_seconds

_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job_state(job: Json, _now_seconds: float) -> str:
    conditions: dict[str, bool] = {}
    for condition in find_mappings(job, ".status.conditions"):
        conditions.setdefault(text(condition.get("type")), condition.get("status") == "True")
    conditions[""] = is_deleting(job)
    return next((state for name, state in _JOB_STATES if conditions.get(name)), "Running")


def _job_completions(job: Json, _now_seconds: float) -> str:
    succeeded = find_number(job, ".status.succeeded")
    completions = find(job, ".spec.completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = find_number(job, ".spec.parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Json, now_seconds: float) -> str:
    start, end = find_text(job, ".status.startTime"), find_text(job, ".status.completionTime")
    if not start:
        return ""
    return human_duration((epoch_seconds(end) if end else now_seconds) - epoch_seconds(start))


def _last_schedule(cron_job: Json, now_seconds: float) -> str:
    last = find(cron_job, ".status.lastScheduleTime")
    return NONE if last is None else age(last, now_seconds)


_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)

KINDS: Final = (
    Kind(
        "batch", "v1", "jobs", "Job", schema="batch/v1.Job", categories=("all",),
        subresources=("status",), generation=Generation.SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.successful": number_at("status", "succeeded")},
        columns=(
            NAME, Column("Status", _job_state), Column("Completions", _job_completions),
            Column("Duration", _job_duration), AGE, *containers_columns(), _SELECTOR,
        ),
    ),
    Kind(
        "batch", "v1", "cronjobs", "CronJob", schema="batch/v1.CronJob", short_names=("cj",),
        categories=("all",), subresources=("status",), generation=Generation.SPEC,
        columns=(
            NAME, Column("Schedule", ".spec.schedule"),
            Column("Timezone", ".spec.timeZone", or_else(NONE)),
            Column("Suspend", ".spec.suspend", or_else(UNSET), type="boolean"),
            Column("Active", ".status.active", size, type="integer"),
            Column("Last Schedule", _last_schedule), AGE,
            *containers_columns(".spec.jobTemplate.spec.template"),
            wide("Selector", ".spec.jobTemplate.spec.selector", selector_or_none),
        ),
    ),
)  # fmt: skip
