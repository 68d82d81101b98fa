"""Jobs and CronJobs.

Source: pkg/apis/batch/{v1,validation} and pkg/registry/batch/job of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.decoding.selectors import SelectorError, label_selector_of
from fakeapi.kinds.pod_templates import set_template_defaults
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
from fakeapi.types.errors import FieldError, invalid, required
from fakeapi.types.kind import (
    NAMESPACED_FIELDS,
    GarbagePolicy,
    Generation,
    Kind,
    KindRules,
    number_at,
)
from fakeapi.types.objects import (
    Json,
    child,
    is_deleting,
    labels_of,
    mapping,
    metadata_of,
    name_of,
    set_defaults,
    text,
)
from fakeapi.types.times import epoch_seconds
from fakeapi.validation.checks import IMMUTABLE, choice_errors, fixed, number_errors
from fakeapi.validation.metadata import validate_label_selector
from fakeapi.validation.pods import validate_spec

_NUMBERS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
    "ttlSecondsAfterFinished",
)  # fmt: skip
_FIXED: Final = (
    "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy",
    "spec.successPolicy",
)  # fmt: skip
_RESTART: Final = ("OnFailure", "Never")
#: The labels with the name and the uid of the Job, old and new form.
_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
_SELECTOR: Final = wide("Selector", ".spec.selector", selector_or_none)


def _set_defaults(job: Json) -> None:
    spec = child(job, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    template_labels = labels_of(mapping(spec.get("template")))
    if template_labels and not labels_of(job):
        # The same dict as the template's: both get the labels that _generate_selector adds.
        child(job, "metadata")["labels"] = template_labels
    set_defaults(
        spec,
        parallelism=1,
        backoffLimit=2**31 - 1 if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        manualSelector=False,
    )
    set_template_defaults(spec)


def _set_cron_defaults(cron_job: Json) -> None:
    spec = child(cron_job, "spec")
    set_defaults(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    set_template_defaults(child(child(spec, "jobTemplate"), "spec"))


def _generate_selector(job: Json, now: str) -> None:
    """Label the template with name and uid, and select by uid, unless manualSelector is set.

    Source: generateSelector in pkg/registry/batch/job/strategy.go.
    """
    spec = child(job, "spec")
    if spec.get("manualSelector") is True:
        return
    labels = child(child(child(spec, "template"), "metadata"), "labels")
    for name, value in _generated_labels(job).items():
        labels.setdefault(name, value)
    if not labels_of(job):  # upstream fills these in when the Job is read from the store
        child(job, "metadata")["labels"] = dict(labels)
    selector = mapping(spec.get("selector"))
    uid = {_UID_LABELS[1]: metadata_of(job).get("uid")}
    spec["selector"] = {**selector, "matchLabels": uid | mapping(selector.get("matchLabels"))}


def _generated_labels(job: Json) -> Json:
    uid, name = metadata_of(job).get("uid"), name_of(job)
    old = {_UID_LABELS[0]: uid, _NAME_LABELS[0]: name}
    return {**old, _UID_LABELS[1]: uid, _NAME_LABELS[1]: name}


def _validate(job: Json) -> list[FieldError]:
    return _generated_errors(job) + _spec_errors(mapping(job.get("spec")))


def _generated_errors(job: Json) -> list[FieldError]:
    """Return the errors of labels and a selector that differ from the generated ones."""
    spec = mapping(job.get("spec"))
    selector = spec.get("selector")
    if spec.get("manualSelector") is True or not isinstance(selector, dict):
        return []
    labels, field = _sorted_labels(spec), "spec.template.metadata.labels"
    errors: list[FieldError] = []
    for label, value in _generated_labels(job).items():
        if label not in labels:
            errors.append(required(f"{field}[{label}]", f"must be '{value}'"))
        elif labels[label] != value:
            errors.append(invalid(f"{field}[{label}]", labels, f"must be '{value}'"))
    if not _matches(selector, _generated_labels(job)):
        matched = dict(sorted(mapping(selector.get("matchLabels")).items()))
        shown = {**selector, "matchLabels": matched} if matched else selector
        errors.append(invalid("spec.selector", shown, "`selector` not auto-generated"))
    return errors


def _sorted_labels(spec: Json) -> Json:
    """Return the labels of the template in the order in which Go prints maps."""
    return dict(sorted(labels_of(mapping(spec.get("template"))).items()))


def _matches(selector: object, labels: Json) -> bool:
    """Return True if the selector matches, or is malformed, for which there is another error."""
    try:
        return isinstance(selector, dict) and label_selector_of(selector).matches(labels)
    except SelectorError:
        return True


def _spec_errors(spec: Json) -> list[FieldError]:
    errors = number_errors(spec, "spec", _NUMBERS)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    errors += _template_errors(spec)
    selector, labels = spec.get("selector"), _sorted_labels(spec)
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    if not _matches(selector, labels):
        why = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, why))
    return errors


def _template_errors(spec: Json) -> list[FieldError]:
    pod_spec = mapping(mapping(spec.get("template")).get("spec"))
    errors = validate_spec(pod_spec, "spec.template.spec", is_pod=False)
    policy, field = text(pod_spec.get("restartPolicy")), "spec.template.spec.restartPolicy"
    if policy in ("", "Always"):
        errors.append(required(field, 'valid values: "OnFailure", "Never"'))
    elif "podFailurePolicy" in spec and policy == "OnFailure":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(field, policy, why))
    else:
        errors += choice_errors(policy, field, _RESTART)
    return errors


def _validate_update(new: Json, old: Json) -> list[FieldError]:
    """Return the errors of fixed fields; the template may change while the Job is suspended.

    Upstream checks the spec of an update twice and reports both.
    """
    spec, old_spec = mapping(new.get("spec")), mapping(old.get("spec"))
    errors = _spec_errors(spec)
    if spec.get("completions") != old_spec.get("completions"):
        errors += _completions_errors(spec)
    template = () if old_spec.get("suspend") is True else ("spec.template",)
    return errors + fixed("spec.selector", *template, *_FIXED)(new, old)


def _completions_errors(spec: Json) -> list[FieldError]:
    """Return the errors of changed completions: only Indexed Jobs may, along with parallelism."""
    field, completions = "spec.completions", spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return [invalid(field, completions, IMMUTABLE)]
    if completions not in (None, spec.get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        return [invalid(field, completions, why)]
    return []


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


KINDS: Final = (
    Kind(
        "batch", "v1", "jobs", "Job", schema="batch/v1.Job", categories=("all",),
        subresources=("status",), generation=Generation.SPEC, garbage_policy=GarbagePolicy.ORPHAN,
        fields={**NAMESPACED_FIELDS, "status.successful": number_at("status", "succeeded")},
        columns=(
            NAME, Column("Status", _job_state), Column("Completions", _job_completions),
            Column("Duration", _job_duration), AGE, *containers_columns(), _SELECTOR,
        ),
        rules=KindRules(
            set_defaults=_set_defaults, prepare=_generate_selector, validate=_validate,
            stores_defaults_later=True,
            validate_update=_validate_update,
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
        rules=KindRules(set_defaults=_set_cron_defaults),
    ),
)  # fmt: skip
