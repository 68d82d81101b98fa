"""Validation of what only Deployments, StatefulSets, Jobs and CronJobs have.

Of Jobs it is what their authors meet: numbers, the pods' restart policy, and what is fixed.

Source: pkg/apis/{apps,batch}/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from ..errors import FieldError, forbidden, invalid, not_supported, required
from ..objects import Json, integer, labels_of, mapping, text
from .metadata import IMMUTABLE
from .pods import validate_spec
from .workloads import NOT_NEGATIVE, share_errors, validate_workload, validate_workload_update

_STRATEGIES: Final = ("Recreate", "RollingUpdate")
_OF_STATEFUL_SETS: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_NUMBERS_OF_JOBS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
)
_FIXED_IN_JOBS: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_JOBS_RESTART: Final = ("OnFailure", "Never")


def validate_deployment(deployment: Json) -> list[FieldError]:
    """What all workloads have, and how pods are replaced."""
    spec = mapping(deployment.get("spec"))
    errors = validate_workload(deployment)
    if not isinstance(spec.get("selector"), dict):  # which matches nothing
        labels = labels_of(mapping(spec.get("template")))
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, why))
    errors += _strategy_errors(mapping(spec.get("strategy")))
    errors += _number_errors(spec, "spec", ("revisionHistoryLimit", "progressDeadlineSeconds"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and integer(deadline) <= integer(spec.get("minReadySeconds")):
        why = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, why))
    return errors


def _strategy_errors(strategy: Json) -> list[FieldError]:
    field, rolling = "spec.strategy", strategy.get("rollingUpdate")
    kind = text(strategy.get("type"))
    if kind not in _STRATEGIES:
        return [not_supported(field, strategy, _STRATEGIES)]
    if kind == "Recreate":
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden(f"{field}.rollingUpdate", why)]
    field = f"{field}.rollingUpdate"
    shares = {name: mapping(rolling).get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    errors = share_errors(shares["maxUnavailable"], f"{field}.maxUnavailable")
    errors += share_errors(shares["maxSurge"], f"{field}.maxSurge", most=False)
    if all(share in (0, "0%") for share in shares.values()):
        why = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{field}.maxUnavailable", shares["maxUnavailable"], why))
    return errors


def validate_stateful_set_update(new: Json, old: Json) -> list[FieldError]:
    """All but a few fields of the spec are fixed."""
    specs = [mapping(obj.get("spec")) for obj in (new, old)]
    rest = [{k: v for k, v in spec.items() if k not in _OF_STATEFUL_SETS} for spec in specs]
    return [] if rest[0] == rest[1] else [forbidden("spec", _FIXED)]


def validate_job(job: Json) -> list[FieldError]:
    """Numbers and the template of a Job."""
    return _job_errors(mapping(job.get("spec")), "spec")


def validate_cron_job(cron_job: Json) -> list[FieldError]:
    """The Jobs that a CronJob makes."""
    template = mapping(mapping(cron_job.get("spec")).get("jobTemplate"))
    return _job_errors(mapping(template.get("spec")), "spec.jobTemplate.spec")


def _job_errors(spec: Json, field: str) -> list[FieldError]:
    errors = _number_errors(spec, field, _NUMBERS_OF_JOBS)
    pod_spec = mapping(mapping(spec.get("template")).get("spec"))
    errors += validate_spec(pod_spec, f"{field}.template.spec", is_pod=False)
    policy = text(pod_spec.get("restartPolicy"))
    where = f"{field}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        errors.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in _JOBS_RESTART:
        errors.append(not_supported(where, policy, _JOBS_RESTART))
    elif "podFailurePolicy" in spec and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(where, policy, why))
    return errors


def validate_job_update(new: Json, old: Json) -> list[FieldError]:
    """The selector is fixed, the template unless the Job is suspended, completions nearly so."""
    spec, old_spec = mapping(new.get("spec")), mapping(old.get("spec"))
    errors = validate_workload_update(new, old)
    completions = spec.get("completions")
    if completions != old_spec.get("completions"):
        errors += _completions_errors(spec, old_spec)
    fixed = _FIXED_IN_JOBS if old_spec.get("suspend") is True else ("template", *_FIXED_IN_JOBS)
    errors += [
        invalid(f"spec.{name}", spec.get(name), IMMUTABLE)
        for name in fixed
        if spec.get(name) != old_spec.get(name)
    ]
    return errors


def _completions_errors(spec: Json, old_spec: Json) -> list[FieldError]:
    field, completions = "spec.completions", spec.get("completions")
    if spec.get("completionMode") != "Indexed" or completions is None:
        return [invalid(field, completions, IMMUTABLE)]
    if completions != spec.get("parallelism"):
        why = "can only be modified in tandem with spec.parallelism"
        return [invalid(field, completions, why)]
    return []


def _number_errors(spec: Json, field: str, names: tuple[str, ...]) -> list[FieldError]:
    return [
        invalid(f"{field}.{name}", spec[name], NOT_NEGATIVE)
        for name in names
        if integer(spec.get(name)) < 0
    ]
