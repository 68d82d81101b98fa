"""Validation of CronJobs: when they are due, and the Jobs that they make.

Source: pkg/apis/batch/validation/validation.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types.errors import FieldError, invalid, not_supported, required
from fakeapi.types.objects import Json, mapping, name_of, text
from fakeapi.validation.jobs import job_template_errors
from fakeapi.validation.numbers import number_errors
from fakeapi.validation.schedules import schedule_problem, time_zone_problems

__all__ = ["validate_cron_job", "validate_cron_job_update"]

_POLICIES: Final = ("Allow", "Forbid", "Replace")
#: So that the names of its Jobs, which are eleven longer, are names of pods yet.
_NAME_LENGTH_MAX: Final = 52
_ZONE_IN_SCHEDULE: Final = "TZ"


def validate_cron_job(cron_job: Json) -> list[FieldError]:
    """A new CronJob."""
    errors = _spec_errors(mapping(cron_job.get("spec")), None)
    name = name_of(cron_job)
    if len(name) > _NAME_LENGTH_MAX:
        why = f"must be no more than {_NAME_LENGTH_MAX} characters"
        errors.append(invalid("metadata.name", name, why))
    return errors


def validate_cron_job_update(new: Json, old: Json) -> list[FieldError]:
    """A time zone that was there before stays, wherever it is said."""
    return _spec_errors(mapping(new.get("spec")), mapping(old.get("spec")))


def _spec_errors(spec: Json, old: Json | None) -> list[FieldError]:
    errors = _schedule_errors(spec, old)
    errors += number_errors(spec, "spec", ("startingDeadlineSeconds",))
    zone = spec.get("timeZone")
    if isinstance(zone, str) and (old is None or zone != old.get("timeZone")):
        errors += [invalid("spec.timeZone", zone, why) for why in time_zone_problems(zone)]
    policy = text(spec.get("concurrencyPolicy"))
    if policy not in _POLICIES:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    errors += _job_errors(mapping(mapping(spec.get("jobTemplate")).get("spec")))
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return errors + number_errors(spec, "spec", limits)


def _schedule_errors(spec: Json, old: Json | None) -> list[FieldError]:
    field, schedule = "spec.schedule", text(spec.get("schedule"))
    if not schedule:
        return [required(field)]
    problem = schedule_problem(schedule)
    errors = [invalid(field, schedule, problem)] if problem else []
    if _ZONE_IN_SCHEDULE in schedule:
        if old is None or _ZONE_IN_SCHEDULE not in text(old.get("schedule")):
            why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid(field, schedule, why))
        elif "timeZone" in spec:
            why = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid(field, schedule, why))
    return errors


def _job_errors(spec: Json) -> list[FieldError]:
    """Its Jobs have the selectors that the server makes."""
    field = "spec.jobTemplate.spec"
    errors = job_template_errors(spec, field)
    if "selector" in spec:
        why = "`selector` will be auto-generated"
        errors.append(invalid(f"{field}.selector", spec["selector"], why))
    if spec.get("manualSelector") is True:
        errors.append(not_supported(f"{field}.manualSelector", True, ("nil", "false")))
    return errors
